//! The right to serve one shard of a route, fenced by an epoch.

use std::{fmt, time::Duration};

use uuid::Uuid;

use crate::{Evidence, Pause, Position, Rewound, Seq, Shard};

/// One running relay. Made fresh at every start, so that two relays of the same name, or a
/// restarted one, are never taken for each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RelayId(pub Uuid);

impl RelayId {
    /// A fresh identity.
    #[must_use]
    pub fn fresh() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A relay saying that it is there, so that others can tell their fair share of shards.
#[derive(Clone, Debug)]
pub struct RelayBeat {
    /// Which process.
    pub id: RelayId,
    /// What people call it; need not be unique.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// The routes it serves.
    pub routes: Vec<String>,
    /// Those of them that it has paused: for people, nothing depends on it.
    pub paused: Vec<Pause>,
}

/// A request for one shard.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The route's name.
    pub route: String,
    /// Which shard of it.
    pub shard: Shard,
    /// Who asks.
    pub relay: RelayId,
    /// How long the lease lasts unless renewed, by the database's clock.
    pub ttl: Duration,
    /// Set by a relay whose last lease of the shard ended because the log had gone back in time.
    pub rewound: Option<Rewound>,
}

/// A lease that was granted. Every write under it names its epoch; a write that finds another
/// epoch fails with [`StoreErrorKind::Fenced`](crate::StoreErrorKind::Fenced).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The route's name.
    pub route: String,
    /// Which shard of it.
    pub shard: Shard,
    /// Whose lease it is.
    pub relay: RelayId,
    /// One higher than that of any earlier lease of this shard.
    pub epoch: i64,
}

/// A lease and the state its holder starts from.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The lease.
    pub lease: Lease,
    /// Where the last holder's progress ended.
    pub position: Position,
    /// Read no further than this: the route is about to be split into another number of shards.
    pub until: Option<Position>,
    /// Keys with a parked message: later messages of theirs must be parked behind it.
    pub blocked: Vec<String>,
    /// Which log the route reads: see [`Floor::log`](crate::Floor::log).
    pub log: Uuid,
    /// Parked messages of the shard that may still come, waiting or dead: their seqs, ascending, the
    /// lowest [`FLOOR_MISSING_MAX`](crate::FLOOR_MISSING_MAX)` + 1` of them.
    pub undelivered: Vec<Seq>,
    /// What this log's history can be known by; see [`Evidence`].
    pub evidence: Evidence,
}
