//! What writers did, and what that says about what arrived.

use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste::{Message, MessageId};
use posthaste_history::{History, Report};

use crate::Arrival;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server said that it committed.
    Committed,
    /// It surely did not commit.
    RolledBack,
    /// Its commit was never answered.
    Unknown,
}

/// One transaction.
#[derive(Debug)]
struct Entry {
    /// What its writer counted in its key's row, under the row's lock: the order of commits.
    place: i64,
    messages: Vec<Message>,
    fate: Fate,
}

/// Every transaction of a test. Writers share it.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Mutex<Vec<Entry>>,
}

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a transaction, in any order: of one key, `place` says which was first.
    pub fn record(&self, place: i64, messages: Vec<Message>, fate: Fate) {
        self.entries().push(Entry { place, messages, fate });
    }

    /// The messages that must arrive.
    #[must_use]
    pub fn committed(&self) -> Vec<MessageId> {
        let entries = self.entries();
        let committed = entries.iter().filter(|entry| entry.fate == Fate::Committed);
        committed.flat_map(|entry| &entry.messages).map(|message| message.id).collect()
    }

    /// What the arrivals say about the promises.
    #[must_use]
    pub fn check(&self, arrivals: &[Arrival]) -> Report {
        let mut history = History::default();
        let mut entries = self.entries();
        entries.sort_by_key(|entry| entry.place);
        for entry in entries.iter() {
            match entry.fate {
                Fate::Committed => history.committed(&entry.messages),
                Fate::RolledBack => history.rolled_back(&entry.messages),
                Fate::Unknown => history.unknown(&entry.messages),
            }
        }
        for arrival in arrivals {
            history.received(arrival.id);
        }
        history.check()
    }
}
