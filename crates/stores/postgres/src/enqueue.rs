//! Enqueueing in the application's own transaction, with one INSERT.

use posthaste_core::{Message, StoreError};
use sqlx::{Connection, PgConnection};

use crate::{error::Fault, row::headers_to_json};

/// How statements reach the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statements {
    /// Prepared once and kept in the session, as sqlx does by default.
    Cached,
    /// Leaving nothing in the session, at the price of a round trip.
    Unnamed,
}

/// Enqueues messages in the transaction that `connection` is in, in the order given, with one
/// statement. They exist once that transaction commits, and never if it does not.
///
/// The transaction must be one that sqlx began ([`Connection::begin`], `Pool::begin`). The statement
/// is prepared once per connection, as the application's own are; behind a pooler in transaction
/// mode that cannot carry those, use [`enqueue_unnamed`].
///
/// # Errors
/// Kind `Refused` for a message that breaks a limit, and for a connection that is not in a
/// transaction: the message would be there even if the business rows were not. Kind `NotCommitted`
/// where a statement of the transaction failed before. Then nothing was written.
pub async fn enqueue(
    connection: &mut PgConnection,
    messages: &[Message],
) -> Result<(), StoreError> {
    enqueue_with(connection, messages, Statements::Cached).await
}

/// As [`enqueue`], with a statement that leaves nothing in the session: for applications behind a
/// pooler in transaction mode.
///
/// # Errors
/// As [`enqueue`].
pub async fn enqueue_unnamed(
    connection: &mut PgConnection,
    messages: &[Message],
) -> Result<(), StoreError> {
    enqueue_with(connection, messages, Statements::Unnamed).await
}

async fn enqueue_with(
    connection: &mut PgConnection,
    messages: &[Message],
    statements: Statements,
) -> Result<(), StoreError> {
    if !connection.is_in_transaction() {
        return Err(Fault::refused(
            "not inside a transaction: begin one, write the business rows and the message in it, \
             then commit",
        )
        .of("enqueue"));
    }
    insert(connection, messages, statements).await.map_err(|fault| fault.of("enqueue"))
}

/// Checks and inserts.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    messages: &[Message],
    statements: Statements,
) -> Result<(), Fault> {
    let is_cached = statements == Statements::Cached;
    for message in messages {
        message.validate().map_err(|invalid| Fault::refused(invalid.to_string()))?;
    }
    match messages {
        [] => Ok(()),
        [message] => insert_one(connection, message, is_cached).await,
        messages => insert_many(connection, messages, is_cached).await,
    }
}

async fn insert_one(
    connection: &mut PgConnection,
    message: &Message,
    is_cached: bool,
) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/enqueue_one.sql"))
        .persistent(is_cached)
        .bind(message.id.0)
        .bind(&message.topic)
        .bind(&message.key)
        .bind(&message.event_type)
        .bind(&message.payload[..])
        .bind(headers_to_json(&message.headers))
        .bind(&message.content_type)
        .execute(connection)
        .await?;
    Ok(())
}

async fn insert_many(
    connection: &mut PgConnection,
    messages: &[Message],
    is_cached: bool,
) -> Result<(), Fault> {
    let columns = Columns::of(messages);
    sqlx::query(include_str!("../sql/enqueue_many.sql"))
        .persistent(is_cached)
        .bind(columns.ids)
        .bind(columns.topics)
        .bind(columns.keys)
        .bind(columns.event_types)
        .bind(columns.payloads)
        .bind(columns.headers)
        .bind(columns.content_types)
        .execute(connection)
        .await?;
    Ok(())
}

/// Messages as arrays, one per column, for `unnest`.
pub(crate) struct Columns<'m> {
    pub(crate) ids: Vec<uuid::Uuid>,
    pub(crate) topics: Vec<&'m str>,
    pub(crate) keys: Vec<Option<&'m str>>,
    pub(crate) event_types: Vec<Option<&'m str>>,
    pub(crate) payloads: Vec<&'m [u8]>,
    pub(crate) headers: Vec<Option<String>>,
    pub(crate) content_types: Vec<&'m str>,
}

impl<'m> Columns<'m> {
    pub(crate) fn of(messages: impl IntoIterator<Item = &'m Message> + Clone) -> Self {
        let all = || messages.clone().into_iter();
        Self {
            ids: all().map(|message| message.id.0).collect(),
            topics: all().map(|message| &*message.topic).collect(),
            keys: all().map(|message| message.key.as_deref()).collect(),
            event_types: all().map(|message| message.event_type.as_deref()).collect(),
            payloads: all().map(|message| &message.payload[..]).collect(),
            headers: all().map(|message| headers_to_json(&message.headers)).collect(),
            content_types: all().map(|message| &*message.content_type).collect(),
        }
    }
}
