//! How every call of the store runs: one explicit transaction, unnamed statements, a deadline, in a
//! task that no dropped caller can cancel.
//!
//! - Explicit `READ COMMITTED`, whatever the server's default is.
//! - Unnamed statements and no session state, so a pooler in transaction mode may sit in between.
//! - sqlx leaves a pooled connection inside a transaction when a `begin` is cancelled. Here nothing
//!   is: the work runs in a task of its own, and a connection that misses the deadline is closed, not
//!   given back, because its answer may still arrive.

use std::{future::Future, pin::Pin, time::Duration};

use posthaste_core::StoreError;
use sqlx::{
    AssertSqlSafe, Connection, PgConnection, PgPool, Postgres,
    postgres::PgArguments,
    query::{Query, QueryScalar},
};
use tokio::time::{Instant, timeout_at};

use crate::error::Fault;

/// Starts a transaction. On a big table the estimates for late rows are high enough to have the
/// server compile each fetch to machine code, which takes longer than running it. A relay that is
/// frozen, or gone from the network, between a statement and its commit would keep its locks, and
/// with them its shards, for as long as its connection stays: hence the timeout.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL jit = off; \
    SET LOCAL idle_in_transaction_session_timeout = '5s'";

/// How long a transaction waits for the locks that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A call of the port: a fifth of this, the usual deadline. A row that somebody keeps locked costs
    /// the one call that needs it this long, and the pool a connection for no longer.
    Call(Duration),
    /// Changing the tables: as long as it takes.
    Endless,
}

impl Patience {
    fn begin(self) -> String {
        match self {
            Self::Call(deadline) => {
                format!("{BEGIN}; SET LOCAL lock_timeout = {}", (deadline / 5).as_millis())
            }
            Self::Endless => BEGIN.to_owned(),
        }
    }
}

/// What a call does with its connection.
pub(crate) type Work<'c, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'c>>;

/// A statement that leaves nothing behind in the session.
pub(crate) fn query(sql: &'static str) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(sql).persistent(false)
}

/// Likewise, for a statement that returns one column.
pub(crate) fn scalar<T>(sql: &'static str) -> QueryScalar<'static, Postgres, T, PgArguments>
where
    (T,): for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>,
{
    sqlx::query_scalar(sql).persistent(false)
}

/// Runs `work` in a transaction and commits it, or rolls back what failed.
pub(crate) async fn run<T, F>(
    pool: &PgPool,
    operation: &'static str,
    deadline: Duration,
    patience: Patience,
    work: F,
) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut PgConnection) -> Work<'c, T> + Send + 'static,
{
    let pool = pool.clone();
    let begin = patience.begin();
    let task = tokio::spawn(async move {
        let end = Instant::now() + deadline;
        let late = || Fault::TimedOut(deadline);
        let mut connection = timeout_at(end, pool.acquire()).await.map_err(|_| late())??;
        match timeout_at(end, attempt(&mut connection, begin, work)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                drop(connection.detach());
                Err(late())
            }
        }
    });
    match task.await {
        Ok(outcome) => outcome.map_err(|fault| fault.of(operation)),
        Err(panic) => {
            let told = Fault::internal("the call ended early; this is a bug of the store");
            Err(told.of(operation).with_source(panic))
        }
    }
}

async fn attempt<T, F>(connection: &mut PgConnection, begin: String, work: F) -> Result<T, Fault>
where
    F: for<'c> FnOnce(&'c mut PgConnection) -> Work<'c, T> + Send,
{
    // Not user input: its only variable part is a number.
    let mut transaction = connection.begin_with(AssertSqlSafe(begin)).await?;
    match work(&mut transaction).await {
        Ok(value) => {
            transaction.commit().await?;
            Ok(value)
        }
        Err(fault) => {
            // What failed matters; a connection that cannot roll back is found out by the pool.
            let _ = transaction.rollback().await;
            Err(fault)
        }
    }
}
