//! What people and monitors ask a store. No number here needs a scan of a big table.

use serde::Serialize;

/// A cheap picture of everything.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Every route the database knows.
    pub routes: Vec<RouteStatus>,
    /// Every relay that was there lately.
    pub relays: Vec<RelayStatus>,
    /// Topics among the newest messages (up to 10,000) that no route matches.
    pub unrouted: Vec<UnroutedTopic>,
}

/// One route.
#[derive(Clone, Debug, Serialize)]
pub struct RouteStatus {
    /// Its name.
    pub name: String,
    /// Its topic patterns.
    pub topics: Vec<String>,
    /// Its leases, one per shard.
    pub leases: Vec<LeaseStatus>,
    /// Upper bound of messages not yet passed: the distance in the log, other routes' topics
    /// included, measured from the shard that is furthest behind.
    pub pending: u64,
    /// Age in seconds of the oldest message of the route not yet passed; 0 when there is none.
    pub oldest_pending_age_seconds: f64,
    /// Parked messages waiting for another attempt (counted up to 10,000).
    pub retrying: u64,
    /// Dead letters (counted up to 10,000).
    pub dead: u64,
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
