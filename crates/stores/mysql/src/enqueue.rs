//! Enqueueing in the caller's own transaction: the message is there if and only if that commits.

use posthaste_core::{Message, StoreError};
use posthaste_store_sql::{Dialect, Fault, Reuse, Session, headers_to_json};
use sqlx::{Connection, MySqlConnection, QueryBuilder};

use crate::{
    MySql,
    error::{fault, is_savepoint_missing, store_error},
};

/// Messages of one statement, at most: a server takes 65,535 values.
const MESSAGES_MAX: usize = 5_000;
/// Bytes of one statement, about, except that one message always goes: servers refuse a statement
/// above `max_allowed_packet`, 16 MiB by MariaDB's default.
const BYTES_MAX: usize = 4 << 20;

/// Enqueues messages in the transaction that `connection` is in, in the order given, with one
/// statement (one for every 5,000 messages or 4 MiB). They exist once that transaction commits, and
/// never if it does not.
///
/// The transaction must be one that sqlx began ([`Connection::begin`], `Pool::begin`) or that
/// [`begin`](crate::begin) did. A round trip asks the server whether the transaction is still there.
///
/// # Errors
/// Kind `Refused` for a message that breaks a limit, and for a connection that is not in a
/// transaction: the message would be there even if the business rows were not. Kind `NotCommitted`
/// where the server has rolled the transaction back, for example because of a deadlock. Then nothing
/// was written. After any other error roll the transaction back.
pub async fn enqueue(
    connection: &mut MySqlConnection,
    messages: &[Message],
) -> Result<(), StoreError> {
    MySql::shared().enqueue(connection, messages).await
}

impl MySql {
    /// As [`enqueue`](crate::enqueue), in the tables of this namespace.
    ///
    /// # Errors
    /// As [`enqueue`](crate::enqueue).
    pub async fn enqueue(
        &self,
        connection: &mut MySqlConnection,
        messages: &[Message],
    ) -> Result<(), StoreError> {
        if !connection.is_in_transaction() {
            return Err(Fault::no_transaction().of("enqueue"));
        }
        let check = sqlx::raw_sql(include_str!("../sql/enqueue_check.sql"));
        match check.execute(&mut *connection).await {
            Ok(_) => {}
            Err(error) if is_savepoint_missing(&error) => {
                return Err(StoreError::not_committed("enqueue"));
            }
            Err(error) => return Err(store_error("enqueue", error)),
        }
        let mut session = Session { dialect: self, connection, reuse: Reuse::Named };
        let inserted = posthaste_store_sql::insert(&mut session, messages).await;
        inserted.map_err(|fault| fault.of("enqueue"))
    }
}

/// Inserts messages that are valid.
pub(crate) async fn insert(
    session: &mut Session<'_, MySql>,
    messages: &[Message],
) -> Result<(), Fault> {
    let head = session.dialect.own_text("enqueue")?;
    let mut rest = messages;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(chunk_length(rest));
        insert_chunk(session.connection, head, chunk).await.map_err(fault)?;
        rest = after;
    }
    Ok(())
}

/// How many of the messages go into one statement; at least one.
fn chunk_length(messages: &[Message]) -> usize {
    let mut bytes = 0;
    let fitting = messages.iter().take(MESSAGES_MAX).take_while(|message| {
        bytes += message.weight();
        bytes <= BYTES_MAX
    });
    fitting.count().max(1)
}

async fn insert_chunk(
    connection: &mut MySqlConnection,
    head: &'static str,
    messages: &[Message],
) -> Result<(), sqlx::Error> {
    let mut statement = QueryBuilder::new(head);
    statement.push_values(messages, |mut row, message| {
        row.push_bind(message.id.to_string())
            .push_bind(message.topic.as_str())
            .push_bind(message.key.as_deref())
            .push_bind(message.event_type.as_deref())
            .push_bind(headers_to_json(&message.headers))
            .push_bind(message.content_type.as_str())
            .push_bind(message.payload.as_ref());
    });
    // Only the statement for one message is worth keeping: the others differ in length.
    let is_common = messages.len() == 1;
    statement.build().persistent(is_common).execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_bounded_and_never_empty() {
        let sized = |bytes: usize| Message::from_bytes("t", None, vec![0; bytes]);
        assert_eq!(chunk_length(&vec![sized(1); 6_000]), MESSAGES_MAX);
        assert_eq!(chunk_length(&vec![sized(1 << 20); 6]), 3);
        assert_eq!(chunk_length(&vec![sized(8 << 20); 2]), 1);
    }
}
