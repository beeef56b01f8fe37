//! The broker suite: what [`Broker`](posthaste_core::Broker) and
//! [`Subscriber`](posthaste_core::Subscriber) promise, fact by fact, on a real server.
//!
//! A case is named after what it is about and the fact it shows, for example
//! `order::keys_keep_theirs_under_load`. Cases share a server and run at once, each on topics of its
//! own; those that stop, kill or freeze a server have one to themselves and run one after the other.

mod bed;
mod case;
mod driver;
mod inbox;
mod kit;

mod call;
mod close;
mod destination;
mod examine;
mod fault;
mod header;
mod lane;
mod message;
mod order;
mod profile;
mod restart;
mod size;
mod subscriber;

pub use bed::{Bed, Faults, Fixture, Traits};
pub use case::{Case, Needs, run};
pub use header::ODD_HEADERS;

pub use crate::verdict::Verdict;

/// Every case, grouped by what it is about.
#[must_use]
pub fn cases() -> Vec<Case> {
    let groups = [
        message::cases(),
        profile::cases(),
        destination::cases(),
        header::cases(),
        size::cases(),
        call::cases(),
        order::cases(),
        subscriber::cases(),
        lane::cases(),
        close::cases(),
        examine::cases(),
        fault::cases(),
        restart::cases(),
    ];
    groups.into_iter().flatten().collect()
}
