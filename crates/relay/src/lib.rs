//! The relay: takes every committed message from a store to a broker, in order per key.
//!
//! ```text
//!  lease shard ──> fetch ──> publish (many keys at once, one in flight per key) ──> settle ──> next
//!                    ▲            │ rejected: park, block the key                     │ append progress,
//!                    └─ position ─┴ unreachable: pause the route                      └ fenced by epoch
//! ```
//!
//! [`Relay`] supervises: it registers routes, says that it is there, acquires and gives back shards,
//! restarts what panics. `shard` serves one lease. Its parts that hold no I/O are `window` (what is
//! in memory, what may be sent, how far the contiguous prefix reaches), `floor` (what messages say about
//! those before them) and `gate` (outage, probe, ramp). `keeper` cleans up. `events` is all telemetry,
//! `outage` says which pauses of a route are logged, and `describe` holds the metrics' help texts.
//!
//! Everything here speaks to ports. No SQL, no driver, no signal handling, no wall clock.

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
