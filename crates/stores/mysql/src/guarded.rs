//! A transaction whose commit fails if the server rolled it back before.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use posthaste_core::StoreError;
use posthaste_store_sql::Fault;
use sqlx::{MySql, MySqlConnection, MySqlPool, Transaction};

use crate::error::{is_savepoint_missing, store_error};

/// An open transaction. Dropping it rolls back.
///
/// InnoDB answers a deadlock (1213), and with `innodb_rollback_on_timeout` a lock that cannot be
/// had (1205), by rolling the whole transaction back; the driver does not notice. Statements that
/// follow are not kept by themselves, because autocommit is off until this ends, and
/// [`Guarded::commit`] reports an error instead of committing them. Statements that commit
/// implicitly, above all DDL, end the transaction as well: do not run them in it.
pub struct Guarded {
    /// `None` once it has ended. The driver counts it until it is dropped: its ROLLBACK then does
    /// nothing, and goes out with the message that tests the connection for its pool.
    transaction: Option<Transaction<'static, MySql>>,
}

/// Begins a transaction, in a task of its own: a `begin` of sqlx that is cancelled leaves the
/// connection inside a transaction, and the pool is the application's.
///
/// # Errors
/// When there is no connection to be had.
pub async fn begin(pool: &MySqlPool) -> Result<Guarded, StoreError> {
    let pool = pool.clone();
    // Guarded in there: dropped by a caller that is gone, it still gives autocommit back.
    let begin = async move {
        let begun = pool.begin_with(include_str!("../sql/begin.sql")).await;
        begun.map(|transaction| Guarded { transaction: Some(transaction) })
    };
    match tokio::spawn(begin).await {
        Ok(begun) => begun.map_err(|error| store_error("begin", error)),
        Err(ended) => Err(Fault::internal(ended).of("begin")),
    }
}

impl Guarded {
    /// Commits.
    ///
    /// # Errors
    /// Kind `NotCommitted` where the transaction is no longer there; nothing of it is kept. Kind
    /// `Unavailable` where it is not known whether it was committed.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        let commit = sqlx::raw_sql(include_str!("../sql/commit.sql"));
        let Err(error) = commit.execute(&mut *self).await else {
            self.transaction = None;
            return Ok(());
        };
        self.rollback().await;
        Err(if is_savepoint_missing(&error) {
            StoreError::not_committed("commit").with_source(error.to_string())
        } else {
            store_error("commit", error)
        })
    }

    /// Rolls back.
    pub async fn rollback(mut self) {
        if let Some(transaction) = self.transaction.take() {
            rollback(transaction).await;
        }
    }
}

async fn rollback(mut transaction: Transaction<'static, MySql>) {
    let rollback = sqlx::raw_sql(include_str!("../sql/rollback.sql"));
    // What matters has failed before; the pool closes a connection that cannot roll back.
    let _ = rollback.execute(&mut *transaction).await;
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            tokio::spawn(rollback(transaction));
        }
    }
}

impl Deref for Guarded {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        self.transaction.as_ref().expect("taken only by what consumes the guard")
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        self.transaction.as_mut().expect("taken only by what consumes the guard")
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}
