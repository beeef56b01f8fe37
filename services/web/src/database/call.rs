//! How a call of a service runs on PostgreSQL: with a time limit, in a task that no request that was given up
//! can cancel.
//!
//! - sqlx leaves a pooled connection inside a transaction when its `begin` is cancelled; what the next
//!   request commits there is lost. So nothing is cancelled: a client that goes leaves the work to its end.
//! - A connection that misses the limit is closed, not given back: its answer may still arrive, and the
//!   pool would wait for it.

use std::{panic::resume_unwind, time::Duration};

use futures::future::BoxFuture;
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::{Instant, timeout_at};

use super::late;

/// What a call does with its connection.
pub type Work<'c, T, E> = BoxFuture<'c, Result<T, E>>;

/// Runs `work` on a connection of the pool.
///
/// # Errors
/// What `work` says, or that there was no connection, or no answer, in time; then it is open whether it
/// was done.
///
/// # Panics
/// When `work` does.
pub async fn call<T, E, F>(pool: &PgPool, limit: Duration, work: F) -> Result<T, E>
where
    T: Send + 'static,
    E: From<sqlx::Error> + Send + 'static,
    F: for<'c> FnOnce(&'c mut PgConnection) -> Work<'c, T, E> + Send + 'static,
{
    let pool = pool.clone();
    let task = tokio::spawn(async move {
        let end = Instant::now() + limit;
        let mut connection = timeout_at(end, pool.acquire()).await.map_err(|_| late())??;
        match timeout_at(end, work(&mut connection)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                drop(connection.detach());
                Err(late().into())
            }
        }
    });
    match task.await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // Nobody ends it but the runtime, which ends this, too.
            Err(_) => Err(sqlx::Error::WorkerCrashed.into()),
        },
    }
}

/// Runs `work` in a transaction and commits it, or rolls back what failed.
///
/// # Errors
/// As [`call`]; then nothing was changed, unless it was the commit that was late.
pub async fn transaction<T, E, F>(pool: &PgPool, limit: Duration, work: F) -> Result<T, E>
where
    T: Send + 'static,
    E: From<sqlx::Error> + Send + 'static,
    F: for<'c> FnOnce(&'c mut PgConnection) -> Work<'c, T, E> + Send + 'static,
{
    call(pool, limit, |connection| Box::pin(attempt(connection, work))).await
}

async fn attempt<T, E, F>(connection: &mut PgConnection, work: F) -> Result<T, E>
where
    E: From<sqlx::Error>,
    F: for<'c> FnOnce(&'c mut PgConnection) -> Work<'c, T, E> + Send,
{
    let mut tx = connection.begin().await?;
    match work(&mut tx).await {
        Ok(value) => {
            tx.commit().await?;
            Ok(value)
        }
        Err(error) => {
            // What failed matters; a connection that cannot roll back is found out by the pool.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}
