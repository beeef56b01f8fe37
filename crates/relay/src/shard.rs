//! Serves one lease: fetch, publish, settle, until told to stop, fenced off, or done.
//!
//! One task owns all state of the shard. It drives store and broker calls to their end: nothing
//! cancels a call halfway, so only the death of the process can separate a publish from its
//! settlement. Every failed store call is repeated with backoff. While a store call fails, the
//! shard publishes nothing new: a message that cannot be settled is not sent.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use posthaste_core::{
    Backoff, Batch, CallOrder, Clock, Due, Evidence, Failure, Grant, Lease, Outcome, Position,
    Rewound, Settled, Settlement, Store, StoreError, StoreErrorKind,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    Route, Settings,
    answers::Judge,
    board::{Board, HeldUp},
    events::Events,
    floor::Floors,
    gate::Gate,
    lane::{ItemId, Lanes},
    outage::Outage,
    planted::{self, Planted},
    window::Window,
};

/// Shortest pause between fetches while few messages arrive.
const POLL_MIN: Duration = Duration::from_millis(10);
/// Shortest time between two settlements, unless the window fills up.
const SETTLE_INTERVAL: Duration = Duration::from_millis(5);
/// After a slow store call the shard waits this many times as long as the call took, so that a busy
/// store gets fewer, larger calls.
const PAUSES_PER_CALL: u32 = 4;
/// Longest pause after a slow store call.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// How often progress over messages of other routes alone is settled.
pub(crate) const SKIP_INTERVAL: Duration = Duration::from_secs(1);
/// How often to look for redriven dead letters when no parked message is due.
const DUE_INTERVAL: Duration = Duration::from_secs(3);
/// Pauses between repetitions of a failing store call.
const STORE_BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(5) };
/// Failed probes after which a relay that runs once gives up.
const ONCE_PROBES_MAX: u32 = 4;

/// State that all shards of a relay share.
pub(crate) struct Context {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) board: Arc<Board>,
    /// Changes whenever [`Handle::wake`](crate::Handle::wake) is called.
    pub(crate) wake: watch::Receiver<u64>,
    /// Whether to end when all messages committed so far are delivered or parked.
    pub(crate) once: bool,
}

/// Why the relay stopped serving a shard.
#[derive(Debug)]
pub(crate) enum End {
    /// The shard was told to stop, or (running once) all messages are done.
    Done,
    /// Another relay has the lease.
    Fenced,
    /// The log is not the one in which the lease was granted.
    Rewound(Rewound),
    /// The shard reached the position at which the route is resharded.
    Barrier,
    /// The relay runs once, and the broker cannot be used.
    Unreachable(Failure),
}

/// The result of a call.
pub(crate) enum Event {
    Fetched {
        result: Result<Batch, StoreError>,
        took: Duration,
    },
    Answered {
        items: Vec<ItemId>,
        outcomes: Vec<Outcome>,
        took: Duration,
    },
    Settled {
        result: Result<Settled, StoreError>,
        work: Work,
        took: Duration,
    },
    /// `changes` is `None` if the store did not know all parked messages yet.
    Due {
        result: Result<Due, StoreError>,
        changes: Option<u64>,
    },
    Renewed {
        result: Result<(), StoreError>,
        asked_at: Duration,
    },
}

/// A settlement in progress, kept until the store confirms it.
pub(crate) struct Work {
    pub(crate) settlement: Settlement,
    pub(crate) messages: usize,
}

