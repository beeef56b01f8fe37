//! The supervisor's state of one route: the shards that are served here, and the next store call
//! for the route. Every route has its own turn and at most one store call in progress, so a call
//! that hangs on a locked row delays its own route and no other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use posthaste_core::{Grant, Layout, Rewound, StoreError};
use tokio_util::sync::CancellationToken;

use crate::{Route, board::Board, events};

/// Failed calls in a row after which the route pauses before it claims the next shard.
const FAILURES_IN_A_ROW_MAX: u32 = 4;

/// A store call for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Register the route.
    Register,
    /// Read the layout of shards, and complete a resize.
    Layout,
    /// Acquire a shard.
    Acquire(u16),
}

/// The result of a store call for a route.
pub(crate) enum Answer {
    Registered(Result<Layout, StoreError>),
    Layout(Result<Layout, StoreError>),
    Acquired {
        shard: u16,
        asked_at: Duration,
        /// The rewind that the claim reported to the store.
        rewound: Option<Rewound>,
        result: Result<Option<Box<Grant>>, StoreError>,
    },
}

/// See the module documentation.
pub(crate) struct Slot {
    pub(crate) route: Arc<Route>,
    /// The layout that the store last returned; `None` until the route is registered.
    pub(crate) layout: Option<Layout>,
    /// Shards served here, with the tokens that stop them.
    pub(crate) held: BTreeMap<u16, CancellationToken>,
    /// Shards that are not acquired again: done (running once), or waiting for a resize.
    pub(crate) over: BTreeSet<u16>,
    /// Shards whose task panicked, and until when no relay can serve them, because their leases
    /// have to expire.
    pub(crate) panicked: BTreeMap<u16, Duration>,
    /// Set by a shard whose log went back in time, until the store has been told.
    pub(crate) rewound: Option<Rewound>,
    /// Number of relays that serve the route, from the last heartbeat; `None` before the first.
    pub(crate) relays: Option<usize>,
    /// Counts layouts: the end of a task of an earlier layout is ignored.
    pub(crate) generation: u64,
    /// Whether a store call for the route is in progress.
    pub(crate) is_asking: bool,
    /// When the next call may start.
    pub(crate) ask_at: Duration,
    /// When to read the layout next.
    pub(crate) layout_at: Duration,
    /// Whether every shard has been tried since the last change.
    pub(crate) has_looked: bool,
    /// Why the last call failed; `None` after a successful call.
    pub(crate) failure: Option<StoreError>,
    /// Failed calls in a row.
    pub(crate) failures: u32,
    /// The shard to try next.
    shard_next: u16,
}

impl Slot {
    pub(crate) fn new(route: Arc<Route>, relays: Option<usize>) -> Self {
        Self {
            route,
            layout: None,
            held: BTreeMap::new(),
            over: BTreeSet::new(),
            panicked: BTreeMap::new(),
            rewound: None,
            relays,
            generation: 0,
            is_asking: false,
            ask_at: Duration::ZERO,
            layout_at: Duration::ZERO,
            has_looked: false,
            failure: None,
            failures: 0,
            shard_next: 0,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.route.spec.name
    }

    /// This relay's fair share: the most shards to hold.
    fn share(&self, layout: Layout) -> usize {
        self.relays.map_or(1, |relays| usize::from(layout.shards).div_ceil(relays.max(1))).max(1)
    }

    /// The call to make now, if any. A round tries every shard that is not served here, as long as
    /// the fair share is not reached; the next round begins `pause` after it.
    pub(crate) fn next(&mut self, now: Duration, pause: Duration, board: &Board) -> Option<Ask> {
        if self.is_asking || now < self.ask_at {
            return None;
        }
        let Some(layout) = self.layout else {
            return Some(Ask::Register);
        };
        if now >= self.layout_at {
            return Some(Ask::Layout);
        }
        if self.shard_next == 0 {
            self.forget_panics(now, board);
            self.give_back_surplus(layout);
        }
        while self.shard_next < layout.shards && self.held.len() < self.share(layout) {
            let shard = self.shard_next;
            self.shard_next += 1;
            if !self.held.contains_key(&shard) && !self.over.contains(&shard) {
                return Some(Ask::Acquire(shard));
            }
        }
        events::leases(self.name(), self.held.len());
        self.shard_next = 0;
        self.has_looked = true;
        self.ask_at = now + pause;
        None
    }

    /// Begins another round at once.
    pub(crate) fn look_again(&mut self) {
        self.ask_at = Duration::ZERO;
        self.has_looked = false;
        self.shard_next = 0;
    }

    /// Removes panicked shards whose leases have expired: the relay that serves them now reports
    /// their state.
    fn forget_panics(&mut self, now: Duration, board: &Board) {
        let Self { route, panicked, held, .. } = self;
        panicked.retain(|&shard, &mut until| {
            let is_past = now >= until;
            if is_past && !held.contains_key(&shard) {
                board.left(&route.spec.name, shard);
            }
            !is_past
        });
    }

    fn give_back_surplus(&self, layout: Layout) {
        let surplus = self.held.len().saturating_sub(self.share(layout));
        for stop in self.held.values().take(surplus) {
            stop.cancel();
        }
    }

    /// Adopts a layout and returns whether it is another one. If so, the relay gives back the
    /// shards served here and acquires them again; during a resize the new grant has the position
    /// at which the shard must end.
    pub(crate) fn follow(&mut self, layout: Layout) -> bool {
        let Some(before) = self.layout.replace(layout).filter(|before| *before != layout) else {
            return false;
        };
        if layout.shards != before.shards {
            events::resharded(self.name(), layout.shards);
        }
        self.generation += 1;
        self.over.clear();
        for stop in std::mem::take(&mut self.held).values() {
            stop.cancel();
        }
        self.look_again();
        true
    }

    /// Records a successful call.
    pub(crate) fn worked(&mut self, board: &Board) {
        self.failures = 0;
        if self.failure.take().is_some() {
            board.stuck(self.name(), None);
            events::unstuck(self.name());
        }
    }

    /// Records a failed call, which is repeated in the next round. Logs only a new kind of failure.
    pub(crate) fn failed(
        &mut self,
        error: StoreError,
        now: Duration,
        pause: Duration,
        board: &Board,
    ) {
        self.failures += 1;
        if self.failures.is_multiple_of(FAILURES_IN_A_ROW_MAX) {
            self.ask_at = now + pause;
        }
        events::route_call_failed(&error);
        let text = error.to_string();
        if self.failure.as_ref().is_none_or(|known| known.to_string() != text) {
            events::stuck(self.name(), &error);
            board.stuck(self.name(), Some(text));
        }
        self.failure = Some(error);
    }
}
