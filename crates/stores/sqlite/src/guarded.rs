//! A transaction whose commit fails if SQLite rolled it back before.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
};

use posthaste_core::StoreError;
use sqlx::{Sqlite, SqliteConnection, SqlitePool, Transaction};

use crate::error::store_error;

/// An open transaction, which holds the write lock. Dropping it rolls back.
///
/// SQLite rolls a whole transaction back by itself when the disk is full, reading or writing fails,
/// or a statement says `OR ROLLBACK`; the driver does not notice. Statements that follow are
/// refused, and [`Guarded::commit`] reports an error. For that the transaction takes the commit
/// hook and the rollback hook of its connection.
pub struct Guarded {
    /// `None` once it has ended.
    transaction: Option<Transaction<'static, Sqlite>>,
    watch: Arc<Watch>,
}

/// What the hooks know of the transaction.
#[derive(Debug, Default)]
struct Watch(AtomicU8);

impl Watch {
    /// The transaction is there, and nothing may commit it but the guard.
    const OPEN: u8 = 0;
    /// It was rolled back behind the guard's back, and nothing may be committed in its place.
    const LOST: u8 = 1;
    /// The guard commits it, or has ended it: the hooks let everything pass.
    const ENDED: u8 = 2;

    fn may_commit(&self) -> bool {
        self.0.load(SeqCst) == Self::ENDED
    }

    fn rolled_back(&self) {
        let _ = self.0.compare_exchange(Self::OPEN, Self::LOST, SeqCst, SeqCst);
    }

    /// Lets everything pass from now on, unless the transaction was lost; whether it was there.
    fn end(&self) -> bool {
        self.0.compare_exchange(Self::OPEN, Self::ENDED, SeqCst, SeqCst).is_ok()
    }

    /// Lets everything pass, also after a transaction that was lost.
    fn release(&self) {
        self.0.store(Self::ENDED, SeqCst);
    }
}

/// Begins a transaction, waiting for the writer before it.
///
/// # Errors
/// When there is no connection to be had.
pub async fn begin(pool: &SqlitePool) -> Result<Guarded, StoreError> {
    Guarded::begin(pool).await.map_err(|error| store_error("begin", error))
}

impl Guarded {
    async fn begin(pool: &SqlitePool) -> Result<Self, sqlx::Error> {
        let transaction = pool.begin_with(include_str!("../sql/begin.sql")).await?;
        let watch = Arc::new(Watch::default());
        let mut guarded = Self { transaction: Some(transaction), watch: Arc::clone(&watch) };
        let mut handle = guarded.lock_handle().await?;
        let on_rollback = Arc::clone(&watch);
        handle.set_rollback_hook(move || on_rollback.rolled_back());
        handle.set_commit_hook(move || watch.may_commit());
        drop(handle);
        Ok(guarded)
    }

    /// Commits.
    ///
    /// # Errors
    /// Kind `NotCommitted` where the transaction is no longer there; nothing of it is kept. Kind
    /// `Unavailable` where it is not known whether it was committed.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        if !self.watch.end() {
            self.rollback().await;
            return Err(StoreError::not_committed("commit"));
        }
        let commit = sqlx::raw_sql(include_str!("../sql/commit.sql"));
        let Err(error) = commit.execute(&mut *self).await else {
            self.transaction = None;
            return Ok(());
        };
        self.rollback().await;
        Err(store_error("commit", error))
    }

    /// Rolls back.
    pub async fn rollback(mut self) {
        if let Some(transaction) = self.transaction.take() {
            rollback(transaction, Arc::clone(&self.watch)).await;
        }
    }
}

/// Rolls back, also a transaction that is no longer there: the driver counts it until a ROLLBACK
/// succeeds, and would take the next one of the connection for a savepoint. So it gets one to roll
/// back.
async fn rollback(mut transaction: Transaction<'static, Sqlite>, watch: Arc<Watch>) {
    let begin = sqlx::query(include_str!("../sql/begin_empty.sql"));
    // Fails where the transaction is there. What matters has failed before.
    let _ = begin.execute(&mut *transaction).await;
    let _ = transaction.rollback().await;
    watch.release();
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The driver rolls back what is there by itself, as soon as it is dropped.
        if let Some(transaction) = self.transaction.take()
            && !self.watch.end()
        {
            tokio::spawn(rollback(transaction, Arc::clone(&self.watch)));
        }
    }
}

impl Deref for Guarded {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.transaction.as_ref().expect("taken only by what consumes the guard")
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.transaction.as_mut().expect("taken only by what consumes the guard")
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}
