//! Enqueueing, inside the caller's transaction.

use std::{
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use posthaste_core::{MessageId, StoreError, StoreErrorKind};

use crate::{Database, IntoMessage};

/// Writes messages on the connection of an open transaction: the messages exist if and only if the
/// transaction commits.
///
/// It holds no pool, no connection and no cache: create one wherever you need it.
///
/// The application must serialise the writers of one key, for example by the row lock on the
/// aggregate they update, taken before `enqueue`. Only then is the order of messages the order of
/// commits.
pub struct Outbox<DB> {
    database: PhantomData<fn() -> DB>,
}

impl<DB> Clone for Outbox<DB> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<DB> Copy for Outbox<DB> {}

impl<DB> Default for Outbox<DB> {
    fn default() -> Self {
        Self { database: PhantomData }
    }
}

impl<DB: Database> Outbox<DB> {
    /// An outbox.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a transaction for rows and messages. Its [`commit`](Transaction::commit) fails if the
    /// database rolled the transaction back before. The driver's own transaction reports success in
    /// that case: on PostgreSQL if a statement failed and the application went on, on MySQL and
    /// MariaDB after a deadlock, where the server even commits each following statement by itself.
    ///
    /// # Errors
    /// When no connection is available.
    pub async fn begin(&self, pool: &DB::Pool) -> Result<Transaction<DB>, StoreError> {
        Ok(Transaction(DB::begin(pool).await?))
    }

    /// Enqueues one message with one INSERT and returns its id.
    ///
    /// # Errors
    /// Kind [`StoreErrorKind::Refused`] when the connection is not in a transaction (a message must
    /// not outlive a business write that fails) or the message breaks a limit; kind
    /// [`StoreErrorKind::NotCommitted`] when the database has rolled the transaction back. In both
    /// cases nothing was written. After any other error roll the transaction back.
    pub async fn enqueue(
        &self,
        connection: &mut DB::Connection,
        message: impl IntoMessage,
    ) -> Result<MessageId, StoreError> {
        Ok(self.enqueue_all(connection, [message]).await?[0])
    }

    /// Enqueues messages with one statement, in their order, and returns their ids.
    ///
    /// # Errors
    /// The errors of [`enqueue`](Self::enqueue). Either all messages are enqueued or none.
    pub async fn enqueue_all<M: IntoMessage>(
        &self,
        connection: &mut DB::Connection,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<Vec<MessageId>, StoreError> {
        let messages = messages
            .into_iter()
            .map(IntoMessage::into_message)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|invalid| {
                StoreError::new(StoreErrorKind::Refused, "enqueue", invalid.to_string())
                    .with_source(invalid)
            })?;
        if !messages.is_empty() {
            DB::insert(connection, &messages).await?;
        }
        Ok(messages.iter().map(|message| message.id).collect())
    }
}

/// An open transaction of [`Outbox::begin`]: a connection. Dropping it rolls back.
#[must_use = "a transaction that is not committed is rolled back"]
pub struct Transaction<DB: Database>(DB::Transaction);

impl<DB: Database> Transaction<DB> {
    /// Commits rows and messages.
    ///
    /// # Errors
    /// Kind [`StoreErrorKind::NotCommitted`] when the database has rolled the transaction back:
    /// nothing of it is kept. Kind [`StoreErrorKind::Unavailable`] when it is unknown whether the
    /// transaction was committed.
    pub async fn commit(self) -> Result<(), StoreError> {
        DB::commit(self.0).await
    }

    /// Rolls the transaction back.
    pub async fn rollback(self) {
        DB::rollback(self.0).await;
    }
}

impl<DB: Database> Deref for Transaction<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.0
    }
}

impl<DB: Database> DerefMut for Transaction<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.0
    }
}
