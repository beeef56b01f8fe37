//! The inbox on an open transaction of the application's.

use async_trait::async_trait;
use posthaste_core::{
    Failure, InboxConnection, LaneKey, LanePage, Letter, MessageId, PageRange, PagesWanted, Shard,
    StoreError, Tally,
};
use sqlx::{Connection, MySql, MySqlConnection, QueryBuilder, mysql::MySqlArguments, query::Query};
use uuid::Uuid;

use crate::{
    error::{Fault, store_error},
    pages,
    row::headers_to_json,
};

/// The inbox in the transaction that a connection is in.
#[derive(Debug)]
pub struct Inbox<'c> {
    connection: &'c mut MySqlConnection,
}

impl<'c> Inbox<'c> {
    /// The inbox on a connection.
    ///
    /// # Errors
    /// Kind `Refused` for one that is not in a transaction: the record would be there even if the
    /// handler's rows were not.
    pub fn new(connection: &'c mut MySqlConnection) -> Result<Self, StoreError> {
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
        query: Query<'_, MySql, MySqlArguments>,
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
        let mut select = QueryBuilder::new(include_str!("../sql/inbox_recorded.sql"));
        select.push_bind(consumer.as_bytes());
        select.push(" AND id IN (");
        let mut list = select.separated(", ");
        for id in sorted(ids) {
            list.push_bind(id.as_bytes().to_vec());
        }
        select.push(")");
        let found: Vec<Vec<u8>> = select
            .build_query_scalar()
            .persistent(false)
            .fetch_all(&mut *self.connection)
            .await
            .map_err(|error| store_error("recorded", error))?;
        Ok(found.iter().filter_map(|id| Uuid::from_slice(id).ok()).map(MessageId).collect())
    }

    async fn record(&mut self, consumer: &str, ids: &[MessageId]) -> Result<u64, StoreError> {
        let mut insert = QueryBuilder::new(include_str!("../sql/inbox_record.sql"));
        insert.push_values(sorted(ids), |mut row, id| {
            row.push_bind(consumer.as_bytes()).push_bind(id.as_bytes().to_vec());
        });
        insert.push("\n").push(include_str!("../sql/inbox_record_again.sql"));
        // Only the statement for one message is worth keeping: the others differ in length.
        let done = insert.build().persistent(ids.len() == 1).execute(&mut *self.connection).await;
        let affected = done.map_err(|error| store_error("record", error))?.rows_affected();
        Ok((2 * ids.len() as u64).saturating_sub(affected))
    }

    async fn lock_lane(&mut self, lane: &LaneKey) -> Result<String, StoreError> {
        let lock = || {
            sqlx::query_scalar::<_, Vec<u8>>(include_str!("../sql/inbox_lock_lane.sql"))
                .bind(lane.consumer.as_bytes())
                .bind(lane.log.as_bytes().to_vec())
                .bind(lane.lane.as_bytes())
                .bind(lane.topic.as_bytes())
        };
        let failed = |error| store_error("lock_lane", error);
        let text = |watermark: Vec<u8>| String::from_utf8_lossy(&watermark).into_owned();
        let found = lock().fetch_optional(&mut *self.connection).await.map_err(failed)?;
        if let Some(watermark) = found {
            return Ok(text(watermark));
        }
        // Two that get here at once wait for each other: one of them is told to try again.
        let create = of_lane(sqlx::query(include_str!("../sql/inbox_create_lane.sql")), lane);
        self.execute("lock_lane", create).await?;
        let watermark = lock().fetch_one(&mut *self.connection).await.map_err(failed)?;
        Ok(text(watermark))
    }

    async fn write_lane(
        &mut self,
        lane: &LaneKey,
        watermark: &str,
        tally: Tally,
    ) -> Result<(), StoreError> {
        let update = sqlx::query(include_str!("../sql/inbox_write_lane.sql"))
            .bind(watermark.as_bytes().to_vec())
            .bind(tally.handled.cast_signed())
            .bind(tally.reordered.cast_signed())
            .bind(tally.impossible.cast_signed());
        match self.execute("write_lane", of_lane(update, lane)).await? {
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
        let log = lane.log.as_bytes().to_vec();
        let insert = sqlx::query(include_str!("../sql/inbox_accept_log.sql"))
            .bind(lane.consumer.as_bytes())
            .bind(source.as_bytes())
            .bind(log.clone())
            .bind(lane.topic.as_bytes())
            .bind(lane.consumer.as_bytes())
            .bind(source.as_bytes())
            .bind(lane.topic.as_bytes())
            .bind(log.clone());
        self.execute("accept_log", insert).await?;
        let found: i64 = sqlx::query_scalar(include_str!("../sql/inbox_read_log.sql"))
            .bind(log)
            .bind(lane.consumer.as_bytes())
            .bind(source.as_bytes())
            .bind(lane.topic.as_bytes())
            .fetch_one(&mut *self.connection)
            .await
            .map_err(|error| store_error("accept_log", error))?;
        Ok(found > 0)
    }

    async fn bury(&mut self, letter: &Letter, failure: &Failure) -> Result<(), StoreError> {
        let letter = letter.kept();
        let message = &letter.message;
        let bytes = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
        let insert = sqlx::query(include_str!("../sql/inbox_bury.sql"))
            .bind(letter.consumer.as_bytes())
            .bind(message.id.to_string())
            .bind(bytes(&letter.provenance.source))
            .bind(letter.provenance.seq)
            .bind(message.topic.as_bytes())
            .bind(bytes(&message.key))
            .bind(bytes(&message.event_type))
            .bind(headers_to_json(&message.headers).map(String::into_bytes))
            .bind(message.content_type.as_bytes())
            .bind(&message.payload[..])
            .bind(letter.attempts)
            .bind(failure.class.as_bytes())
            .bind(failure.detail.as_bytes())
            .bind(failure.class.as_bytes())
            .bind(failure.detail.as_bytes());
        self.execute("bury", insert).await.map(drop)
    }

    async fn rebury(&mut self, letter: &Letter, failure: &Failure) -> Result<bool, StoreError> {
        let update = sqlx::query(include_str!("../sql/inbox_rebury.sql"))
            .bind(letter.attempts)
            .bind(failure.class.as_bytes())
            .bind(failure.detail.as_bytes())
            .bind(letter.message.id.to_string())
            .bind(letter.consumer.as_bytes());
        Ok(self.execute("rebury", update).await? > 0)
    }

    async fn unbury(&mut self, consumer: &str, id: MessageId) -> Result<bool, StoreError> {
        let delete = sqlx::query(include_str!("../sql/inbox_unbury.sql"))
            .bind(id.to_string())
            .bind(consumer.as_bytes());
        Ok(self.execute("unbury", delete).await? > 0)
    }
}

/// The same statement with the lane's key as its next parameters.
fn of_lane<'q>(
    query: Query<'q, MySql, MySqlArguments>,
    lane: &LaneKey,
) -> Query<'q, MySql, MySqlArguments> {
    query
        .bind(lane.consumer.as_bytes().to_vec())
        .bind(lane.log.as_bytes().to_vec())
        .bind(lane.lane.as_bytes().to_vec())
        .bind(lane.topic.as_bytes().to_vec())
}

/// Sorted, so that two who record the same ids wait for each other and do not deadlock.
fn sorted(ids: &[MessageId]) -> Vec<Uuid> {
    let mut uuids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    uuids.sort_unstable();
    uuids
}
