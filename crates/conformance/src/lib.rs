//! The suites every adapter must pass, written once, black-box, against the ports alone, and the
//! [history checker](history) they share with the demo and the simulator.
//!
//! A store's whole test file (`[[test]] name = "conformance", harness = false`):
//!
//! ```no_run
//! # use std::{process::ExitCode, sync::Arc};
//! # use posthaste_conformance::store::{self, StoreFixture, TestBed};
//! struct Fixture;
//!
//! #[async_trait::async_trait]
//! impl StoreFixture for Fixture {
//!     async fn fresh(&self) -> Arc<dyn TestBed> {
//!         unimplemented!("a fresh, migrated database with nothing in it")
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     store::run("mine", Fixture)
//! }
//! ```
//!
//! Shipped code never depends on this crate.

pub mod history;
pub mod store;
