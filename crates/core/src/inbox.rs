//! The ports to a database that holds an inbox: what has been handled, and what could not be.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    Failure, LanePage, Message, MessageId, PageRange, PagesWanted, ParkedFilter, ParkedView,
    Provenance, Shard, StoreError,
};

/// What a watermark is kept under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey {
    /// The consumer.
    pub consumer: String,
    /// The log its messages come from.
    pub log: Uuid,
    /// The lane, as [`Incoming::lane`](crate::Incoming::lane) names it.
    pub lane: String,
    /// Their topic: two routes may take different topics of one log to one lane, each at its own
    /// pace, so a floor of one says nothing of the other.
    pub topic: String,
}

impl LaneKey {
    /// Longest lane name, in bytes.
    pub const LANE_BYTES_MAX: usize = 512;
}

/// What to add to a lane's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages handled.
    pub handled: u64,
    /// Of those, handled after something later.
    pub reordered: u64,
    /// Of those, whose sender contradicted itself.
    pub impossible: u64,
}

/// A message that a consumer gave up, or that a person sent to it again.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The consumer.
    pub consumer: String,
    /// The message.
    pub message: Message,
    /// Where it came from: its source and seq are kept.
    pub provenance: Provenance,
    /// Failures of the handler since it arrived or was last redriven.
    pub attempts: u32,
}

/// The inbox on the connection of an open transaction: everything here is kept if and only if that
/// commits.
#[async_trait]
pub trait InboxConnection: Send {
    /// Which of the ids are recorded for the consumer. Reads what is committed; waits for nobody.
    ///
    /// # Errors
    /// When the database fails; roll back.
    async fn recorded(
        &mut self,
        consumer: &str,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError>;

    /// Records those of the ids that are not recorded yet; returns how many. Waits for an open
    /// transaction that records one of them: until it ends it is not known whether they are new.
    ///
    /// # Errors
    /// When the database fails; roll back. Kind `Unavailable` where two wait for each other.
    async fn record(&mut self, consumer: &str, ids: &[MessageId]) -> Result<u64, StoreError>;

    /// Locks the lane until the transaction ends, and returns its watermark as text; empty where
    /// nothing has been written.
    ///
    /// # Errors
    /// When the database fails; roll back.
    async fn lock_lane(&mut self, lane: &LaneKey) -> Result<String, StoreError>;

    /// Writes the watermark of a lane that is locked.
    ///
    /// # Errors
    /// When the database fails; roll back.
    async fn write_lane(
        &mut self,
        lane: &LaneKey,
        watermark: &str,
        tally: Tally,
    ) -> Result<(), StoreError>;

    /// Those of the pages of a shard that are there. The lane is locked.
    ///
    /// # Errors
    /// When the database fails; roll back.
    async fn read_pages(
        &mut self,
        lane: &LaneKey,
        wanted: &PagesWanted,
    ) -> Result<Vec<LanePage>, StoreError>;

    /// Writes pages of a shard, in place of those of the same numbers. The lane is locked.
    ///
    /// # Errors
    /// When the database fails; roll back.
    async fn write_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        pages: &[LanePage],
    ) -> Result<(), StoreError>;

