//! Settings of a relay and of its routes.

use std::{sync::Arc, time::Duration};

use posthaste_core::{Broker, Retention, RetryPolicy, RouteSpec};

/// A route with its broker and its settings.
#[derive(Clone)]
pub struct Route {
    /// Name, topics and shards, as registered in the store.
    pub spec: RouteSpec,
    /// The broker of the route.
    pub broker: Arc<dyn Broker>,
    /// What happens to refused messages.
    pub retry: RetryPolicy,
    /// Longest wait for the broker's answer; well below the lease.
    pub publish_timeout: Duration,
    /// Most unanswered messages at the broker, per shard.
    pub in_flight_max: usize,
}

impl Route {
    /// Default of the longest wait for the broker's answer.
    pub const PUBLISH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
    /// Default of the most unanswered messages per shard.
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

/// Settings of a relay that apply to all its routes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The relay's name for people; need not be unique.
    pub name: String,
    /// Longest pause between two fetches of an idle outbox.
    pub poll: Duration,
    /// How long a dead relay keeps its shards.
    pub lease: Duration,
    /// Rows that one fetch scans.
    pub batch: u32,
    /// Most messages in memory, per shard.
    pub window_messages_max: usize,
    /// Most payload bytes in memory, per shard; one larger message is still read.
    pub window_bytes_max: usize,
    /// Longest wait for the broker's answers at a stop.
    pub drain: Duration,
    /// How long finished messages stay in the store.
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
