//! The inbox: makes the effects of each message happen once, despite redeliveries and crashes.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use posthaste_core::{Admitted, InboxMode, InboxRule, Invalid};
pub use posthaste_core::{InboxError, Input};

use crate::Database;

/// Records handled messages of a consumer in the transaction of its handler: the handler's rows,
/// the messages it enqueues and the inbox record are committed together, or none of them is. So a
/// duplicate of a message never takes effect, and the effects of a message are never lost.
///
/// Acknowledge the message to its broker after the commit, never before.
/// [`Consumer`](crate::Consumer) does all of this.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool, incoming: posthaste::Incoming)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use posthaste::{Begun, Message, postgres::{Inbox, Outbox}};
///
/// if let Begun::New(mut tx) = Inbox::new("billing").begin(&pool, &incoming).await? {
///     sqlx::query("UPDATE account SET balance = balance - 1").execute(&mut *tx).await?;
///     Outbox::new().enqueue(&mut tx, Message::new("payments", 42, "charged")?).await?;
///     tx.commit().await?;
/// }
/// // now acknowledge
/// # Ok(()) }
/// ```
pub struct Inbox<DB> {
    rule: InboxRule,
    database: PhantomData<fn() -> DB>,
}

impl<DB> Clone for Inbox<DB> {
    fn clone(&self) -> Self {
        Self { rule: self.rule.clone(), database: PhantomData }
    }
}

impl<DB> fmt::Debug for Inbox<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule.fmt(f)
    }
}

/// Whether a message has been handled before.
#[must_use]
pub enum Begun<DB: Database> {
    /// The message is new: handle it on this transaction, then commit.
    New(Open<DB>),
    /// The message has been handled: acknowledge it and do nothing.
    Duplicate,
}

/// The result of handling a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Handled<T = ()> {
    /// The message took effect.
    Done(T),
    /// The message had been handled before, or by another replica at the same time; this attempt
    /// left nothing.
    Duplicate,
}

/// Why a message was not handled.
#[derive(Debug, thiserror::Error)]
pub enum HandleError<E> {
    /// The inbox failed.
    #[error(transparent)]
    Inbox(#[from] InboxError),
    /// The handler failed; its transaction is rolled back.
    #[error("the handler failed: {0}")]
    Handler(E),
}

impl<DB: Database> Inbox<DB> {
    /// An inbox for a consumer, by message id. Two consumers with different names both handle a
    /// message. A second replica that gets the same message waits for the first. A name has 1 to
    /// 255 bytes; the first `begin` reports an invalid name.
    #[must_use]
    pub fn new(consumer: impl Into<String>) -> Self {
        let rule = InboxRule { consumer: consumer.into(), mode: InboxMode::IdsFirst };
        Self { rule, database: PhantomData }
    }

    /// Records the id after the handler ran: no replica waits, and of two replicas that handle the
    /// same message at once one is rolled back.
    #[must_use]
    pub fn optimistic(mut self) -> Self {
        self.rule.mode = InboxMode::IdsLast;
        self
    }

    /// Records positions instead of ids: no row per message and no window. Works only for messages
    /// of Posthaste relays that are consumed in order
    /// ([`Sharing::Ordered`](crate::Sharing::Ordered)), one after another; other messages are
    /// refused.
    #[must_use]
    pub fn watermark(mut self) -> Self {
        self.rule.mode = InboxMode::Watermark;
        self
    }

    /// The consumer's name.
    #[must_use]
    pub fn consumer(&self) -> &str {
        &self.rule.consumer
    }

    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        self.rule.validate()
    }

    pub(crate) fn mode(&self) -> InboxMode {
        self.rule.mode
    }

