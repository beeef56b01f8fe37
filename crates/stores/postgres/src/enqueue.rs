//! Enqueueing in the application's own transaction, with one INSERT.

use posthaste_core::{Message, StoreError};
use posthaste_store_sql::{
    Dialect, Fault, Namespace, Param, Reuse, Session, headers_to_json, params,
};
use sqlx::PgConnection;

use crate::Postgres;

/// Enqueues messages in the transaction that `connection` is in, in the order given, with one
/// statement. They exist once that transaction commits, and never if it does not.
///
/// The transaction must be one that sqlx began ([`Connection::begin`](sqlx::Connection::begin),
/// `Pool::begin`). The statement is prepared once per connection, as the application's own are; behind a
/// pooler in transaction mode that cannot carry those, use [`enqueue_unnamed`].
///
/// # Errors
/// Kind `Refused` for a message that breaks a limit, and for a connection that is not in a
/// transaction: the message would be there even if the business rows were not. Kind `NotCommitted`
/// where a statement of the transaction failed before. Then nothing was written.
pub async fn enqueue(
    connection: &mut PgConnection,
    messages: &[Message],
) -> Result<(), StoreError> {
    enqueue_with(Postgres::shared(), connection, messages, Reuse::Named).await
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
    enqueue_with(Postgres::shared(), connection, messages, Reuse::Unnamed).await
}

/// As [`enqueue`], into the outbox of a namespace.
///
/// # Errors
/// As [`enqueue`].
pub async fn enqueue_in(
    namespace: &Namespace,
    connection: &mut PgConnection,
    messages: &[Message],
) -> Result<(), StoreError> {
    enqueue_with(&Postgres::of(namespace), connection, messages, Reuse::Named).await
}

async fn enqueue_with(
    dialect: &Postgres,
    connection: &mut PgConnection,
    messages: &[Message],
    reuse: Reuse,
) -> Result<(), StoreError> {
    if !Postgres::is_in_transaction(connection) {
        return Err(Fault::no_transaction().of("enqueue"));
    }
    let mut session = Session { dialect, connection, reuse };
    let inserted = posthaste_store_sql::insert(&mut session, messages).await;
    inserted.map_err(|fault| fault.of("enqueue"))
}

/// Inserts messages that are valid.
pub(crate) async fn insert(
    session: &mut Session<'_, Postgres>,
    messages: &[Message],
) -> Result<(), Fault> {
    match messages {
        [] => Ok(()),
        [message] => session.own("enqueue_one", &columns(message)).await.map(drop),
        messages => {
            let text = session.dialect.text("enqueue_many")?;
            let rows: Vec<_> = messages.iter().map(columns).collect();
            let rows = rows.iter().map(|row| text.bound(row)).collect::<Result<Vec<_>, _>>()?;
            session.dialect.run_each(session.connection, text, &rows, session.reuse).await
        }
    }
}

fn columns(message: &Message) -> [Param<'_>; 7] {
    params![
        id: message.id,
        topic: &message.topic,
        key: &message.key,
        type: &message.event_type,
        payload: &message.payload[..],
        headers: headers_to_json(&message.headers),
        content_type: &message.content_type,
    ]
}
