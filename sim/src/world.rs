//! Shared state of a schedule: randomness, time, the trace, and the truth about every message.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use posthaste_core::{Clock, MessageId, Seq};
use posthaste_history::History;
use tokio::time::Instant;
use uuid::Uuid;

use crate::{Fault, Planted, attempts::Attempts, leases::Leases, plan::Plan, process::Process};

/// The database's clock starts here, so that it can go back.
const CLOCK_START: Duration = Duration::from_secs(3600);

/// See the module documentation.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) planted: Option<Planted>,
    start: Instant,
    /// Held for moments, never across an await.
    state: Mutex<State>,
}

/// What changes.
pub(crate) struct State {
    pub(crate) random: fastrand::Rng,
    trace: Trace,
    /// How often each kind of trouble struck.
    pub(crate) faults: BTreeMap<Fault, u64>,
    /// Whether the faults are over.
    pub(crate) is_calm: bool,
    pub(crate) routes: Vec<RouteState>,
    pub(crate) leases: Leases,
    /// Whose seqs they are.
    pub(crate) seqs: HashMap<Seq, MessageId>,
    /// Whether the database has gone back in time: its logs have other names since.
    pub(crate) has_rewound: bool,
    /// Until when the store cannot be used.
    pub(crate) store_down_until: Duration,
    /// Added to the database's clock.
    clock_ahead: Duration,
    clock_behind: Duration,
    /// When the database's clock was last set ahead.
    stepped_ahead_at: Option<Duration>,
    processes: u32,
    messages: u64,
    /// Broken rules besides those that the histories report.
    problems: Vec<String>,
}

/// The truth about one route.
pub(crate) struct RouteState {
    pub(crate) history: History,
    pub(crate) attempts: Attempts,
    /// The number of shards that relays are told.
    pub(crate) shards: u16,
    pub(crate) down_until: Duration,
    /// Until when a session keeps its rows locked.
    pub(crate) locked_until: Duration,
}

/// What happened, in order: hashed, and printed if wanted.
struct Trace {
    hash: u64,
    is_printed: bool,
    line: String,
}

impl World {
    pub(crate) fn new(
        plan: Plan,
        planted: Option<Planted>,
        random: fastrand::Rng,
        is_printed: bool,
    ) -> Arc<Self> {
        let routes = plan.routes.iter().map(|route| RouteState {
            history: History::explaining(),
            attempts: Attempts::default(),
            shards: route.shards,
            down_until: Duration::ZERO,
            locked_until: Duration::ZERO,
        });
        let state = State {
            random,
            trace: Trace { hash: 0xcbf2_9ce4_8422_2325, is_printed, line: String::new() },
            faults: BTreeMap::new(),
            is_calm: false,
            routes: routes.collect(),
            leases: Leases::default(),
            seqs: HashMap::new(),
            has_rewound: false,
            store_down_until: Duration::ZERO,
            clock_ahead: Duration::ZERO,
            clock_behind: Duration::ZERO,
            stepped_ahead_at: None,
            processes: 0,
            messages: 0,
            problems: Vec::new(),
        };
        Arc::new(Self { plan, planted, start: Instant::now(), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state())
    }

    pub(crate) fn route<T>(&self, index: usize, act: impl FnOnce(&mut RouteState) -> T) -> T {
        act(&mut self.state().routes[index])
    }

    /// Whether the bug is planted.
    pub(crate) fn has(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    /// Virtual time since the schedule began.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// The database's clock.
    pub(crate) fn database_now(&self) -> Duration {
        let state = self.state();
        CLOCK_START + self.start.elapsed() + state.clock_ahead - state.clock_behind
    }

    pub(crate) fn step_clock(&self, fault: Fault, by: Duration) {
        let mut state = self.state();
        match fault {
            Fault::ClockBack => state.clock_behind += by,
            _ => {
                state.clock_ahead += by;
                state.stepped_ahead_at = Some(self.now());
            }
        }
    }

    /// Whether a relay may still take a lease for its own that the database's clock has ended.
    pub(crate) fn may_have_usurped(&self) -> bool {
        let stepped_at = self.state().stepped_ahead_at;
        stepped_at.is_some_and(|at| self.now() < at + self.plan.lease)
    }

    /// Notes what happened.
    pub(crate) fn trace(&self, what: fmt::Arguments<'_>) {
        let now = self.now();
        let trace = &mut self.state().trace;
        trace.line.clear();
        // Writing into a String cannot fail.
        let _ = write!(trace.line, "{:>9.3} {what}", now.as_secs_f64());
        for byte in trace.line.bytes() {
            trace.hash = (trace.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if trace.is_printed {
            println!("{}", trace.line);
        }
    }

    pub(crate) fn trace_hash(&self) -> u64 {
        self.state().trace.hash
    }

    /// Records a broken rule.
    pub(crate) fn problem(&self, what: String) {
        self.trace(format_args!("PROBLEM {what}"));
        self.state().problems.push(what);
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        self.state().problems.clone()
    }

    /// Whether this kind of fault strikes now.
    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        let mut state = self.state();
        let rate = self.plan.rate(fault);
        if rate == 0.0 || state.is_calm || state.random.f64() >= rate {
            return false;
        }
        *state.faults.entry(fault).or_default() += 1;
        true
    }

    /// Records that this kind of fault struck.
    pub(crate) fn struck(&self, fault: Fault) {
        *self.state().faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.state().is_calm
    }

    /// A whole number of milliseconds in the range.
    pub(crate) fn millis(&self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.state().random.u64(range))
    }

    pub(crate) fn below(&self, end: usize) -> usize {
        self.state().random.usize(..end)
    }

    pub(crate) fn coin(&self) -> bool {
        self.state().random.bool()
    }

    pub(crate) fn fork(&self) -> fastrand::Rng {
        self.state().random.fork()
    }

    pub(crate) fn process(&self, name: &str) -> Arc<Process> {
        let mut state = self.state();
        state.processes += 1;
        Arc::new(Process::new(state.processes, format!("{name}#{}", state.processes)))
    }

    /// The next message's id: the same in every run.
    pub(crate) fn next_id(&self) -> MessageId {
        let mut state = self.state();
        state.messages += 1;
        MessageId(Uuid::from_u128(u128::from(state.messages)))
    }

    pub(crate) fn is_down(&self, route: usize) -> bool {
        self.state().routes[route].down_until > self.now()
    }
}

/// How messages appear in traces.
pub(crate) fn short(id: MessageId) -> String {
    format!("m{}", id.0.as_u128() & 0xffff_ffff)
}

/// The database's clock, which may be moved.
pub(crate) struct DatabaseClock(pub(crate) Arc<World>);

#[async_trait]
impl Clock for DatabaseClock {
    fn elapsed(&self) -> Duration {
        self.0.database_now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// A process's own clock: it goes on while the process stands still.
pub(crate) struct ProcessClock {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
}

#[async_trait]
impl Clock for ProcessClock {
    fn elapsed(&self) -> Duration {
        self.world.now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
        self.process.step().await;
    }
}
