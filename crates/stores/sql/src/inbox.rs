//! The inbox on an open transaction of the application's.

use async_trait::async_trait;
use posthaste_core::{
    Failure, InboxConnection, LaneKey, LanePage, Letter, MessageId, PageRange, PagesWanted, Shard,
    StoreError, Tally,
};
use uuid::Uuid;

use crate::{
    Dialect, Fault, Optional, Param, Reuse, Session, Statement, message::headers_to_json, params,
};

/// The inbox in the transaction that a connection is in. Statements are prepared once for each connection,
/// as the application's own are.
#[derive(Debug)]
pub struct SqlInbox<'c, D: Dialect> {
    session: Session<'c, D>,
}

impl<'c, D: Dialect> SqlInbox<'c, D> {
    /// The inbox on a connection.
    ///
    /// # Errors
    /// Kind `Refused` for one that is not in a transaction: the record would be there even if the handler's
    /// rows were not.
    pub fn new(connection: &'c mut D::Connection) -> Result<Self, StoreError> {
        Self::of(D::shared(), connection)
    }

    /// The inbox on a connection, in the tables of the dialect's namespace.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(dialect: &'c D, connection: &'c mut D::Connection) -> Result<Self, StoreError> {
        if D::is_in_transaction(connection) {
            return Ok(Self { session: Session { dialect, connection, reuse: Reuse::Named } });
        }
        Err(Fault::refused(
            "not inside a transaction: begin one, and write the handler's rows in it",
        )
        .of("inbox"))
    }

    async fn execute(
        &mut self,
        operation: &'static str,
        statement: Statement,
        params: &[Param<'_>],
    ) -> Result<u64, StoreError> {
        self.session.execute(statement, params).await.map_err(|fault| fault.of(operation))
    }

    async fn lane_watermark(&mut self, lane: &LaneKey) -> Result<Option<String>, Fault> {
        let row = self.session.row(Statement::InboxLockLane, &of_lane(lane)).await?;
        row.map(|row| row.string(0)).transpose()
    }

    async fn locked_lane(&mut self, lane: &LaneKey) -> Result<String, Fault> {
        if let Some(watermark) = self.lane_watermark(lane).await? {
            return Ok(watermark);
        }
        // Two that get here at once wait for each other: one of them may be told to try again.
        self.session.execute(Statement::InboxCreateLane, &of_lane(lane)).await?;
        let watermark = self.lane_watermark(lane).await?;
        watermark.ok_or_else(|| Fault::internal("a lane vanished"))
    }

    async fn find_recorded(
        &mut self,
        consumer: &str,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, Fault> {
        let known = params![consumer: consumer, ids: sorted(ids)];
        let mut found = Vec::new();
        for row in &self.session.rows(Statement::InboxRecorded, &known).await? {
            found.extend(row.uuid(0)?.map(MessageId));
        }
        Ok(found)
    }

    async fn find_pages(
        &mut self,
        lane: &LaneKey,
        wanted: &PagesWanted,
    ) -> Result<Vec<LanePage>, Fault> {
        let mut pages = of_shard(lane, wanted.shard);
        pages.extend(params![numbers: wanted.numbers.as_slice()]);
        let rows = self.session.rows(Statement::InboxReadPages, &pages).await?;
        rows.iter()
            .map(|row| Ok(LanePage { number: row.number(0)?, seqs: row.string(1)? }))
            .collect()
    }

    async fn remove_first_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        range: PageRange,
        limit: u32,
    ) -> Result<i64, Fault> {
        let mut next = of_shard(lane, shard);
        next.extend(params![first: range.first, last: range.last, limit: limit]);
        let next = self.session.row(Statement::InboxNextPage, &next).await?;
        let end = match next {
            Some(row) => row.number(0)?,
            None => range.last.saturating_add(1),
        };
        let mut gone = of_shard(lane, shard);
        gone.extend(params![first: range.first, last: end - 1]);
        self.session.execute(Statement::InboxRemovePages, &gone).await?;
        Ok(end)
    }

    async fn is_accepted(&mut self, lane: &LaneKey, source: &str) -> Result<bool, Fault> {
        let log = params![
            consumer: &lane.consumer,
            source: source,
            log: lane.log,
            topic: &lane.topic,
        ];
        self.session.optional(Optional::InboxLockLogs, &log).await?;
        self.session.execute(Statement::InboxAcceptLog, &log).await?;
        let row = self.session.row(Statement::InboxReadLog, &log).await?;
        row.map_or(Ok(false), |row| row.bool(0))
    }
}

