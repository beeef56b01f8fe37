//! The outbox on PostgreSQL 13 or later: a log in schema `posthaste`, read by position and
//! snapshot.
//!
//! Applications call [`enqueue`] with the connection of their open transaction, or `SELECT
//! posthaste.enqueue(topic, key, payload)` from any language: both are the same message. A relay
//! uses [`PostgresStore`] through the port [`Store`](posthaste_core::Store). [`migrate`] makes the tables.
//!
//! The engine `posthaste-store-sql` does what all SQL stores have in common. This crate holds the rest:
//!
//! | file | what it holds |
//! |---|---|
//! | `dialect.rs` | what the engine asks of PostgreSQL: connections, transactions, statements |
//! | `value.rs` | parameters and rows between the engine and sqlx |
//! | `connect.rs` | URLs, and the sessions they lead to |
//! | `error.rs` | the driver's errors to ours |
//! | `enqueue.rs`, `guarded.rs` | the application's transactions |
//! | `fetch.rs`, `snapshot.rs` | reading a log that is not in the order of commits |
//! | `purge.rs` | removing messages from that log |
//! | `examine.rs` | whether the server can be used, and settings worth a look |
//! | `migrate.rs` | the tables, and taking over those of another server |
//! | `sql/*.sql` | every statement, with its purpose, concurrency and index |
//!
//! It works behind a pooler in transaction mode: no session state, no named statements, no
//! `LISTEN`.

mod connect;
mod dialect;
mod enqueue;
mod error;
mod examine;
mod fetch;
mod guarded;
mod migrate;
mod purge;
mod snapshot;
mod value;

use posthaste_store_sql::{SqlInbox, SqlStore};

pub use posthaste_store_sql::{Migration, Namespace};

pub use crate::{
    connect::{CONNECTIONS_MAX, check_url},
    dialect::{DEADLINE_DEFAULT, Lent, Postgres},
    enqueue::{enqueue, enqueue_in, enqueue_unnamed},
    error::handler_error,
    guarded::{Guarded, begin},
    migrate::{MIGRATIONS, adopt, migrate, print_migrations},
};

/// An outbox in a PostgreSQL database. Clones share the pool.
pub type PostgresStore = SqlStore<Postgres>;

/// The inbox in the transaction that a connection is in.
pub type Inbox<'c> = SqlInbox<'c, Postgres>;
