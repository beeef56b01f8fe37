//! A store with a planted bug: it passes every call on, with the change of the bug.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use posthaste_core::{
    Batch, Claim, Due, Fetch, Finding, Grant, Horizon, Layout, Lease, Message, MessageId, Parked,
    ParkedFilter, ParkedView, Position, Purged, RelayBeat, RelayId, Retention, RouteSpec, Seq,
    Settled, Settlement, Shard, Snapshot, Status, Store, StoreCapabilities, StoreError,
    StoreErrorKind, bucket,
};
use uuid::Uuid;

use crate::{Fault, Planted, process::Process, world::World};

/// How old something must be for [`Planted::CleanupByAge`].
const AGE_MAX: Duration = Duration::from_secs(2);

/// State of the bugs, shared by the connections of all processes.
#[derive(Default)]
pub(crate) struct Memory {
    /// The latest grants.
    leases: BTreeMap<(String, u16, u16), Lease>,
    /// Where each shard is.
    positions: BTreeMap<(String, u16, u16), Seq>,
    discarded: Vec<ParkedView>,
    /// What was enqueued before is gone, by the database's clock; likewise by seq.
    gone_before: Duration,
    gone_below: Seq,
    given: BTreeSet<Seq>,
}

/// See the module documentation.
pub(crate) struct Flawed {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) memory: Arc<Mutex<Memory>>,
}

fn shard_key(lease: &Lease) -> (String, u16, u16) {
    (lease.route.clone(), lease.shard.index, lease.shard.of)
}

impl Flawed {
    fn has(&self, bug: Planted) -> bool {
        self.world.has(bug)
    }