/// See the module documentation.
pub(crate) struct Server {
    pub(crate) context: Arc<Context>,
    pub(crate) route: Arc<Route>,
    pub(crate) lease: Lease,
    pub(crate) until: Option<Position>,
    pub(crate) events: Arc<Events>,
    pub(crate) window: Window,
    pub(crate) gate: Gate,
    /// The broker's present outage, for log lines.
    pub(crate) outage: Outage,
    pub(crate) random: fastrand::Rng,
    pub(crate) calls: FuturesUnordered<BoxFuture<'static, Event>>,
    /// The position that covers all messages read, finished or not.
    pub(crate) cursor: Position,
    /// Evidence of the log's history: from the grant, then from every batch and settlement.
    pub(crate) evidence: Evidence,
    /// The name of the log at the grant.
    pub(crate) log: Uuid,
    /// Whether a call of this kind is in progress.
    pub(crate) is_fetching: bool,
    pub(crate) is_settling: bool,
    pub(crate) is_renewing: bool,
    pub(crate) is_asking_due: bool,
    /// Unanswered messages at the broker.
    pub(crate) in_flight: usize,
    /// A settlement that failed and must be written before any other.
    pub(crate) unwritten: Option<Work>,
    /// Whether the latest settlement failed: no message is sent until a settlement is written.
    pub(crate) has_unwritten: bool,
    /// When to fetch next, and the pause after an empty fetch.
    pub(crate) poll_at: Duration,
    pub(crate) poll_pause: Duration,
    /// When to look for due parked messages next.
    pub(crate) due_at: Duration,
    pub(crate) settled_at: Duration,
    /// When to settle next, unless the window fills up.
    pub(crate) settle_at: Duration,
    pub(crate) renew_at: Duration,
    /// No message is sent whose answer could come after this time: another relay may have the lease
    /// then.
    pub(crate) valid_until: Duration,
    /// Failed store calls in a row.
    pub(crate) store_failures: u32,
    /// Why the last store call failed, if it did.
    pub(crate) store_failure: Option<String>,
    pub(crate) store_retry_at: Duration,
    pub(crate) failed_probes: u32,
    /// Whether the last fetch reached the end of the log.
    pub(crate) is_caught_up: bool,
    /// Set when the shard is told to stop: it waits for answers until then.
    pub(crate) drain_until: Option<Duration>,
    /// Whether another relay has the lease: the shard sends and writes nothing any more.
    pub(crate) is_fenced: bool,
    /// Whether the log went back in time: like `is_fenced`, and the supervisor is told.
    pub(crate) is_rewound: bool,
    /// Whether all messages up to `until` are finished and the position is at `until`.
    pub(crate) has_reached_barrier: bool,
}

impl Server {
    /// A server of a lease that was requested at `asked_at`.
    pub(crate) fn new(
        context: Arc<Context>,
        route: Arc<Route>,
        grant: Grant,
        asked_at: Duration,
        random: fastrand::Rng,
    ) -> Self {
        let events = Arc::new(Events::new(&route.spec.name, grant.lease.shard));
        events.acquired(&grant);
        let now = context.clock.elapsed();
        let mut server = Self {
            gate: Gate::new(route.in_flight_max),
            outage: Outage::default(),
            due_at: now,
            window: Window::new(
                grant.position.clone(),
                grant.blocked,
                Lanes::new(route.broker.capabilities().call_order == CallOrder::Total),
                Floors::new(grant.log, grant.lease.shard, &grant.undelivered),
            ),
            cursor: grant.position,
            evidence: grant.evidence,
            log: grant.log,
            until: grant.until,
            lease: grant.lease,
            context,
            route,
            events,
            random,
            calls: FuturesUnordered::new(),
            is_fetching: false,
            is_settling: false,
            is_renewing: false,
            is_asking_due: false,
            in_flight: 0,
            unwritten: None,
            has_unwritten: false,
            poll_at: now,
            poll_pause: POLL_MIN,
            settled_at: now,
            settle_at: now,
            renew_at: now,
            valid_until: now,
            store_failures: 0,
            store_failure: None,
            store_retry_at: now,
            failed_probes: 0,
            is_caught_up: false,
            drain_until: None,
            is_fenced: false,
            is_rewound: false,
            has_reached_barrier: false,
        };
        server.lease_runs_from(asked_at);
        server
    }

    /// Serves the shard until it ends. Gives the lease back unless it is lost.
    pub(crate) async fn serve(mut self, stop: CancellationToken) -> End {
        let clock = self.context.clock.clone();
        let mut wake = self.context.wake.clone();
        loop {
            self.start();
            if let Some(end) = self.ended() {
                return self.finish(end).await;
            }
            let pause = self.next_start().saturating_sub(clock.elapsed());
            let is_stopping = self.drain_until.is_some();
            tokio::select! {
                biased;
                Some(event) = self.calls.next() => self.handle(event),
                () = stop.cancelled(), if !is_stopping => {
                    self.drain_until = Some(clock.elapsed() + self.context.settings.drain);
                }
                Ok(()) = wake.changed(), if !is_stopping => self.poll_at = clock.elapsed(),
                () = clock.sleep(pause) => {}
            }
        }
    }

    fn now(&self) -> Duration {
        self.context.clock.elapsed()
    }

