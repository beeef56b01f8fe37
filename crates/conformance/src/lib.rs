//! The suites every adapter must pass, written once, black-box, against the ports alone. What happened to
//! messages is judged by the [history checker](posthaste_history) they share with all other tests.
//!
//! A store's whole test file (`[[test]] name = "conformance", harness = false`):
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use posthaste_conformance::store::{self, MemoryFixture};
//!
//! fn main() -> ExitCode {
//!     // A `StoreFixture`: gives each case a fresh, migrated database with nothing in it.
//!     store::run("memory", MemoryFixture)
//! }
//! ```
//!
//! A broker's is the same with [`broker::run`] and a [`broker::Fixture`], which gives two servers: one
//! that many cases share, and one to stop, kill and freeze.
//!
//! Shipped code never depends on this crate.

pub mod broker;
pub mod inbox;
pub mod store;
mod verdict;
