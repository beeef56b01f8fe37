//! The port to a database that holds an outbox.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::{
    Claim, Entry, Evidence, Finding, Grant, Horizon, Lease, Message, Park, Parked, ParkedFilter,
    ParkedView, Position, RelayBeat, Repark, RouteSpec, Seq, Shard, Snapshot, Status, StoreError,
    Witness,
};

/// Capabilities of a store beyond the port's minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreCapabilities {
    /// Whether several writers may be open at once, so that messages can commit out of `seq` order.
    pub concurrent_writers: bool,
}

/// A request for the next messages of a shard.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The route.
    pub route: String,
    /// The shard of the route.
    pub shard: Shard,
    /// The position after which to read.
    pub after: Position,
    /// If set, rows that this position does not cover are left out.
    pub until: Option<Position>,
    /// Most rows of the log to scan; at least 1.
    pub rows_max: u32,
    /// Most payload bytes to return; one message is always returned.
    pub bytes_max: usize,
    /// The epoch of the lease holder; `None` for a reader without a lease.
    pub epoch: Option<i64>,
    /// The holder's evidence of the log's history; `None` skips the check.
    pub evidence: Option<Evidence>,
}

/// One message read from the log.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The seq of the message.
    pub seq: Seq,
    /// The message.
    pub message: Message,
    /// When it was enqueued, by the database's clock.
    pub enqueued_at: SystemTime,
    /// Time since it was enqueued, by the same clock.
    pub age: Duration,
}

/// The result of a fetch.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Messages of the shard, ascending in seq.
    pub messages: Vec<Fetched>,
    /// All rows up to this seq that the position did not cover have been scanned. At the end of the
    /// log this is at least the seq of the position `after`.
    pub end: Seq,
    /// The snapshot of the fetch: once the batch is handled, the position is `after.passed(end,
    /// &snapshot)`.
    pub snapshot: Snapshot,
    /// Whether there are more rows than the limits allowed.
    pub more: bool,
    /// The last scanned row; `None` if there was none.
    pub witness: Option<Witness>,
}

/// One step of progress, written in one transaction under the lease's epoch.
#[derive(Clone, Debug, Default)]
pub struct Settlement {
    /// The new position: every message that it covers is acknowledged, or parked here or earlier.
    pub position: Option<Position>,
    /// Messages to park.
    pub park: Vec<Park>,
    /// Parked messages that were tried again without success.
    pub repark: Vec<Repark>,
    /// Seqs of parked messages that were acknowledged, to be removed from `parked`.
    pub delivered: Vec<Seq>,
    /// The writer's evidence of the log's history; `None` skips the check.
    pub evidence: Option<Evidence>,
}

impl Settlement {
    /// The position by which a store detects a repeated settlement: the settlement was written
    /// before if this position is the shard's latest. `None` if nothing is parked, because writing
    /// it again changes nothing then.
    #[must_use]
    pub fn parks_up_to(&self) -> Option<&Position> {
        self.position.as_ref().filter(|_| !self.park.is_empty())
    }
}

/// The result of a settlement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Keys of the settlement that no parked message blocks any more.
    pub unblocked: Vec<String>,
    /// The moment at which the settlement was written: see [`Store::is_past`].
    pub horizon: Horizon,
    /// The shard's latest journal entry; the default if no position was written.
    pub entry: Entry,
}

/// Parked messages to try now.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// The messages: per key in seq order, starting with the first of the key.
    pub messages: Vec<Parked>,
    /// Time until the next parked message is due, if one is planned.
    pub next_in: Option<Duration>,
    /// The present value of [`Grant::undelivered`].
    pub undelivered: Vec<Seq>,
}

/// The number of shards of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The present number of shards.
    pub shards: u16,
    /// The requested number of shards during a resize; the present shards stop at a common position
    /// first.
    pub resizing_to: Option<u16>,
}

/// How long finished messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long messages are kept after every route has passed them.
    pub delivered: Duration,
    /// How long discarded dead letters are kept. Other dead letters are never removed.
    pub discarded: Duration,
}

/// The number of rows that one purge removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Messages removed from the log.
    pub messages: u64,
    /// Discarded dead letters removed.
    pub discarded: u64,
    /// Progress entries removed.
    pub progress: u64,
}

