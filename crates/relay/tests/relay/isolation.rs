//! A store call of one route that hangs delays that route, and no other (P7).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use posthaste_broker_memory::MemoryBroker;
use posthaste_core::{
    Batch, Claim, Clock, Due, Fetch, Finding, Grant, Horizon, Layout, Lease, Message, ParkedFilter,
    ParkedView, Purged, RelayBeat, Retention, RouteSpec, Settled, Settlement, Snapshot, Status,
    Store, StoreCapabilities, StoreError, StoreErrorKind,
};
use posthaste_relay::{Relay, RouteState, Settings};
use posthaste_store_memory::MemoryStore;
use tokio_util::sync::CancellationToken;

use crate::support::Bench;

/// How long a call waits for a locked row, unless a test says otherwise.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A store in which somebody may lock the rows of route `a`: calls that need one fail after a while.
#[derive(Clone)]
struct Locked {
    inner: MemoryStore,
    is_locked: Arc<AtomicBool>,
    /// How long a call waits for a locked row.
    timeout: Duration,
}

impl Locked {
    fn new(bench: &Bench) -> Self {
        let is_locked = Arc::new(AtomicBool::new(true));
        Self { inner: bench.store.clone(), is_locked, timeout: LOCK_TIMEOUT }
    }

    fn unlock(&self) {
        self.is_locked.store(false, Ordering::Relaxed);
    }

    async fn wait(&self, route: &str, operation: &'static str) -> Result<(), StoreError> {
        if route != "a" || !self.is_locked.load(Ordering::Relaxed) {
            return Ok(());
        }
        tokio::time::sleep(self.timeout).await;
        Err(StoreError::new(StoreErrorKind::Unavailable, operation, "somebody has the lock"))
    }
}

#[async_trait]
impl Store for Locked {
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
        self.wait(&route.name, "register").await?;
        self.inner.register(route).await
    }

    async fn reshard(&self, route: &str) -> Result<Layout, StoreError> {
        self.wait(route, "reshard").await?;
        self.inner.reshard(route).await
    }

    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError> {
        self.inner.beat(relay, ttl).await
    }

    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError> {
        self.inner.retire(relay).await
    }

    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError> {
        self.wait(&claim.route, "acquire").await?;
        self.inner.acquire(claim).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError> {
        self.wait(&lease.route, "renew").await?;
        self.inner.renew(lease, ttl).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.inner.release(lease).await
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        self.inner.fetch(fetch).await
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError> {
        self.wait(&lease.route, "settle").await?;
        self.inner.settle(lease, settlement).await
    }

    fn is_past(&self, horizon: &Horizon, snapshot: &Snapshot) -> bool {
        self.inner.is_past(horizon, snapshot)
    }

    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError> {
        self.inner.due(lease, limit, bytes_max).await
    }

    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError> {
        self.inner.dead(filter, limit).await
    }

    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        self.inner.redrive(filter, by).await
    }

    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError> {
        self.inner.discard(filter, by, why).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        self.inner.status().await
    }

    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError> {
        self.inner.purge(retention, rows_max).await
    }
}

fn spec(name: &str) -> RouteSpec {
    RouteSpec { name: name.to_owned(), topics: vec![name.parse().expect("a pattern")], shards: 2 }
}

/// Commits so many messages of a topic.
fn enqueue(bench: &Bench, topic: &str, count: usize) {
    for _ in 0..count {
        let mut tx = bench.store.begin();
        tx.enqueue(&[Message::from_bytes(topic, None, topic.to_owned())]).expect("a valid message");
        tx.commit();
    }
}

fn received(bench: &Bench, topic: &str) -> usize {
    bench.payloads().iter().filter(|payload| *payload == topic).count()
}

fn relay(bench: &Bench, store: &Locked) -> Relay {
    let routes = ["a", "b"].map(|name| bench.route_of(spec(name))).to_vec();
    let random = fastrand::Rng::with_seed(7);
    let store = Arc::new(store.clone());
    Relay::with_environment(store, routes, Settings::default(), bench.clock.clone(), random)
}

