//! What a store's tests must supply.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_core::{InboxConnection, InboxStore, Message, StoreError};

/// Makes beds. One per test binary.
#[async_trait]
pub trait Fixture: Send + Sync + 'static {
    /// An empty, migrated database that nobody else uses. Panics, saying why, if there is none.
    async fn fresh(&self) -> Arc<dyn Bed>;
}

/// One empty inbox with its outbox.
#[async_trait]
pub trait Bed: Send + Sync + 'static {
    /// The store under test.
    fn inbox_store(&self) -> Arc<dyn InboxStore>;

    /// Whether several transactions may be open at once; where not, `begin` waits.
    fn has_concurrent_writers(&self) -> bool;

    /// Opens a handler's transaction, as the library does.
    async fn begin(&self) -> Box<dyn Writer>;

    /// Opens a transaction as an application does, with the driver alone.
    async fn begin_unguarded(&self) -> Box<dyn Writer>;

    /// Inserts a message by a statement of its own, outside any transaction, with the pool of
    /// [`begin`](Self::begin).
    async fn write_alone(&self);

    /// How many messages are committed in the outbox: what handlers did.
    async fn enqueued(&self) -> u64;

    /// Makes it look as if the database's clock had moved on.
    async fn advance(&self, by: Duration);

    /// Removes the bed.
    async fn remove(&self);
}

/// A handler's open transaction. Dropping it rolls back.
#[async_trait]
pub trait Writer: Send {
    /// The inbox in it.
    fn inbox(&mut self) -> Box<dyn InboxConnection + '_>;

    /// Enqueues in it.
    ///
    /// # Errors
    /// When the database refuses.
    async fn enqueue(&mut self, messages: &[Message]) -> Result<(), StoreError>;

    /// Runs a statement that fails, as a handler does that does not mind: one that takes the whole
    /// transaction with it where the database has such statements.
    async fn fail(&mut self);

    /// Inserts a message by the driver alone, and does not mind if that fails.
    async fn write_anyway(&mut self);

    /// Runs a statement that fails in a savepoint, and rolls that back.
    async fn fail_in_savepoint(&mut self);

    /// Commits.
    ///
    /// # Errors
    /// When the database refuses, or has rolled the transaction back.
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;

    /// Rolls back.
    async fn rollback(self: Box<Self>);
}
