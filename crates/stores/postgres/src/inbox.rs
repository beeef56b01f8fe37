//! The inbox on an open transaction of the application's.

use async_trait::async_trait;
use posthaste_core::{
    Failure, InboxConnection, LaneKey, LanePage, Letter, MessageId, PageRange, PagesWanted, Shard,
    StoreError, Tally,
};
use sqlx::{Connection, PgConnection, Postgres, postgres::PgArguments, query::Query};
use uuid::Uuid;

use crate::{
    error::{Fault, store_error},
    pages,
    row::headers_to_json,
};

/// The inbox in the transaction that a connection is in. Statements are prepared once per
/// connection, as the application's own are.
#[derive(Debug)]
pub struct Inbox<'c> {
    connection: &'c mut PgConnection,
}

impl<'c> Inbox<'c> {
    /// The inbox on a connection.
    ///
    /// # Errors
    /// Kind `Refused` for one that is not in a transaction: the record would be there even if the
    /// handler's rows were not.
    pub fn new(connection: &'c mut PgConnection) -> Result<Self, StoreError> {
        if connection.is_in_transaction() {
            return Ok(Self { connection });
        }
        Err(Fault::refused(
            "not inside a transaction: begin one, and write the handler's rows in it",
        )
        .of("inbox"))
    }

    async fn execute(
        &mut self,
        operation: &'static str,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<u64, StoreError> {
        let done = query.execute(&mut *self.connection).await;
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
        let found = sqlx::query_scalar(include_str!("../sql/inbox_recorded.sql"))
            .bind(consumer)
            .bind(uuids(ids))
            .fetch_all(&mut *self.connection)
            .await
            .map_err(|error| store_error("recorded", error))?;
        Ok(found.into_iter().map(MessageId).collect())
    }

    async fn record(&mut self, consumer: &str, ids: &[MessageId]) -> Result<u64, StoreError> {
        let insert =
            sqlx::query(include_str!("../sql/inbox_record.sql")).bind(consumer).bind(uuids(ids));
        self.execute("record", insert).await
    }

    async fn lock_lane(&mut self, lane: &LaneKey) -> Result<String, StoreError> {
        let lock = || {
            sqlx::query_scalar(include_str!("../sql/inbox_lock_lane.sql"))
                .bind(lane.consumer.clone())
                .bind(lane.log)
                .bind(lane.lane.clone())
                .bind(lane.topic.clone())
        };
        let failed = |error| store_error("lock_lane", error);
        let found = lock().fetch_optional(&mut *self.connection).await.map_err(failed)?;
        if let Some(watermark) = found {
            return Ok(watermark);
        }
        self.execute("lock_lane", of_lane(include_str!("../sql/inbox_create_lane.sql"), lane))
            .await?;
        lock().fetch_one(&mut *self.connection).await.map_err(failed)
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
        let read = pages::read(self.connection, lane, wanted).await;
        read.map_err(|error| store_error("read_pages", error))
    }

    async fn write_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        pages: &[LanePage],
    ) -> Result<(), StoreError> {
        let written = pages::write(self.connection, lane, shard, pages).await;
        written.map_err(|error| store_error("write_pages", error))
    }

    async fn remove_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        range: PageRange,
        limit: u32,
    ) -> Result<i64, StoreError> {
        let removed = pages::remove(self.connection, lane, shard, range, limit).await;
        removed.map_err(|error| store_error("remove_pages", error))
    }

    async fn accept_log(&mut self, lane: &LaneKey, source: &str) -> Result<bool, StoreError> {
        let lock = sqlx::query(include_str!("../sql/inbox_lock_logs.sql"));
        self.execute("accept_log", lock.bind(&lane.consumer).bind(source)).await?;
        let insert = sqlx::query(include_str!("../sql/inbox_accept_log.sql"))
            .bind(&lane.consumer)
            .bind(source)
            .bind(lane.log)
            .bind(&lane.topic);
        self.execute("accept_log", insert).await?;
        sqlx::query_scalar(include_str!("../sql/inbox_read_log.sql"))
            .bind(&lane.consumer)
            .bind(source)
            .bind(lane.log)
            .bind(&lane.topic)
            .fetch_one(&mut *self.connection)
            .await
            .map_err(|error| store_error("accept_log", error))
    }

    async fn bury(&mut self, letter: &Letter, failure: &Failure) -> Result<(), StoreError> {
        let letter = letter.kept();
        let message = &letter.message;
        let insert = sqlx::query(include_str!("../sql/inbox_bury.sql"))
            .bind(&letter.consumer)
            .bind(message.id.0)
            .bind(&letter.provenance.source)
            .bind(letter.provenance.seq)
            .bind(&message.topic)
            .bind(&message.key)
            .bind(&message.event_type)
            .bind(&message.payload[..])
            .bind(headers_to_json(&message.headers))
            .bind(&message.content_type)
            .bind(i32::try_from(letter.attempts).unwrap_or(i32::MAX))
            .bind(failure.class)
            .bind(&failure.detail);
        self.execute("bury", insert).await.map(drop)
    }

    async fn rebury(&mut self, letter: &Letter, failure: &Failure) -> Result<bool, StoreError> {
        let update = sqlx::query(include_str!("../sql/inbox_rebury.sql"))
            .bind(&letter.consumer)
            .bind(letter.message.id.0)
            .bind(i32::try_from(letter.attempts).unwrap_or(i32::MAX))
            .bind(failure.class)
            .bind(&failure.detail);
        Ok(self.execute("rebury", update).await? > 0)
    }

    async fn unbury(&mut self, consumer: &str, id: MessageId) -> Result<bool, StoreError> {
        let delete = sqlx::query(include_str!("../sql/inbox_unbury.sql")).bind(consumer).bind(id.0);
        Ok(self.execute("unbury", delete).await? > 0)
    }
}

/// A statement whose first parameters are the lane's key.
fn of_lane(sql: &'static str, lane: &LaneKey) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(sql)
        .bind(lane.consumer.clone())
        .bind(lane.log)
        .bind(lane.lane.clone())
        .bind(lane.topic.clone())
}

/// Sorted, so that two who record the same ids wait for each other and do not deadlock.
fn uuids(ids: &[MessageId]) -> Vec<Uuid> {
    let mut uuids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    uuids.sort_unstable();
    uuids
}
