//! What happened to messages, and what that says about the promises: one checker, shared by the
//! simulator, the conformance suites, the end-to-end tests and `posthaste verify`.
//!
//! Record what the application did with each message, what arrived, what operators did and what
//! consumers did, each as it happens. Then [`check`](History::check) derives what was lost, what nobody
//! sent, what came twice and why, what came out of its key's order, what was tried after it had been
//! discarded, and whose effects did not happen exactly once. A recorder tells as much as it knows:
//! what it does not tell is not judged.
//!
//! One history is that of one route: fan-out to two brokers is two histories of the same commits.

mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use posthaste_core::{Message, MessageId};

pub use report::{Breach, Effect, Reordered, Report};

/// Why a message may arrive again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A relay died between sending it and writing that down.
    Crash,
    /// Nobody knows whether an attempt, or the note about it, took effect.
    UnknownOutcome,
    /// Another relay took the shard from one that still lived.
    TakeOver,
    /// A person sent a dead letter again.
    Redrive,
    /// The database went back in time.
    Rewind,
    /// The broker itself delivered it again.
    Broker,
}

impl Cause {
    /// The word for it in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::UnknownOutcome => "unknown-outcome",
            Self::TakeOver => "take-over",
            Self::Redrive => "redrive",
            Self::Rewind => "rewind",
            Self::Broker => "broker",
        }
    }
}

/// Records, in the order they were made.
#[derive(Clone, Debug, Default)]
pub struct History {
    sent: HashMap<MessageId, Sent>,
    /// Everything that arrived, repetitions included, with the cause told for a repetition.
    received: Vec<(MessageId, Option<Cause>)>,
    /// Those that arrived at least once.
    arrived: HashSet<MessageId>,
    /// Causes told and not used up by a repetition yet.
    causes: HashMap<MessageId, Vec<Cause>>,
    explains: bool,
    /// Attempts that have not brought an arrival yet.
    started: HashMap<MessageId, u32>,
    /// Definite refusals.
    refusals: HashMap<MessageId, u32>,
    /// Dead letters, and the refusals they claim.
    dead: BTreeMap<MessageId, u32>,
    /// Dead letters and discarded ones: accounted for, though they never arrived.
    set_aside: HashSet<MessageId>,
    discarded: HashSet<MessageId>,
    /// Attempts begun after the discard was acknowledged.
    after_discard: Vec<MessageId>,
    /// By consumer.
    consumers: BTreeMap<String, Acts>,
}

/// What one consumer did.
#[derive(Clone, Debug, Default)]
struct Acts {
    /// Effects that took place.
    acted: HashMap<MessageId, u32>,
    /// Given up by the consumer.
    set_aside: HashSet<MessageId>,
    /// May take effect more than once.
    may_repeat: HashSet<MessageId>,
}

#[derive(Clone, Debug)]
struct Sent {
    key: Option<String>,
    /// Place among everything recorded as sent: per key, the order of commits.
    place: usize,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Committed,
    RolledBack,
    Unknown,
}

impl History {
    /// A history whose recorder tells every reason for a repetition: one without breaks a promise.
    #[must_use]
    pub fn explaining() -> Self {
        Self { explains: true, ..Self::default() }
    }

