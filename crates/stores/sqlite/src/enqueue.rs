//! Enqueueing in the caller's own transaction: the message is there if and only if that commits.

use posthaste_core::{Message, StoreError};
use posthaste_store_sql::{Dialect, Fault, Reuse, Session, headers_to_json};
use sqlx::{Connection, QueryBuilder, SqliteConnection};

use crate::{Sqlite, error::fault};

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
    if !conn.is_in_transaction() {
        return Err(Fault::no_transaction().of("enqueue"));
    }
    if !is_transaction_there(conn).await {
        return Err(StoreError::not_committed("enqueue"));
    }
    let (dialect, reuse) = (Sqlite::shared(), Reuse::Named);
    let mut session = Session { dialect, connection: conn, reuse };
    let inserted = posthaste_store_sql::insert(&mut session, messages).await;
    inserted.map_err(|fault| fault.of("enqueue"))
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

/// Inserts messages that are valid, in their order.
pub(crate) async fn insert(
    session: &mut Session<'_, Sqlite>,
    messages: &[Message],
) -> Result<(), Fault> {
    let text = session.dialect.texts().get("enqueue");
    let text = text.ok_or_else(|| Fault::internal("no statement `enqueue`"))?;
    for chunk in messages.chunks(MESSAGES_PER_STATEMENT_MAX) {
        let mut statement = QueryBuilder::new(text.sql.as_str());
        statement.push_values(chunk, |mut row, message| {
            row.push_bind(message.id.to_string())
                .push_bind(message.topic.as_str())
                .push_bind(message.key.as_deref())
                .push_bind(message.event_type.as_deref())
                .push_bind(headers_to_json(&message.headers))
                .push_bind(message.content_type.as_str())
                .push_bind(message.payload.as_ref());
        });
        // Only the statement for one message is worth keeping: the others differ in length.
        let is_common = chunk.len() == 1;
        let insert = statement.build().persistent(is_common);
        insert.execute(&mut *session.connection).await.map_err(fault)?;
    }
    Ok(())
}
