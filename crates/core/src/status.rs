//! The status of a store, for people and monitors. No number here needs a scan of a big table.

use serde::Serialize;

/// The status of routes and relays.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Every registered route, and every removed route that still has parked messages.
    pub routes: Vec<RouteStatus>,
    /// Every relay with a recent heartbeat.
    pub relays: Vec<RelayStatus>,
    /// Topics among the newest messages (up to 10,000) that no route matches.
    pub unrouted: Vec<UnroutedTopic>,
    /// Times at which a relay found that the log had gone back in time, newest first, at most
    /// [`REWINDS_MAX`].
    pub rewinds: Vec<RewindStatus>,
}

/// Most entries of [`Status::rewinds`].
pub const REWINDS_MAX: u32 = 20;

/// A rewind: a relay found that the log had gone back in time, because a standby was promoted, a
/// backup restored or a file replaced. Messages enqueued before may be gone from this database.
#[derive(Clone, Debug, Serialize)]
pub struct RewindStatus {
    /// The route on which it was noticed.
    pub route: String,
    /// Seconds since it was noticed.
    pub seconds_ago: f64,
    /// The relay that noticed it.
    pub relay: String,
}

/// One route.
#[derive(Clone, Debug, Serialize)]
pub struct RouteStatus {
    /// Its name.
    pub name: String,
    /// Whether the route is registered. If not, it was removed while it had retrying messages or
    /// dead letters: no relay delivers them, and only their counts are set.
    pub registered: bool,
    /// Its topic patterns.
    pub topics: Vec<String>,
    /// Its leases, one per shard.
    pub leases: Vec<LeaseStatus>,
    /// Upper bound of messages not yet passed: the distance in the log from the shard that is
    /// furthest behind, including messages of other routes.
    pub pending: u64,
    /// Age in seconds of the oldest message of the route not yet passed; 0 when there is none.
    pub oldest_pending_age_seconds: f64,
    /// Parked messages that wait for another attempt, or behind a parked message of their key
    /// (counted up to 10,000).
    pub retrying: u64,
    /// Seconds since the oldest retrying message was parked or redriven; 0 when there is none.
    pub oldest_retrying_age_seconds: f64,
    /// Dead letters (counted up to 10,000).
    pub dead: u64,
    /// Why the route is paused, if a live relay has paused it.
    pub paused: Option<PauseStatus>,
}

impl RouteStatus {
    /// The status of a removed route that still has messages.
    #[must_use]
    pub fn unregistered(name: String) -> Self {
        Self {
            name,
            registered: false,
            topics: Vec::new(),
            leases: Vec::new(),
            pending: 0,
            oldest_pending_age_seconds: 0.0,
            retrying: 0,
            oldest_retrying_age_seconds: 0.0,
            dead: 0,
            paused: None,
        }
    }

    /// Whether a relay holds the lease of at least one shard.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.leases.iter().any(|lease| lease.relay.is_some())
    }
}

/// Why a route is paused, from the latest heartbeat of the relay that serves it.
#[derive(Clone, Debug, Serialize)]
pub struct PauseStatus {
    /// The adapter's reason, in one line.
    pub reason: String,
    /// How long the route has been paused, in seconds.
    pub seconds: f64,
    /// The identity of the relay that paused it.
    pub relay: String,
}

/// One shard's lease.
#[derive(Clone, Debug, Serialize)]
pub struct LeaseStatus {
    /// The shard, counted from 0.
    pub shard: u16,
    /// The relay that holds the lease, if any.
    pub relay: Option<String>,
    /// The epoch of the lease.
    pub epoch: i64,
    /// Highest seq passed.
    pub seq: i64,
    /// Seconds until the lease expires, if a relay holds it.
    pub expires_in_seconds: Option<f64>,
}

/// One relay.
#[derive(Clone, Debug, Serialize)]
pub struct RelayStatus {
    /// The process's identity.
    pub id: String,
    /// The relay's name.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// Seconds since its last heartbeat.
    pub seen_seconds_ago: f64,
}

/// A topic that no route matches. Its messages are kept until a route matches them.
#[derive(Clone, Debug, Serialize)]
pub struct UnroutedTopic {
    /// The topic.
    pub topic: String,
    /// The number of its messages among the newest ones.
    pub messages: u64,
}