    /// Messages of a transaction that committed. Of one key, record them in the order of their
    /// commits; what writers of different keys do at the same time may be recorded either way.
    pub fn committed<'a>(&mut self, messages: impl IntoIterator<Item = &'a Message>) {
        self.sent(messages, Fate::Committed);
    }

    /// Messages of a transaction that did not commit: they must never arrive.
    pub fn rolled_back<'a>(&mut self, messages: impl IntoIterator<Item = &'a Message>) {
        self.sent(messages, Fate::RolledBack);
    }

    /// Messages of a transaction whose commit was never answered: they may arrive or not.
    pub fn unknown<'a>(&mut self, messages: impl IntoIterator<Item = &'a Message>) {
        self.sent(messages, Fate::Unknown);
    }

    fn sent<'a>(&mut self, messages: impl IntoIterator<Item = &'a Message>, fate: Fate) {
        for message in messages {
            let sent = Sent { key: message.key.clone(), place: self.sent.len(), fate };
            let before = self.sent.insert(message.id, sent);
            assert!(before.is_none(), "message {} recorded twice", message.id);
        }
    }

    /// An attempt to deliver a message begins. Recorders that see arrivals only leave this out; then
    /// an attempt counts as begun when it arrives.
    pub fn started(&mut self, id: MessageId) {
        *self.started.entry(id).or_default() += 1;
        self.attempted(id);
    }

    fn attempted(&mut self, id: MessageId) {
        if self.discarded.contains(&id) {
            self.after_discard.push(id);
        }
    }

    /// A message that arrived. Record each arrival, in order.
    pub fn received(&mut self, id: MessageId) {
        match self.started.get_mut(&id) {
            Some(started) if *started > 0 => *started -= 1,
            _ => self.attempted(id),
        }
        let is_first = self.arrived.insert(id);
        let cause = match self.causes.get_mut(&id) {
            Some(causes) if !is_first => causes.pop(),
            _ => None,
        };
        self.received.push((id, cause));
    }

    /// From now on the message may arrive once more than before, for this reason.
    pub fn may_repeat(&mut self, id: MessageId, cause: Cause) {
        self.causes.entry(id).or_default().push(cause);
    }

    /// The broker refused this message, definitely.
    pub fn refused(&mut self, id: MessageId) {
        *self.refusals.entry(id).or_default() += 1;
    }

    /// A message that became a dead letter or was discarded: it need not arrive, and if it is sent
    /// again it need not keep its key's order.
    pub fn set_aside(&mut self, id: MessageId) {
        self.set_aside.insert(id);
    }

    /// A message that became a dead letter and is said to have been refused so often: as
    /// [`set_aside`](Self::set_aside), and held against what was [`refused`](Self::refused).
    pub fn dead(&mut self, id: MessageId, refusals: u32) {
        self.set_aside(id);
        let claimed = self.dead.entry(id).or_default();
        *claimed = refusals.max(*claimed);
    }

    /// A person gave the message up, and has been told so: no attempt begins after this.
    pub fn discarded(&mut self, id: MessageId) {
        self.set_aside(id);
        self.discarded.insert(id);
    }

    /// The database went back in time, and messages that it does not keep are gone: they need not
    /// arrive any more, and those that do need not keep their key's order. Nor does it remember what
    /// was discarded, or sent: everything may arrive once more.
    pub fn rewound(&mut self, keeps: impl Fn(MessageId) -> bool) {
        let gone = self.sent.keys().copied().filter(|id| !keeps(*id));
        self.set_aside.extend(gone);
        self.discarded.clear();
        for id in self.sent.keys() {
            self.causes.entry(*id).or_default().push(Cause::Rewind);
        }
    }

    /// Everything sent so far may take effect once more at this consumer: the database went back in
    /// time, and sends what it has forgotten to have sent under another log's name.
    pub fn consumer_may_repeat(&mut self, consumer: &str) {
        let acts = self.consumers.entry(consumer.to_owned()).or_default();
        acts.may_repeat.extend(self.sent.keys());
    }

    /// A consumer that must act on everything that arrives, exactly once.
    pub fn consumer(&mut self, name: &str) {
        self.consumers.entry(name.to_owned()).or_default();
    }

    /// The effect of a message took place at a consumer. Record each time.
    pub fn acted(&mut self, consumer: &str, id: MessageId) {
        let acts = self.consumers.entry(consumer.to_owned()).or_default();
        *acts.acted.entry(id).or_default() += 1;
    }

    /// A consumer gave the message up: its effect need not take place.
    pub fn consumer_set_aside(&mut self, consumer: &str, id: MessageId) {
        let acts = self.consumers.entry(consumer.to_owned()).or_default();
        acts.set_aside.insert(id);
    }

    /// Arrivals so far, repetitions included.
    #[must_use]
    pub fn received_count(&self) -> usize {
        self.received.len()
    }

    /// Whether every message that must arrive has arrived or is set aside.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lost().next().is_none()
    }

    /// What the records say.
    #[must_use]
    pub fn check(&self) -> Report {
        let mut report = Report { explains: self.explains, ..Report::default() };
        let mut seen = HashSet::new();
        // Per key, the latest-sent message whose first arrival has been met.
        let mut newest: HashMap<&str, (usize, MessageId)> = HashMap::new();
        for (id, cause) in &self.received {
            let sent = self.sent.get(id).filter(|sent| sent.fate != Fate::RolledBack);
            let Some(sent) = sent else {
                report.phantom.push(*id);
                continue;
            };
            if !seen.insert(*id) {
                report.duplicated.push(*id);
                match cause {
                    Some(cause) => *report.causes.entry(*cause).or_default() += 1,
                    None => report.unexplained.push(*id),
                }
                continue;
            }
            let Some(key) = &sent.key else { continue };
            let newest = newest.entry(key).or_insert((sent.place, *id));
            if sent.place >= newest.0 {
                *newest = (sent.place, *id);
            } else if !self.set_aside.contains(id) {
                let (key, later) = (key.clone(), newest.1);
                report.reordered.push(Reordered { key, earlier: *id, later });
            }
        }
        report.received = seen.len();
        report.committed = self.sent.values().filter(|sent| sent.fate == Fate::Committed).count();
        report.lost = self.in_order(self.lost());
        report.after_discard.clone_from(&self.after_discard);
        report.overcounted = self.overcounted();
        self.effects(&seen, &mut report);
        report
    }

    fn lost(&self) -> impl Iterator<Item = MessageId> {
        let committed = self.sent.iter().filter(|(_, sent)| sent.fate == Fate::Committed);
        let ids = committed.map(|(id, _)| *id);
        ids.filter(|id| !self.arrived.contains(id) && !self.set_aside.contains(id))
    }

    /// In the order they were sent; what never was comes last.
    fn in_order(&self, ids: impl Iterator<Item = MessageId>) -> Vec<MessageId> {
        let place = |id: &MessageId| self.sent.get(id).map_or(usize::MAX, |sent| sent.place);
        let mut ids: Vec<MessageId> = ids.collect();
        ids.sort_unstable_by_key(|id| (place(id), *id));
        ids
    }

    fn overcounted(&self) -> Vec<MessageId> {
        let refusals = |id| self.refusals.get(id).copied().unwrap_or(0);
        let dead = self.dead.iter().filter(|(id, claimed)| **claimed > refusals(*id));
        self.in_order(dead.map(|(id, _)| *id))
    }

    fn effects(&self, arrived: &HashSet<MessageId>, report: &mut Report) {
        for (consumer, acts) in &self.consumers {
            let effects = |ids: Vec<MessageId>| {
                ids.into_iter().map(|id| Effect { consumer: consumer.clone(), id })
            };
            // What was discarded may still land, and a consumer that was told so may ignore it.
            let is_excused =
                |id: &MessageId| acts.set_aside.contains(id) || self.discarded.contains(id);
            let is_missing = |id: &MessageId| !acts.acted.contains_key(id) && !is_excused(id);
            let missing = arrived.iter().copied().filter(is_missing);
            report.effects_missing.extend(effects(self.in_order(missing)));
            let repeated = acts.acted.iter().filter(|(_, times)| **times > 1);
            let repeated = repeated.filter(|(id, _)| !acts.may_repeat.contains(id));
            let repeated = self.in_order(repeated.map(|(id, _)| *id));
            report.effects_repeated.extend(effects(repeated));
            let unasked = acts.acted.keys().copied().filter(|id| !arrived.contains(id));
            report.effects_unasked.extend(effects(self.in_order(unasked)));
            report.effects += acts.acted.len();
        }
    }
}