    /// Starts every call that may start now.
    fn start(&mut self) {
        if self.is_fenced {
            return;
        }
        let now = self.now();
        self.start_renew(now);
        self.start_publish(now);
        self.start_settle(now);
        self.start_fetch(now, &[]);
        self.start_due(now);
        let paused = self.gate.reason().map(ToString::to_string);
        let held_up = HeldUp { paused, stuck: self.store_failure.clone() };
        self.context.board.shard(&self.route.spec.name, self.lease.shard.index, held_up, now);
    }

    /// The next time at which `start` could start a call that it cannot start now.
    fn next_start(&self) -> Duration {
        let mut times = vec![self.renew_at, self.due_at, self.settled_at + SKIP_INTERVAL];
        if !self.is_fetching {
            times.push(self.poll_at);
        }
        if !self.is_settling {
            times.push(self.settle_at);
        }
        times.extend(self.gate.opens_at());
        times.extend(self.drain_until);
        let now = self.now();
        if self.store_failures > 0 {
            times.push(self.store_retry_at);
        }
        // A call whose time has passed and which could not start waits for an answer, not for time.
        let ahead = times.into_iter().filter(|&time| time > now).min();
        ahead.unwrap_or(now + SKIP_INTERVAL)
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Fetched { result, took } => {
                self.is_fetching = false;
                if let Some(batch) = self.checked(result, now) {
                    self.fetched(batch, took, now);
                }
            }
            Event::Answered { items, outcomes, took } => {
                self.in_flight -= items.len();
                self.events.answered(took, self.in_flight);
                self.answered(items, outcomes, now);
            }
            Event::Settled { result, work, took } => {
                self.is_settling = false;
                self.settled_at = now;
                self.settle_at = now + pause(took).max(SETTLE_INTERVAL);
                match self.checked(result, now) {
                    Some(settled) => self.settled(settled, &work, took, now),
                    None if planted::has(Planted::DropsUnwritten) => {}
                    None => self.unwritten = Some(work),
                }
                self.has_unwritten = self.unwritten.is_some();
            }
            Event::Due { result, changes } => {
                self.is_asking_due = false;
                if let Some(due) = self.checked(result, now) {
                    if let Some(changes) = changes {
                        self.window.floors.told(&due.undelivered, changes);
                    }
                    self.raise_floor();
                    let pause = due.next_in.unwrap_or(DUE_INTERVAL).clamp(POLL_MIN, DUE_INTERVAL);
                    self.due_at = if due.messages.is_empty() { now + pause } else { now };
                    self.window.add_due(due.messages, now);
                }
            }
            Event::Renewed { result, asked_at } => {
                self.is_renewing = false;
                if self.checked(result, now).is_some() {
                    self.lease_runs_from(asked_at);
                }
            }
        }
    }

    fn settled(&mut self, settled: Settled, work: &Work, took: Duration, now: Duration) {
        self.events.settled(took);
        self.evidence.entry = self.evidence.entry.max(settled.entry);
        self.window.confirmed(&work.settlement, work.messages);
        if let Some(position) = &work.settlement.position {
            self.window.floors.settled(position.seq(), settled.horizon);
        }
        self.window.unblock(settled.unblocked);
        let Settlement { park, repark, delivered, .. } = &work.settlement;
        delivered.iter().for_each(|&seq| self.window.floors.delivered(seq));
        if !(park.is_empty() && repark.is_empty() && delivered.is_empty()) {
            // Another parked message may be the first of its key now.
            self.due_at = now;
        }
    }

    fn lease_runs_from(&mut self, asked_at: Duration) {
        let lease = self.context.settings.lease;
        self.renew_at = asked_at + lease / 3;
        self.valid_until = asked_at + lease * 9 / 10;
    }

    /// The value of a successful store call; otherwise records the consequence of its failure.
    fn checked<T>(&mut self, result: Result<T, StoreError>, now: Duration) -> Option<T> {
        match result {
            Ok(value) => {
                self.store_failures = 0;
                self.store_failure = None;
                Some(value)
            }
            Err(error) if error.kind == StoreErrorKind::Fenced => {
                self.events.fenced();
                self.is_fenced = true;
                None
            }
            Err(error) if error.kind == StoreErrorKind::Rewound => {
                // Several calls may be in progress; the first `Rewound` is enough.
                if !self.is_rewound {
                    self.events.rewound(&error);
                }
                (self.is_fenced, self.is_rewound) = (true, true);
                None
            }
            Err(error) => {
                self.events.store_failed(&error);
                self.store_failures += 1;
                self.store_failure = Some(error.to_string());
                self.store_retry_at =
                    now + STORE_BACKOFF.delay(self.store_failures, &mut self.random);
                None
            }
        }
    }

    fn fetched(&mut self, batch: Batch, took: Duration, now: Duration) {
        self.events.fetched(batch.messages.len(), took);
        self.cursor = self.cursor.passed(batch.end, &batch.snapshot);
        self.evidence.witness = batch.witness.or(self.evidence.witness);
        self.is_caught_up = !batch.more;
        if batch.more {
            self.poll_pause = POLL_MIN;
            self.poll_at = now;
        } else {
            if !batch.messages.is_empty() {
                self.poll_pause = POLL_MIN;
            }
            self.poll_at = now + self.poll_pause.max(pause(took));
            self.poll_pause = (self.poll_pause * 2).min(self.context.settings.poll);
        }
        if planted::has(Planted::NotifyOnly) && !batch.more {
            self.poll_at = Duration::MAX;
        }
        // The store works on the next batch while this one enters the window.
        self.start_fetch(now, &batch.messages);
        self.raise_floor();
        self.window.add_batch(batch, now);
    }

    fn raise_floor(&mut self) {
        let store = &self.context.store;
        self.window.raise_floor(|horizon, snapshot| store.is_past(horizon, snapshot));
    }

    fn answered(&mut self, items: Vec<ItemId>, outcomes: Vec<Outcome>, now: Duration) {
        let was_probing = self.gate.is_probing();
        let mut judge = Judge {
            window: &mut self.window,
            gate: &mut self.gate,
            outage: &mut self.outage,
            policy: &self.route.retry,
            events: &self.events,
            random: &mut self.random,
            now,
        };
        judge.apply(items, outcomes);
        self.failed_probes = match self.gate.is_probing() {
            true => self.failed_probes + u32::from(was_probing),
            false => 0,
        };
        self.window.advance();
    }

    pub(crate) fn stops_when_caught_up(&self) -> bool {
        self.context.once || self.until.is_some()
    }

    /// Why serving ends now, if it does. Called after all calls that can start have started.
    fn ended(&mut self) -> Option<End> {
        if self.is_fenced {
            let end = match self.is_rewound {
                true => End::Rewound(Rewound { epoch: self.lease.epoch, log: self.log }),
                false => End::Fenced,
            };
            return (self.in_flight == 0).then_some(end);
        }
        let is_quiet = self.in_flight == 0 && !self.is_settling && self.unwritten.is_none();
        if let Some(deadline) = self.drain_until {
            let is_drained = is_quiet && self.window.settlement_is_empty();
            return (is_drained || self.now() >= deadline).then_some(End::Done);
        }
        if self.context.once && self.failed_probes >= ONCE_PROBES_MAX && self.in_flight == 0 {
            return self.gate.reason().cloned().map(End::Unreachable);
        }
        let is_unfinished = self.until.is_some() && planted::has(Planted::BarrierUnfinished);
        let is_waiting = self.is_fetching || self.is_asking_due || !self.is_caught_up;
        let is_waiting = is_waiting || !self.window.is_settled();
        if is_waiting && !is_unfinished || !is_quiet || !self.stops_when_caught_up() {
            return None;
        }
        match &self.until {
            Some(until) if !self.has_reached_barrier => {
                self.window.reach(until);
                self.has_reached_barrier = true;
                None
            }
            Some(_) => Some(End::Barrier),
            None => Some(End::Done),
        }
    }

    async fn finish(self, end: End) -> End {
        let Self { context, lease, events, route, in_flight, .. } = self;
        context.board.left(&route.spec.name, lease.shard.index);
        // With answers outstanding the relay keeps the lease until it expires: sent messages may
        // still arrive.
        if !matches!(end, End::Fenced | End::Rewound(_)) && in_flight == 0 {
            // If giving the lease back fails, the next holder waits for its expiry; nothing else
            // happens.
            if let Err(error) = context.store.release(&lease).await {
                events.store_failed(&error);
            }
        }
        events.ended(match end {
            End::Done => "done",
            End::Fenced => "fenced",
            End::Rewound(_) => "log went back in time",
            End::Barrier => "resharding",
            End::Unreachable(_) => "broker unreachable",
        });
        end
    }
}

/// The pause after a store call that took this long.
fn pause(took: Duration) -> Duration {
    (took * PAUSES_PER_CALL).min(PAUSE_MAX)
}
