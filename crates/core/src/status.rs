//! What people and monitors ask a store. No number here needs a scan of a big table.

use serde::Serialize;

/// A cheap picture of everything.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Every route the database knows, and every name that parked messages belong to though no such
    /// route is registered any more.
    pub routes: Vec<RouteStatus>,
    /// Every relay that was there lately.
    pub relays: Vec<RelayStatus>,
    /// Topics among the newest messages (up to 10,000) that no route matches.
    pub unrouted: Vec<UnroutedTopic>,
    /// Times at which a relay found that the log had gone back in time, newest first, at most
    /// [`REWINDS_MAX`].
    pub rewinds: Vec<RewindStatus>,
}

/// Most rewinds that [`Status::rewinds`] tells of.
pub const REWINDS_MAX: u32 = 20;

/// One time at which the log was found to have gone back in time: a standby was promoted, a backup
/// restored, a file replaced. Messages enqueued before may be gone from this database.
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
    /// Whether the route is registered. If not, it was removed while messages of it were retrying or
    /// dead: nothing is delivered for it, and only the counts of those messages are set.
    pub registered: bool,
    /// Its topic patterns.
    pub topics: Vec<String>,
    /// Its leases, one per shard.
    pub leases: Vec<LeaseStatus>,
    /// Upper bound of messages not yet passed: the distance in the log, other routes' topics
    /// included, measured from the shard that is furthest behind.
    pub pending: u64,
    /// Age in seconds of the oldest message of the route not yet passed; 0 when there is none.
    pub oldest_pending_age_seconds: f64,
    /// Parked messages waiting for another attempt, or behind another of their key (counted up to
    /// 10,000).
    pub retrying: u64,
    /// Seconds for which the oldest of them has been retrying, since it was parked or redriven; 0
    /// when there is none.
    pub oldest_retrying_age_seconds: f64,
    /// Dead letters (counted up to 10,000).
    pub dead: u64,
    /// Why the route is paused, where a relay that is there has paused it.
    pub paused: Option<PauseStatus>,
}

impl RouteStatus {
    /// A route that is not registered, of which messages are left.
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

/// Why a route is paused, as the relay that serves it said with its latest beat.
#[derive(Clone, Debug, Serialize)]
pub struct PauseStatus {
    /// What the broker's adapter said, in one line.
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
    /// Who holds it, where someone does.
    pub relay: Option<String>,
    /// How often it changed hands.
    pub epoch: i64,
    /// Highest seq passed.
    pub seq: i64,
    /// Seconds until it expires, where someone holds it.
    pub expires_in_seconds: Option<f64>,
}

/// One relay.
#[derive(Clone, Debug, Serialize)]
pub struct RelayStatus {
    /// The process's identity.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Seconds since it was last heard of.
    pub seen_seconds_ago: f64,
}

/// Messages that go nowhere until someone adds a route. They are kept.
#[derive(Clone, Debug, Serialize)]
pub struct UnroutedTopic {
    /// The topic.
    pub topic: String,
    /// How many of the newest messages have it.
    pub messages: u64,
}
