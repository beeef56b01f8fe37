//! A relay inside your process.

use std::{sync::Arc, time::Duration};

use posthaste_core::{Broker, Invalid, RetryPolicy, RouteSpec, SHARDS_MAX, Store, TopicPattern};
pub use posthaste_relay::Error as RunError;
use posthaste_relay::{Handle, Route, Settings};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::IntoStore;

/// All problems of a relay or a consumer that cannot be built.
#[derive(Debug, thiserror::Error)]
#[error("the {what} cannot be built: {}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BuildError {
    pub(crate) what: &'static str,
    /// The problems.
    pub problems: Vec<Invalid>,
}

/// A relay, ready to run.
pub struct Relay {
    inner: posthaste_relay::Relay,
}

impl Relay {
    /// Starts building a relay on a pool or a store.
    pub fn builder(store: impl IntoStore) -> RelayBuilder {
        RelayBuilder {
            store: store.into_store(),
            routes: Vec::new(),
            problems: Vec::new(),
            settings: Settings::default(),
        }
    }

    /// Runs in a task until [`Running::shutdown`].
    #[must_use]
    pub fn spawn(self) -> Running {
        let stop = CancellationToken::new();
        let handle = self.inner.handle();
        let task = tokio::spawn(self.inner.run(stop.clone()));
        Running { stop, handle, task }
    }

    /// Runs until all messages committed so far are delivered or parked.
    ///
    /// # Errors
    /// When the store or a broker cannot be used, or another relay serves a route.
    pub async fn run_once(self) -> Result<(), RunError> {
        self.inner.run_once(CancellationToken::new()).await
    }
}

/// A running relay. Dropping this handle does not stop the relay.
pub struct Running {
    stop: CancellationToken,
    handle: Handle,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    /// A handle for waking the relay after a commit, and for reading its health.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops the relay: it stops fetching, waits for the messages in flight (at most
    /// [`Settings::drain`]) and gives its leases back.
    ///
    /// # Errors
    /// The error that ended the relay, if it ended before; a panic of its task is a panic here.
    pub async fn shutdown(self) -> Result<(), RunError> {
        self.stop.cancel();
        self.task.await.unwrap_or_else(|error: JoinError| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Ok(()),
        })
    }

    /// Ends the relay at once, as a crash would: its leases expire, and the next relay sends the
    /// messages in flight again.
    pub fn kill(self) {
        self.task.abort();
    }
}

/// Builds a [`Relay`].
pub struct RelayBuilder {
    store: Arc<dyn Store>,
    routes: Vec<Route>,
    problems: Vec<Invalid>,
    settings: Settings,
}

impl RelayBuilder {
    /// Adds a route: messages whose topic matches `topics` (`*` is any run of characters; commas
    /// separate several patterns) go to `broker`. The name identifies the route's progress in the
    /// database: do not change it.
    #[must_use]
    pub fn route(mut self, name: &str, topics: &str, broker: Arc<dyn Broker>) -> Self {
        if name.is_empty() || self.routes.iter().any(|route| route.spec.name == name) {
            self.problems.push(Invalid::new("route", name, "must be a unique name, not empty"));
        }
        let mut patterns = Vec::new();
        for pattern in topics.split(',').map(str::trim) {
            match pattern.parse::<TopicPattern>() {
                Ok(pattern) => patterns.push(pattern),
                Err(invalid) => self.problems.push(invalid),
            }
        }
        let spec = RouteSpec { name: name.to_owned(), topics: patterns, shards: 1 };
        self.routes.push(Route::new(spec, broker));
        self
    }

    fn last(mut self, what: &'static str, change: impl FnOnce(&mut Route)) -> Self {
        match self.routes.last_mut() {
            Some(route) => change(route),
            None => self.problems.push(Invalid::new(what, "", "must follow a route")),
        }
        self
    }

    /// Splits the last added route into `shards` shards, so that several relays can serve it; order
    /// then holds per key only.
    #[must_use]
    pub fn shards(mut self, shards: u16) -> Self {
        if shards == 0 || shards > SHARDS_MAX {
            let rule = format!("must be from 1 to {SHARDS_MAX}");
            self.problems.push(Invalid::new("shards", &shards.to_string(), &rule));
        }
        self.last("shards", |route| route.spec.shards = shards)
    }

    /// Sets the retry policy of the last added route: what happens to messages that the broker
    /// refuses.
    #[must_use]
    pub fn retry(self, retry: RetryPolicy) -> Self {
        self.last("retry", |route| route.retry = retry)
    }

    /// Sets the longest wait for the broker's answer, for the last added route.
    #[must_use]
    pub fn publish_timeout(self, timeout: Duration) -> Self {
        self.last("publish_timeout", |route| route.publish_timeout = timeout)
    }

    /// Sets the most unanswered messages per shard, for the last added route.
    #[must_use]
    pub fn in_flight(self, messages: usize) -> Self {
        self.last("in_flight", |route| route.in_flight_max = messages)
    }

    /// Changes settings from their defaults.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Builds the relay.
    ///
    /// # Errors
    /// All problems at once.
    pub fn build(mut self) -> Result<Relay, BuildError> {
        self.check();
        if !self.problems.is_empty() {
            return Err(BuildError { what: "relay", problems: self.problems });
        }
        Ok(Relay { inner: posthaste_relay::Relay::new(self.store, self.routes, self.settings) })
    }

    fn check(&mut self) {
        let Settings { poll, lease, batch, window_messages_max, .. } = self.settings;
        let mut problem = |field, value: String, rule: &str| {
            self.problems.push(Invalid::new(field, &value, rule));
        };
        if self.routes.is_empty() {
            problem("routes", String::new(), "must be at least one");
        }
        if poll.is_zero() {
            problem("poll", format!("{poll:?}"), "must be longer than zero");
        }
        if batch == 0 || window_messages_max == 0 {
            problem("batch", batch.to_string(), "and window_messages_max must be at least 1");
        }
        for route in &self.routes {
            if route.publish_timeout * 2 > lease || route.publish_timeout.is_zero() {
                let rule =
                    format!("must be longer than zero and at most half the lease ({lease:?})");
                problem("publish_timeout", format!("{:?}", route.publish_timeout), &rule);
            }
            if route.retry.attempts_max == 0 || route.in_flight_max == 0 {
                problem(
                    "attempts_max",
                    route.retry.attempts_max.to_string(),
                    "and in_flight must be at least 1",
                );
            }
        }
    }
}
