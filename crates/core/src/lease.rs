//! The right to serve one shard of a route, fenced by an epoch.

use std::{fmt, time::Duration};

use uuid::Uuid;

use crate::{Evidence, Pause, Position, Rewound, Seq, Shard};

/// The id of one running relay. It is drawn at every start, so that two relays of the same name, or
/// a restarted relay, are never mixed up.
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

/// A relay's heartbeat, from which relays compute their fair share of shards.
#[derive(Clone, Debug)]
pub struct RelayBeat {
    /// The id of the relay.
    pub id: RelayId,
    /// The relay's name for people; need not be unique.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// The routes it serves.
    pub routes: Vec<String>,
    /// The routes that it has paused: for people, nothing depends on them.
    pub paused: Vec<Pause>,
}

/// A request for one shard.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The route's name.
    pub route: String,
    /// The shard of the route.
    pub shard: Shard,
    /// The relay that asks.
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
    /// The shard of the route.
    pub shard: Shard,
    /// The relay that holds the lease.
    pub relay: RelayId,
    /// Higher than the epoch of any earlier lease of this shard.
    pub epoch: i64,
}

/// A lease and the state its holder starts from.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The lease.
    pub lease: Lease,
    /// The latest settled position of the shard.
    pub position: Position,
    /// If set, read no further than this: the route is about to be resharded.
    pub until: Option<Position>,
    /// Keys with a parked message: later messages of these keys must be parked behind it.
    pub blocked: Vec<String>,
    /// The name of the log that the route reads: see [`Floor::log`](crate::Floor::log).
    pub log: Uuid,
    /// Seqs of parked messages of the shard that may still be delivered, retrying or dead:
    /// ascending, the lowest [`FLOOR_MISSING_MAX`](crate::FLOOR_MISSING_MAX)` + 1` of them.
    pub undelivered: Vec<Seq>,
    /// Evidence of this log's history; see [`Evidence`].
    pub evidence: Evidence,
}