#[tokio::test(start_paused = true)]
async fn a_route_that_cannot_be_registered_keeps_no_other_from_being_served() {
    let bench = Bench::new(MemoryBroker::new());
    let store = Locked::new(&bench);
    enqueue(&bench, "b", 20);
    enqueue(&bench, "a", 20);
    let relay = relay(&bench, &store);
    let (stop, handle) = (CancellationToken::new(), relay.handle());
    let task = tokio::spawn(relay.run(stop.clone()));
    bench.broker.wait_for(20).await;
    assert_eq!(received(&bench, "b"), 20);
    assert!(bench.clock.elapsed() < LOCK_TIMEOUT, "{:?}", bench.clock.elapsed());
    let is_shown = |_: &Status| handle.health().routes[0].state == RouteState::Stuck;
    bench.until("it shows", is_shown).await;
    let health = handle.health();
    assert!(!health.ready, "a route is not known to the store yet");
    assert_eq!(health.store_failure, None, "the store answers for another");
    assert!(health.routes[0].reason.as_ref().unwrap().contains("lock"), "{health:?}");
    assert_eq!(health.routes[1].state, RouteState::Running);
    store.unlock();
    bench.broker.wait_for(40).await;
    assert_eq!(received(&bench, "a"), 20);
    tokio::time::sleep(Settings::default().poll * 2).await;
    let health = handle.health();
    assert!(health.ready);
    assert!(health.routes.iter().all(|route| route.state == RouteState::Running), "{health:?}");
    stop.cancel();
    task.await.unwrap().unwrap();
}

/// Also when the shards of both have to be taken over while one is locked.
#[tokio::test(start_paused = true)]
async fn a_locked_lease_delays_the_take_over_of_no_other_route() {
    let bench = Bench::new(MemoryBroker::new());
    let store = Locked::new(&bench);
    store.unlock();
    let first = tokio::spawn(relay(&bench, &store).run(CancellationToken::new()));
    enqueue(&bench, "a", 1);
    enqueue(&bench, "b", 1);
    bench.broker.wait_for(2).await;
    bench.until_idle().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    store.is_locked.store(true, Ordering::Relaxed);
    enqueue(&bench, "a", 5);
    enqueue(&bench, "b", 5);
    let second = relay(&bench, &store);
    let (stop, handle) = (CancellationToken::new(), second.handle());
    let killed_at = bench.clock.elapsed();
    let task = tokio::spawn(second.run(stop.clone()));
    while received(&bench, "b") < 6 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let Settings { lease, poll, .. } = Settings::default();
    let took = bench.clock.elapsed() - killed_at;
    assert!(took <= lease + poll * 2, "{took:?}");
    assert_eq!(received(&bench, "a"), 1);
    assert_eq!(handle.health().routes[0].state, RouteState::Stuck);
    store.unlock();
    bench.until_idle().await;
    assert_eq!(received(&bench, "a"), 6);
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shard_whose_settlement_hangs_shows_it_and_goes_on_after() {
    let bench = Bench::new(MemoryBroker::new());
    let store = Locked::new(&bench);
    store.unlock();
    let relay = relay(&bench, &store);
    let (stop, handle) = (CancellationToken::new(), relay.handle());
    let task = tokio::spawn(relay.run(stop.clone()));
    enqueue(&bench, "a", 1);
    enqueue(&bench, "b", 1);
    bench.until_idle().await;
    store.is_locked.store(true, Ordering::Relaxed);
    enqueue(&bench, "a", 5);
    enqueue(&bench, "b", 5);
    let is_shown = |_: &Status| handle.health().routes[0].state == RouteState::Stuck;
    bench.until("it shows", is_shown).await;
    assert_eq!(received(&bench, "b"), 6);
    let health = handle.health();
    assert_eq!(health.routes[1].state, RouteState::Running);
    assert!(health.ready, "one route is stuck, not the relay: {health:?}");
    store.unlock();
    bench.until_idle().await;
    bench.until("it is past", |_| handle.health().routes[0].state == RouteState::Running).await;
    stop.cancel();
    task.await.unwrap().unwrap();
}

/// A registration that widens topics reads the log, which may take minutes.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_long_registration() {
    let bench = Bench::new(MemoryBroker::new());
    let store = Locked { timeout: Duration::from_secs(600), ..Locked::new(&bench) };
    enqueue(&bench, "b", 1);
    let stop = CancellationToken::new();
    let task = tokio::spawn(relay(&bench, &store).run(stop.clone()));
    bench.broker.wait_for(1).await;
    bench.until("b is settled", |status| status.routes.iter().all(|it| it.pending == 0)).await;
    let stopped_at = bench.clock.elapsed();
    stop.cancel();
    task.await.unwrap().unwrap();
    let took = bench.clock.elapsed() - stopped_at;
    assert!(took <= Settings::default().drain, "{took:?}");
    let status = bench.store.status().await.unwrap();
    assert!(status.relays.is_empty(), "the relay said goodbye: {status:?}");
    assert!(status.routes[0].leases.iter().all(|lease| lease.relay.is_none()), "{status:?}");
}