    /// Removes the first `limit` of a range of pages of a shard; returns the number of the first that
    /// may be left, which is above the range where none is. The lane is locked.
    ///
    /// # Errors
    /// When the database fails; roll back.
    async fn remove_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        range: PageRange,
        limit: u32,
    ) -> Result<i64, StoreError>;

    /// Whether the consumer takes messages of this topic of this log from this source: the first log
    /// that a source sends the topic from is accepted here, others by [`InboxStore::adopt_log`].
    /// (Every route of a source has a log of its own, so two topics may come from two.)
    ///
    /// # Errors
    /// When the database fails; roll back.
    async fn accept_log(&mut self, lane: &LaneKey, source: &str) -> Result<bool, StoreError>;

    /// Keeps a message as a dead letter of its consumer; one that is there already, because its id
    /// was forgotten and it came again, gets the latest attempts and error, and is dead again.
    /// Its texts may be any: see [`Letter::kept`].
    ///
    /// # Errors
    /// When the database fails; roll back.
    async fn bury(&mut self, letter: &Letter, failure: &Failure) -> Result<(), StoreError>;

    /// A redriven dead letter failed again: it gets the latest attempts and error, and is dead.
    /// `false`, and nothing is kept, where it is not there: another has handled it. Waits for one
    /// that does so.
    ///
    /// # Errors
    /// When the database fails; roll back.
    async fn rebury(&mut self, letter: &Letter, failure: &Failure) -> Result<bool, StoreError>;

    /// Removes a redriven dead letter; whether it was there to be removed. Waits for another that
    /// does so.
    ///
    /// # Errors
    /// When the database fails; roll back.
    async fn unbury(&mut self, consumer: &str, id: MessageId) -> Result<bool, StoreError>;
}

/// What the inbox holds for one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxStatus {
    /// The consumer.
    pub consumer: String,
    /// Age of the oldest id kept; `None` where none is.
    pub oldest_id_age: Option<Duration>,
    /// Watermarks kept.
    pub lanes: u64,
    /// Messages handled by watermark, of those reordered, and of those impossible.
    pub tally: Tally,
    /// Dead letters that nobody decided about.
    pub dead: u64,
}

/// What one round of cleaning an inbox removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxPurged {
    /// Ids forgotten.
    pub ids: u64,
    /// Discarded dead letters removed.
    pub discarded: u64,
}

/// A database that holds an inbox, for runners and tools. In [`ParkedFilter`] and [`ParkedView`]
/// `route` is the consumer's name here, and times are those of the dead letter.
#[async_trait]
pub trait InboxStore: Send + Sync + 'static {
    /// Dead letters of consumers (and discarded ones, where `ids` names them) that match, oldest
    /// first, the oldest `limit` of them.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn letters(
        &self,
        filter: &ParkedFilter,
        limit: u32,
    ) -> Result<Vec<ParkedView>, StoreError>;

    /// Gives matching dead letters to their consumers again; returns how many. A running consumer
    /// takes them with [`due_letters`](Self::due_letters).
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn redrive_letters(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError>;

    /// Gives matching dead letters up for good; returns how many.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn discard_letters(
        &self,
        filter: &ParkedFilter,
        by: &str,
        why: &str,
    ) -> Result<u64, StoreError>;

    /// Redriven dead letters of the consumer, those redriven first in front; `limit` at most.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn due_letters(&self, consumer: &str, limit: u32) -> Result<Vec<Letter>, StoreError>;

    /// Forgets up to `rows_max` ids of the consumer that were recorded longer than `window` ago, by
    /// the database's clock, and as many dead letters discarded before that. Never anything younger.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn purge_inbox(
        &self,
        consumer: &str,
        window: Duration,
        rows_max: u32,
    ) -> Result<InboxPurged, StoreError>;

    /// Lets the consumer take messages of another log of the source, whatever their topic; whether
    /// that is new. What the
    /// source sent under its old log and sends again under this one takes effect again.
    ///
    /// # Errors
    /// Kind `Refused` where the consumer knows no log of that source.
    async fn adopt_log(
        &self,
        consumer: &str,
        source: &str,
        log: Uuid,
        by: &str,
    ) -> Result<bool, StoreError>;

    /// Forgets what the consumer handled of the log by position: its seqs mean other messages now. How
    /// many lanes that was. What the source sent before and sends again takes effect again.
    ///
    /// # Errors
    /// As for every call.
    async fn forget_log(&self, consumer: &str, log: Uuid) -> Result<u64, StoreError>;

    /// The picture for people and monitors, by consumer.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn inbox_status(&self) -> Result<Vec<InboxStatus>, StoreError>;
}