/// A database that holds an outbox. All times come from the database's clock. Every call is one
/// attempt with a deadline that the store chooses; after a missed deadline the connection is not
/// used again.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The capabilities of this store. Constant.
    fn capabilities(&self) -> StoreCapabilities;

    /// Checks that a relay can serve the store: the version of the tables is supported, the server
    /// accepts writes, and it is the server that recorded the positions.
    ///
    /// # Errors
    /// Kinds `Schema*`, `ReadOnly`, `OtherServer`, `Denied`, `Unavailable`, each saying what to do.
    async fn check(&self) -> Result<(), StoreError>;

    /// Findings about the database's settings, each problem with its fix.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn examine(&self) -> Result<Vec<Finding>, StoreError>;

    /// Enqueues messages in its own transaction, for tools. Applications enqueue in their own
    /// transactions.
    ///
    /// # Errors
    /// Kind `Refused` for a message that breaks a limit; then nothing is enqueued.
    async fn append(&self, messages: &[Message]) -> Result<(), StoreError>;

    /// Registers the route, or updates its topics. A new route starts at the beginning of the log.
    /// Another number of shards starts a resize: the present shards get [`Grant::until`] and, once
    /// all of them have reached it, [`reshard`](Self::reshard) completes the resize.
    ///
    /// Changed topics take effect at once. Lease holders of the route are fenced. Messages that
    /// were kept because no route matched them, and that the route's position has passed, are
    /// parked for this route, due now; so no message is lost. Registering the same topics again
    /// changes nothing.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn register(&self, route: &RouteSpec) -> Result<Layout, StoreError>;

    /// Completes a resize if every present shard has reached the common position; otherwise changes
    /// nothing. Leases of the old layout end. The resize skips no message and sends none twice.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn reshard(&self, route: &str) -> Result<Layout, StoreError>;

    /// Writes a relay's heartbeat, valid for `ttl`, and returns the number of live relays of each
    /// of its routes, itself included, in the order of [`RelayBeat::routes`].
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError>;

    /// Removes the heartbeat of a relay that stops.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError>;

    /// Grants the shard if its lease is free, or expired by the database's clock, and the layout
    /// still has the shard; `None` otherwise. The epoch of the grant is higher than all earlier
    /// epochs.
    ///
    /// The granted position is the latest position of the shard's journal that this server's log
    /// has reached: no seq that was never handed out here, no snapshot of transactions that this
    /// server has not seen.
    ///
    /// A claim with [`Claim::rewound`] whose log still has that name first ends all leases of the
    /// route, with epochs above the remembered one, gives the log another name, and records the
    /// rewind for [`Status::rewinds`]. That happens even if the shard itself is not granted.
    ///
    /// # Errors
    /// Kind `Refused` for a route that is not registered.
    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError>;

    /// Extends the lease to `ttl` from now; never shortens it.
    ///
    /// # Errors
    /// Kind `Fenced` when the holder has lost the lease.
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError>;

    /// Gives the lease back, so that another relay can acquire it at once. If the holder has
    /// already lost the lease, it changes nothing and returns no error.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Returns the next committed messages that the position does not cover, in seq order. It takes
    /// no lock that an application could wait for, waits for no transaction, and skips no message:
    /// a message that commits late is returned by the first fetch that can see it, before any
    /// message with a higher seq.
    ///
    /// # Errors
    /// Kind `Refused` for a route that is not registered. Kind `Fenced` when the epoch is not the
    /// shard's latest: the next holder may have parked earlier messages, and retention may have
    /// removed them, so the remaining ones would be out of order. Kind `Rewound` when the log does
    /// not have the evidence.
    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError>;

    /// Writes progress and parked messages, all or nothing, if the lease's epoch is still the
    /// latest. A settlement may be repeated when its answer was lost: if its position is the
    /// shard's latest, it has been written before, and parks nothing again, because its parked
    /// messages may have been discarded and removed since.
    ///
    /// # Errors
    /// Kind `Fenced` when the epoch is not the latest, `Rewound` when the log does not have the
    /// evidence; in both cases nothing was written.
    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError>;

    /// Whether every transaction that had drawn a seq before the settlement of `horizon` began had
    /// ended when `snapshot` was taken. If so, and a seq had been read by then, no row can appear
    /// any more at or below that seq that `snapshot` does not see. Returns `false` if it cannot
    /// tell; makes no call to the database.
    fn is_past(&self, horizon: &Horizon, snapshot: &Snapshot) -> bool;

    /// Parked messages of the shard to try now: for each key whose first parked message is due,
    /// that message and those queued behind it. At most `limit` messages and `bytes_max` payload
    /// bytes; one message is always returned.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError>;

    /// The oldest `limit` matching dead letters, oldest first, including discarded ones that `ids`
    /// names. If [`ParkedFilter::is_retrying`] is set, retrying messages instead.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError>;

    /// Redrives matching dead letters, in their key's order, with the same ids and attempts at 0;
    /// returns their number. It never redrives retrying or discarded messages, whatever the filter.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError>;

    /// Discards matching dead letters for good, with the person and the reason; returns their
    /// number. Once it has returned, no attempt starts any more.
    ///
    /// If [`ParkedFilter::is_retrying`] is set, it discards retrying messages instead; messages of
    /// the same key behind them go on. Lease holders of their routes are fenced, so that no relay
    /// tries the messages again; a message that is being sent at that moment may still arrive.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError>;

    /// The status of routes and relays, for people and monitors.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn status(&self) -> Result<Status, StoreError>;

    /// Removes up to `rows_max` messages that every registered route has passed for the retention
    /// time and that at least one route's topics match; also discarded dead letters and old journal
    /// entries. It never removes undelivered messages: neither a late commit below a position nor a
    /// message without a route. No route is registered or changed while the purge decides, so a
    /// message that waits for a route is never removed by a decision older than the route. A
    /// registration does not wait long for a purge, and a purge does not wait for locked rows: it
    /// leaves them.
    ///
    /// # Errors
    /// Any [`StoreError`]; kind `Unavailable` when a registration is in progress or a lock is held.
    /// The rows that could be removed are removed then.
    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError>;
}
