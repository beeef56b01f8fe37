//! A memory store behind a flaw: every call is passed on, but for what the flaw changes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use posthaste_conformance::store::{TestBed, Writer};
use posthaste_core::{
    Batch, Claim, Due, Fetch, Fetched, Finding, Grant, Horizon, Layout, Lease, LeaseStatus,
    Message, MessageId, Next, Parked, ParkedFilter, ParkedView, Position, Purged, RelayBeat,
    RelayId, Repark, Retention, RouteSpec, Seq, Settled, Settlement, Shard, Snapshot, Status,
    Store, StoreCapabilities, StoreError,
};
use uuid::Uuid;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Nothing.
    None,
    /// Reads `seq > n`: what commits late is never read.
    CursorBySeq,
    /// Orders messages by their transactions' ids, then by seq.
    OrderByTransaction,
    /// Reads nothing beyond a gap.
    WaitsForOpenWriters,
    /// Leaves out the last row of a page when there is more.
    PageDropsItsLastRow,
    /// Says that it looked at less than it returned.
    BatchEndsEarly,
    /// Takes `_` and `%` for special.
    PatternsLikeSql,
    /// Gives a route other topics without a look at what waited for them.
    RegisterLeavesMessagesBehind,
    /// Splits keys by something else than core does.
    ShardsByLength,
    /// Cuts payloads at the first NUL.
    PayloadEndsAtNul,
    /// Reads past the barrier of a resize.
    BarrierIgnored,
    /// Stops at the barrier, but claims to have read everything that is there.
    BarrierClaimsWhatItLeftOut,
    /// Completes a resize though shards are still on their way.
    ReshardTooEarly,
    /// Grants a shard that is held.
    GrantedWhileHeld,
    /// Lets anyone release a lease.
    ReleaseByAnyTerm,
    /// Settles whatever the epoch.
    SettleUnfenced,
    /// Reads for whoever asks.
    FetchUnfenced,
    /// Takes every transaction for ended.
    PastAtOnce,
    /// Tells of what waits, not of dead letters.
    GrantForgetsDeadLetters,
    /// Keeps the log's name when the route gets other topics.
    LogOutlivesTopics,
    /// Writes progress first, then the rest.
    SettleInTwoSteps,
    /// Retries what waits behind a head that is not due.
    FollowerOvertakes,
    /// Lets a key go on behind a dead letter that should hold it.
    DeadLetterNeverBlocks,
    /// Believes a late report of a dead letter.
    LateReportRevives,
    /// Sends dead letters again under a new id.
    RedriveMakesANewId,
    /// Retries what was discarded.
    DiscardedIsStillDue,
    /// Removes what is old, delivered or not.
    PurgeByAge,
    /// Removes everything below the position.
    PurgeIgnoresLateRows,
    /// Removes what the routes that were there when it began have passed.
    PurgeByOldRoutes,
    /// Counts relays that are long gone.
    SilentRelaysCount,
    /// Tells no age of what is retrying.
    StatusForgetsRetrying,
    /// Tells nobody that a route is paused.
    StatusForgetsPauses,
    /// Gives up dead letters only.
    DiscardLeavesRetrying,
    /// Counts no dead letters.
    StatusForgetsDeadLetters,
}

/// The bed and the store at once.
#[derive(Clone)]
pub(crate) struct Mutant {
    flaw: Flaw,
    bed: Arc<dyn TestBed>,
    inner: Arc<dyn Store>,
    memory: Arc<Mutex<Memory>>,
}

/// What the flaws remember.
#[derive(Default)]
struct Memory {
    /// The latest grants.
    leases: HashMap<(String, u16), Lease>,
    /// The latest barrier of any grant.
    barrier: Option<Position>,
    /// Keys taken away from followers, by seq.
    keys: BTreeMap<Seq, Option<String>>,
    /// Which transaction each message is of, numbered by when it was first touched.
    transactions: HashMap<MessageId, usize>,
    transactions_count: usize,
    /// The first grant's.
    log: Option<Uuid>,
    discarded: Vec<(Seq, Message)>,
    relays: HashMap<RelayId, Vec<String>>,
}

