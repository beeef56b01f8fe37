//! Runs a relay: registers its routes, says that it is there, takes its fair share of shards and
//! gives the rest back, serves each in a task of its own, and stops in three phases.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use posthaste_core::{
    Backoff, Broker, Claim, Clock, Layout, RelayBeat, RelayId, Shard, Store, StoreError,
};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

pub use crate::board::{RouteHealth, RouteState};
use crate::{
    Route, Settings, TokioClock,
    board::Board,
    events,
    keeper::{keep, purge},
    planted::{self, Planted},
    shard::{Context, End, Server},
};

/// Pauses between attempts to reach the store when starting.
const START_BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(10) };

/// Why a relay ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be served at all; it says what to do.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Running once, and a broker cannot be used.
    #[error("route {route}: the broker cannot be used: {reason}")]
    Unreachable {
        /// The route.
        route: String,
        /// What the broker's adapter said.
        reason: String,
    },
    /// Running once, and another relay serves a shard.
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

/// Talks to a running relay. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    clock: Arc<dyn Clock>,
    board: Arc<Board>,
    wake: watch::Sender<u64>,
}

/// How a relay is doing.
#[derive(Clone, Debug)]
pub struct Health {
    /// Whether the store answers and every route is known to it.
    pub ready: bool,
    /// Time since the supervisor last came round; `None` before the first time.
    pub ticked: Option<Duration>,
    /// Why the store cannot be used, if it cannot.
    pub store_failure: Option<String>,
    /// Each route.
    pub routes: Vec<RouteHealth>,
}

