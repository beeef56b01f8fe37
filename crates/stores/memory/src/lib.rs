//! An outbox in memory, for users' tests and for the simulator. Nothing survives the process.
//!
//! It follows PostgreSQL where that matters: a transaction gets its id when it is first touched and
//! each message its `seq` when it is enqueued, so messages commit out of `seq` order, and a position
//! must say which transactions it has seen. Time is the injected clock's, so tests move it by hand:
//! see [`ManualClock`].
//!
//! ```
//! # use std::sync::Arc;
//! # use posthaste_core::Message;
//! # use posthaste_store_memory::{ManualClock, MemoryStore};
//! let store = MemoryStore::new(Arc::new(ManualClock::default()));
//! let mut tx = store.begin();
//! tx.enqueue(&[Message::from_bytes("orders", Some("order-42"), "{}")])?;
//! tx.commit();
//! assert_eq!(store.committed().len(), 1);
//! # Ok::<(), posthaste_core::StoreError>(())
//! ```

mod clock;
mod enqueue;
mod fetch;
mod lease;
mod log;
mod parked;
mod purge;
mod rewind;
mod route;
mod settle;
mod snapshot;
mod status;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use posthaste_core::{
    Batch, Claim, Clock, Due, Fetch, Finding, Grant, Horizon, Layout, Lease, Message, ParkedFilter,
    ParkedView, Purged, RelayBeat, Retention, RouteSpec, Seq, Settled, Settlement, Snapshot,
    Status, Store, StoreCapabilities, StoreError, StoreErrorKind,
};

pub use clock::ManualClock;
pub use enqueue::MemoryTx;
pub use rewind::{Line, MemoryBackup};

use crate::{lease::Relay, log::Log, rewind::Rewind, route::Route};

/// An outbox in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStore {
    /// Held for the length of one call, never across an await.
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
}

/// One row of the log, as no relay sees it: for checkers.
#[derive(Clone, Debug)]
pub struct LogRow {
    /// Its place.
    pub seq: Seq,
    /// The message.
    pub message: Message,
    /// Whether its transaction has committed; it is open otherwise.
    pub is_committed: bool,
}

/// Everything there is.
#[derive(Clone, Default)]
struct State {
    log: Log,
    routes: BTreeMap<String, Route>,
    /// By identity. Entries of relays that fell silent stay until a purge.
    relays: BTreeMap<String, Relay>,
    rewinds: Vec<Rewind>,
    /// Counts the lines of history that the store has told of.
    lineage: u64,
    /// Counts restores: a transaction begun before the last one is gone.
    incarnation: u64,
}

impl MemoryStore {
    /// An empty outbox whose times are the clock's.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { state: Arc::default(), clock }
    }

    /// Opens an application's transaction.
    pub fn begin(&self) -> MemoryTx {
        MemoryTx::new(self.clone())
    }

    /// Every committed message that has not been removed, in seq order: for tests that assert what
    /// was enqueued.
    #[must_use]
    pub fn committed(&self) -> Vec<Message> {
        self.with(|state, _| state.log.committed().cloned().collect())
    }

    /// Every row that has not been removed, in seq order, those of open transactions too: for checkers
    /// that must know what may still appear.
    #[must_use]
    pub fn rows(&self) -> Vec<LogRow> {
        self.with(|state, _| state.log.rows().collect())
    }

    /// Runs one call: alone, at one instant.
    fn with<T>(&self, call: impl FnOnce(&mut State, Duration) -> T) -> T {
        let now = self.clock.elapsed();
        let mut state = self.state.lock().expect("no call panics half-way");
        call(&mut state, now)
    }
}

impl State {
    fn route(&mut self, name: &str, operation: &'static str) -> Result<&mut Route, StoreError> {
        self.routes.get_mut(name).ok_or_else(|| {
            let message = format!("route `{name}` is not registered; a relay registers its routes");
            StoreError::new(StoreErrorKind::Refused, operation, message)
        })
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities { concurrent_writers: true }
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(vec![Finding {
            ok: true,
            what: "the outbox is in memory: it ends with the process".to_owned(),
            fix: None,
        }])
    }

    async fn append(&self, messages: &[Message]) -> Result<(), StoreError> {
        let mut tx = self.begin();
        tx.enqueue(messages)?;
        tx.commit();
        Ok(())
    }

    async fn register(&self, route: &RouteSpec) -> Result<Layout, StoreError> {
        Ok(self.with(|state, now| state.register(route, now)))
    }

    async fn reshard(&self, route: &str) -> Result<Layout, StoreError> {
        self.with(|state, now| Ok(state.route(route, "reshard")?.reshard(now)))
    }

    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError> {
        Ok(self.with(|state, now| state.beat(relay, ttl, now)))
    }

    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError> {
        self.with(|state, _| state.relays.remove(&relay.id.to_string()));
        Ok(())
    }

    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError> {
        self.with(|state, now| state.acquire(claim, now))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError> {
        self.with(|state, now| state.route(&lease.route, "renew")?.renew(lease, ttl, now))
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.with(|state, _| {
            state.route(&lease.route, "release")?.release(lease);
            Ok(())
        })
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        self.with(|state, now| state.fetch(fetch, now))
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError> {
        self.with(|state, now| state.settle(lease, settlement, now))
    }

    fn is_past(&self, horizon: &Horizon, snapshot: &Snapshot) -> bool {
        snapshot::is_past(horizon, snapshot)
    }

    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError> {
        self.with(|state, now| {
            let route = state.route(&lease.route, "due")?;
            Ok(route.parked.due(lease.shard, limit as usize, bytes_max, now))
        })
    }

    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError> {
        Ok(self.with(|state, now| state.dead(filter, limit as usize, now)))
    }

    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        Ok(self.with(|state, now| state.redrive(filter, by, now)))
    }

    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError> {
        Ok(self.with(|state, now| state.discard(filter, by, why, now)))
    }

    async fn status(&self) -> Result<Status, StoreError> {
        Ok(self.with(|state, now| state.status(now)))
    }

    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError> {
        Ok(self.with(|state, now| state.purge(retention, rows_max as usize, now)))
    }
}