#[async_trait]
impl<D: Dialect> InboxConnection for SqlInbox<'_, D> {
    async fn recorded(
        &mut self,
        consumer: &str,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError> {
        self.find_recorded(consumer, ids).await.map_err(|fault| fault.of("recorded"))
    }

    async fn record(&mut self, consumer: &str, ids: &[MessageId]) -> Result<u64, StoreError> {
        let insert = params![consumer: consumer, ids: sorted(ids)];
        let affected = self.execute("record", Statement::InboxRecord, &insert).await?;
        Ok(self.session.dialect.inserted(affected, ids.len()))
    }

    async fn lock_lane(&mut self, lane: &LaneKey) -> Result<String, StoreError> {
        self.locked_lane(lane).await.map_err(|fault| fault.of("lock_lane"))
    }

    async fn write_lane(
        &mut self,
        lane: &LaneKey,
        watermark: &str,
        tally: Tally,
    ) -> Result<(), StoreError> {
        let mut update = of_lane(lane);
        update.extend(params![
            watermark: watermark,
            handled: tally.handled.cast_signed(),
            reordered: tally.reordered.cast_signed(),
            impossible: tally.impossible.cast_signed(),
        ]);
        match self.execute("write_lane", Statement::InboxWriteLane, &update).await? {
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
        self.find_pages(lane, wanted).await.map_err(|fault| fault.of("read_pages"))
    }

    async fn write_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        pages: &[LanePage],
    ) -> Result<(), StoreError> {
        let mut rows = Vec::with_capacity(pages.len());
        for page in pages {
            let mut row = of_shard(lane, shard);
            row.extend(params![number: page.number, seqs: &page.seqs]);
            rows.push(row);
        }
        let written = self.session.each(Statement::InboxWritePages, &rows).await;
        written.map_err(|fault| fault.of("write_pages"))
    }

    async fn remove_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        range: PageRange,
        limit: u32,
    ) -> Result<i64, StoreError> {
        let removed = self.remove_first_pages(lane, shard, range, limit).await;
        removed.map_err(|fault| fault.of("remove_pages"))
    }

    async fn accept_log(&mut self, lane: &LaneKey, source: &str) -> Result<bool, StoreError> {
        self.is_accepted(lane, source).await.map_err(|fault| fault.of("accept_log"))
    }

    async fn bury(&mut self, letter: &Letter, failure: &Failure) -> Result<(), StoreError> {
        let letter = letter.kept();
        let message = &letter.message;
        let insert = params![
            consumer: &letter.consumer,
            id: message.id,
            source: &letter.provenance.source,
            seq: letter.provenance.seq,
            topic: &message.topic,
            key: &message.key,
            type: &message.event_type,
            headers: headers_to_json(&message.headers),
            content_type: &message.content_type,
            payload: &message.payload[..],
            attempts: letter.attempts,
            class: failure.class,
            detail: &failure.detail,
        ];
        self.execute("bury", Statement::InboxBury, &insert).await.map(drop)
    }

    async fn rebury(&mut self, letter: &Letter, failure: &Failure) -> Result<bool, StoreError> {
        let update = params![
            consumer: &letter.consumer,
            id: letter.message.id,
            attempts: letter.attempts,
            class: failure.class,
            detail: &failure.detail,
        ];
        Ok(self.execute("rebury", Statement::InboxRebury, &update).await? > 0)
    }

    async fn unbury(&mut self, consumer: &str, id: MessageId) -> Result<bool, StoreError> {
        let delete = params![consumer: consumer, id: id];
        Ok(self.execute("unbury", Statement::InboxUnbury, &delete).await? > 0)
    }
}

/// The key of a lane.
fn of_lane(lane: &LaneKey) -> Vec<Param<'_>> {
    params![
        consumer: &lane.consumer,
        log: lane.log,
        lane: &lane.lane,
        topic: &lane.topic,
    ]
    .into()
}

/// The key of a lane, and a shard.
fn of_shard(lane: &LaneKey, shard: Shard) -> Vec<Param<'_>> {
    let mut params = of_lane(lane);
    params.extend(params![of: shard.of, index: shard.index]);
    params
}

/// Sorted, so that two who record the same ids wait for each other and do not deadlock.
fn sorted(ids: &[MessageId]) -> Vec<Uuid> {
    let mut uuids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    uuids.sort_unstable();
    uuids
}
