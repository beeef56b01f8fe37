//! Enqueueing, inside the caller's transaction.

use std::marker::PhantomData;

use posthaste_core::{MessageId, StoreError, StoreErrorKind};

use crate::{Database, IntoMessage};

/// Writes messages on the connection of an open transaction: they exist if and only if it commits.
///
/// It holds nothing: no pool, no connection, no cache. Make one wherever it is handy.
///
/// Writers of one key must be serialised by the application, for example by the row lock on the
/// aggregate they update, taken before `enqueue`: that is what makes commit order and message order
/// the same.
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

    /// Enqueues one message with one INSERT and returns its id.
    ///
    /// # Errors
    /// Kind [`StoreErrorKind::Refused`] when the connection is not in a transaction (a message must
    /// not outlive a business write that fails) or the message breaks a limit; then nothing was
    /// written. Otherwise what the database said: roll back.
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
    /// As [`enqueue`](Self::enqueue); all or nothing.
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
