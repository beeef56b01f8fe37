//! The port to a database that holds an outbox.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::{
    Claim, Entry, Evidence, Finding, Grant, Horizon, Lease, Message, Park, Parked, ParkedFilter,
    ParkedView, Position, RelayBeat, Repark, RouteSpec, Seq, Shard, Snapshot, Status, StoreError,
    Witness,
};

/// What a store can do beyond the port's minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreCapabilities {
    /// Several writers may be open at once, so messages can commit out of `seq` order.
    pub concurrent_writers: bool,
}

/// A request for the next messages of a shard.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The route whose topics are wanted.
    pub route: String,
    /// Which keys of it.
    pub shard: Shard,
    /// What has been read already.
    pub after: Position,
    /// Rows this position does not cover are left out.
    pub until: Option<Position>,
    /// Rows of the log to look at, at most; at least 1.
    pub rows_max: u32,
    /// Sum of payload bytes, at most, except that one message is always returned.
    pub bytes_max: usize,
    /// The epoch of the holder who asks; `None` for one who only looks.
    pub epoch: Option<i64>,
    /// What the holder knows of the log; `None` where nothing is to be checked.
    pub evidence: Option<Evidence>,
}

/// One message read from the log.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its place in the log.
    pub seq: Seq,
    /// The message.
    pub message: Message,
    /// When it was enqueued, by the database's clock.
    pub enqueued_at: SystemTime,
    /// Time since then, by the same clock.
    pub age: Duration,
}

/// What a fetch found.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Messages of the shard, ascending in seq.
    pub messages: Vec<Fetched>,
    /// Everything not covered before, up to this seq, has been looked at. Where nothing is left to
    /// read this is at least the seq of the position asked with.
    pub end: Seq,
    /// What the fetch saw: having handled the batch, the position is `after.passed(end, &snapshot)`.
    pub snapshot: Snapshot,
    /// Whether more was there than the limits allowed.
    pub more: bool,
    /// The last row that was looked at; `None` where there was none.
    pub witness: Option<Witness>,
}

/// One step of progress, written in one transaction under the lease's epoch.
#[derive(Clone, Debug, Default)]
pub struct Settlement {
    /// Everything it covers is acknowledged, or parked here or earlier.
    pub position: Option<Position>,
    /// Messages to put aside.
    pub park: Vec<Park>,
    /// Parked messages that were tried again without success.
    pub repark: Vec<Repark>,
    /// Parked messages that were acknowledged: forget them.
    pub delivered: Vec<Seq>,
    /// What the writer knows of the log; `None` where nothing is to be checked.
    pub evidence: Option<Evidence>,
}

impl Settlement {
    /// The position by which a store knows whether the settlement was written before: that is so if it is
    /// the shard's latest. `None` where nothing is parked, and writing it again changes nothing.
    #[must_use]
    pub fn parks_up_to(&self) -> Option<&Position> {
        self.position.as_ref().filter(|_| !self.park.is_empty())
    }
}

/// What a settlement changed that its writer must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Keys touched by the settlement that nothing parked holds back any more.
    pub unblocked: Vec<String>,
    /// When it was written: see [`Store::is_past`].
    pub horizon: Horizon,
    /// The shard's latest journal entry now; the default where no position was written.
    pub entry: Entry,
}

/// Parked messages to try now.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// Per key in seq order, starting with the first of the key.
    pub messages: Vec<Parked>,
    /// Time until the next one is due, where one is planned.
    pub next_in: Option<Duration>,
    /// As [`Grant::undelivered`], now.
    pub undelivered: Vec<Seq>,
}

/// How a route is split at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of shards being served.
    pub shards: u16,
    /// Number of shards it is being changed to; the present ones stop at a common position first.
    pub resizing_to: Option<u16>,
}

/// How long what is finished stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Time messages are kept after every route has passed them.
    pub delivered: Duration,
    /// Time discarded dead letters are kept. Dead letters that nobody decided about stay.
    pub discarded: Duration,
}

/// What one round of cleaning removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Messages removed from the log.
    pub messages: u64,
    /// Discarded dead letters removed.
    pub discarded: u64,
    /// Progress entries removed.
    pub progress: u64,
}

