//! The simulator: the shipping relay, inbox and consumer on a fake store, broker and clock, under
//! virtual time, with everything that can go wrong decided by one seed.
//!
//! [`Schedule::run`] is one schedule. Its parts: `plan` draws what it looks like; `stage` builds and
//! restarts relays and consumers; `process` is what lets them be paused or killed at every await;
//! `store`, `broker` and `database` stand between them and the world; `actors` act from outside;
//! `world` keeps chance, time, the trace and the truth. What came of it is judged by
//! `posthaste-history`. [`Planted`] bugs show that it would be noticed.
//!
//! [`Campaign`] runs many schedules and sums up.

mod actors;
mod attempts;
mod broker;
mod campaign;
mod database;
mod fault;
mod flawed;
mod late;
mod leases;
mod panics;
mod plan;
mod planted;
mod process;
mod schedule;
mod stage;
mod store;
mod world;

pub use campaign::{Campaign, Caught, Failure, Summary, catch};
pub use fault::Fault;
pub use planted::Planted;
pub use schedule::{Ended, Schedule};
