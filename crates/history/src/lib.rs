//! The history checker: records the life of messages and reports broken promises. The simulator,
//! the conformance suites, the end-to-end tests and `posthaste verify` share it.
//!
//! Record the transactions of applications, the arrivals at the broker, the decisions of operators
//! and the effects at consumers, each as it happens. Then [`check`](History::check) reports lost
//! messages, messages that were never committed, duplicates and their cause, messages out of their
//! key's order, attempts after a discard, and messages whose effects did not happen exactly once. A
//! recorder may leave records out: facts that are not recorded are not checked.
//!
//! A history covers one route: fan-out to two brokers is two histories of the same commits.

mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use posthaste_core::{Message, MessageId};

pub use report::{Breach, Effect, Reordered, Report};

/// Why a message may arrive again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A relay died between sending the message and settling it.
    Crash,
    /// It is unknown whether an attempt, or its settlement, took effect.
    UnknownOutcome,
    /// Another relay took over the shard of a relay that still lived.
    TakeOver,
    /// A person redrove a dead letter.
    Redrive,
    /// The database went back in time.
    Rewind,
    /// The broker itself delivered it again.
    Broker,
}

impl Cause {
    /// The name of the cause in reports.
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
    /// All arrivals, repetitions included, with the recorded cause of a repetition.
    received: Vec<(MessageId, Option<Cause>)>,
    /// Messages that arrived at least once.
    arrived: HashSet<MessageId>,
    /// Recorded causes that no repetition has used yet.
    causes: HashMap<MessageId, Vec<Cause>>,
    explains: bool,
    /// Attempts that have not brought an arrival yet.
    started: HashMap<MessageId, u32>,
    /// Definite refusals.
    refusals: HashMap<MessageId, u32>,
    /// Dead letters, and the refusals they claim.
    dead: BTreeMap<MessageId, u32>,
    /// Dead letters and discarded messages, which need not arrive.
    set_aside: HashSet<MessageId>,
    discarded: HashSet<MessageId>,
    /// Attempts begun after the discard was acknowledged.
    after_discard: Vec<MessageId>,
    /// By consumer.
    consumers: BTreeMap<String, Acts>,
}

/// The records of one consumer.
#[derive(Clone, Debug, Default)]
struct Acts {
    /// Effects that took place.
    acted: HashMap<MessageId, u32>,
    /// Messages that the consumer gave up.
    set_aside: HashSet<MessageId>,
    /// Messages that may take effect more than once.
    may_repeat: HashSet<MessageId>,
}

#[derive(Clone, Debug)]
struct Sent {
    key: Option<String>,
    /// Number among all messages recorded as sent: per key, the order of commits.
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
    /// A history whose recorder records every cause of a repetition: a repetition without a cause
    /// breaks a promise.
    #[must_use]
    pub fn explaining() -> Self {
        Self { explains: true, ..Self::default() }
    }

    /// Records messages of a transaction that committed. Record messages of one key in the order of
    /// their commits; concurrent commits of different keys may be recorded in any order.
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

    /// Records that an attempt to deliver a message begins. A recorder that sees only arrivals
    /// leaves this out; an attempt then counts as begun when the message arrives.
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

    /// Records that the message may arrive one more time, for this cause.
    pub fn may_repeat(&mut self, id: MessageId, cause: Cause) {
        self.causes.entry(id).or_default().push(cause);
    }

    /// The broker refused this message, definitely.
    pub fn refused(&mut self, id: MessageId) {
        *self.refusals.entry(id).or_default() += 1;
    }

    /// Records that a message became a dead letter or was discarded: it need not arrive, and if it
    /// is sent again it need not keep its key's order.
    pub fn set_aside(&mut self, id: MessageId) {
        self.set_aside.insert(id);
    }

    /// Records a dead letter and the number of refusals that it claims: the same as
    /// [`set_aside`](Self::set_aside), and the number is compared with the recorded
    /// [`refused`](Self::refused).
    pub fn dead(&mut self, id: MessageId, refusals: u32) {
        self.set_aside(id);
        let claimed = self.dead.entry(id).or_default();
        *claimed = refusals.max(*claimed);
    }

    /// Records that a person discarded the message and the discard was confirmed: no attempt may
    /// begin after this.
    pub fn discarded(&mut self, id: MessageId) {
        self.set_aside(id);
        self.discarded.insert(id);
    }

    /// Records that the database went back in time. Messages that it lost need not arrive any more,
    /// and if they do, they need not keep their key's order. The database has also forgotten
    /// discards and deliveries: every message may arrive once more.
    pub fn rewound(&mut self, keeps: impl Fn(MessageId) -> bool) {
        let gone = self.sent.keys().copied().filter(|id| !keeps(*id));
        self.set_aside.extend(gone);
        self.discarded.clear();
        for id in self.sent.keys() {
            self.causes.entry(*id).or_default().push(Cause::Rewind);
        }
    }

    /// Records that every message sent so far may take effect once more at this consumer: the
    /// database went back in time, and sends forgotten messages again under another name of the
    /// log.
    pub fn consumer_may_repeat(&mut self, consumer: &str) {
        let acts = self.consumers.entry(consumer.to_owned()).or_default();
        acts.may_repeat.extend(self.sent.keys());
    }

    /// Adds a consumer at which every arriving message must take effect exactly once.
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

    /// The report on all records.
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

    /// In the order in which the messages were sent; messages that were never sent come last.
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
            // A discarded message may still arrive, and a consumer that knows of the discard may
            // ignore it.
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