    fn remember<T>(&self, with: impl FnOnce(&mut Memory) -> T) -> T {
        with(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The present holder's lease of a shard.
    fn holder(&self, lease: &Lease) -> Lease {
        let latest = self.remember(|memory| memory.leases.get(&shard_key(lease)).cloned());
        latest.unwrap_or_else(|| lease.clone())
    }

    async fn altered(&self, fetch: &Fetch) -> Result<Fetch, StoreError> {
        let mut fetch = fetch.clone();
        if self.has(Planted::CursorBySeq) && fetch.after.seq() > 0 {
            let now = Fetch { until: None, ..fetch.clone() };
            let snapshot = self.inner.fetch(&now).await?.snapshot;
            fetch.after = Position::at(fetch.after.seq(), &*snapshot);
        }
        if self.has(Planted::RowClaim) {
            (fetch.shard, fetch.epoch) = (Shard::WHOLE, None);
        }
        if self.has(Planted::UnfencedResult) {
            fetch.epoch = None;
        }
        Ok(fetch)
    }

    /// Waits between deciding and removing. For a route that has appeared meanwhile it is as if it
    /// had passed everything.
    async fn forget_new_routes(&self) -> Result<(), StoreError> {
        let known: BTreeSet<String> =
            self.inner.status().await?.routes.into_iter().map(|route| route.name).collect();
        tokio::time::sleep(self.world.millis(5..60)).await;
        for route in self.inner.status().await?.routes {
            if known.contains(&route.name) {
                continue;
            }
            let fetch = Fetch {
                route: route.name.clone(),
                shard: Shard::WHOLE,
                after: Position::default(),
                until: None,
                rows_max: 1000,
                bytes_max: usize::MAX >> 1,
                epoch: None,
                evidence: None,
            };
            let all = self.inner.fetch(&fetch).await?;
            let lease = Lease {
                route: route.name,
                shard: Shard::WHOLE,
                relay: RelayId::fresh(),
                epoch: route.leases[0].epoch,
            };
            let position = Some(Position::at(all.end, all.snapshot));
            let passed = Settlement { position, ..Settlement::default() };
            self.inner.settle(&lease, &passed).await?;
        }
        Ok(())
    }

    fn is_gone(&self, seq: Seq, age: Duration) -> bool {
        let created_at = self.world.database_now().saturating_sub(age);
        self.remember(|memory| seq <= memory.gone_below || created_at < memory.gone_before)
    }
}

#[async_trait]
impl Store for Flawed {
    fn capabilities(&self) -> StoreCapabilities {
        self.inner.capabilities()
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.inner.check().await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.inner.examine().await
    }

    async fn append(&self, messages: &[Message]) -> Result<(), StoreError> {
        self.inner.append(messages).await
    }

    async fn register(&self, route: &RouteSpec) -> Result<Layout, StoreError> {
        self.inner.register(route).await
    }

    async fn reshard(&self, route: &str) -> Result<Layout, StoreError> {
        self.inner.reshard(route).await
    }

    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError> {
        self.inner.beat(relay, ttl).await
    }

    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError> {
        self.inner.retire(relay).await
    }

    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError> {
        let mut grant = self.inner.acquire(claim).await?;
        if grant.is_none() && self.has(Planted::LocalClock) {
            let key = (claim.route.clone(), claim.shard.index, claim.shard.of);
            if let Some(lease) = self.remember(|memory| memory.leases.get(&key).cloned()) {
                self.inner.release(&lease).await?;
                grant = self.inner.acquire(claim).await?;
            }
        }
        if let Some(grant) = &mut grant {
            let lease = grant.lease.clone();
            self.remember(|memory| memory.leases.insert(shard_key(&lease), lease));
            if self.has(Planted::GrantForgetsParked) {
                grant.undelivered.clear();
            }
        }
        Ok(grant)
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError> {
        self.inner.renew(lease, ttl).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        if self.has(Planted::ReleaseByAnyTerm) {
            return self.inner.release(&self.holder(lease)).await;
        }
        self.inner.release(lease).await
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        let mut batch = self.inner.fetch(&self.altered(fetch).await?).await?;
        if self.has(Planted::RowClaim) {
            batch.messages.retain(|fetched| fetch.shard.serves(bucket(None, fetched.seq)));
        }
        if self.has(Planted::OrderByTransaction) {
            let transaction = |payload: &[u8]| -> Option<u128> {
                std::str::from_utf8(payload).ok()?.parse().ok()
            };
            batch.messages.sort_by_key(|it| (transaction(&it.message.payload), it.seq));
        }
        if self.has(Planted::PageDropsItsLastRow) && batch.more {
            batch.messages.pop();
        }
        batch.messages.retain(|fetched| !self.is_gone(fetched.seq, fetched.age));
        Ok(batch)
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError> {
        let lease =
            &if self.has(Planted::UnfencedResult) { self.holder(lease) } else { lease.clone() };
        if self.has(Planted::SettleInTwoSteps) && !settlement.park.is_empty() {
            let position = settlement.position.clone();
            let first = Settlement { position, ..Settlement::default() };
            self.inner.settle(lease, &first).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if self.process.is_dead() {
                return Err(StoreError::new(StoreErrorKind::Unavailable, "settle", "cut off"));
            }
        }
        let panics = self.has(Planted::StorePanics) && self.world.strikes(Fault::ShardPanic);
        assert!(!panics, "a bug of the store");
        let settled = self.inner.settle(lease, settlement).await?;
        if let Some(position) = &settlement.position {
            self.remember(|memory| memory.positions.insert(shard_key(lease), position.seq()));
        }
        Ok(settled)
    }

    fn is_past(&self, horizon: &Horizon, snapshot: &Snapshot) -> bool {
        self.has(Planted::FloorPastAtOnce) || self.inner.is_past(horizon, snapshot)
    }

    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError> {
        let mut due = self.inner.due(lease, limit, bytes_max).await?;
        if self.has(Planted::GrantForgetsParked) {
            due.undelivered.clear();
        }
        for parked in &mut due.messages {
            if self.has(Planted::CrashIsAttempt) {
                parked.attempts += u32::try_from(lease.epoch - 1).unwrap_or(0);
            }
            if self.has(Planted::RedriveMakesANewId) && parked.redriven > 0 {
                let id = parked.message.id.0.as_u128() | 1 << 64;
                parked.message.id = MessageId(Uuid::from_u128(id));
            }
        }
        if self.has(Planted::DiscardRace) {
            let again = self.remember(|memory| {
                let Memory { discarded, given, .. } = memory;
                let new = discarded.iter().filter(|view| given.insert(view.seq));
                new.cloned().collect::<Vec<_>>()
            });
            due.messages.extend(again.into_iter().map(|view| Parked {
                seq: view.seq,
                message: view.message,
                attempts: 0,
                unknowns: 0,
                redriven: view.redriven,
                enqueued_at: std::time::UNIX_EPOCH,
                age: Duration::ZERO,
            }));
        }
        Ok(due)
    }

    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError> {
        self.inner.dead(filter, limit).await
    }

    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        self.inner.redrive(filter, by).await
    }

    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError> {
        let dead = self.inner.dead(filter, 100).await?;
        self.remember(|memory| memory.discarded.extend(dead));
        self.inner.discard(filter, by, why).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        self.inner.status().await
    }

    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError> {
        let now = self.world.database_now();
        self.remember(|memory| {
            if self.has(Planted::CleanupByAge) {
                memory.gone_before = now.saturating_sub(retention.delivered.max(AGE_MAX));
            }
            if self.has(Planted::CleanupIgnoresLateRows) {
                memory.gone_below = memory.positions.values().copied().min().unwrap_or(0);
            }
        });
        if self.has(Planted::PurgeByOldRoutes) {
            self.forget_new_routes().await?;
        }
        self.inner.purge(retention, rows_max).await
    }
}
