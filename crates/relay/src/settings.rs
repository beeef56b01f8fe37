//! What a relay is told to do.

use std::{sync::Arc, time::Duration};

use posthaste_core::{Broker, Retention, RetryPolicy, RouteSpec};

/// A route and how to serve it.
#[derive(Clone)]
pub struct Route {
    /// Name, topics and shards, as the store will know them.
    pub spec: RouteSpec,
    /// Where its messages go.
    pub broker: Arc<dyn Broker>,
    /// What happens to refused messages.
    pub retry: RetryPolicy,
    /// Longest wait for a broker's answer; well below the lease.
    pub publish_timeout: Duration,
    /// Most messages given to the broker and not answered yet, per shard.
    pub in_flight_max: usize,
}

impl Route {
    /// Longest wait for a broker's answer, unless told otherwise.
    pub const PUBLISH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
    /// Most unanswered messages per shard, unless told otherwise.
    pub const IN_FLIGHT_MAX_DEFAULT: usize = 1024;

    /// A route with default policies.
    #[must_use]
    pub fn new(spec: RouteSpec, broker: Arc<dyn Broker>) -> Self {
        Self {
            spec,
            broker,
            retry: RetryPolicy::default(),
            publish_timeout: Self::PUBLISH_TIMEOUT_DEFAULT,
            in_flight_max: Self::IN_FLIGHT_MAX_DEFAULT,
        }
    }
}

/// How a relay behaves, whatever its routes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What people call it; need not be unique.
    pub name: String,
    /// Longest pause between looks into an idle outbox.
    pub poll: Duration,
    /// How long a dead relay keeps its shards.
    pub lease: Duration,
    /// Rows looked at by one fetch.
    pub batch: u32,
    /// Most messages in memory, per shard.
    pub window_messages_max: usize,
    /// Most payload bytes in memory, per shard; one larger message is still read.
    pub window_bytes_max: usize,
    /// Longest wait for broker answers when stopping.
    pub drain: Duration,
    /// How long what is finished stays in the store.
    pub retention: Retention,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "relay".to_owned(),
            poll: Duration::from_millis(750),
            lease: Duration::from_secs(30),
            batch: 4000,
            window_messages_max: 8192,
            window_bytes_max: 16 * 1024 * 1024,
            drain: Duration::from_secs(20),
            retention: Retention {
                delivered: Duration::from_secs(24 * 3600),
                discarded: Duration::from_secs(7 * 24 * 3600),
            },
        }
    }
}