impl Mutant {
    pub(crate) fn new(flaw: Flaw, bed: Arc<dyn TestBed>) -> Self {
        Self { flaw, inner: bed.store(), bed, memory: Arc::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn remember<T>(&self, with: impl FnOnce(&mut Memory) -> T) -> T {
        with(&mut self.memory.lock().expect("no flaw panics"))
    }

    /// The present holder's lease of a shard.
    fn holder(&self, lease: &Lease) -> Lease {
        let shard = (lease.route.clone(), lease.shard.index);
        self.remember(|memory| memory.leases.get(&shard).cloned()).unwrap_or_else(|| lease.clone())
    }

    /// What can be seen now.
    async fn snapshot(&self, fetch: &Fetch) -> Result<Snapshot, StoreError> {
        let now = Fetch { until: None, ..fetch.clone() };
        Ok(self.inner.fetch(&now).await?.snapshot)
    }

    async fn fetch_up_to_a_gap(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        let mut batch = self.inner.fetch(fetch).await?;
        let seqs = (fetch.after.seq() + 1)..;
        let dense = |(message, seq): &(Fetched, Seq)| message.seq <= *seq;
        let messages = batch.messages.into_iter().zip(seqs).take_while(dense);
        batch.messages = messages.map(|(message, _)| message).collect();
        batch.end = batch.messages.last().map_or(fetch.after.seq(), |last| last.seq);
        batch.more = false;
        Ok(batch)
    }

    async fn fetch_by_transaction(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        let mut batch = self.inner.fetch(fetch).await?;
        self.remember(|memory| {
            let transaction = |message: &Fetched| memory.transactions.get(&message.message.id);
            let order = |message: &Fetched| (transaction(message).copied(), message.seq);
            batch.messages.sort_by_key(order);
        });
        Ok(batch)
    }

    /// Reads everything and keeps what another split gives to the shard.
    async fn fetch_by_length(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        let whole = Fetch { shard: Shard::WHOLE, ..fetch.clone() };
        let mut batch = self.inner.fetch(&whole).await?;
        batch.messages.retain(|message| {
            let key = message.message.key.as_deref().unwrap_or_default();
            fetch.shard.serves(u32::try_from(key.len()).expect("a short key"))
        });
        Ok(batch)
    }

    /// Moves the position of every shard, whoever holds it.
    async fn move_all(
        &self,
        route: &str,
        to: impl Fn(&LeaseStatus) -> Position,
    ) -> Result<(), StoreError> {
        let routes = self.inner.status().await?.routes;
        for found in routes.iter().filter(|found| found.name == route) {
            for status in &found.leases {
                let lease = Lease {
                    route: route.to_owned(),
                    shard: Shard {
                        index: status.shard,
                        of: u16::try_from(found.leases.len()).expect("few shards"),
                    },
                    relay: RelayId::fresh(),
                    epoch: status.epoch,
                };
                self.inner.settle(&lease, &at(&to(status))).await?;
            }
        }
        Ok(())
    }

    /// Sends again what is dead and was reported about.
    async fn revive(&self, reports: &[Repark]) -> Result<(), StoreError> {
        let mut dead = self.inner.dead(&ParkedFilter::default(), u32::MAX).await?;
        dead.retain(|view| reports.iter().any(|report| report.seq == view.seq));
        let ids: Vec<MessageId> = dead.iter().map(|view| view.message.id).collect();
        if !ids.is_empty() {
            let filter = ParkedFilter { ids, ..ParkedFilter::default() };
            self.inner.redrive(&filter, "nobody").await?;
        }
        Ok(())
    }

    /// Forgets what is due, where nobody holds the route.
    async fn forget_due(&self, route: &str) -> Result<(), StoreError> {
        let claim = Claim {
            route: route.to_owned(),
            shard: Shard::WHOLE,
            relay: RelayId::fresh(),
            ttl: Duration::from_secs(60),
            rewound: None,
        };
        let Some(Grant { lease, .. }) = self.inner.acquire(&claim).await? else {
            return Ok(());
        };
        let due = self.inner.due(&lease, u32::MAX, usize::MAX).await?.messages;
        let delivered = due.iter().map(|parked| parked.seq).collect();
        self.inner.settle(&lease, &Settlement { delivered, ..Settlement::default() }).await?;
        self.inner.release(&lease).await
    }

    /// Moves every position as the flaw sees it first, so that whatever is below may go.
    async fn purge_too_much(&self, retention: Retention, rows: u32) -> Result<Purged, StoreError> {
        for route in self.inner.status().await?.routes {
            let now = self.inner.fetch(&everything(&route.name)).await?;
            let to = |status: &LeaseStatus| match self.flaw {
                Flaw::PurgeByAge => Position::at(now.end, now.snapshot.clone()),
                _ => Position::at(status.seq, now.snapshot.clone()),
            };
            self.move_all(&route.name, to).await?;
        }
        self.inner.purge(retention, rows).await
    }

    /// Decides by the routes there are, and removes a little later as if there were no others.
    async fn purge_by_old_routes(
        &self,
        retention: Retention,
        rows: u32,
    ) -> Result<Purged, StoreError> {
        let known: Vec<String> =
            self.inner.status().await?.routes.into_iter().map(|route| route.name).collect();
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        for route in self.inner.status().await?.routes {
            if !known.contains(&route.name) {
                let now = self.inner.fetch(&everything(&route.name)).await?;
                let end = Position::at(now.end, now.snapshot);
                self.move_all(&route.name, |_| end.clone()).await?;
            }
        }
        self.inner.purge(retention, rows).await
    }
}

fn everything(route: &str) -> Fetch {
    Fetch {
        route: route.to_owned(),
        shard: Shard::WHOLE,
        after: Position::default(),
        until: None,
        rows_max: 100_000,
        bytes_max: usize::MAX,
        epoch: None,
        evidence: None,
    }
}

fn at(position: &Position) -> Settlement {
    Settlement { position: Some(position.clone()), ..Settlement::default() }
}

#[async_trait]
impl Store for Mutant {
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
        let mut route = route.clone();
        if self.has(Flaw::PatternsLikeSql) {
            for topic in &mut route.topics {
                *topic = topic.as_str().replace(['_', '%'], "*").parse().expect("a pattern");
            }
        }
        let layout = self.inner.register(&route).await?;
        if self.has(Flaw::RegisterLeavesMessagesBehind) {
            self.forget_due(&route.name).await?;
        }
        Ok(layout)
    }

    async fn reshard(&self, route: &str) -> Result<Layout, StoreError> {
        if self.has(Flaw::ReshardTooEarly)
            && let Some(barrier) = self.remember(|memory| memory.barrier.clone())
        {
            self.move_all(route, |_| barrier.clone()).await?;
        }
        self.inner.reshard(route).await
    }

    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError> {
        let counts = self.inner.beat(relay, ttl).await?;
        if !self.has(Flaw::SilentRelaysCount) {
            return Ok(counts);
        }
        self.remember(|memory| {
            memory.relays.insert(relay.id, relay.routes.clone());
            let count = |route| {
                let relays = memory.relays.values();
                relays.filter(|routes| routes.contains(route)).count()
            };
            let counts = relay.routes.iter().map(count);
            Ok(counts.map(|count| u32::try_from(count).expect("few relays")).collect())
        })
    }

    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError> {
        self.inner.retire(relay).await
    }

    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError> {
        let mut grant = self.inner.acquire(claim).await?;
        if grant.is_none() && self.has(Flaw::GrantedWhileHeld) {
            let shard = (claim.route.clone(), claim.shard.index);
            if let Some(held) = self.remember(|memory| memory.leases.get(&shard).cloned()) {
                self.inner.release(&held).await?;
                grant = self.inner.acquire(claim).await?;
            }
        }
        if let Some(grant) = &mut grant {
            let lease = grant.lease.clone();
            let shard = (claim.route.clone(), claim.shard.index);
            self.remember(|memory| {
                memory.leases.insert(shard, lease);
                memory.barrier.clone_from(&grant.until);
            });
            if self.has(Flaw::BarrierIgnored) {
                grant.until = None;
            }
            if self.has(Flaw::GrantForgetsDeadLetters) {
                let dead = self.inner.dead(&ParkedFilter::default(), u32::MAX).await?;
                grant.undelivered.retain(|seq| dead.iter().all(|view| view.seq != *seq));
            }
            if self.has(Flaw::LogOutlivesTopics) {
                self.remember(|memory| grant.log = *memory.log.get_or_insert(grant.log));
            }
        }
        Ok(grant)
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError> {
        self.inner.renew(lease, ttl).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        if self.has(Flaw::ReleaseByAnyTerm) {
            return self.inner.release(&self.holder(lease)).await;
        }
        self.inner.release(lease).await
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        let mut fetch = fetch.clone();
        match self.flaw {
            Flaw::CursorBySeq if fetch.after.seq() > 0 => {
                let now = self.snapshot(&fetch).await?;
                fetch.after = Position::at(fetch.after.seq(), now);
            }
            Flaw::BarrierIgnored => fetch.until = None,
            Flaw::FetchUnfenced => fetch.epoch = None,
            Flaw::WaitsForOpenWriters => return self.fetch_up_to_a_gap(&fetch).await,
            Flaw::OrderByTransaction => return self.fetch_by_transaction(&fetch).await,
            Flaw::ShardsByLength => return self.fetch_by_length(&fetch).await,
            _ => {}
        }
        let mut batch = self.inner.fetch(&fetch).await?;
        match self.flaw {
            Flaw::PageDropsItsLastRow if batch.more => drop(batch.messages.pop()),
            Flaw::BatchEndsEarly if !batch.more => batch.end = batch.end.max(1) - 1,
            Flaw::BarrierClaimsWhatItLeftOut => batch.snapshot = self.snapshot(&fetch).await?,
            Flaw::PayloadEndsAtNul => {
                for message in &mut batch.messages {
                    let payload = &mut message.message.payload;
                    let end = payload.iter().position(|byte| *byte == 0);
                    payload.truncate(end.unwrap_or(payload.len()));
                }
            }
            _ => {}
        }
        Ok(batch)
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError> {
        let mut settlement = settlement.clone();
        match self.flaw {
            Flaw::SettleUnfenced => {
                let holder = self.holder(lease);
                return self.inner.settle(&holder, &settlement).await;
            }
            Flaw::SettleInTwoSteps => {
                if let Some(position) = settlement.position.take() {
                    self.inner.settle(lease, &at(&position)).await?;
                }
            }
            Flaw::LateReportRevives => self.revive(&settlement.repark).await?,
            Flaw::FollowerOvertakes => self.remember(|memory| {
                let followers = settlement.park.iter_mut();
                for park in followers.filter(|park| park.report.failure.is_none()) {
                    let key = park.message.key.take();
                    memory.keys.insert(park.report.seq, key);
                }
            }),
            Flaw::DeadLetterNeverBlocks => {
                let parks = settlement.park.iter_mut().map(|park| &mut park.report);
                for report in parks.chain(&mut settlement.repark) {
                    if report.next == Next::DeadAndBlock {
                        report.next = Next::Dead;
                    }
                }
            }
            _ => {}
        }
        self.inner.settle(lease, &settlement).await
    }

    fn is_past(&self, horizon: &Horizon, snapshot: &Snapshot) -> bool {
        self.has(Flaw::PastAtOnce) || self.inner.is_past(horizon, snapshot)
    }

    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError> {
        let mut due = self.inner.due(lease, limit, bytes_max).await?;
        self.remember(|memory| {
            for parked in &mut due.messages {
                if let Some(key) = memory.keys.get(&parked.seq) {
                    parked.message.key.clone_from(key);
                }
                if self.has(Flaw::RedriveMakesANewId) && parked.redriven > 0 {
                    parked.message.id = MessageId::fresh();
                }
            }
            let discarded = memory.discarded.iter();
            due.messages.extend(discarded.map(|(seq, message)| Parked {
                seq: *seq,
                message: message.clone(),
                attempts: 0,
                unknowns: 0,
                redriven: 0,
                enqueued_at: std::time::UNIX_EPOCH,
                age: Duration::ZERO,
            }));
        });
        Ok(due)
    }

    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError> {
        self.inner.dead(filter, limit).await
    }

    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        self.inner.redrive(filter, by).await
    }

    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError> {
        if self.has(Flaw::DiscardedIsStillDue) {
            let letters = self.inner.dead(filter, u32::MAX).await?;
            let letters = letters.into_iter().map(|view| (view.seq, view.message));
            self.remember(|memory| memory.discarded.extend(letters));
        }
        if self.has(Flaw::DiscardLeavesRetrying) && filter.is_retrying {
            return Ok(0);
        }
        self.inner.discard(filter, by, why).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        let mut status = self.inner.status().await?;
        if self.has(Flaw::StatusForgetsDeadLetters) {
            for route in &mut status.routes {
                route.dead = 0;
            }
        }
        for route in &mut status.routes {
            if self.has(Flaw::StatusForgetsRetrying) {
                route.oldest_retrying_age_seconds = 0.0;
            }
            if self.has(Flaw::StatusForgetsPauses) {
                route.paused = None;
            }
        }
        Ok(status)
    }

    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError> {
        if matches!(self.flaw, Flaw::PurgeByAge | Flaw::PurgeIgnoresLateRows) {
            return self.purge_too_much(retention, rows_max).await;
        }
        if self.has(Flaw::PurgeByOldRoutes) {
            return self.purge_by_old_routes(retention, rows_max).await;
        }
        self.inner.purge(retention, rows_max).await
    }
}

#[async_trait]
impl TestBed for Mutant {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    async fn begin(&self) -> Box<dyn Writer> {
        Box::new(Watched { inner: self.bed.begin().await, mutant: self.clone(), number: None })
    }

    async fn insert_by_hand(
        &self,
        topic: &str,
        key: Option<&str>,
        payload: &[u8],
    ) -> Result<(), String> {
        self.bed.insert_by_hand(topic, key, payload).await
    }

    async fn advance(&self, by: Duration) {
        self.bed.advance(by).await;
    }

    async fn remove(&self) {
        self.bed.remove().await;
    }
}

/// An application's transaction whose place among others is remembered.
struct Watched {
    inner: Box<dyn Writer>,
    mutant: Mutant,
    /// `None` until it is first touched.
    number: Option<usize>,
}

impl Watched {
    fn number(&mut self) -> usize {
        let next = |memory: &mut Memory| {
            memory.transactions_count += 1;
            memory.transactions_count
        };
        *self.number.get_or_insert_with(|| self.mutant.remember(next))
    }
}

#[async_trait]
impl Writer for Watched {
    async fn touch(&mut self) {
        self.number();
        self.inner.touch().await;
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        let number = self.number();
        let numbered = messages.iter().map(|message| (message.id, number));
        self.mutant.remember(|memory| memory.transactions.extend(numbered));
        self.inner.enqueue(messages).await
    }

    async fn commit(self: Box<Self>) {
        self.inner.commit().await;
    }

    async fn rollback(self: Box<Self>) {
        self.inner.rollback().await;
    }
}
