//! Where shards post how they are doing, and monitors read it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How a route is doing in this relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteState {
    /// At least one shard is served here, and none is paused.
    Running,
    /// The broker cannot be used.
    Paused,
    /// Other relays serve it; this one takes over when they stop.
    Standby,
}

impl RouteState {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Standby => "standby",
        }
    }
}

/// One route's health.
#[derive(Clone, Debug)]
pub struct RouteHealth {
    /// Its name.
    pub name: String,
    /// How it is doing.
    pub state: RouteState,
    /// Why it is paused.
    pub reason: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// When the supervisor last came round, whether or not the store answered.
    ticked_at: Option<Duration>,
    /// Per route, per shard served: why it is paused, if it is.
    routes: BTreeMap<String, BTreeMap<u16, Option<String>>>,
    /// Why the store cannot be used, if it cannot.
    store_failure: Option<String>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// Held for moments, never across an await.
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

    pub(crate) fn shard(&self, route: &str, shard: u16, paused: Option<String>) {
        self.with(|state| {
            if let Some(shards) = state.routes.get_mut(route) {
                shards.insert(shard, paused);
            }
        });
    }

    pub(crate) fn left(&self, route: &str, shard: u16) {
        self.with(|state| state.routes.get_mut(route).map(|shards| shards.remove(&shard)));
    }

    pub(crate) fn ticked(&self, now: Duration, store_failure: Option<String>) {
        self.with(|state| {
            state.ticked_at = Some(now);
            state.store_failure = store_failure;
        });
    }

    /// When the supervisor last came round, and why the store cannot be used.
    pub(crate) fn tick(&self) -> (Option<Duration>, Option<String>) {
        self.with(|state| (state.ticked_at, state.store_failure.clone()))
    }

    pub(crate) fn routes(&self) -> Vec<RouteHealth> {
        self.with(|state| {
            state
                .routes
                .iter()
                .map(|(name, shards)| {
                    let reason = shards.values().flatten().next().cloned();
                    let state = match (&reason, shards.is_empty()) {
                        (Some(_), _) => RouteState::Paused,
                        (None, true) => RouteState::Standby,
                        (None, false) => RouteState::Running,
                    };
                    RouteHealth { name: name.clone(), state, reason }
                })
                .collect()
        })
    }
}
