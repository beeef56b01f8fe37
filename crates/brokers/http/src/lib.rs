//! Delivers each message as one signed HTTP request, as
//! [Standard Webhooks](https://www.standardwebhooks.com) lays down, and receives such requests.
//!
//! "Delivered" means that the receiver answered with a 2xx status. What it did before it answered is
//! its own affair: it finds the message's id in `webhook-id` and `Idempotency-Key`, the same on every
//! attempt.
//!
//! One request of a key is under way at a time, because requests on several connections overtake each
//! other. Requests of different keys go out side by side.
//!
//! A webhook goes where a user of the application may have pointed it. So addresses that only mean
//! something inside a network are refused, in the URL and again after each look-up of its name;
//! redirects are not followed and no proxy is used.

mod address;
mod config;
mod connect;
mod examine;
mod outcome;
mod publish;
mod server;
mod signature;
mod subscribe;

pub use config::Config;
pub use publish::HttpBroker;
pub use signature::Secret;
pub use subscribe::{HttpSubscriber, subscribe};
