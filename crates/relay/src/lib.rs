//! The relay: delivers every committed message of a store to a broker, in order per key.
//!
//! ```text
//!  lease shard ──> fetch ──> publish (many keys at once, one in flight per key) ──> settle ──> next
//!                    ▲            │ rejected: park, block the key                     │ append progress,
//!                    └─ position ─┴ unreachable: pause the route                      └ fenced by epoch
//! ```
//!
//! [`Relay`] supervises: it registers routes, writes the heartbeat, acquires shards and gives them
//! back, and serves a shard again after a panic. `shard` serves one lease. Its parts without I/O
//! are `window` (the messages in memory, which of them may be sent, how far the finished prefix
//! reaches), `floor` (which messages were acknowledged before a message) and `gate` (outage, probe,
//! ramp). `keeper` runs retention. `events` holds all telemetry, `outage` decides which pauses of a
//! route are logged, and `describe` holds the help texts of metrics.
//!
//! This crate uses ports only: no SQL, no driver, no signal handling, no wall clock.

mod answers;
mod board;
mod calls;
mod clock;
mod describe;
mod events;
mod floor;
mod gate;
mod keeper;
mod lane;
mod outage;
#[cfg_attr(
    not(feature = "planted"),
    allow(dead_code, unreachable_pub, reason = "bugs nobody can ask for")
)]
mod planted;
mod settings;
mod shard;
mod slot;
mod supervisor;
mod window;

pub use clock::TokioClock;
pub use describe::describe_metrics;
#[cfg(feature = "planted")]
pub use planted::{Planted, plant};
pub use settings::{Route, Settings};
pub use supervisor::{Error, Handle, Health, Relay, RouteHealth, RouteState};
