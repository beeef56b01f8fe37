//! The health of the relay: shards write their state here, and monitors read it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use posthaste_core::Pause;

/// The state of a route in this relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteState {
    /// At least one shard is served here, and none is paused.
    Running,
    /// The broker cannot be used.
    Paused,
    /// A store call for the route fails, for example because a session keeps one of its rows
    /// locked. Other routes go on; this route goes on when the call succeeds.
    Stuck,
    /// Other relays serve the route; this relay takes over when they stop.
    Standby,
}

impl RouteState {
    /// The name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stuck => "stuck",
            Self::Standby => "standby",
        }
    }
}

/// One route's health.
#[derive(Clone, Debug)]
pub struct RouteHealth {
    /// Its name.
    pub name: String,
    /// The state of the route.
    pub state: RouteState,
    /// Why the route is paused or stuck.
    pub reason: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// When the supervisor's loop last ran, whether or not the store answered.
    ticked_at: Option<Duration>,
    routes: BTreeMap<String, RouteBoard>,
    /// Why the store cannot be used, if it cannot.
    store_failure: Option<String>,
}

/// The state of one route.
#[derive(Debug, Default)]
struct RouteBoard {
    /// Whether the store knows the route.
    is_registered: bool,
    /// Why the supervisor's last store call for the route failed, if it did.
    stuck: Option<String>,
    /// The shards served here.
    shards: BTreeMap<u16, ShardBoard>,
}

/// Why a shard does not make progress, if it does not.
#[derive(Debug, Default)]
pub(crate) struct HeldUp {
    /// Why the broker cannot be used.
    pub(crate) paused: Option<String>,
    /// Why the last store call failed.
    pub(crate) stuck: Option<String>,
}

/// The state of one shard.
#[derive(Debug, Default)]
struct ShardBoard {
    paused: Option<Paused>,
    stuck: Option<String>,
}

/// The pause of a shard whose broker cannot be used.
#[derive(Debug)]
struct Paused {
    /// The latest reason.
    reason: String,
    /// When the present pause was first reported.
    since: Duration,
}

impl RouteBoard {
    fn health(&self, name: &str) -> RouteHealth {
        let paused = self.shards.values().find_map(|shard| shard.paused.as_ref());
        let paused = paused.map(|paused| &paused.reason);
        let stuck = self.shards.values().find_map(|shard| shard.stuck.as_ref());
        let stuck = stuck.or(self.stuck.as_ref());
        let state = match (paused, stuck, self.shards.is_empty()) {
            (Some(_), _, _) => RouteState::Paused,
            (None, Some(_), _) => RouteState::Stuck,
            (None, None, true) => RouteState::Standby,
            (None, None, false) => RouteState::Running,
        };
        RouteHealth { name: name.to_owned(), state, reason: paused.or(stuck).cloned() }
    }
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// The lock is held only for short moments, never across an await.
    state: Mutex<State>,
}

impl Board {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn route(&self, name: &str) {
        self.with(|state| {
            state.routes.entry(name.to_owned()).or_default();
        });
    }

    fn with_route(&self, name: &str, act: impl FnOnce(&mut RouteBoard)) {
        self.with(|state| state.routes.get_mut(name).map(act));
    }

    /// Records that the route is registered in the store.
    pub(crate) fn registered(&self, name: &str) {
        self.with_route(name, |route| route.is_registered = true);
    }

    /// Whether every route is registered in the store.
    pub(crate) fn is_complete(&self) -> bool {
        self.with(|state| state.routes.values().all(|route| route.is_registered))
    }

    /// Records why store calls for a route fail; `None` if they succeed.
    pub(crate) fn stuck(&self, name: &str, why: Option<String>) {
        self.with_route(name, |route| route.stuck = why);
    }

    /// Records the present state of a shard.
    pub(crate) fn shard(&self, route: &str, shard: u16, held_up: HeldUp, now: Duration) {
        self.with_route(route, |route| {
            let known = route.shards.entry(shard).or_default();
            let since = known.paused.as_ref().map_or(now, |paused| paused.since);
            let paused = held_up.paused.map(|reason| Paused { reason, since });
            *known = ShardBoard { paused, stuck: held_up.stuck };
        });
    }

    /// Every route with a paused shard, with the longest pause of its shards.
    pub(crate) fn pauses(&self, now: Duration) -> Vec<Pause> {
        self.with(|state| {
            let routes = state.routes.iter().filter_map(|(name, route)| {
                let paused = route.shards.values().filter_map(|shard| shard.paused.as_ref());
                let paused = paused.min_by_key(|paused| paused.since)?;
                Some(Pause::new(name, &paused.reason, now.saturating_sub(paused.since)))
            });
            routes.collect()
        })
    }

    pub(crate) fn left(&self, route: &str, shard: u16) {
        self.with_route(route, |route| drop(route.shards.remove(&shard)));
    }

    pub(crate) fn ticked(&self, now: Duration, store_failure: Option<String>) {
        self.with(|state| {
            state.ticked_at = Some(now);
            state.store_failure = store_failure;
        });
    }

    /// When the supervisor's loop last ran, and why the store cannot be used.
    pub(crate) fn tick(&self) -> (Option<Duration>, Option<String>) {
        self.with(|state| (state.ticked_at, state.store_failure.clone()))
    }

    pub(crate) fn routes(&self) -> Vec<RouteHealth> {
        self.with(|state| state.routes.iter().map(|(name, route)| route.health(name)).collect())
    }
}
