//! Shared code of the services in this folder, which your service would take from a framework: the
//! HTTP server with its limits, the two envelopes, configuration from the environment, JSON logs,
//! metrics, health, the API's description, and database pools. A service is a [`Service`] given to
//! [`run`]; `services/users` is the shortest example. This crate deliberately has no domain code
//! and no SQL.

mod body;
pub mod database;
mod docs;
mod envelope;
mod environment;
mod log;
mod observe;
mod server;
mod service;
mod stream;
#[cfg(feature = "testing")]
pub mod testing;

pub use body::Json;
pub use envelope::{ErrorBody, Problem, Success};
pub use environment::Environment;
pub use server::serve;
pub use service::{BESIDE_DRAIN_TIMEOUT, Beside, Ready, Service, main, run, until_stopped};
