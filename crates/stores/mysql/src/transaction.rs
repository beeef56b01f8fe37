//! How every call of the store runs: in a task that no dropped caller can cancel, with a deadline,
//! and again where the server ended it because of a deadlock.
//!
//! sqlx leaves a pooled connection inside a transaction when a `begin` is cancelled. Here nothing
//! is: the work runs in a task of its own, and a connection that misses the deadline is closed, not
//! given back, because its answer may still arrive.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use posthaste_core::StoreError;
use sqlx::{Connection, MySqlConnection, MySqlPool};
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::Fault;

/// Times a call is tried when it keeps meeting deadlocks.
const ATTEMPTS_MAX: u32 = 8;
/// Longest pause before another attempt; the actual one is random, so that two that met part.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// What a call does with its connection.
pub(crate) type Work<'c, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'c>>;

/// A call's work, given what it needs. It may run more than once.
pub(crate) type Call<A, T> = for<'c> fn(&'c mut MySqlConnection, Arc<A>) -> Work<'c, T>;

/// How the statements of a call belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Each is a transaction of its own.
    Statements,
    /// All of them are one.
    Transaction,
}

/// Runs `work` on a connection of the pool.
pub(crate) async fn run<A, T>(
    pool: &MySqlPool,
    operation: &'static str,
    deadline: Duration,
    scope: Scope,
    argument: A,
    work: Call<A, T>,
) -> Result<T, StoreError>
where
    A: Send + Sync + 'static,
    T: Send + 'static,
{
    let pool = pool.clone();
    let task = tokio::spawn(async move {
        let argument = Arc::new(argument);
        let end = Instant::now() + deadline;
        let mut attempts = 1;
        loop {
            let outcome = attempt(&pool, end, scope, Arc::clone(&argument), work).await;
            match outcome.unwrap_or_else(|_| Err(Fault::TimedOut(deadline))) {
                Err(fault) if fault.is_deadlock() && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    sleep(PAUSE_MAX.mul_f64(fastrand::f64())).await;
                }
                outcome => return outcome,
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

/// One attempt; the outer error says that time was up.
async fn attempt<A, T>(
    pool: &MySqlPool,
    end: Instant,
    scope: Scope,
    argument: Arc<A>,
    work: Call<A, T>,
) -> Result<Result<T, Fault>, tokio::time::error::Elapsed> {
    let mut connection = match timeout_at(end, pool.acquire()).await? {
        Ok(connection) => connection,
        Err(error) => return Ok(Err(error.into())),
    };
    let outcome = timeout_at(end, within(&mut connection, scope, argument, work)).await;
    match &outcome {
        Ok(Ok(_) | Err(Fault::Store(..))) => {}
        // It may still be at work, or inside a transaction that the driver has lost count of.
        _ => drop(connection.detach()),
    }
    outcome
}

async fn within<A, T>(
    connection: &mut MySqlConnection,
    scope: Scope,
    argument: Arc<A>,
    work: Call<A, T>,
) -> Result<T, Fault> {
    if scope == Scope::Statements {
        return work(connection, argument).await;
    }
    let mut transaction = connection.begin().await?;
    match work(&mut transaction, argument).await {
        Ok(value) => {
            transaction.commit().await?;
            Ok(value)
        }
        Err(fault) => {
            // All of it: running out of time for a lock undoes only the statement. What failed
            // matters more than whether this does.
            let _ = transaction.rollback().await;
            Err(fault)
        }
    }
}
