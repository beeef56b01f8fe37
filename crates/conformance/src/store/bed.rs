//! What a store's tests must supply: fresh databases, an application's transactions, and time.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_core::{Message, Store, StoreError};

/// Makes beds. One per test binary.
#[async_trait]
pub trait StoreFixture: Send + Sync + 'static {
    /// An empty outbox that nobody else uses: its own database, schema or file, migrated.
    /// Panics, saying why, if there is none to be had.
    async fn fresh(&self) -> Arc<dyn TestBed>;
}

/// One empty outbox, and the ways to it that the port does not offer.
#[async_trait]
pub trait TestBed: Send + Sync + 'static {
    /// The store under test. Always the same one.
    fn store(&self) -> Arc<dyn Store>;

    /// Opens an application's transaction, on a connection of its own, outside the store's pool.
    /// Only where the store claims `concurrent_writers` are several open at once.
    async fn begin(&self) -> Box<dyn Writer>;

    /// `INSERT INTO outbox (topic, key, payload) VALUES ($1, $2, $3)` with autocommit, as a user's
    /// program in another language would: no library, no other columns.
    ///
    /// # Errors
    /// What the database said.
    async fn insert_by_hand(
        &self,
        topic: &str,
        key: Option<&str>,
        payload: &[u8],
    ) -> Result<(), String>;

    /// Makes it look as if the database's clock had moved on by `by`, most simply by moving every
    /// recorded time back: leases' and relays' expiry, planned attempts, times of parking and of
    /// state changes, times of progress, creation times of messages (parked copies included).
    async fn advance(&self, by: Duration);

    /// Removes the bed. Called once, after the case, whatever became of it.
    async fn remove(&self);
}

/// An application's open transaction. Dropping it rolls back.
#[async_trait]
pub trait Writer: Send {
    /// Gets the transaction its id, where the database has such, without enqueueing: from here on
    /// it is an open writer. Elsewhere it does nothing.
    async fn touch(&mut self);

    /// Enqueues as the library does it for applications, in this transaction.
    ///
    /// # Errors
    /// Kind `Refused` for a message that breaks a limit.
    async fn enqueue(&mut self, messages: &[Message]) -> Result<(), StoreError>;

    /// Commits; panics if that fails.
    async fn commit(self: Box<Self>);

    /// Rolls back; panics if that fails.
    async fn rollback(self: Box<Self>);
}