    /// Begins a transaction in which a new message can be handled. Takes a reference to an
    /// [`Incoming`](crate::Incoming) or, in the modes by id, a [`MessageId`](crate::MessageId).
    ///
    /// # Errors
    /// Any [`InboxError`]; nothing has changed.
    pub async fn begin<'m>(
        &self,
        pool: &DB::Pool,
        message: impl Into<Input<'m>>,
    ) -> Result<Begun<DB>, InboxError> {
        let open = self.begin_all(pool, &[message.into()]).await?;
        if open.is_new(0) {
            return Ok(Begun::New(open));
        }
        open.rollback().await;
        Ok(Begun::Duplicate)
    }

    /// Begins a transaction in which the new ones of the messages can be handled, in their order;
    /// [`Open::is_new`] tells which are new. A transaction for many messages costs little more than
    /// a transaction for one.
    ///
    /// # Errors
    /// Any [`InboxError`]; nothing has changed.
    pub async fn begin_all(
        &self,
        pool: &DB::Pool,
        messages: &[Input<'_>],
    ) -> Result<Open<DB>, InboxError> {
        let mut transaction = DB::begin(pool).await?;
        let admitted = match DB::inbox(&mut transaction) {
            Ok(mut inbox) => self.rule.admit(&mut *inbox, messages).await,
            Err(error) => Err(error.into()),
        };
        match admitted {
            Ok(admitted) => Ok(Open { transaction, admitted, rule: self.rule.clone() }),
            Err(error) => {
                DB::rollback(transaction).await;
                Err(error)
            }
        }
    }

    /// Handles a message: begins a transaction, runs the handler if the message is new, and
    /// commits. An error of the handler rolls everything back. Do nothing in the handler that a
    /// rollback cannot undo: it may run again.
    ///
    /// # Errors
    /// Any [`HandleError`]; nothing has changed, unless a commit failed: then the message may have
    /// taken effect. If a statement made the database roll the transaction back and the handler
    /// went on, the error has kind [`NotCommitted`](posthaste_core::StoreErrorKind::NotCommitted):
    /// do not acknowledge the message.
    pub async fn handle<'m, T, E>(
        &self,
        pool: &DB::Pool,
        message: impl Into<Input<'m>>,
        handler: impl AsyncFnOnce(&mut DB::Connection) -> Result<T, E>,
    ) -> Result<Handled<T>, HandleError<E>> {
        let Begun::New(mut open) = self.begin(pool, message).await? else {
            return Ok(Handled::Duplicate);
        };
        match handler(&mut open).await {
            Ok(value) => Ok(match open.commit().await? {
                Handled::Done(()) => Handled::Done(value),
                Handled::Duplicate => Handled::Duplicate,
            }),
            Err(error) => {
                open.rollback().await;
                Err(HandleError::Handler(error))
            }
        }
    }
}

/// A transaction in which messages are handled: a connection, and the messages that will be
/// recorded. Dropping it rolls back.
pub struct Open<DB: Database> {
    transaction: DB::Transaction,
    admitted: Admitted,
    rule: InboxRule,
}

impl<DB: Database> Open<DB> {
    /// Whether the message of that index is new.
    #[must_use]
    pub fn is_new(&self, index: usize) -> bool {
        self.admitted.is_new.get(index).copied().unwrap_or(false)
    }

    pub(crate) fn admitted(&self) -> &Admitted {
        &self.admitted
    }

    /// Records the messages and commits everything. Commit even if the handler changed nothing: its
    /// message is handled.
    ///
    /// # Errors
    /// Any [`InboxError`]. Kind [`NotCommitted`](posthaste_core::StoreErrorKind::NotCommitted) if
    /// the database had rolled the transaction back: nothing took effect. After another failure of
    /// the commit it is unknown whether the messages took effect; they come again, and the inbox
    /// then knows.
    pub async fn commit(mut self) -> Result<Handled, InboxError> {
        let concluded = match DB::inbox(&mut self.transaction) {
            Ok(mut inbox) => self.rule.conclude(&mut *inbox, &self.admitted).await,
            Err(error) => Err(error.into()),
        };
        match concluded {
            Ok(true) => {
                DB::commit(self.transaction).await?;
                Ok(Handled::Done(()))
            }
            Ok(false) => {
                DB::rollback(self.transaction).await;
                Ok(Handled::Duplicate)
            }
            Err(error) => {
                DB::rollback(self.transaction).await;
                Err(error)
            }
        }
    }

    /// Rolls the transaction back.
    pub async fn rollback(self) {
        DB::rollback(self.transaction).await;
    }
}

impl<DB: Database> Deref for Open<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.transaction
    }
}

impl<DB: Database> DerefMut for Open<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.transaction
    }
}
