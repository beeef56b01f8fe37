//! The glossary and the contracts of Posthaste: messages, positions in the log, outcomes of
//! brokers, and the three ports ([`Store`], [`Broker`], [`Subscriber`]) that adapters implement.
//!
//! Nothing here knows a driver, a runtime, the environment or the wall clock.
//!
//! | word | meaning |
//! |---|---|
//! | *message* | the unit that an application enqueues and a relay delivers ([`Message`]) |
//! | *outbox* | the append-only table of messages, also called the log |
//! | *topic* | the name by which routes select messages |
//! | *key* | messages of one key keep their order |
//! | *seq* | the number of a message in the log, drawn before its commit ([`Seq`]) |
//! | *route* | a named path from topics to one broker, with its own progress ([`RouteSpec`]) |
//! | *shard* | a part of a route's keys, chosen by hash ([`Shard`]) |
//! | *relay* | a process that serves routes |
//! | *lease* | the right to serve one shard of a route, with an epoch ([`Lease`]) |
//! | *position* | how far a shard has read ([`Position`]) |
//! | *evidence* | facts by which a store detects that its log went back in time ([`Evidence`]) |
//! | *fetch, publish, settle* | the three steps of a relay |
//! | *park* | put a failing message aside with its error and its next attempt ([`Parked`]) |
//! | *dead letter* | a parked message that a relay does not retry by itself |
//! | *redrive* | send a dead letter again |
//! | *discard* | give up a dead letter for good |
//! | *floor* | the seq up to which the broker had acknowledged all messages ([`Floor`]) |
//! | *inbox* | the record of the messages that a consumer has handled ([`InboxConnection`], [`InboxStore`]) |
//! | *watermark* | an inbox by position: a floor and the handled seqs above it ([`Watermark`]) |
//! | *page* | handled seqs of a stretch of the log, beside a watermark ([`LanePage`]) |
//! | *lane* | messages that a subscriber gets in order, such as a partition ([`LaneKey`]) |
//!
//! The ports are exempt from semantic versioning until 1.0: an adapter pins the exact version of
//! this crate. Applications use the facade crate `posthaste`, which is not exempt.

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
