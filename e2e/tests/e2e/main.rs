//! The program as a black box against real servers; see the crate's documentation for how.
//!
//! One executable, so that all of them share one PostgreSQL; those that stop, fill or replace a
//! server have one of their own.

mod bulk;
mod crash;
mod failover;
mod pooler;
mod receiver;
mod refusals;
mod restart;
mod restore;
mod rewind;
mod roles;
mod routes;
mod takeover;
mod upgrade;
