//! Records the transactions of writers, and checks the arrived messages against them.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use posthaste::{Message, MessageId};
use posthaste_history::{Cause, History, Report};

use crate::Arrival;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server said that it committed.
    Committed,
    /// The transaction certainly did not commit.
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
    /// When its end was known.
    at: Instant,
}

/// A disturbance that may make messages arrive again.
#[derive(Clone, Copy, Debug)]
pub struct Disturbance {
    /// When it ended. Messages sent before may be sent again.
    pub until: Instant,
    /// Why.
    pub cause: Cause,
}

/// How often one disturbance may repeat a message: by each relay that meets it.
const REPETITIONS_MAX: usize = 3;

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
        self.entries().push(Entry { place, messages, fate, at: Instant::now() });
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
        self.judge(arrivals.iter().map(|arrival| arrival.id), &[])
    }

    /// What arrivals say about the promises, if this was done meanwhile, in this order. A
    /// repetition is put down to the first disturbance that ended after its message was committed.
    #[must_use]
    pub fn judge(
        &self,
        arrivals: impl IntoIterator<Item = MessageId>,
        disturbances: &[Disturbance],
    ) -> Report {
        let mut history = History::default();
        let mut entries = self.entries();
        entries.sort_by_key(|entry| entry.place);
        for entry in entries.iter() {
            match entry.fate {
                Fate::Committed => history.committed(&entry.messages),
                Fate::RolledBack => history.rolled_back(&entry.messages),
                Fate::Unknown => history.unknown(&entry.messages),
            }
            // What is told last is used first.
            let later = disturbances.iter().rev().filter(|one| one.until >= entry.at);
            for cause in later.flat_map(|one| [one.cause; REPETITIONS_MAX]) {
                entry.messages.iter().for_each(|message| history.may_repeat(message.id, cause));
            }
        }
        for id in arrivals {
            history.received(id);
        }
        history.check()
    }
}
