//! The outbox on MySQL 8 (8.0.16 or later) and MariaDB 10.6 or later.
//!
//! Applications call [`enqueue`] with the connection of their open transaction, or ``INSERT INTO
//! posthaste_outbox (topic, `key`, payload)`` from any language: both are the same message. A relay
//! uses [`MySqlStore`] through the port [`Store`](posthaste_core::Store). [`migrate`] makes the tables.
//!
//! Ids are handed out before commit, and no row knows its transaction. So relays do not read the
//! table that applications write: a *sequencer* step, run by whoever reads, moves committed messages
//! to a log, one at a time. There the order of `seq` is the order of commits, and a position is a
//! plain seq. `docs/adr/0006-reading-mysql.md` has the argument.
//!
//! The engine that all SQL stores share (`posthaste-store-sql`) does what the ports ask for. This crate
//! is what it has to know of MySQL and MariaDB.
//!
//! | file | what it holds |
//! |---|---|
//! | `dialect.rs` | the engine's hooks |
//! | `value.rs` | parameters and rows, to the driver's and back |
//! | `connect.rs` | URLs, sessions, pools |
//! | `error.rs` | the driver's errors to ours |
//! | `sequence.rs` | writing the log, and reading what was written |
//! | `enqueue.rs`, `guarded.rs` | the application's own transaction |
//! | `migrate.rs`, `examine.rs` | the tables, doctor |
//! | `sql/*.sql` | every statement, with its purpose, concurrency and index |

mod connect;
mod dialect;
mod enqueue;
mod error;
mod examine;
mod guarded;
mod migrate;
mod sequence;
mod value;

use std::time::Duration;

use posthaste_store_sql::{SqlInbox, SqlStore};

pub use crate::{
    connect::check_url,
    dialect::{Lent, MySql},
    enqueue::enqueue,
    error::handler_error,
    guarded::{Guarded, begin},
    migrate::{MIGRATIONS, adopt, migrate, print_migrations},
};
pub use posthaste_store_sql::{Migration, Namespace};

/// An outbox in a MySQL or MariaDB database. Clones share the pool.
///
/// Its connections are its own even where it is made from a pool of the application's, because their
/// sessions need settings (strict, UTC, READ COMMITTED) that the application's may not have. To another
/// machine the connection is encrypted unless the URL names another `ssl-mode`; [`check_url`] tells which
/// URLs are refused.
pub type MySqlStore = SqlStore<MySql>;

/// The inbox in the transaction that a connection is in.
pub type Inbox<'c> = SqlInbox<'c, MySql>;

/// Time that a call may take, unless set otherwise: well below any sensible lease.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(10);

/// Connections of a store.
pub const CONNECTIONS_MAX: u32 = 6;
