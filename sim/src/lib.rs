//! The simulator: runs the shipping relay, inbox and consumer on a fake store, broker and clock,
//! under virtual time; one seed decides all faults. [`Schedule::run`] runs one schedule. Its parts:
//! `plan` draws the schedule; `stage` builds and restarts relays and consumers; `process` pauses or
//! kills them at any await; `store`, `broker` and `database` inject faults into their calls;
//! `actors` act from outside; `world` keeps randomness, time, the trace and the truth about every
//! message. `posthaste-history` checks the result. [`Planted`] bugs show that the simulator would
//! notice a bug.
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