impl Handle {
    /// Makes idle shards look into the outbox now: for a process that enqueues and relays. Polling
    /// finds everything without it.
    pub fn wake(&self) {
        self.wake.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// How the relay is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        let (ticked_at, store_failure) = self.board.tick();
        Health {
            ready: ticked_at.is_some() && store_failure.is_none(),
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

    /// A relay whose time and randomness are given.
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

    /// Serves until `stop` is cancelled, then stops fetching, waits for the answers to what is in
    /// flight (at most [`Settings::drain`]), settles, and gives its leases back.
    ///
    /// # Errors
    /// When the store cannot be served at all. What may pass by itself is waited for.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let (store, clock, retention) =
            (self.store.clone(), self.clock.clone(), self.settings.retention);
        tokio::select! {
            biased;
            result = self.supervise(stop, false) => result,
            () = keep(store, clock, retention) => Ok(()),
        }
    }

    /// Serves until everything committed so far is delivered or parked, and cleans up once.
    ///
    /// # Errors
    /// As [`run`](Self::run), and when another relay serves one of the shards or a broker cannot be
    /// used.
    pub async fn run_once(self, stop: CancellationToken) -> Result<(), Error> {
        let (store, retention) = (self.store.clone(), self.settings.retention);
        self.supervise(stop, true).await?;
        purge(&*store, retention).await;
        Ok(())
    }

    async fn supervise(self, stop: CancellationToken, once: bool) -> Result<(), Error> {
        // Routes may share a broker, which is closed once.
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

/// A route and what of it is served here.
struct Slot {
    route: Arc<Route>,
    layout: Layout,
    /// Shards served here, and how to stop them.
    held: BTreeMap<u16, CancellationToken>,
    /// Shards that are not to be taken again: done (running once), or waiting for a resize.
    over: BTreeSet<u16>,
    /// Shards whose task panicked, and until when nobody can serve them: their leases have to run out.
    panicked: BTreeMap<u16, Duration>,
    /// Most shards to hold, so that every relay has some.
    share: usize,
    /// Counts layouts: what a task of an earlier one reports when it ends does not matter any more.
    generation: u64,
}

/// What a task serves.
struct Serving {
    slot: usize,
    shard: u16,
    generation: u64,
}

struct Supervisor {
    context: Arc<Context>,
    beat: RelayBeat,
    slots: Vec<Slot>,
    tasks: JoinSet<End>,
    /// What each task serves.
    serving: HashMap<Id, Serving>,
    /// When to say next that this relay is there, and when to look at the layouts.
    beat_at: Duration,
    layout_at: Duration,
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
        };
        let slots = relay.routes.into_iter().map(|route| Slot {
            layout: Layout { shards: route.spec.shards, resizing_to: None },
            route,
            held: BTreeMap::new(),
            over: BTreeSet::new(),
            panicked: BTreeMap::new(),
            share: 0,
            generation: 0,
        });
        Self {
            slots: slots.collect(),
            context: Arc::new(Context {
                store: relay.store,
                clock: relay.clock,
                settings: relay.settings,
                board: relay.board,
                wake: relay.wake.subscribe(),
                once,
            }),
            beat,
            tasks: JoinSet::new(),
            serving: HashMap::new(),
            beat_at: Duration::ZERO,
            layout_at: Duration::ZERO,
            random: relay.random,
            stop,
        }
    }

    async fn run(&mut self) -> Result<(), Error> {
        if !self.register().await? {
            return Ok(());
        }
        events::relay(&self.beat.name, self.beat.id, "relay started");
        let pause = self.context.settings.poll.min(self.context.settings.lease / 3);
        let clock = self.context.clock.clone();
        loop {
            let failure = self.tick().await.err();
            if let Some(error) = &failure {
                events::supervision_failed(error);
            }
            self.context.board.ticked(clock.elapsed(), failure.map(|error| error.to_string()));
            if self.context.once && self.is_over()? {
                return Ok(());
            }
            let stop = self.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended)?,
                () = clock.sleep(pause) => {}
            }
        }
    }

    /// Waits for a store that can be served, then makes the routes known to it. False if stopped.
    async fn register(&mut self) -> Result<bool, Error> {
        let mut failures = 0;
        loop {
            let error = match self.try_register().await {
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

    async fn try_register(&mut self) -> Result<(), StoreError> {
        self.context.store.check().await?;
        for slot in &mut self.slots {
            slot.layout = self.context.store.register(&slot.route.spec).await?;
            self.context.board.route(&slot.route.spec.name);
        }
        Ok(())
    }

    async fn tick(&mut self) -> Result<(), StoreError> {
        let now = self.context.clock.elapsed();
        if now >= self.beat_at {
            self.beat(now).await?;
        }
        if now >= self.layout_at {
            self.layout_at = self.beat_at;
            for index in 0..self.slots.len() {
                self.follow_layout(index).await?;
            }
        }
        for index in 0..self.slots.len() {
            self.balance(index).await?;
        }
        Ok(())
    }

    async fn beat(&mut self, now: Duration) -> Result<(), StoreError> {
        let live = self.context.store.beat(&self.beat, self.context.settings.lease).await?;
        self.beat_at = now + self.context.settings.lease / 3;
        self.layout_at = now;
        for (slot, relays) in self.slots.iter_mut().zip(live) {
            // Running once, everything is tried: whoever else is there shows by holding a lease.
            let relays = if self.context.once { 1 } else { relays.max(1) };
            let relays = usize::try_from(relays).unwrap_or(usize::MAX);
            slot.share = usize::from(slot.layout.shards).div_ceil(relays);
            if slot.layout.resizing_to.is_some() {
                // The position to stop at may have moved on: have another look.
                slot.over.clear();
            }
        }
        Ok(())
    }

    /// Learns whether the number of shards changes or has changed. Shards served here are given back
    /// when a change begins, to be taken again with the position at which they must end.
    async fn follow_layout(&mut self, index: usize) -> Result<(), StoreError> {
        let slot = &mut self.slots[index];
        let name = &slot.route.spec.name;
        let layout = self.context.store.reshard(name).await?;
        if layout == slot.layout {
            return Ok(());
        }
        if layout.shards != slot.layout.shards {
            events::resharded(name, layout.shards);
        }
        slot.layout = layout;
        slot.share = usize::from(layout.shards);
        slot.generation += 1;
        slot.over.clear();
        for stop in std::mem::take(&mut slot.held).values() {
            stop.cancel();
        }
        self.beat_at = Duration::ZERO;
        Ok(())
    }

    /// Takes free shards up to the fair share, gives back what is above it.
    async fn balance(&mut self, index: usize) -> Result<(), StoreError> {
        self.forget_panics(index);
        let slot = &self.slots[index];
        let surplus = slot.held.len().saturating_sub(slot.share.max(1));
        for stop in slot.held.values().take(surplus) {
            stop.cancel();
        }
        for shard in 0..slot.layout.shards {
            let slot = &self.slots[index];
            if slot.held.len() >= slot.share.max(1) {
                break;
            }
            if !slot.held.contains_key(&shard) && !slot.over.contains(&shard) {
                self.acquire(index, shard).await?;
            }
        }
        events::leases(&self.slots[index].route.spec.name, self.slots[index].held.len());
        Ok(())
    }

    /// What is past: whoever serves those shards by now says how they are doing.
    fn forget_panics(&mut self, index: usize) {
        let (now, board) = (self.context.clock.elapsed(), &self.context.board);
        let Slot { route, panicked, held, .. } = &mut self.slots[index];
        panicked.retain(|&shard, &mut until| {
            let is_past = now >= until;
            if is_past && !held.contains_key(&shard) {
                board.left(&route.spec.name, shard);
            }
            !is_past
        });
    }

    async fn acquire(&mut self, index: usize, shard: u16) -> Result<(), StoreError> {
        let slot = &mut self.slots[index];
        let claim = Claim {
            route: slot.route.spec.name.clone(),
            shard: Shard { index: shard, of: slot.layout.shards },
            relay: self.beat.id,
            ttl: self.context.settings.lease,
        };
        let asked_at = self.context.clock.elapsed();
        let Some(grant) = self.context.store.acquire(&claim).await? else {
            return Ok(());
        };
        let server = Server::new(
            self.context.clone(),
            slot.route.clone(),
            grant,
            asked_at,
            self.random.fork(),
        );
        let stop = self.stop.child_token();
        slot.held.insert(shard, stop.clone());
        let task = self.tasks.spawn(server.serve(stop));
        let generation = slot.generation;
        self.serving.insert(task.id(), Serving { slot: index, shard, generation });
        Ok(())
    }

    /// Running once: whether nothing is left to serve.
    fn is_over(&self) -> Result<bool, Error> {
        for slot in &self.slots {
            let missing =
                |shard: &u16| !slot.over.contains(shard) && !slot.held.contains_key(shard);
            if let Some(shard) = (0..slot.layout.shards).find(missing) {
                // Tasks that are ending may still hold it.
                let route = slot.route.spec.name.clone();
                return match self.tasks.is_empty() {
                    true => Err(Error::Busy { route, shard }),
                    false => Ok(false),
                };
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
        let route = &slot.route.spec.name;
        if serving.generation != slot.generation {
            return Ok(());
        }
        if end.is_some() || !planted::has(Planted::NoSupervisor) {
            slot.held.remove(&shard);
        }
        match end {
            Some(End::Done) if self.context.once => drop(slot.over.insert(shard)),
            Some(End::Done | End::Fenced) => {}
            Some(End::Barrier) => {
                slot.over.insert(shard);
                self.layout_at = Duration::ZERO;
            }
            Some(End::Unreachable(failure)) => {
                return Err(Error::Unreachable {
                    route: route.clone(),
                    reason: failure.to_string(),
                });
            }
            None => {
                let until = self.context.clock.elapsed() + self.context.settings.lease;
                slot.panicked.insert(shard, until);
                let reason = "its task panicked; it is served again once its lease has expired";
                self.context.board.shard(route, shard, Some(reason.to_owned()));
                events::shard_panicked(route, shard);
            }
        }
        Ok(())
    }

    /// Stops every shard, waits for all of them, and says goodbye.
    async fn stop_all(&mut self) {
        for stop in self.slots.iter().flat_map(|slot| slot.held.values()) {
            stop.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
        if let Err(error) = self.context.store.retire(&self.beat).await {
            events::supervision_failed(&error);
        }
        events::relay(&self.beat.name, self.beat.id, "relay stopped");
    }
}
