//! Enqueueing in the caller's own transaction: the message is there if and only if that commits.

use posthaste_core::{Message, StoreError};
use sqlx::{Connection, QueryBuilder, SqliteConnection};

use crate::{error::Fault, row::headers_to};

/// Values a row has, and values a statement may have in all.
const BINDS_PER_MESSAGE: usize = 7;
const BINDS_MAX: usize = 32_766;
const MESSAGES_PER_STATEMENT_MAX: usize = BINDS_MAX / BINDS_PER_MESSAGE;

/// Enqueues messages in the transaction that `conn` is in, in their order, by one statement (one for
/// every 4,680 messages).
///
/// Begin that transaction with `pool.begin_with("BEGIN IMMEDIATE")`: SQLite has one writer at a time,
/// and a transaction that reads first and writes later fails if another one wrote in between.
///
/// # Errors
/// Kind `Refused` outside a transaction, or for a message that breaks a limit; kind `NotCommitted`
/// where SQLite has rolled the transaction back. Then nothing was enqueued. After any other error roll
/// the transaction back.
pub async fn enqueue(conn: &mut SqliteConnection, messages: &[Message]) -> Result<(), StoreError> {
    if conn.is_in_transaction() && !is_transaction_there(conn).await {
        return Err(StoreError::not_committed("enqueue"));
    }
    append(conn, messages).await.map_err(|fault| fault.into_error("enqueue"))
}

/// Whether the transaction that the driver counts is still there.
async fn is_transaction_there(conn: &mut SqliteConnection) -> bool {
    let begin = sqlx::query(include_str!("../sql/begin_empty.sql")).execute(&mut *conn).await;
    if begin.is_ok() {
        // A rollback that fails closes nothing that mattered: the transaction is empty.
        let _ = sqlx::query(include_str!("../sql/rollback.sql")).execute(conn).await;
    }
    begin.is_err()
}

/// The same, for a transaction of the store's own.
pub(crate) async fn append(conn: &mut SqliteConnection, messages: &[Message]) -> Result<(), Fault> {
    if !conn.is_in_transaction() {
        return Err(Fault::refused(
            "not inside a transaction: begin one, write your rows and the messages in it, then \
             commit",
        ));
    }
    for message in messages {
        message.validate().map_err(|invalid| Fault::refused(invalid.to_string()))?;
    }
    for chunk in messages.chunks(MESSAGES_PER_STATEMENT_MAX) {
        insert(conn, chunk).await?;
    }
    Ok(())
}

async fn insert(conn: &mut SqliteConnection, messages: &[Message]) -> Result<(), sqlx::Error> {
    let mut statement = QueryBuilder::new(include_str!("../sql/enqueue.sql"));
    statement.push_values(messages, |mut row, message| {
        row.push_bind(message.id.to_string())
            .push_bind(message.topic.as_str())
            .push_bind(message.key.as_deref())
            .push_bind(message.event_type.as_deref())
            .push_bind(headers_to(&message.headers))
            .push_bind(message.content_type.as_str())
            .push_bind(message.payload.as_ref());
    });
    // Only the statement for one message is worth keeping: the others differ in length.
    let is_common = messages.len() == 1;
    statement.build().persistent(is_common).execute(conn).await?;
    Ok(())
}
