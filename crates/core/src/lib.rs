//! The words and the contracts of Posthaste: what a message is, how a log is read, what a broker
//! may answer, and the three ports ([`Store`], [`Broker`], [`Subscriber`]) that adapters implement.
//!
//! Nothing here knows a driver, a runtime, the environment or the wall clock.
//!
//! | word | meaning |
//! |---|---|
//! | *message* | what the application enqueues ([`Message`]) |
//! | *outbox* | the append-only table it lands in |
//! | *topic*, *key* | where it should go; what it is ordered by |
//! | *route* | a named path from topics to one broker, with its own progress ([`RouteSpec`]) |
//! | *lease* | the right to serve one shard of a route ([`Lease`]) |
//! | *position* | how far a shard has read ([`Position`]) |
//! | *evidence* | facts by which a store tells that its log went back in time ([`Evidence`]) |
//! | *fetch, publish, settle* | the three steps of a relay |
//! | *park* | put a failing message aside with its error and its next attempt ([`Parked`]) |
//! | *dead letter* | a parked message that will not be retried by itself |
//! | *redrive* | send a dead letter again |
//! | *inbox* | what a consumer has handled ([`InboxConnection`], [`InboxStore`]) |
//! | *watermark* | the same by position: a floor and what is handled above it ([`Watermark`]) |
//! | *page* | a stretch of the log with what is handled in it, beside a watermark ([`LanePage`]) |
//!
//! The ports are exempt from semantic versioning until 1.0: an adapter pins the exact version of
//! this crate. What applications use is the facade crate `posthaste`, which is not exempt.

mod admission;
mod broker;
mod clock;
mod error;
mod evidence;
mod finding;
mod floor;
mod inbox;
mod lease;
mod letter;
mod message;
mod page;
mod parked;
mod pause;
mod position;
mod retry;
mod route;
mod status;
mod store;
mod url;
mod watermark;

pub use admission::{Admitted, InboxError, InboxMode, InboxRule, Input};
pub use broker::{
    Broker, BrokerCapabilities, CallOrder, Delivery, Incoming, Outcome, Provenance, Sharing, Start,
    Subscriber, Subscription,
};
pub use clock::{Clock, log_seconds};
pub use error::{BrokerError, Failure, Invalid, StoreError, StoreErrorKind};
pub use evidence::{Entry, Evidence, Lineage, Rewound, Witness};
pub use finding::Finding;
pub use floor::{FLOOR_MISSING_MAX, Floor};
pub use inbox::{InboxConnection, InboxPurged, InboxStatus, InboxStore, LaneKey, Letter, Tally};
pub use lease::{Claim, Grant, Lease, RelayBeat, RelayId};
pub use message::{
    HEADERS_BYTES_MAX, KEY_BYTES_MAX, Message, MessageId, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX,
    TOPIC_BYTES_MAX,
};
pub use page::{LanePage, PageRange, page_of};
pub use parked::{Next, Park, ParkState, Parked, ParkedFilter, ParkedView, Repark};
pub use pause::Pause;
pub use position::{Horizon, Position, Seq, Snapshot, Step};
pub use retry::{Backoff, OnDead, RetryPolicy};
pub use route::{BUCKETS, RouteSpec, SHARDS_MAX, Shard, TopicPattern, bucket};
pub use status::{
    LeaseStatus, PauseStatus, REWINDS_MAX, RelayStatus, RewindStatus, RouteStatus, Status,
    UnroutedTopic,
};
pub use store::{
    Batch, Due, Fetch, Fetched, Layout, Purged, Retention, Settled, Settlement, Store,
    StoreCapabilities,
};
pub use url::{
    UrlParameter, UrlValues, check_parameters, misplaced_character, one_host, refused_url,
    several_hosts, shown_servers,
};
pub use watermark::{Judgement, Overflow, PagesWanted, Place, Watermark};
