//! Runs a relay: registers its routes, writes its heartbeat, acquires its fair share of shards and
//! gives surplus shards back, serves each shard in its own task, and stops in three phases.
//!
//! Routes do not wait for each other: each has its own store call in progress (`slot.rs`), and the
//! results are handled as they come.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use posthaste_core::{
    Backoff, Broker, Claim, Clock, Grant, RelayBeat, RelayId, Rewound, Shard, Store, StoreError,
};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

pub use crate::board::{RouteHealth, RouteState};
use crate::{
    Route, Settings, TokioClock,
    board::{Board, HeldUp},
    events,
    keeper::{keep, purge},
    planted::{self, Planted},
    shard::{Context, End, Server},
    slot::{Answer, Ask, Slot},
};

/// Pauses between attempts to reach the store when starting.
const START_BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(10) };

/// Why a relay ended without being told to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be served at all; the error says what to do.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The relay runs once, and a broker cannot be used.
    #[error("route {route}: the broker cannot be used: {reason}")]
    Unreachable {
        /// The route.
        route: String,
        /// The adapter's reason.
        reason: String,
    },
    /// The relay runs once, and another relay serves a shard.
    #[error("route {route}: shard {shard} is served by another relay")]
    Busy {
        /// The route.
        route: String,
        /// The shard, counted from 0.
        shard: u16,
    },
}

/// A relay, ready to run. See the crate documentation.
pub struct Relay {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    routes: Vec<Arc<Route>>,
    settings: Settings,
    board: Arc<Board>,
    wake: watch::Sender<u64>,
    random: fastrand::Rng,
}

/// A handle of a relay. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    clock: Arc<dyn Clock>,
    board: Arc<Board>,
    wake: watch::Sender<u64>,
}

/// The health of a relay.
#[derive(Clone, Debug)]
pub struct Health {
    /// Whether the store answers and every route is registered.
    pub ready: bool,
    /// Time since the supervisor's loop last ran; `None` before the first run.
    pub ticked: Option<Duration>,
    /// Why the store cannot be used, if it cannot.
    pub store_failure: Option<String>,
    /// Each route.
    pub routes: Vec<RouteHealth>,
}

impl Handle {
    /// Makes idle shards fetch now: for a process that both enqueues and relays. Without it polling
    /// finds all messages.
    pub fn wake(&self) {
        self.wake.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The health of the relay.
    #[must_use]
    pub fn health(&self) -> Health {
        let (ticked_at, store_failure) = self.board.tick();
        Health {
            ready: ticked_at.is_some() && store_failure.is_none() && self.board.is_complete(),
            ticked: ticked_at.map(|at| self.clock.elapsed().saturating_sub(at)),
            store_failure,
            routes: self.board.routes(),
        }
    }
}

impl Relay {
    /// A relay on the runtime's clock and a random seed.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, routes: Vec<Route>, settings: Settings) -> Self {
        let clock = Arc::new(TokioClock::new());
        Self::with_environment(store, routes, settings, clock, fastrand::Rng::new())
    }

    /// A relay with a given clock and a given seed.
    #[must_use]
    pub fn with_environment(
        store: Arc<dyn Store>,
        routes: Vec<Route>,
        settings: Settings,
        clock: Arc<dyn Clock>,
        random: fastrand::Rng,
    ) -> Self {
        Self {
            store,
            clock,
            routes: routes.into_iter().map(Arc::new).collect(),
            settings,
            board: Arc::default(),
            wake: watch::Sender::new(0),
            random,
        }
    }

    /// A handle that works before, while and after the relay runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { clock: self.clock.clone(), board: self.board.clone(), wake: self.wake.clone() }
    }

    /// Serves until `stop` is cancelled, then stops fetching, waits for the answers to the messages
    /// in flight (at most [`Settings::drain`]), settles them, and gives its leases back.
    ///
    /// # Errors
    /// When the store cannot be served at all. The relay waits for passing errors to end.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let (store, clock, retention) =
            (self.store.clone(), self.clock.clone(), self.settings.retention);
        tokio::select! {
            biased;
            result = self.supervise(stop, false) => result,
            () = keep(store, clock, retention) => Ok(()),
        }
    }

    /// Serves until all messages committed so far are delivered or parked, and runs retention once.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run), and when another relay serves one of the shards or a
    /// broker cannot be used.
    pub async fn run_once(self, stop: CancellationToken) -> Result<(), Error> {
        let (store, retention) = (self.store.clone(), self.settings.retention);
        self.supervise(stop, true).await?;
        purge(&*store, retention).await;
        Ok(())
    }

    async fn supervise(self, stop: CancellationToken, once: bool) -> Result<(), Error> {
        // Routes may share a broker; each broker is closed once.
        let mut brokers: Vec<Arc<dyn Broker>> = Vec::new();
        for route in &self.routes {
            if !brokers.iter().any(|broker| Arc::ptr_eq(broker, &route.broker)) {
                brokers.push(route.broker.clone());
            }
        }
        let mut supervisor = Supervisor::new(self, stop.clone(), once);
        let result = supervisor.run().await;
        supervisor.stop_all().await;
        for broker in brokers {
            broker.close().await;
        }
        result
    }
}

