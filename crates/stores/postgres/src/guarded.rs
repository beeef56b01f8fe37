//! A transaction whose commit fails if PostgreSQL rolled it back before.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use posthaste_core::StoreError;
use posthaste_store_sql::Fault;
use sqlx::{PgConnection, PgPool, Postgres, Transaction};

use crate::error::store_error;

/// SQLSTATEs of `commit.sql` where the transaction is aborted, or another than the one that began.
const NOT_COMMITTED: [&str; 3] = ["25P02", "22P02", "42704"];

/// An open transaction. Dropping it rolls back.
///
/// A statement that fails aborts a transaction of PostgreSQL, and COMMIT then rolls back and
/// reports success. [`Guarded::commit`] reports that as an error. A statement that failed in a
/// savepoint that was rolled back does no harm.
pub struct Guarded(Transaction<'static, Postgres>);

/// Begins a transaction, in a task of its own: a `begin` of sqlx that is cancelled leaves the
/// connection inside a transaction, and the pool is the application's.
///
/// # Errors
/// When there is no connection to be had.
pub async fn begin(pool: &PgPool) -> Result<Guarded, StoreError> {
    let pool = pool.clone();
    let begin = async move { pool.begin_with(include_str!("../sql/begin.sql")).await };
    match tokio::spawn(begin).await {
        Ok(begun) => begun.map(Guarded).map_err(|error| store_error("begin", error)),
        Err(ended) => Err(Fault::internal(ended).of("begin")),
    }
}

impl Guarded {
    /// Commits.
    ///
    /// # Errors
    /// Kind `NotCommitted` where the transaction is aborted or no longer there; nothing of
    /// it is kept. Kind `Unavailable` where it is not known whether it was committed.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        let commit = sqlx::raw_sql(include_str!("../sql/commit.sql"));
        // Dropping the driver's transaction then ends the empty one that commit.sql began: its
        // ROLLBACK goes out with the message that tests the connection for its pool.
        let Err(error) = commit.execute(&mut *self.0).await else { return Ok(()) };
        let code = error.as_database_error().and_then(|error| error.code());
        let is_gone = code.is_some_and(|code| NOT_COMMITTED.contains(&code.as_ref()));
        self.rollback().await;
        Err(if is_gone {
            StoreError::not_committed("commit").with_source(error.to_string())
        } else {
            store_error("commit", error)
        })
    }

    /// Rolls back. What matters has failed before; the pool closes a connection that cannot.
    pub async fn rollback(self) {
        let _ = self.0.rollback().await;
    }
}

impl Deref for Guarded {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.0
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.0
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}
