//! A memory store, a memory broker and relays between them, under virtual time.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use posthaste_broker_memory::MemoryBroker;
use posthaste_core::{
    Backoff, Clock, Failure, Message, MessageId, OnDead, Outcome, ParkedFilter, RetryPolicy,
    RouteSpec, Status, Store,
};
use posthaste_history::{History, Report};
use posthaste_relay::{Error, Handle, Relay, Route, Settings, TokioClock};
use posthaste_store_memory::MemoryStore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::witness::{Consumer, Truth, Witness};

/// Longest virtual time any test waits for anything.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Bench {
    pub(crate) store: MemoryStore,
    pub(crate) broker: MemoryBroker,
    pub(crate) clock: Arc<TokioClock>,
    /// What is true of each route, shared by all its relays.
    truths: Mutex<BTreeMap<String, Arc<Mutex<Truth>>>>,
}

/// Whatever a test is about: no message said anything that was not so.
impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for (route, truth) in &*self.truths.lock().expect("no look panics") {
            let lies = &truth.lock().expect("no look panics").lies;
            assert!(lies.is_empty(), "floors of {route}: {:#?}", &lies[..lies.len().min(5)]);
        }
    }
}

pub(crate) struct Running {
    pub(crate) stop: CancellationToken,
    pub(crate) handle: Handle,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub(crate) async fn shutdown(self) {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("no error");
    }

    /// Ends it as a crash would.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.expect_err("it was aborted").is_cancelled());
    }
}

impl Bench {
    pub(crate) fn new(broker: MemoryBroker) -> Self {
        let clock = Arc::new(TokioClock::new());
        let store = MemoryStore::new(clock.clone());
        Self { store, broker, clock, truths: Mutex::default() }
    }

    pub(crate) fn ports(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    /// Commits messages `key-number` for every key, in turn, each in a transaction of its own.
    pub(crate) fn enqueue(&self, keys: &[&str], numbers: std::ops::Range<u32>) -> Vec<Message> {
        let mut messages = Vec::new();
        for number in numbers {
            for key in keys {
                let payload = format!("{key}-{number}");
                let message = Message::from_bytes("t", Some(key), payload);
                let mut tx = self.store.begin();
                tx.enqueue(std::slice::from_ref(&message)).expect("a valid message");
                tx.commit();
                messages.push(message);
            }
        }
        messages
    }

    pub(crate) fn route(&self, name: &str, shards: u16) -> Route {
        let spec = RouteSpec {
            name: name.to_owned(),
            topics: vec!["*".parse().expect("a pattern")],
            shards,
        };
        self.route_of(spec)
    }

    /// A route to the broker, every message looked at.
    pub(crate) fn route_of(&self, spec: RouteSpec) -> Route {
        let mut truths = self.truths.lock().expect("no look panics");
        let witness = Witness {
            inner: Arc::new(self.broker.clone()),
            store: self.store.clone(),
            topics: spec.topics.clone(),
            truth: truths.entry(spec.name.clone()).or_default().clone(),
        };
        let mut route = Route::new(spec, Arc::new(witness));
        route.retry = policy(3);
        route
    }

    /// A consumer that took everything the broker did, in order.
    pub(crate) fn consumer(&self) -> Consumer {
        let mut consumer = Consumer::default();
        self.broker.taken().iter().for_each(|taken| consumer.take(taken));
        consumer
    }

    /// What that consumer handled: everything, nothing twice.
    pub(crate) fn consumed(&self) -> Vec<MessageId> {
        let handled = self.consumer().handled;
        let distinct: HashSet<MessageId> = handled.iter().copied().collect();
        assert_eq!(handled.len(), distinct.len(), "handled twice");
        let received: HashSet<MessageId> =
            self.broker.received().iter().map(|message| message.id).collect();
        assert_eq!(distinct, received, "taken for a copy");
        handled
    }

    pub(crate) fn relay(&self, routes: Vec<Route>, settings: Settings) -> Relay {
        let random = fastrand::Rng::with_seed(7);
        Relay::with_environment(self.ports(), routes, settings, self.clock.clone(), random)
    }

    pub(crate) fn start(&self, routes: Vec<Route>, settings: Settings) -> Running {
        let relay = self.relay(routes, settings);
        let (stop, handle) = (CancellationToken::new(), relay.handle());
        Running { handle, task: tokio::spawn(relay.run(stop.clone())), stop }
    }

    pub(crate) async fn drain(&self, routes: Vec<Route>) {
        self.relay(routes, Settings::default())
            .run_once(CancellationToken::new())
            .await
            .expect("the memory store never fails");
    }

    /// Waits, in virtual time, until the status is as wanted.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Status) -> bool) {
        let start = self.clock.elapsed();
        loop {
            let status = self.store.status().await.expect("the memory store never fails");
            if is_so(&status) {
                return;
            }
            assert!(self.clock.elapsed() - start < PATIENCE, "{what}: {status:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until every route has passed everything and nothing is being retried.
    pub(crate) async fn until_idle(&self) {
        let is_idle = |status: &Status| {
            let routes = &status.routes;
            !routes.is_empty()
                && routes.iter().all(|route| route.pending == 0 && route.retrying == 0)
        };
        self.until("everything delivered", is_idle).await;
    }

    pub(crate) fn payloads(&self) -> Vec<String> {
        self.broker.received().iter().map(payload).collect()
    }

    /// What happened, judged by the shared checker.
    pub(crate) fn history(&self, committed: &[Message]) -> Report {
        if self.truths.lock().expect("no look panics").len() == 1 {
            self.consumed();
        }
        let mut history = History::default();
        history.committed(committed);
        for message in self.broker.received() {
            history.received(message.id);
        }
        history.check()
    }

    pub(crate) async fn dead(&self) -> Vec<String> {
        let dead = self
            .store
            .dead(&ParkedFilter::default(), 1000)
            .await
            .expect("the memory store never fails");
        dead.iter().map(|view| payload(&view.message)).collect()
    }
}

/// What the gauges say of everything that runs on this thread while it is
/// `metrics::set_default_local_recorder`.
#[derive(Default)]
pub(crate) struct Gauges(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Gauges {
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        let gauges = self.0.lock().expect("no look panics");
        gauges.get(name).map(|bits| f64::from_bits(bits.load(Ordering::Relaxed)))
    }
}

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut gauges = self.0.lock().expect("no look panics");
        Gauge::from_arc(gauges.entry(key.name().to_owned()).or_default().clone())
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

pub(crate) fn payload(message: &Message) -> String {
    String::from_utf8(message.payload.to_vec()).expect("text")
}

pub(crate) fn rejected() -> Outcome {
    Outcome::Rejected(Failure::new("refused", "not this one"))
}

pub(crate) fn hopeless() -> Outcome {
    Outcome::Rejected(Failure::new("header", "never this one").hopeless())
}

pub(crate) fn unknown() -> Outcome {
    Outcome::Unknown(Failure::new("timeout", "no answer"))
}

pub(crate) fn policy(attempts_max: u32) -> RetryPolicy {
    let backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(60) };
    RetryPolicy { backoff, attempts_max, age_max: None, on_dead: OnDead::Continue }
}
