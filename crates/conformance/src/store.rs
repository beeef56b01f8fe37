//! The store suite: every bullet of [`Store`](posthaste_core::Store)'s documentation is a case here.
//!
//! A case is named after the operation it is about and the fact it shows, for example
//! `fetch::late_commit_comes_first`. Each runs in a bed of its own, so all of them run at once.

mod bed;
mod case;
mod kit;
mod memory;

mod append;
mod beat;
mod dead;
mod fetch;
mod floor;
mod late;
mod lease;
mod parked;
mod purge;
mod purge_races;
mod register;
mod resize;
mod rewind;
mod settle;
mod status;

pub use bed::{StoreFixture, TestBed, Writer};
pub use case::{Case, Needs, run};
pub use memory::MemoryFixture;

pub use crate::verdict::Verdict;

/// Every case, grouped by operation.
#[must_use]
pub fn cases() -> Vec<Case> {
    let groups = [
        append::cases(),
        register::cases(),
        fetch::cases(),
        late::cases(),
        lease::cases(),
        settle::cases(),
        parked::cases(),
        floor::cases(),
        dead::cases(),
        resize::cases(),
        rewind::cases(),
        beat::cases(),
        purge::cases(),
        purge_races::cases(),
        status::cases(),
    ];
    groups.into_iter().flatten().collect()
}
