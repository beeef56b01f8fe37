//! Posthaste is a transactional outbox: write your rows and your messages in one database
//! transaction, and Posthaste delivers every committed message to the broker, in order per key. It
//! never sends a message that was rolled back.
//!
//! - [`Outbox::enqueue`] writes messages on the connection of your open transaction.
//! - [`Relay`] delivers them to a broker, in your process or by the `posthaste relay` program.
//! - [`Consumer`] runs your handlers for the messages of a broker.
//! - [`Inbox`] makes the effects of a message happen once, however often the message comes;
//!   `Consumer` uses it.
//! - [`testing`] lets your tests read the enqueued messages and the messages that a relay would
//!   send.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # #[cfg(feature = "sqlite")] {
//! use posthaste::{Message, Relay, sqlite::Outbox};
//!
//! let pool = posthaste::sqlite::connect("sqlite:shop.db").await?;
//! posthaste::migrate(&pool).await?;
//!
//! let mut tx = pool.begin().await?;
//! // ... your own INSERTs and UPDATEs on `tx`, then:
//! Outbox::new().enqueue(&mut tx, Message::new("orders", 42, "placed")?).await?;
//! tx.commit().await?;
//!
//! Relay::builder(pool).route("all", "*", posthaste::stdout()).build()?.run_once().await?;
//! # }
//! # Ok(()) }
//! ```
//!
//! Each database is a feature: `postgres`, `mysql`, `sqlite`. Each broker is a feature: `rabbitmq`,
//! `kafka`, `nats`, `redis`, `mqtt`, `http`, `tcp`. The feature `testing` adds the helpers for
//! tests.

mod consumer;
mod database;
mod describe;
mod event;
mod inbox;
mod outbox;
mod relay;
#[cfg(feature = "testing")]
pub mod testing;

use std::sync::Arc;

pub use consumer::{
    Consumer, ConsumerBuilder, ConsumerError, HandlerError, HandlerFuture, RunningConsumer,
};
pub use database::{Database, IntoStore, migrate};
pub use describe::describe_metrics;
pub use event::{Event, IntoMessage};
pub use inbox::{Begun, HandleError, Handled, Inbox, InboxError, Input, Open};
pub use outbox::{Outbox, Transaction};
pub use posthaste_core::{
    Backoff, Broker, BrokerError, InboxStore, Incoming, Invalid, Message, MessageId, OnDead,
    Provenance, Retention, RetryPolicy, Sharing, Start, Store, StoreError, StoreErrorKind,
    Subscriber, Subscription, TopicPattern,
};
pub use posthaste_relay::{Handle, Health, Settings};
pub use relay::{BuildError, Relay, RelayBuilder, RunError, Running};

/// PostgreSQL.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use posthaste_store_postgres::{PostgresStore, enqueue_unnamed, migrate};

    /// An outbox on PostgreSQL.
    pub type Outbox = crate::Outbox<sqlx::Postgres>;

    /// An inbox on PostgreSQL.
    pub type Inbox = crate::Inbox<sqlx::Postgres>;
}

/// MySQL and MariaDB.
#[cfg(feature = "mysql")]
pub mod mysql {
    pub use posthaste_store_mysql::{MySqlStore, migrate};

    /// An outbox on MySQL or MariaDB.
    pub type Outbox = crate::Outbox<sqlx::MySql>;

    /// An inbox on MySQL or MariaDB.
    pub type Inbox = crate::Inbox<sqlx::MySql>;
}

/// SQLite.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use posthaste_store_sqlite::{SqliteStore, connect_options, migrate};

    /// An outbox on SQLite.
    pub type Outbox = crate::Outbox<sqlx::Sqlite>;

    /// An inbox on SQLite.
    pub type Inbox = crate::Inbox<sqlx::Sqlite>;

    /// Opens (and creates) a database file with the settings that an outbox needs: write-ahead log,
    /// `synchronous=FULL`, a busy timeout.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub async fn connect(url: &str) -> Result<sqlx::SqlitePool, crate::StoreError> {
        Ok(SqliteStore::connect(url).await?.pool().clone())
    }
}

/// Webhooks.
#[cfg(feature = "http")]
pub use posthaste_broker_http as http;
/// Apache Kafka.
#[cfg(feature = "kafka")]
pub use posthaste_broker_kafka as kafka;
/// MQTT 5.
#[cfg(feature = "mqtt")]
pub use posthaste_broker_mqtt as mqtt;
/// NATS JetStream.
#[cfg(feature = "nats")]
pub use posthaste_broker_nats as nats;
/// RabbitMQ.
#[cfg(feature = "rabbitmq")]
pub use posthaste_broker_rabbitmq as rabbitmq;
/// Redis streams.
#[cfg(feature = "redis")]
pub use posthaste_broker_redis as redis;
/// Straight to a consumer over TCP.
#[cfg(feature = "tcp")]
pub use posthaste_broker_tcp as tcp;
/// The wire form of messages on a broker: the field `wire` of every broker's `Config`.
pub use posthaste_wire::{Destination, Profile, Wire};

/// A broker that writes one JSON object per line to standard output.
#[must_use]
pub fn stdout() -> Arc<dyn Broker> {
    Arc::new(posthaste_broker_stdout::StdoutBroker::new())
}
