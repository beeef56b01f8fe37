//! The relays and consumers of a schedule: built from shipping code, started, killed, started
//! again.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use posthaste::{Consumer, Inbox};
use posthaste_broker_memory::MemoryBroker;
use posthaste_core::{
    Backoff, InboxMode, InboxStore as _, Incoming, ParkedFilter, Retention, RetryPolicy, RouteSpec,
    Sharing, Start, Store, Subscription,
};
use posthaste_relay::{Handle, Relay, Route, Settings};
use posthaste_store_memory::MemoryStore;
use tokio_util::sync::CancellationToken;

use crate::{
    Fault, Planted,
    broker::{Graveyard, Link, Subscribed},
    database::{Connection, Pool, Simulated, Tables},
    flawed::{Flawed, Memory},
    process::Process,
    schedule::route_name,
    store::Wire,
    world::{DatabaseClock, ProcessClock, World},
};

/// How long a relay may take to stop.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);

/// See the module documentation.
pub(crate) struct Stage {
    pub(crate) world: Arc<World>,
    pub(crate) store: MemoryStore,
    pub(crate) brokers: Vec<MemoryBroker>,
    tables: Arc<Tables>,
    memory: Arc<Mutex<Memory>>,
    graveyard: Graveyard,
    running: Mutex<Running>,
}

/// What runs at present.
#[derive(Default)]
struct Running {
    relays: Vec<Option<RunningRelay>>,
    consumers: Vec<Arc<Process>>,
    /// Only the first relay is started again.
    is_alone: bool,
}

/// One relay.
#[derive(Clone)]
pub(crate) struct RunningRelay {
    pub(crate) process: Arc<Process>,
    pub(crate) stop: CancellationToken,
    handle: Handle,
}

impl Stage {
    pub(crate) fn new(world: &Arc<World>) -> Arc<Self> {
        let brokers = world.plan.routes.iter();
        let brokers = brokers.map(|route| MemoryBroker::with_call_order(route.call_order));
        let running = Running { relays: vec![None; world.plan.relays], ..Running::default() };
        Arc::new(Self {
            world: Arc::clone(world),
            store: MemoryStore::new(Arc::new(DatabaseClock(Arc::clone(world)))),
            brokers: brokers.collect(),
            tables: Arc::default(),
            memory: Arc::default(),
            graveyard: Graveyard::default(),
            running: Mutex::new(running),
        })
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The relay at that place, if it runs.
    pub(crate) fn relay(&self, index: usize) -> Option<RunningRelay> {
        self.running().relays[index].clone()
    }

    /// Whether the process died, rather than stopped.
    pub(crate) fn is_dead(&self, process: u32) -> bool {
        self.graveyard.has(process)
    }

    /// All consumers there have been.
    pub(crate) fn consumers(&self) -> Vec<Arc<Process>> {
        self.running().consumers.clone()
    }

    /// Wakes every relay, as an application that runs one does after a commit. Only where one shard
    /// can be woken: of several, it is not known which wakes first.
    pub(crate) fn wake(&self) {
        let plan = &self.world.plan;
        let is_one = plan.routes.len() == 1
            && plan.routes[0].shards == 1
            && plan.rate(Fault::Reshard) == 0.0;
        if !is_one {
            return;
        }
        for relay in self.running().relays.iter().flatten() {
            if !self.world.strikes(Fault::WakeLost) {
                relay.handle.wake();
            }
        }
    }

    /// From now on the first relay is not replaced.
    pub(crate) fn leave_one_relay(&self) {
        let mut running = self.running();
        running.is_alone = true;
        for relay in running.relays.iter().skip(1).flatten() {
            relay.process.kill();
        }
    }

    /// The store as a process sees it.
    pub(crate) fn wire(&self, process: &Arc<Process>) -> Arc<dyn Store> {
        let inner: Arc<dyn Store> = Arc::new(self.store.clone());
        let flawed = Flawed {
            world: Arc::clone(&self.world),
            process: Arc::clone(process),
            inner,
            memory: Arc::clone(&self.memory),
        };
        Arc::new(Wire {
            world: Arc::clone(&self.world),
            process: Arc::clone(process),
            inner: Arc::new(flawed),
        })
    }

    pub(crate) fn spec(&self, index: usize) -> RouteSpec {
        let topics = self.world.plan.routes[index].topics;
        RouteSpec {
            name: route_name(index).to_owned(),
            topics: topics.iter().map(|topic| topic.parse().expect("a pattern")).collect(),
            shards: self.world.route(index, |route| route.shards),
        }
    }

    fn routes(&self, process: &Arc<Process>) -> Vec<Route> {
        let plans = self.world.plan.routes.iter().enumerate();
        let routes = plans.map(|(index, plan)| {
            let link = Link {
                world: Arc::clone(&self.world),
                process: Arc::clone(process),
                route: index,
                broker: self.brokers[index].clone(),
                graveyard: self.graveyard.clone(),
            };
            let backoff =
                Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(2) };
            Route {
                spec: self.spec(index),
                broker: Arc::new(link),
                retry: RetryPolicy {
                    backoff,
                    attempts_max: plan.attempts_max,
                    age_max: None,
                    on_dead: plan.on_dead,
                },
                publish_timeout: self.world.plan.publish_timeout(),
                in_flight_max: plan.in_flight_max,
            }
        });
        routes.collect()
    }