/// The shard that a task serves.
struct Serving {
    slot: usize,
    shard: u16,
    generation: u64,
}

/// The result of a store call of the supervisor.
enum Event {
    Beat(Result<Vec<u32>, StoreError>),
    /// A call of the route with this index.
    Route(usize, Answer),
}

struct Supervisor {
    context: Arc<Context>,
    beat: RelayBeat,
    slots: Vec<Slot>,
    /// Calls in progress: the heartbeat's, and at most one per route.
    calls: FuturesUnordered<BoxFuture<'static, Event>>,
    tasks: JoinSet<End>,
    /// The shard of each task.
    serving: HashMap<Id, Serving>,
    /// When to write the next heartbeat.
    beat_at: Duration,
    is_beating: bool,
    /// Why the last heartbeat failed.
    beat_failure: Option<String>,
    random: fastrand::Rng,
    stop: CancellationToken,
}

impl Supervisor {
    fn new(relay: Relay, stop: CancellationToken, once: bool) -> Self {
        let beat = RelayBeat {
            id: RelayId::fresh(),
            name: relay.settings.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            routes: relay.routes.iter().map(|route| route.spec.name.clone()).collect(),
            paused: Vec::new(),
        };
        // Running once, the relay tries all shards; other relays show by the leases they hold.
        let relays = once.then_some(1);
        Self {
            slots: relay.routes.into_iter().map(|route| Slot::new(route, relays)).collect(),
            context: Arc::new(Context {
                store: relay.store,
                clock: relay.clock,
                settings: relay.settings,
                board: relay.board,
                wake: relay.wake.subscribe(),
                once,
            }),
            beat,
            calls: FuturesUnordered::new(),
            tasks: JoinSet::new(),
            serving: HashMap::new(),
            beat_at: Duration::ZERO,
            is_beating: false,
            beat_failure: None,
            random: relay.random,
            stop,
        }
    }

