//! What happened to messages, and what that says about the promises: one checker, shared by the
//! suites, the demo and the simulator.
//!
//! Record what the application did with each message and what arrived, in any interleaving; only
//! the order *within* each kind of record counts. Then [`check`](History::check) derives what was
//! lost, what nobody sent, what came twice, and what came out of its key's order.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use posthaste_core::{Message, MessageId};

/// Records, in the order they were made.
#[derive(Clone, Debug, Default)]
pub struct History {
    sent: HashMap<MessageId, Sent>,
    /// Everything that arrived, repetitions included.
    received: Vec<MessageId>,
    /// Dead letters and discarded ones: accounted for, though they never arrived.
    set_aside: HashSet<MessageId>,
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

    /// A message that arrived. Record each arrival, in order.
    pub fn received(&mut self, id: MessageId) {
        self.received.push(id);
    }

    /// A message that became a dead letter or was discarded: it need not arrive.
    pub fn set_aside(&mut self, id: MessageId) {
        self.set_aside.insert(id);
    }

    /// Arrivals so far, repetitions included.
    #[must_use]
    pub fn received_count(&self) -> usize {
        self.received.len()
    }

    /// What the records say.
    #[must_use]
    pub fn check(&self) -> Report {
        let mut report = Report::default();
        let mut seen = HashSet::new();
        // Per key, the latest-sent message whose first arrival has been met.
        let mut newest: HashMap<&str, (usize, MessageId)> = HashMap::new();
        for id in &self.received {
            let Some(sent) = self.sent.get(id) else {
                report.phantom.push(*id);
                continue;
            };
            if sent.fate == Fate::RolledBack {
                report.phantom.push(*id);
                continue;
            }
            if !seen.insert(*id) {
                report.duplicated.push(*id);
                continue;
            }
            let Some(key) = &sent.key else { continue };
            let newest = newest.entry(key).or_insert((sent.place, *id));
            if sent.place < newest.0 {
                report.reordered.push(Reordered {
                    key: key.clone(),
                    earlier: *id,
                    later: newest.1,
                });
            } else {
                *newest = (sent.place, *id);
            }
        }
        report.received = seen.len();
        report.lost = self.lost(&seen);
        report.committed = self.count(Fate::Committed);
        report
    }

    fn lost(&self, seen: &HashSet<MessageId>) -> Vec<MessageId> {
        let mut lost: Vec<(usize, MessageId)> = self
            .sent
            .iter()
            .filter(|(id, sent)| {
                sent.fate == Fate::Committed && !seen.contains(id) && !self.set_aside.contains(id)
            })
            .map(|(id, sent)| (sent.place, *id))
            .collect();
        lost.sort_unstable();
        lost.into_iter().map(|(_, id)| id).collect()
    }

    fn count(&self, fate: Fate) -> usize {
        let sent = self.sent.values();
        sent.filter(|sent| sent.fate == fate).count()
    }
}

/// What became of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages that were committed.
    pub committed: usize,
    /// Different messages that arrived, among those sent.
    pub received: usize,
    /// Committed, neither arrived nor set aside, in the order they were sent.
    pub lost: Vec<MessageId>,
    /// Arrived, though rolled back or never sent; one entry per arrival.
    pub phantom: Vec<MessageId>,
    /// Arrived again; one entry per repetition.
    pub duplicated: Vec<MessageId>,
    /// First arrivals behind a later message of their key.
    pub reordered: Vec<Reordered>,
}

/// Two messages of a key that first arrived in the wrong order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reordered {
    /// Their key.
    pub key: String,
    /// Committed first, arrived second.
    pub earlier: MessageId,
    /// Committed second, arrived first.
    pub later: MessageId,
}

impl Report {
    /// Nothing lost, nothing that was never committed, order kept: what always holds.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.lost.is_empty() && self.phantom.is_empty() && self.reordered.is_empty()
    }

    /// Sound, and nothing came twice: what holds where nothing crashes.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.is_sound() && self.duplicated.is_empty()
    }
}

/// One line: counts, and the first few of whatever is wrong.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} committed, {} received, {} lost{}, {} phantom{}, {} duplicated{}, {} reordered",
            self.committed,
            self.received,
            self.lost.len(),
            first_few(&self.lost),
            self.phantom.len(),
            first_few(&self.phantom),
            self.duplicated.len(),
            first_few(&self.duplicated),
            self.reordered.len(),
        )?;
        if let Some(reordered) = self.reordered.first() {
            let Reordered { key, earlier, later } = reordered;
            write!(f, " (of key {key}, {later} came before {earlier})")?;
        }
        Ok(())
    }
}

fn first_few(ids: &[MessageId]) -> String {
    if ids.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = ids.iter().take(3).map(ToString::to_string).collect();
    format!(" ({})", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(key: Option<&str>) -> Message {
        Message::from_bytes("t", key, "")
    }

    /// Three messages of one key, committed in order.
    fn three() -> (History, [MessageId; 3]) {
        let messages = [message(Some("k")), message(Some("k")), message(Some("k"))];
        let mut history = History::default();
        history.committed(&messages);
        (history, messages.map(|message| message.id))
    }

    fn arrive(history: &mut History, ids: impl IntoIterator<Item = MessageId>) {
        for id in ids {
            history.received(id);
        }
    }

    #[test]
    fn all_in_order_is_exact() {
        let (mut history, ids) = three();
        arrive(&mut history, ids);
        let report = history.check();
        assert!(report.is_exact(), "{report}");
        assert_eq!((report.committed, report.received), (3, 3));
    }

    #[test]
    fn what_never_came_is_lost_unless_set_aside() {
        let (mut history, [a, b, c]) = three();
        history.received(b);
        assert_eq!(history.check().lost, [a, c]);
        history.set_aside(c);
        assert_eq!(history.check().lost, [a]);
    }

    #[test]
    fn rolled_back_and_unsent_messages_are_phantoms() {
        let (mut history, ids) = three();
        arrive(&mut history, ids);
        let undone = message(None);
        history.rolled_back([&undone]);
        assert!(history.check().is_exact(), "nobody expects it");
        let unsent = MessageId::fresh();
        history.received(undone.id);
        history.received(unsent);
        assert_eq!(history.check().phantom, [undone.id, unsent]);
        assert!(!history.check().is_sound());
    }

    #[test]
    fn repetitions_are_duplicates_and_do_not_count_for_order() {
        let (mut history, [a, b, c]) = three();
        arrive(&mut history, [a, b, a, c, a]);
        let report = history.check();
        assert_eq!(report.duplicated, [a, a]);
        assert!(report.is_sound() && !report.is_exact(), "{report}");
    }

    #[test]
    fn first_arrivals_out_of_order_are_reported_once_each() {
        let (mut history, [a, b, c]) = three();
        arrive(&mut history, [c, a, b]);
        let report = history.check();
        let pairs: Vec<_> =
            report.reordered.iter().map(|pair| (pair.earlier, pair.later)).collect();
        assert_eq!(pairs, [(a, c), (b, c)]);
        assert!(report.to_string().contains("of key k"), "{report}");
    }

    #[test]
    fn keys_and_keyless_messages_are_independent() {
        let messages = [message(Some("a")), message(Some("b")), message(None), message(None)];
        let mut history = History::default();
        history.committed(&messages);
        for message in messages.iter().rev() {
            history.received(message.id);
        }
        assert!(history.check().is_exact());
    }

    #[test]
    fn unknown_commits_may_arrive_or_not() {
        let (come, stay) = (message(None), message(None));
        let mut history = History::default();
        history.unknown([&come, &stay]);
        history.received(come.id);
        assert!(history.check().is_exact());
    }
}