/// A database that holds an outbox. All times are the database's own; every call is one attempt
/// with a deadline of the store's choosing, after which the connection is not used again.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// What this store can do. Constant.
    fn capabilities(&self) -> StoreCapabilities;

    /// Whether the store can be served: tables of a version this program knows, a server that takes
    /// writes, and the same server that recorded the positions.
    ///
    /// # Errors
    /// Kinds `Schema*`, `ReadOnly`, `OtherServer`, `Denied`, `Unavailable`, each saying what to do.
    async fn check(&self) -> Result<(), StoreError>;

    /// Settings worth a look, each with its fix.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn examine(&self) -> Result<Vec<Finding>, StoreError>;

    /// Enqueues messages in a transaction of its own: for tools. Applications enqueue in theirs.
    ///
    /// # Errors
    /// Kind `Refused` for a message that breaks a limit; then nothing is enqueued.
    async fn append(&self, messages: &[Message]) -> Result<(), StoreError>;

    /// Makes the route known, or updates its topics. A first registration starts at the beginning of
    /// the log. Another number of shards starts a resize: present shards get
    /// [`Grant::until`] and, once all of them have reached it, [`reshard`](Self::reshard) completes it.
    ///
    /// Changed topics take effect at once: holders of the route are fenced, and messages that were
    /// kept because no route matched them are parked for this route, due now, where its position has
    /// passed them; so none is lost. The same topics change nothing.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn register(&self, route: &RouteSpec) -> Result<Layout, StoreError>;

    /// Completes a resize if every present shard has reached the common position; otherwise changes
    /// nothing. Leases of the old layout end; nothing is skipped and nothing sent twice by it.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn reshard(&self, route: &str) -> Result<Layout, StoreError>;

    /// Says that a relay is there for another `ttl`, and returns how many relays serve each of its
    /// routes, itself included, in the order of [`RelayBeat::routes`].
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError>;

    /// Forgets a relay that stops.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError>;

    /// Grants the shard if its lease is free or expired by the database's clock and the layout still
    /// has it; `None` otherwise. The epoch of the grant is higher than all before it.
    ///
    /// The granted position is the latest of the shard's journal that this server's log has: no seq
    /// that was never handed out here, no snapshot of transactions that this server has not seen.
    ///
    /// A claim with [`Claim::rewound`] whose log still has that name first ends all leases of the route,
    /// with epochs above the remembered one, gives the log another name, and notes that for
    /// [`Status::rewinds`]. That happens even where the shard itself is not granted.
    ///
    /// # Errors
    /// Kind `Refused` for a route that is not registered.
    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError>;

    /// Extends the lease to `ttl` from now; never shortens it.
    ///
    /// # Errors
    /// Kind `Fenced` when it is not the holder's any more.
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError>;

    /// Gives the lease back, so that another relay can have it at once. A lease that is no longer
    /// the holder's is left alone, without error.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// The next committed messages that the position does not cover, in seq order. Takes no lock that
    /// an application could meet, waits for nobody, skips nobody: a message whose transaction commits
    /// after later ones is returned by the first fetch that can see it, before anything later.
    ///
    /// # Errors
    /// Kind `Refused` for a route that is not registered. Kind `Fenced` when the epoch is not the shard's
    /// latest: the next holder may have parked, and retention removed, what comes before what is left.
    /// Kind `Rewound` when the log is not the one the evidence is from.
    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError>;

    /// Writes progress and parked messages, all or nothing, if the lease's epoch is still the latest.
    /// May be repeated when its answer was lost: a settlement whose position is the shard's latest has
    /// been written, and parks nothing again, for what it parked may have been discarded and removed.
    ///
    /// # Errors
    /// Kind `Fenced` when it is not, `Rewound` when the log is not the one the evidence is from; then
    /// nothing was written.
    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError>;

    /// Whether every transaction that had drawn a seq before the settlement of `horizon` began had ended
    /// when `snapshot` was taken. So if a seq had been read by then, whoever has passed everything up to
    /// it that `snapshot` sees has passed all that will ever be there. Says `false` where it cannot
    /// tell; asks nobody.
    fn is_past(&self, horizon: &Horizon, snapshot: &Snapshot) -> bool;

    /// Parked messages of the shard to try now: for each key whose first one is due, it and those
    /// queued behind it, `limit` in all and `bytes_max` of payload, except that one message is always
    /// returned.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError>;

    /// Dead letters (and discarded ones, where `ids` names them) that match, oldest first, the
    /// oldest `limit` of them; where [`ParkedFilter::is_retrying`] is set, retrying messages instead.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError>;

    /// Sends matching dead letters again, in their key's order, with their ids and attempts at 0;
    /// returns how many. Only dead letters: nothing that is retrying or discarded, whatever the filter.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError>;

    /// Gives matching dead letters up for good, by name and with a reason; returns how many. Once it
    /// has returned no attempt starts any more.
    ///
    /// Where [`ParkedFilter::is_retrying`] is set, retrying messages instead: those behind them of the
    /// same key go on. Holders of their routes are fenced, so that nobody tries them again; one that is
    /// being sent at that moment may still arrive.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError>;

    /// The picture for people and monitors.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn status(&self) -> Result<Status, StoreError>;

    /// Removes up to `rows_max` messages that every registered route has passed for the retention
    /// time and that at least one route's topics match, and what else is finished. Never what is
    /// undelivered: not a late commit below a position, not a topic without a route. Whether a
    /// message may go is decided while no route is registered or changed, so what waits for a route
    /// is never removed by a decision that is older than the route. Neither does a registration wait
    /// long for a purge, nor a purge for rows that somebody keeps locked: it leaves them.
    ///
    /// # Errors
    /// When the store cannot be asked; kind `Unavailable` where a registration is under way or a
    /// lock is in the way. Then what could be removed was.
    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError>;
}
