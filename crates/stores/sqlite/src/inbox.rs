//! The inbox on an open transaction of the application's.

use async_trait::async_trait;
use posthaste_core::{
    Failure, InboxConnection, LaneKey, LanePage, Letter, MessageId, PageRange, PagesWanted, Shard,
    StoreError, Tally,
};
use sqlx::{Connection, Sqlite, SqliteConnection, query::Query, sqlite::SqliteArguments};
use uuid::Uuid;

use crate::{
    error::{Fault, store_error},
    pages, row,
};

/// The inbox in the transaction that a connection is in.
///
/// Begin that transaction with `pool.begin_with("BEGIN IMMEDIATE")`: it then waits for the one before
/// it, instead of failing because that one wrote.
#[derive(Debug)]
pub struct Inbox<'c> {
    conn: &'c mut SqliteConnection,
}

impl<'c> Inbox<'c> {
    /// The inbox on a connection.
    ///
    /// # Errors
    /// Kind `Refused` for one that is not in a transaction: the record would be there even if the
    /// handler's rows were not.
    pub fn new(conn: &'c mut SqliteConnection) -> Result<Self, StoreError> {
        if conn.is_in_transaction() {
            return Ok(Self { conn });
        }
        let message = "not inside a transaction: begin one, and write the handler's rows in it";
        Err(Fault::refused(message).into_error("inbox"))
    }

    async fn execute(
        &mut self,
        operation: &'static str,
        query: Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<u64, StoreError> {
        let done = query.execute(&mut *self.conn).await;
        done.map(|done| done.rows_affected()).map_err(|error| store_error(operation, error))
    }
}

/// What a driver's error in a handler means to its runner: kind `Unavailable` says nothing about the
/// message.
#[must_use]
pub fn handler_error(error: sqlx::Error) -> StoreError {
    store_error("handle", error)
}

#[async_trait]
impl InboxConnection for Inbox<'_> {
    async fn recorded(
        &mut self,
        consumer: &str,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError> {
        let found: Vec<Uuid> = sqlx::query_scalar(include_str!("../sql/inbox_recorded.sql"))
            .bind(consumer)
            .bind(hex_array(ids))
            .fetch_all(&mut *self.conn)
            .await
            .map_err(|error| store_error("recorded", error))?;
        Ok(found.into_iter().map(MessageId).collect())
    }

    async fn record(&mut self, consumer: &str, ids: &[MessageId]) -> Result<u64, StoreError> {
        let insert = match ids {
            [id] => {
                sqlx::query(include_str!("../sql/inbox_record_one.sql")).bind(consumer).bind(id.0)
            }
            ids => sqlx::query(include_str!("../sql/inbox_record.sql"))
                .bind(consumer)
                .bind(hex_array(ids)),
        };
        self.execute("record", insert).await
    }

    async fn lock_lane(&mut self, lane: &LaneKey) -> Result<String, StoreError> {
        // A write first: it takes the lock where the caller's transaction has not.
        self.execute("lock_lane", of_lane(include_str!("../sql/inbox_create_lane.sql"), lane))
            .await?;
        sqlx::query_scalar(include_str!("../sql/inbox_lock_lane.sql"))
            .bind(&lane.consumer)
            .bind(lane.log.to_string())
            .bind(&lane.lane)
            .bind(&lane.topic)
            .fetch_one(&mut *self.conn)
            .await
            .map_err(|error| store_error("lock_lane", error))
    }

    async fn write_lane(
        &mut self,
        lane: &LaneKey,
        watermark: &str,
        tally: Tally,
    ) -> Result<(), StoreError> {
        let update = of_lane(include_str!("../sql/inbox_write_lane.sql"), lane)
            .bind(watermark.to_owned())
            .bind(tally.handled.cast_signed())
            .bind(tally.reordered.cast_signed())
            .bind(tally.impossible.cast_signed());
        match self.execute("write_lane", update).await? {
            1 => Ok(()),
            // The row was locked in this transaction: it is gone together with the transaction.
            _ => Err(StoreError::not_committed("write_lane")),
        }
    }

    async fn read_pages(
        &mut self,
        lane: &LaneKey,
        wanted: &PagesWanted,
    ) -> Result<Vec<LanePage>, StoreError> {
        let read = pages::read(self.conn, lane, wanted).await;
        read.map_err(|error| store_error("read_pages", error))
    }

    async fn write_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        pages: &[LanePage],
    ) -> Result<(), StoreError> {
        let written = pages::write(self.conn, lane, shard, pages).await;
        written.map_err(|error| store_error("write_pages", error))
    }

    async fn remove_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        range: PageRange,
        limit: u32,
    ) -> Result<i64, StoreError> {
        let removed = pages::remove(self.conn, lane, shard, range, limit).await;
        removed.map_err(|error| store_error("remove_pages", error))
    }

    async fn accept_log(&mut self, lane: &LaneKey, source: &str) -> Result<bool, StoreError> {
        let insert = sqlx::query(include_str!("../sql/inbox_accept_log.sql"))
            .bind(&lane.consumer)
            .bind(source)
            .bind(lane.log.to_string())
            .bind(&lane.topic);
        self.execute("accept_log", insert).await?;
        sqlx::query_scalar(include_str!("../sql/inbox_read_log.sql"))
            .bind(&lane.consumer)
            .bind(source)
            .bind(lane.log.to_string())
            .bind(&lane.topic)
            .fetch_one(&mut *self.conn)
            .await
            .map_err(|error| store_error("accept_log", error))
    }

    async fn bury(&mut self, letter: &Letter, failure: &Failure) -> Result<(), StoreError> {
        let letter = letter.kept();
        let message = &letter.message;
        let insert = sqlx::query(include_str!("../sql/inbox_bury.sql"))
            .bind(&letter.consumer)
            .bind(message.id.to_string())
            .bind(&letter.provenance.source)
            .bind(letter.provenance.seq)
            .bind(&message.topic)
            .bind(&message.key)
            .bind(&message.event_type)
            .bind(row::headers_to(&message.headers))
            .bind(&message.content_type)
            .bind(&message.payload[..])
            .bind(letter.attempts)
            .bind(failure.class)
            .bind(&failure.detail);
        self.execute("bury", insert).await.map(drop)
    }

    async fn rebury(&mut self, letter: &Letter, failure: &Failure) -> Result<bool, StoreError> {
        let update = sqlx::query(include_str!("../sql/inbox_rebury.sql"))
            .bind(&letter.consumer)
            .bind(letter.message.id.to_string())
            .bind(letter.attempts)
            .bind(failure.class)
            .bind(&failure.detail);
        Ok(self.execute("rebury", update).await? > 0)
    }

    async fn unbury(&mut self, consumer: &str, id: MessageId) -> Result<bool, StoreError> {
        let delete = sqlx::query(include_str!("../sql/inbox_unbury.sql"))
            .bind(consumer)
            .bind(id.to_string());
        Ok(self.execute("unbury", delete).await? > 0)
    }
}

/// A statement whose first parameters are the lane's key.
fn of_lane(sql: &'static str, lane: &LaneKey) -> Query<'static, Sqlite, SqliteArguments> {
    sqlx::query(sql)
        .bind(lane.consumer.clone())
        .bind(lane.log.to_string())
        .bind(lane.lane.clone())
        .bind(lane.topic.clone())
}

/// Ids as a JSON array of their bytes in hex.
fn hex_array(ids: &[MessageId]) -> String {
    row::json_array(ids.iter().map(|id| id.0.simple().to_string()))
}
