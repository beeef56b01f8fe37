//! The ports to a database that holds an inbox: handled messages, and dead letters of consumers.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    Failure, LanePage, Message, MessageId, PageRange, PagesWanted, ParkedFilter, ParkedView,
    Provenance, Shard, StoreError,
};

/// The key of a watermark.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey {
    /// The consumer.
    pub consumer: String,
    /// The log of the messages.
    pub log: Uuid,
    /// The lane, as [`Incoming::lane`](crate::Incoming::lane) names it.
    pub lane: String,
    /// The topic of the messages: two routes may bring different topics of one log to one lane,
    /// each at its own pace, so a floor of one route says nothing about the other.
    pub topic: String,
}

impl LaneKey {
    /// Longest lane name, in bytes.
    pub const LANE_BYTES_MAX: usize = 512;
}

/// Counts of handled messages, added to those of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages handled.
    pub handled: u64,
    /// Handled messages that came after a later one.
    pub reordered: u64,
    /// Handled messages whose sender contradicted itself.
    pub impossible: u64,
}

/// A dead letter of a consumer, or one that a person redrove.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The consumer.
    pub consumer: String,
    /// The message.
    pub message: Message,
    /// Source, seq and floor of the message; source and seq are kept.
    pub provenance: Provenance,
    /// Failures of the handler since the message arrived or was last redriven.
    pub attempts: u32,
}

/// The inbox on the connection of an open transaction: its writes are kept if and only if the
/// transaction commits.
#[async_trait]
pub trait InboxConnection: Send {
    /// The ids among `ids` that are recorded for the consumer. Reads committed records; does not
    /// wait.
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back.
    async fn recorded(
        &mut self,
        consumer: &str,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError>;

    /// Records the ids that are not recorded yet; returns their number. Waits for an open
    /// transaction that records one of them, because only its end decides whether they are new.
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back. Kind `Unavailable` when two transactions wait for each other.
    async fn record(&mut self, consumer: &str, ids: &[MessageId]) -> Result<u64, StoreError>;

    /// Locks the lane until the transaction ends, and returns its watermark as text; empty for a
    /// new lane.
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back.
    async fn lock_lane(&mut self, lane: &LaneKey) -> Result<String, StoreError>;

    /// Writes the watermark of a locked lane.
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back.
    async fn write_lane(
        &mut self,
        lane: &LaneKey,
        watermark: &str,
        tally: Tally,
    ) -> Result<(), StoreError>;

    /// The existing ones of the wanted pages of a shard. The lane must be locked.
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back.
    async fn read_pages(
        &mut self,
        lane: &LaneKey,
        wanted: &PagesWanted,
    ) -> Result<Vec<LanePage>, StoreError>;

    /// Writes pages of a shard, replacing pages of the same numbers. The lane must be locked.
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back.
    async fn write_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        pages: &[LanePage],
    ) -> Result<(), StoreError>;

    /// Removes the first `limit` pages of a range of a shard; returns the number of the first page
    /// that may be left, or a number above the range if none is. The lane must be locked.
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back.
    async fn remove_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        range: PageRange,
        limit: u32,
    ) -> Result<i64, StoreError>;

    /// Whether the consumer accepts messages of this topic of this log from this source. The first
    /// log of a source that sends the topic is accepted here, other logs by
    /// [`InboxStore::adopt_log`]. (Every route of a source has its own log, so two topics may come
    /// from two logs.)
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back.
    async fn accept_log(&mut self, lane: &LaneKey, source: &str) -> Result<bool, StoreError>;

    /// Keeps a message as a dead letter of its consumer. If the dead letter exists already, because
    /// its id was removed and the message came again, it gets the latest attempts and error, and is
    /// dead again. Topic, key and other texts may break the limits of an outbox: see
    /// [`Letter::kept`].
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back.
    async fn bury(&mut self, letter: &Letter, failure: &Failure) -> Result<(), StoreError>;

    /// Makes a redriven message that failed again a dead letter, with the latest attempts and
    /// error. Returns `false` and keeps nothing if the dead letter no longer exists, because
    /// another replica has handled it. Waits for a replica that is handling it.
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back.
    async fn rebury(&mut self, letter: &Letter, failure: &Failure) -> Result<bool, StoreError>;

    /// Removes a redriven dead letter; returns whether it existed. Waits for a replica that is
    /// removing it.
    ///
    /// # Errors
    /// Any [`StoreError`]; roll back.
    async fn unbury(&mut self, consumer: &str, id: MessageId) -> Result<bool, StoreError>;
}

/// The inbox of one consumer, for people and monitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxStatus {
    /// The consumer.
    pub consumer: String,
    /// Age of the oldest id kept; `None` if there is none.
    pub oldest_id_age: Option<Duration>,
    /// Watermarks kept.
    pub lanes: u64,
    /// Messages handled by watermark, and how many of them were reordered or impossible.
    pub tally: Tally,
    /// Dead letters that wait for a person.
    pub dead: u64,
}

/// The number of rows that one purge of an inbox removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxPurged {
    /// Ids removed.
    pub ids: u64,
    /// Discarded dead letters removed.
    pub discarded: u64,
}

/// A database that holds an inbox, for consumers and tools. In [`ParkedFilter`] and [`ParkedView`]
/// of this port, `route` is the consumer's name, and the times are those of the dead letter.
#[async_trait]
pub trait InboxStore: Send + Sync + 'static {
    /// The oldest `limit` matching dead letters of consumers, oldest first, including discarded
    /// ones that `ids` names.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn letters(
        &self,
        filter: &ParkedFilter,
        limit: u32,
    ) -> Result<Vec<ParkedView>, StoreError>;

    /// Redrives matching dead letters; returns their number. A running consumer takes them with
    /// [`due_letters`](Self::due_letters).
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn redrive_letters(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError>;

    /// Discards matching dead letters for good; returns their number.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn discard_letters(
        &self,
        filter: &ParkedFilter,
        by: &str,
        why: &str,
    ) -> Result<u64, StoreError>;

    /// At most `limit` redriven dead letters of the consumer, in the order of their redrives.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn due_letters(&self, consumer: &str, limit: u32) -> Result<Vec<Letter>, StoreError>;

    /// Removes up to `rows_max` ids of the consumer that were recorded longer than `window` ago, by
    /// the database's clock, and up to `rows_max` dead letters discarded before that. It removes
    /// nothing younger.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn purge_inbox(
        &self,
        consumer: &str,
        window: Duration,
        rows_max: u32,
    ) -> Result<InboxPurged, StoreError>;

    /// Lets the consumer accept messages of another log of the source, of any topic; returns
    /// whether the log is new. Messages that the source sent under its old log and sends again
    /// under this one take effect again.
    ///
    /// # Errors
    /// Kind `Refused` when the consumer knows no log of that source.
    async fn adopt_log(
        &self,
        consumer: &str,
        source: &str,
        log: Uuid,
        by: &str,
    ) -> Result<bool, StoreError>;

    /// Removes the consumer's watermarks of the log, because its seqs now belong to other messages;
    /// returns the number of lanes. Messages that the source sent before and sends again take
    /// effect again.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn forget_log(&self, consumer: &str, log: Uuid) -> Result<u64, StoreError>;

    /// The status of each consumer's inbox, for people and monitors.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn inbox_status(&self) -> Result<Vec<InboxStatus>, StoreError>;
}
