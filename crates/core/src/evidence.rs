//! Detects that the log went back in time, or belongs to another server.
//!
//! Positions, seqs and epochs are valid only within one history of one server. That history can
//! change under a running relay: a lagging standby is promoted, a backup is restored, a file is
//! replaced. Then the relay remembers rows that are gone, and their seqs are handed out again to
//! other messages.
//!
//! So every fetch and every settlement carries [`Evidence`]: facts of the history in which the
//! lease was granted. The store looks for them in the same statement or transaction as it reads or
//! writes, and answers [`Rewound`](crate::StoreErrorKind::Rewound) if one is missing.

use std::sync::Arc;

use uuid::Uuid;

use crate::{MessageId, Seq};

/// The server's own name for its history: PostgreSQL's system identifier and timeline. Opaque
/// outside the store, and empty if the server has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage(pub Arc<str>);

/// One entry of a shard's journal. Later entries are greater; the default is before the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The epoch under which it was written.
    pub epoch: i64,
    /// The number of the entry within the epoch.
    pub n: i64,
}

/// A row of the log that was read: its seq belongs to this message and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The seq of the row.
    pub seq: Seq,
    /// The message of the row.
    pub id: MessageId,
}

/// Facts of the history in which a lease was granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The server's lineage at the grant.
    pub lineage: Lineage,
    /// The shard's latest journal entry known to the holder: the journal never ends before it.
    pub entry: Entry,
    /// The last row that the holder has scanned. No other message ever has its seq. Retention may
    /// have removed the row since, but not before the shard's journal passed it.
    pub witness: Option<Witness>,
}

/// A lease that ended because the log went back in time. A [`Claim`](crate::Claim) that carries it
/// makes the store give the route's log another name, unless another relay has already caused that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// The epoch of that lease. Epochs granted from now on are higher.
    pub epoch: i64,
    /// The log's name under which the holder sent messages.
    pub log: Uuid,
}