    fn build_relay(&self, process: &Arc<Process>) -> Relay {
        let plan = &self.world.plan;
        let settings = Settings {
            name: process.name.clone(),
            poll: plan.poll,
            lease: plan.lease,
            batch: plan.batch,
            window_messages_max: plan.window,
            drain: DRAIN,
            retention: Retention { delivered: plan.retention, discarded: Duration::from_secs(5) },
            ..Settings::default()
        };
        let clock = ProcessClock { world: Arc::clone(&self.world), process: Arc::clone(process) };
        let random = self.world.fork();
        let routes = self.routes(process);
        Relay::with_environment(self.wire(process), routes, settings, Arc::new(clock), random)
    }

    /// Keeps a relay running: another one after each that died or was stopped.
    pub(crate) async fn keep_relay(self: Arc<Self>, index: usize, over: CancellationToken) {
        let world = Arc::clone(&self.world);
        let is_needed = || index == 0 || !self.running().is_alone;
        while !over.is_cancelled() && is_needed() {
            let process = world.process(&format!("relay-{index}"));
            self.graveyard.add(&process);
            let relay = self.build_relay(&process);
            let stop = over.child_token();
            let running = RunningRelay {
                process: Arc::clone(&process),
                stop: stop.clone(),
                handle: relay.handle(),
            };
            self.running().relays[index] = Some(running);
            world.trace(format_args!("{} starts", process.name));
            let mut task = tokio::spawn(relay.run(stop));
            let ended = tokio::select! {
                biased;
                () = process.died() => {
                    task.abort();
                    let _ = (&mut task).await;
                    "dies".to_owned()
                }
                ended = &mut task => match ended {
                    Ok(Ok(())) => "stops".to_owned(),
                    Ok(Err(error)) => format!("fails: {error}"),
                    Err(_) => "panics".to_owned(),
                },
            };
            self.running().relays[index] = None;
            if ended != "dies" && ended != "stops" {
                world.problem(format!("P8 {} {ended}", process.name));
            }
            world.trace(format_args!("{} {ended}", process.name));
            let lease = world.plan.lease.as_millis() as u64;
            tokio::time::sleep(world.millis(0..lease * 2)).await;
        }
    }

    fn build_consumer(&self, index: usize, process: &Arc<Process>) -> Consumer<Simulated> {
        let plan = &self.world.plan.consumers[index];
        let is_by_position = plan.mode == InboxMode::Watermark;
        let inbox = match plan.mode {
            InboxMode::IdsFirst => Inbox::new(plan.name),
            InboxMode::IdsLast => Inbox::new(plan.name).optimistic(),
            InboxMode::Watermark => Inbox::new(plan.name).watermark(),
        };
        let pool = Pool {
            world: Arc::clone(&self.world),
            process: Arc::clone(process),
            tables: Arc::clone(&self.tables),
            route: plan.route,
        };
        let subscription = Subscription {
            name: Some(plan.name.to_owned()),
            topics: vec!["*".parse().expect("a pattern")],
            start: Start::Beginning,
            sharing: if is_by_position { Sharing::Ordered } else { Sharing::Competing },
        };
        let subscribed = Subscribed {
            world: Arc::clone(&self.world),
            process: Arc::clone(process),
            inner: self.brokers[plan.route].subscribe_to(&subscription),
        };
        let (world, name) = (Arc::clone(&self.world), plan.name);
        let window = match self.world.has(Planted::InboxWindow) {
            true => Duration::from_millis(1),
            false => Duration::from_secs(86_400),
        };
        let backoff = Backoff { initial: Duration::from_millis(50), max: Duration::from_secs(1) };
        Consumer::builder(pool, inbox, Box::new(subscribed))
            .otherwise(move |connection: &mut Connection, incoming: &Incoming| {
                if world.strikes(Fault::HandlerFails) {
                    let error = std::io::Error::other("simulated");
                    return Box::pin(async move { Err(error.into()) });
                }
                connection.act(name, incoming.message.id);
                Box::pin(async { Ok(()) })
            })
            .concurrency(2)
            .batch(plan.batch)
            .retry(backoff, 3)
            .poll(Duration::from_secs(1))
            .window(window)
            .build()
            .expect("a consumer that can be built")
    }

    /// Keeps a consumer running.
    pub(crate) async fn keep_consumer(self: Arc<Self>, index: usize, over: CancellationToken) {
        let world = Arc::clone(&self.world);
        let name = world.plan.consumers[index].name;
        while !over.is_cancelled() {
            let process = world.process(name);
            self.running().consumers.push(Arc::clone(&process));
            let consumer = self.build_consumer(index, &process);
            world.trace(format_args!("{} starts", process.name));
            let mut task = tokio::spawn(consumer.run(over.clone()));
            tokio::select! {
                biased;
                () = process.died() => {
                    task.abort();
                    let _ = (&mut task).await;
                }
                ended = &mut task => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => world.problem(format!("P5 {}: {error}", process.name)),
                    Err(_) => world.problem(format!("P5 {} panics", process.name)),
                },
            }
            world.trace(format_args!("{} ends", process.name));
            tokio::time::sleep(world.millis(1..1_000)).await;
        }
    }

    /// Redrives the consumers' dead letters.
    pub(crate) async fn redrive_letters(&self) {
        let pool = Pool {
            world: Arc::clone(&self.world),
            process: self.world.process("person"),
            tables: Arc::clone(&self.tables),
            route: 0,
        };
        // It cannot fail here.
        let _ = pool.redrive_letters(&ParkedFilter::default(), "person").await;
    }
}
