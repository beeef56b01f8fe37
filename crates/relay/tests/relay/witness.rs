//! Holds every floor that a relay sends against the truth, and plays the consumer that believes them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use posthaste_broker_memory::Taken;
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, Delivery, Finding, Floor, MessageId, Outcome,
    ParkState, ParkedFilter, Seq, Shard, Store, TopicPattern, bucket,
};
use posthaste_store_memory::{LogRow, MemoryStore};

/// What is true of one route, whatever its relays think.
#[derive(Default)]
pub(crate) struct Truth {
    /// Seqs that the broker acknowledged.
    acked: HashSet<Seq>,
    /// Every row there has been, though it may be cleaned up by now.
    rows: BTreeMap<Seq, LogRow>,
    /// Floors that hold.
    checked: Vec<Arc<Floor>>,
    /// What was claimed and is not so.
    pub(crate) lies: Vec<String>,
}

/// A broker behind which floors are looked at.
pub(crate) struct Witness {
    pub(crate) inner: Arc<dyn Broker>,
    pub(crate) store: MemoryStore,
    pub(crate) topics: Vec<TopicPattern>,
    pub(crate) truth: Arc<Mutex<Truth>>,
}

impl Witness {
    fn with<T>(&self, look: impl FnOnce(&mut Truth) -> T) -> T {
        look(&mut self.truth.lock().expect("no look panics"))
    }

    async fn check(&self, delivery: &Delivery) {
        let Some(floor) = &delivery.floor else {
            self.with(|truth| truth.lies.push(format!("{} carries no floor", delivery.seq)));
            return;
        };
        if covers(floor, delivery.seq) {
            let lie = format!("{floor} was sent with {}, which it calls a copy", delivery.seq);
            self.with(|truth| truth.lies.push(lie));
        }
        if self.with(|truth| truth.checked.iter().any(|checked| Arc::ptr_eq(checked, floor))) {
            return;
        }
        let rows = self.store.rows();
        let unproved = self.with(|truth| truth.unproved(floor, rows, &self.topics));
        for row in unproved {
            let filter = ParkedFilter { ids: vec![row.message.id], ..ParkedFilter::default() };
            let dead = self.store.dead(&filter, 1).await.expect("the memory store never fails");
            // What was discarded never comes, so nothing is lost by it.
            if dead.iter().all(|view| view.state != ParkState::Discarded) {
                let lie = format!("{floor} covers {}: {row:?}", row.seq);
                self.with(|truth| truth.lies.push(lie));
            }
        }
    }
}

impl Truth {
    /// Rows that the floor covers though the broker does not have them.
    fn unproved(
        &mut self,
        floor: &Arc<Floor>,
        rows: Vec<LogRow>,
        topics: &[TopicPattern],
    ) -> Vec<LogRow> {
        self.checked.push(floor.clone());
        // What was open and is not there any more was rolled back.
        self.rows.retain(|_, row| row.is_committed);
        self.rows.extend(rows.into_iter().map(|row| (row.seq, row)));
        let is_meant = |row: &LogRow| {
            let bucket = bucket(row.message.key.as_deref(), row.seq);
            floor.shard.serves(bucket)
                && topics.iter().any(|topic| topic.matches(&row.message.topic))
        };
        let rows = self.rows.range(..=floor.seq).map(|(_, row)| row);
        let claimed = rows.filter(|row| covers(floor, row.seq) && is_meant(row));
        claimed.filter(|row| !row.is_committed || !self.acked.contains(&row.seq)).cloned().collect()
    }
}

#[async_trait]
impl Broker for Witness {
    fn capabilities(&self) -> BrokerCapabilities {
        self.inner.capabilities()
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        for delivery in messages {
            self.check(delivery).await;
        }
        let outcomes = self.inner.publish(messages, deadline).await;
        self.with(|truth| {
            let acked = messages.iter().zip(&outcomes).filter(|(_, it)| **it == Outcome::Acked);
            truth.acked.extend(acked.map(|(delivery, _)| delivery.seq));
        });
        outcomes
    }

    async fn examine(&self, topics: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        self.inner.examine(topics).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// Whether a floor says that the message was acknowledged before.
fn covers(floor: &Floor, seq: Seq) -> bool {
    seq <= floor.seq && floor.missing.binary_search(&seq).is_err()
}

/// A consumer of one lane that handles every message once, by what floors say.
#[derive(Default)]
pub(crate) struct Consumer {
    /// By log: the floors of each shard, and what was handled above them.
    logs: HashMap<uuid::Uuid, Known>,
    /// What was handled, in order.
    pub(crate) handled: Vec<MessageId>,
    /// Most seqs it had to remember at once.
    pub(crate) remembered_max: usize,
}

#[derive(Default)]
struct Known {
    floors: HashMap<(u16, u16), Floor>,
    /// With their buckets.
    handled: BTreeMap<Seq, u32>,
}

impl Known {
    /// Floors of all layouts are true at once.
    fn covers(&self, seq: Seq, bucket: u32) -> bool {
        let mut floors = self.floors.values();
        floors.any(|floor| floor.shard.serves(bucket) && covers(floor, seq))
    }

    /// What an earlier floor covered stays covered, whatever a later one misses.
    fn learn(&mut self, floor: Floor) {
        let Shard { index, of } = floor.shard;
        match self.floors.get_mut(&(index, of)) {
            None => drop(self.floors.insert((index, of), floor)),
            Some(known) if floor.seq < known.seq || floor == *known => return,
            Some(known) => {
                let mut floor = floor;
                floor.missing.retain(|&seq| !covers(known, seq));
                *known = floor;
            }
        }
        let handled = std::mem::take(&mut self.handled);
        let stays = handled.into_iter().filter(|&(seq, bucket)| !self.covers(seq, bucket));
        self.handled = stays.collect();
    }
}

impl Consumer {
    pub(crate) fn take(&mut self, taken: &Taken) {
        let floor = taken.provenance.floor.clone().expect("a relay always says");
        let seq = taken.provenance.seq.expect("a relay always says");
        let bucket = bucket(taken.message.key.as_deref(), seq);
        let known = self.logs.entry(floor.log).or_default();
        known.learn(floor);
        if known.covers(seq, bucket) || known.handled.contains_key(&seq) {
            return;
        }
        known.handled.insert(seq, bucket);
        self.remembered_max = self.remembered_max.max(known.handled.len());
        self.handled.push(taken.message.id);
    }
}
