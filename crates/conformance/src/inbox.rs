//! The inbox suite: what [`InboxConnection`](posthaste_core::InboxConnection),
//! [`InboxStore`](posthaste_core::InboxStore) and [`InboxRule`](posthaste_core::InboxRule) promise, on
//! a database of its own for each case.
//!
//! A store's whole test file is `inbox::run("name", fixture)` with a [`Fixture`].

mod bed;
mod case;
mod commit;
mod ids;
mod kit;
mod lanes;
mod letters;
mod purge;

pub use bed::{Bed, Fixture, Writer};
pub use case::{Case, run};

/// Every case.
#[must_use]
pub fn cases() -> Vec<Case> {
    [commit::cases(), ids::cases(), lanes::cases(), letters::cases(), purge::cases()].concat()
}
