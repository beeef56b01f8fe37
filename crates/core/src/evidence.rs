//! How the holder of a lease notices that the log it reads went back in time, or is another server's.
//!
//! Positions, seqs and epochs mean something only within one history of one server. That history can
//! change under a running relay: a standby is promoted before it has everything, a backup is put in
//! place of the data, a file is replaced. Then what the relay remembers speaks of rows that are gone, and
//! their seqs are handed out again to other messages.
//!
//! So every fetch and every settlement carries [`Evidence`]: facts that are in the history the lease was
//! granted in. The store looks for them in the same statement or transaction as it reads or writes, and
//! answers [`Rewound`](crate::StoreErrorKind::Rewound) where one is missing.

use std::sync::Arc;

use uuid::Uuid;

use crate::{MessageId, Seq};

/// Which line of history a server is on, as far as the server itself can say: PostgreSQL's system
/// identifier and timeline. Opaque outside the store, and empty where the server cannot say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage(pub Arc<str>);

/// One entry of a shard's journal. Later entries are greater; the default is before the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The epoch it was written under.
    pub epoch: i64,
    /// Its number among those of the epoch.
    pub n: i64,
}

/// A row of the log that was read: its seq belongs to this message and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Its place in the log.
    pub seq: Seq,
    /// The message at that place.
    pub id: MessageId,
}

/// Facts that are in the history which a lease was granted in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The server's line of history at the grant.
    pub lineage: Lineage,
    /// The shard's latest journal entry known to the holder: the journal never ends before it.
    pub entry: Entry,
    /// The last row the holder has looked at. No other message is ever found at its place. It may have
    /// been removed since, but not before the shard's journal passed it.
    pub witness: Option<Witness>,
}

/// What a holder remembers of a lease whose log turned out to be another one than it was granted in.
/// A [`Claim`](crate::Claim) that carries it makes the store give the route's log another name,
/// unless somebody has done so already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// The epoch of that lease. Epochs granted from now on are higher.
    pub epoch: i64,
    /// The log's name under which the holder sent messages.
    pub log: Uuid,
}
