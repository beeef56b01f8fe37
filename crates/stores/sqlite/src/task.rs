//! How every call runs: in a task of its own, with a deadline, on one connection.
//!
//! The task is what makes dropping a call harmless: a `BEGIN` that is cancelled halfway would leave
//! its connection inside a transaction for the next borrower.

use std::{pin::Pin, time::Duration};

use posthaste_core::{StoreError, StoreErrorKind};
use sqlx::{Connection, SqliteConnection, SqlitePool};
use tokio::time::{Instant, timeout_at};

use crate::{error::Fault, file::File};

/// Longest a call may take, waiting for the one writer included.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(15);

/// A piece of work on a borrowed connection.
pub(crate) type Work<'c, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'c>>;

/// Runs pieces of work on connections of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    pub(crate) pool: SqlitePool,
    /// From the start of a call to its end; after it the call has failed.
    pub(crate) deadline: Duration,
    /// The file that the pool's connections are to have open.
    pub(crate) file: File,
}

impl Tasks {
    pub(crate) fn new(pool: SqlitePool) -> Self {
        let file = File::of(&pool);
        Self { pool, deadline: DEADLINE_DEFAULT, file }
    }

    /// Runs work on a connection, each statement on its own.
    pub(crate) async fn run<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        let task = tokio::spawn(call(self.clone(), work));
        let outcome = task.await.unwrap_or_else(|error| {
            let (kind, what) = if error.is_panic() {
                let what = "the store panicked; this is a bug";
                (StoreErrorKind::Internal, what)
            } else {
                (StoreErrorKind::Unavailable, "the program is shutting down")
            };
            Err(Fault::Store(kind, what.to_owned()))
        });
        outcome.map_err(|fault| fault.into_error(operation))
    }

    /// Runs work in a transaction that holds the write lock from its beginning: one that read first
    /// and then wrote could find that another had written in between, and would have to fail.
    pub(crate) async fn write<T, F>(
        &self,
        operation: &'static str,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        self.run(operation, move |conn| {
            Box::pin(async move {
                let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
                let value = work(&mut tx).await?;
                tx.commit().await?;
                Ok(value)
            })
        })
        .await
    }
}

async fn call<T, F>(tasks: Tasks, work: F) -> Result<T, Fault>
where
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T>,
{
    tasks.file.check()?;
    let end = Instant::now() + tasks.deadline;
    let late = || Fault::Late(tasks.deadline);
    let Ok(conn) = timeout_at(end, tasks.pool.acquire()).await else {
        return Err(late());
    };
    let mut conn = conn?;
    let outcome = timeout_at(end, work(&mut conn)).await.unwrap_or_else(|_| Err(late()));
    if matches!(outcome, Err(Fault::Driver(_) | Fault::Late(_))) {
        // It may be busy still, or in a transaction the driver has lost count of.
        conn.close_on_drop();
    }
    outcome
}