    async fn run(&mut self) -> Result<(), Error> {
        if !self.check().await? {
            return Ok(());
        }
        for slot in &self.slots {
            self.context.board.route(slot.name());
        }
        events::relay(&self.beat.name, self.beat.id, "relay started");
        let clock = self.context.clock.clone();
        loop {
            self.ask();
            self.context.board.ticked(clock.elapsed(), self.store_failure());
            if self.context.once && self.is_over()? {
                return Ok(());
            }
            let pause = self.next_at().saturating_sub(clock.elapsed());
            let stop = self.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(event) = self.calls.next() => self.answered(event)?,
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended)?,
                () = clock.sleep(pause) => {}
            }
        }
    }

    /// Waits until the store can be served. `false` if stopped meanwhile.
    async fn check(&mut self) -> Result<bool, Error> {
        let mut failures = 0;
        loop {
            let error = match self.context.store.check().await {
                Ok(()) => return Ok(true),
                Err(error) if error.is_retryable() => error,
                Err(error) => return Err(error.into()),
            };
            failures += 1;
            events::supervision_failed(&error);
            let pause = START_BACKOFF.delay(failures, &mut self.random);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(false),
                () = self.context.clock.sleep(pause) => {}
            }
        }
    }

    /// The pause between two rounds of a route.
    fn pause(&self) -> Duration {
        self.context.settings.poll.min(self.context.settings.lease / 3)
    }

    /// The next time at which `ask` could start a call that it cannot start now.
    fn next_at(&self) -> Duration {
        let now = self.context.clock.elapsed();
        let routes = self.slots.iter().filter(|slot| !slot.is_asking).map(|slot| slot.ask_at);
        let beat = (!self.is_beating).then_some(self.beat_at);
        // A call whose time has passed and which could not start waits for an answer, not for time.
        let ahead = routes.chain(beat).filter(|at| *at > now).min();
        // The loop runs at least this often, to show that it does not hang.
        let latest = now + self.pause();
        ahead.map_or(latest, |ahead| ahead.min(latest))
    }

    /// Why the store cannot be used at all: the heartbeat fails, or the calls of all routes fail.
    fn store_failure(&self) -> Option<String> {
        let of_all =
            self.slots.iter().map(|slot| slot.failure.as_ref()).collect::<Option<Vec<_>>>();
        let first = of_all.and_then(|failures| failures.first().map(ToString::to_string));
        self.beat_failure.clone().or(first)
    }

    /// Starts every call that may start now.
    fn ask(&mut self) {
        let (now, pause) = (self.context.clock.elapsed(), self.pause());
        if !self.is_beating && (now >= self.beat_at || self.has_news(now)) {
            self.is_beating = true;
            self.beat.paused = self.context.board.pauses(now);
            let (context, beat) = (self.context.clone(), self.beat.clone());
            let call =
                async move { Event::Beat(context.store.beat(&beat, context.settings.lease).await) };
            self.calls.push(call.boxed());
        }
        for index in 0..self.slots.len() {
            if planted::has(Planted::RoutesInLine) && self.slots.iter().any(|it| it.is_asking) {
                return;
            }
            let next = self.slots[index].next(now, pause, &self.context.board);
            if let Some(ask) = next {
                self.start(index, ask, now);
            }
        }
    }

    fn start(&mut self, index: usize, ask: Ask, asked_at: Duration) {
        let slot = &mut self.slots[index];
        slot.is_asking = true;
        let spec = slot.route.spec.clone();
        let of = slot.layout.map_or(spec.shards, |layout| layout.shards);
        let rewound = slot.rewound;
        let (context, relay) = (self.context.clone(), self.beat.id);
        let call = async move {
            let store = &context.store;
            let answer = match ask {
                Ask::Register => Answer::Registered(store.register(&spec).await),
                Ask::Layout => Answer::Layout(store.reshard(&spec.name).await),
                Ask::Acquire(shard) => {
                    let ttl = context.settings.lease;
                    let route = spec.name;
                    let shard_of = Shard { index: shard, of };
                    let claim = Claim { route, shard: shard_of, relay, ttl, rewound };
                    let result = store.acquire(&claim).await.map(|grant| grant.map(Box::new));
                    Answer::Acquired { shard, asked_at, rewound, result }
                }
            };
            Event::Route(index, answer)
        };
        self.calls.push(call.boxed());
    }

    fn answered(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Beat(result) => self.beaten(result),
            Event::Route(index, answer) => self.heard(index, answer)?,
        }
        Ok(())
    }

    /// Whether a route was paused or resumed since the last heartbeat, so that people see it before
    /// the next regular one.
    fn has_news(&self, now: Duration) -> bool {
        let pauses = self.context.board.pauses(now);
        let told = self.beat.paused.iter().map(|pause| &pause.route);
        !told.eq(pauses.iter().map(|pause| &pause.route))
    }

    fn beaten(&mut self, result: Result<Vec<u32>, StoreError>) {
        let now = self.context.clock.elapsed();
        self.is_beating = false;
        let live = match result {
            Ok(live) => live,
            Err(error) => {
                let text = error.to_string();
                if self.beat_failure.as_ref() != Some(&text) {
                    events::supervision_failed(&error);
                }
                self.beat_failure = Some(text);
                self.beat_at = now + self.pause();
                // Leases alone decide which relay serves; without a count this relay assumes that
                // it is alone.
                for slot in &mut self.slots {
                    slot.relays.get_or_insert(1);
                }
                return;
            }
        };
        self.beat_failure = None;
        self.beat_at = now + self.context.settings.lease / 3;
        for (slot, relays) in self.slots.iter_mut().zip(live) {
            if !self.context.once {
                slot.relays = Some(usize::try_from(relays).unwrap_or(usize::MAX));
            }
            if slot.layout.is_some_and(|layout| layout.resizing_to.is_some()) {
                // The barrier may have moved on, so the shards are tried again.
                slot.over.clear();
            }
            if slot.layout.is_some() {
                slot.layout_at = now;
                slot.ask_at = now;
            }
        }
    }

    fn heard(&mut self, index: usize, answer: Answer) -> Result<(), Error> {
        let (now, pause) = (self.context.clock.elapsed(), self.pause());
        let context = self.context.clone();
        let slot = &mut self.slots[index];
        slot.is_asking = false;
        let failure = match answer {
            Answer::Registered(Ok(layout)) => {
                slot.layout = Some(layout);
                context.board.registered(slot.name());
                None
            }
            Answer::Registered(Err(error)) if !error.is_retryable() => return Err(error.into()),
            Answer::Registered(Err(error)) => {
                slot.ask_at = now + START_BACKOFF.delay(slot.failures + 1, &mut self.random);
                Some(error)
            }
            Answer::Layout(Ok(layout)) => {
                slot.layout_at = now + context.settings.lease / 3;
                if slot.follow(layout) {
                    self.beat_at = Duration::ZERO;
                }
                None
            }
            Answer::Layout(Err(error)) => {
                // Shards are claimed all the same; the layout is read again after them.
                slot.layout_at = now + pause;
                Some(error)
            }
            Answer::Acquired { shard, asked_at, rewound, result: Ok(grant) } => {
                // A rewind that was found meanwhile is reported with the next claim.
                slot.rewound = slot.rewound.filter(|known| Some(*known) != rewound);
                if let Some(mut grant) = grant {
                    if planted::has(Planted::KeepsIdentity) {
                        grant.log = rewound.map_or(grant.log, |rewound| rewound.log);
                    }
                    self.serve(index, shard, *grant, asked_at);
                }
                None
            }
            Answer::Acquired { result: Err(error), .. } => Some(error),
        };
        let slot = &mut self.slots[index];
        match failure {
            None => slot.worked(&context.board),
            Some(error) => slot.failed(error, now, pause, &context.board),
        }
        Ok(())
    }

    fn serve(&mut self, index: usize, shard: u16, grant: Grant, asked_at: Duration) {
        let slot = &mut self.slots[index];
        let random = self.random.fork();
        let server = Server::new(self.context.clone(), slot.route.clone(), grant, asked_at, random);
        let stop = self.stop.child_token();
        slot.held.insert(shard, stop.clone());
        let task = self.tasks.spawn(server.serve(stop));
        let generation = slot.generation;
        self.serving.insert(task.id(), Serving { slot: index, shard, generation });
    }

    /// Running once: whether all shards are done.
    fn is_over(&mut self) -> Result<bool, Error> {
        if self.slots.iter().any(|slot| slot.is_asking || !slot.has_looked) {
            return Ok(false);
        }
        for slot in &mut self.slots {
            let missing =
                |shard: &u16| !slot.over.contains(shard) && !slot.held.contains_key(shard);
            let shards = slot.layout.map_or(0, |layout| layout.shards);
            if let Some(shard) = (0..shards).find(missing) {
                // A task that is ending may still hold the shard.
                if !self.tasks.is_empty() {
                    return Ok(false);
                }
                let route = slot.name().to_owned();
                return Err(match slot.failure.take() {
                    Some(error) => error.into(),
                    None => Error::Busy { route, shard },
                });
            }
        }
        Ok(self.tasks.is_empty())
    }

    fn ended(&mut self, ended: Result<(Id, End), JoinError>) -> Result<(), Error> {
        let (id, end) = match ended {
            Ok((id, end)) => (id, Some(end)),
            Err(error) => (error.id(), None),
        };
        let Some(serving) = self.serving.remove(&id) else {
            return Ok(());
        };
        let (slot, shard) = (&mut self.slots[serving.slot], serving.shard);
        let route = slot.route.clone();
        let route = &route.spec.name;
        if let Some(End::Rewound(rewound)) = end {
            let known = slot.rewound.map_or(0, |known| known.epoch);
            slot.rewound = Some(Rewound { epoch: rewound.epoch.max(known), ..rewound });
        }
        if serving.generation != slot.generation {
            return Ok(());
        }
        if end.is_some() || !planted::has(Planted::NoSupervisor) {
            slot.held.remove(&shard);
        }
        slot.look_again();
        match end {
            Some(End::Done) if self.context.once => drop(slot.over.insert(shard)),
            Some(End::Done | End::Fenced | End::Rewound(_)) => {}
            Some(End::Barrier) => {
                slot.over.insert(shard);
                slot.layout_at = Duration::ZERO;
            }
            Some(End::Unreachable(failure)) => {
                return Err(Error::Unreachable {
                    route: route.clone(),
                    reason: failure.to_string(),
                });
            }
            None => {
                let now = self.context.clock.elapsed();
                slot.panicked.insert(shard, now + self.context.settings.lease);
                let reason = "its task panicked; it is served again once its lease has expired";
                let held_up = HeldUp { paused: Some(reason.to_owned()), stuck: None };
                self.context.board.shard(route, shard, held_up, now);
                events::shard_panicked(route, shard);
            }
        }
        Ok(())
    }

    /// Stops every shard, waits for all of them, and removes the heartbeat. A lease that is granted
    /// meanwhile is given back. The relay does not wait longer than [`Settings::drain`] for store
    /// calls: a registration may read the whole log, and a lease granted later expires by itself.
    async fn stop_all(&mut self) {
        let clock = self.context.clock.clone();
        let drained_at = clock.elapsed() + self.context.settings.drain;
        for stop in self.slots.iter().flat_map(|slot| slot.held.values()) {
            stop.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
        loop {
            let event = tokio::select! {
                biased;
                event = self.calls.next() => event,
                () = clock.sleep(drained_at.saturating_sub(clock.elapsed())) => None,
            };
            let Some(event) = event else { break };
            if let Event::Route(_, Answer::Acquired { result: Ok(Some(grant)), .. }) = event
                && let Err(error) = self.context.store.release(&grant.lease).await
            {
                events::supervision_failed(&error);
            }
        }
        if let Err(error) = self.context.store.retire(&self.beat).await {
            events::supervision_failed(&error);
        }
        events::relay(&self.beat.name, self.beat.id, "relay stopped");
    }
}
