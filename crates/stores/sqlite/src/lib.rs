//! The outbox on SQLite: one file, no server.
//!
//! SQLite has one writer at a time. So the order of `seq` is the order of commits, a position is a
//! plain seq, and nothing can commit late. What it needs in return: write-ahead logging, so that
//! readers and the writer do not wait for each other; `synchronous = FULL`, so that what was sent had
//! been committed for good; and write transactions that take the lock when they begin
//! (`BEGIN IMMEDIATE`). [`connect_options`] sets all of it.
//!
//! `posthaste-store-sql` does the work; here is what it has to know of SQLite:
//!
//! | file | what it holds |
//! |---|---|
//! | `dialect.rs` | how statements, values and transactions reach SQLite |
//! | `connect.rs`, `file.rs` | opening the file, and noticing that another took its place |
//! | `error.rs` | the driver's errors to ours |
//! | `enqueue.rs`, `guarded.rs` | what applications call in their transactions |
//! | `examine.rs`, `migrate.rs` | doctor, and the tables |
//! | `sql/*.sql` | every statement, with its purpose, concurrency and index |

mod connect;
mod dialect;
mod enqueue;
mod error;
mod examine;
mod file;
mod guarded;
mod migrate;

use posthaste_core::StoreError;
use posthaste_store_sql::{SqlInbox, SqlStore};

pub use connect::{check_url, connect_options};
pub use dialect::Sqlite;
pub use enqueue::enqueue;
pub use guarded::{Guarded, begin};
pub use migrate::{MIGRATIONS, adopt, migrate, print_migrations};
pub use posthaste_store_sql::{Migration, Namespace};

/// An outbox in an SQLite file.
///
/// On a pool of the caller's, connections should have the settings of [`connect_options`];
/// [`Store::examine`](posthaste_core::Store::examine) tells whether they have. The deadline of calls should
/// exceed the connections' busy timeout, which says more about what went wrong.
pub type SqliteStore = SqlStore<Sqlite>;

/// The inbox in the transaction that a connection is in.
///
/// Begin that transaction with `pool.begin_with("BEGIN IMMEDIATE")`: it then waits for the one before
/// it, instead of failing because that one wrote.
pub type Inbox<'c> = SqlInbox<'c, Sqlite>;

/// What a driver's error in a handler means to its runner: kind `Unavailable` says nothing about the
/// message.
#[must_use]
pub fn handler_error(error: sqlx::Error) -> StoreError {
    error::store_error("handle", error)
}
