//! Helpers for users' tests: the enqueued messages, and the messages that a relay would send.
//!
//! ```ignore
//! place_order(&pool, 42).await?;
//! posthaste::assert_enqueued!(&pool, "orders", "42");
//! let sent = posthaste::testing::drain(pool.clone()).await?;
//! ```

use std::sync::Arc;

pub use posthaste_broker_memory::{MemoryBroker, MemorySubscriber, Script};
use posthaste_core::{Fetch, Message, Position, RouteSpec, Shard, StoreError};
pub use posthaste_store_memory::MemoryStore;

use crate::{IntoStore, Relay, RunError};

/// The route of these helpers, in the test's own database.
const ROUTE: &str = "posthaste-testing";

/// An empty outbox in memory, on the runtime's clock: for tests without a database.
#[must_use]
pub fn memory_store() -> MemoryStore {
    MemoryStore::new(Arc::new(posthaste_relay::TokioClock::new()))
}

/// Every committed message still in the outbox, delivered or not, in the order of the log.
///
/// # Errors
/// When the database cannot be read.
pub async fn enqueued(store: impl IntoStore) -> Result<Vec<Message>, StoreError> {
    let store = store.into_store();
    let topics = vec!["*".parse().expect("a pattern")];
    store.register(&RouteSpec { name: ROUTE.to_owned(), topics, shards: 1 }).await?;
    let mut messages = Vec::new();
    let mut after = Position::default();
    loop {
        let fetch = Fetch {
            route: ROUTE.to_owned(),
            shard: Shard::WHOLE,
            after: after.clone(),
            until: None,
            rows_max: 1000,
            bytes_max: 64 << 20,
            epoch: None,
            evidence: None,
        };
        let batch = store.fetch(&fetch).await?;
        after = after.passed(batch.end, &batch.snapshot);
        messages.extend(batch.messages.into_iter().map(|fetched| fetched.message));
        if !batch.more {
            return Ok(messages);
        }
    }
}

/// Runs a relay until it is idle and returns the messages that it sent, in order: all messages
/// committed since the last call.
///
/// # Errors
/// When the database cannot be served.
pub async fn drain(store: impl IntoStore) -> Result<Vec<Message>, RunError> {
    let broker = MemoryBroker::new();
    let relay = Relay::builder(store).route(ROUTE, "*", Arc::new(broker.clone())).build();
    relay.expect("a route and default settings are enough").run_once().await?;
    Ok(broker.received())
}

/// Returns an enqueued message of the topic (and of the key, if one is given).
///
/// # Panics
/// When no such message is enqueued; the panic lists the enqueued messages.
pub async fn expect_enqueued(store: impl IntoStore, topic: &str, key: Option<&str>) -> Message {
    let messages = enqueued(store).await.unwrap_or_else(|error| panic!("{error}"));
    let matches = |message: &&Message| {
        message.topic == topic && (key.is_none() || message.key.as_deref() == key)
    };
    if let Some(found) = messages.iter().find(matches) {
        return found.clone();
    }
    let found: Vec<String> = messages
        .iter()
        .map(|message| {
            format!("  {} key={:?} type={:?}", message.topic, message.key, message.event_type)
        })
        .collect();
    panic!(
        "expected a message of topic {topic:?}{} in the outbox\nfound {}:\n{}\nhint: is the transaction committed?",
        key.map(|key| format!(" and key {key:?}")).unwrap_or_default(),
        found.len(),
        found.join("\n"),
    );
}

/// Asserts that a message of the topic (and key) is enqueued and returns it.
/// `assert_enqueued!(pool, "orders")` or `assert_enqueued!(pool, "orders", "42")`.
#[macro_export]
macro_rules! assert_enqueued {
    ($store:expr, $topic:expr) => {
        $crate::testing::expect_enqueued($store, $topic, None).await
    };
    ($store:expr, $topic:expr, $key:expr) => {
        $crate::testing::expect_enqueued($store, $topic, Some($key)).await
    };
}
