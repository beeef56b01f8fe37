//! Tracks which process holds which shard by the rules, and checks the grants and settlements of
//! the store against it.

use std::{collections::HashMap, time::Duration};

use posthaste_core::{Lease, Shard};

/// Every shard that was ever granted.
#[derive(Default)]
pub(crate) struct Leases {
    shards: HashMap<(String, Shard), Term>,
}

/// The latest term of a shard.
struct Term {
    lease: Lease,
    /// By the database's clock; `None` once it was given back.
    expires_at: Option<Duration>,
    /// The holder, and whether it certainly knows of the lease.
    process: u32,
    is_told: bool,
}

/// To whom a shard was granted.
pub(crate) struct Granted<'l> {
    pub(crate) lease: &'l Lease,
    pub(crate) process: u32,
    /// Whether the answer is sure to reach it.
    pub(crate) is_told: bool,
    pub(crate) ttl: Duration,
}

impl Leases {
    fn latest(&mut self, lease: &Lease) -> Option<&mut Term> {
        self.shards.get_mut(&(lease.route.clone(), lease.shard))
    }

    /// Records a grant of a shard. Returns the broken rule, if any.
    pub(crate) fn granted(&mut self, granted: &Granted<'_>, now: Duration) -> Option<String> {
        let Granted { lease, process, is_told, ttl } = *granted;
        let before = self.shards.insert(
            (lease.route.clone(), lease.shard),
            Term { lease: lease.clone(), expires_at: Some(now + ttl), process, is_told },
        );
        let before = before?;
        if before.lease.epoch >= lease.epoch {
            return Some(format!("P3 shard {} was granted with an old epoch", lease.shard));
        }
        let is_held = before.expires_at.is_some_and(|expires_at| expires_at > now);
        is_held.then(|| format!("P4 shard {} was granted while it was held", lease.shard))
    }

    /// A lease was extended.
    pub(crate) fn renewed(&mut self, lease: &Lease, now: Duration, ttl: Duration) {
        if let Some(term) = self.latest(lease).filter(|term| term.lease == *lease) {
            term.expires_at = term.expires_at.max(Some(now + ttl));
        }
    }

    /// A lease was given back by someone who may not hold it any more.
    pub(crate) fn released(&mut self, lease: &Lease) {
        if let Some(term) = self.latest(lease).filter(|term| term.lease == *lease) {
            term.expires_at = None;
        }
    }

    /// Whether a live process that knows of its lease still holds one.
    pub(crate) fn is_held(&self, now: Duration, is_dead: impl Fn(u32) -> bool) -> bool {
        self.shards.values().any(|term| {
            let is_valid = term.expires_at.is_some_and(|expires_at| expires_at > now);
            is_valid && term.is_told && !is_dead(term.process)
        })
    }

    /// The database went back in time: it knows of other leases than were granted last.
    pub(crate) fn rewound(&mut self) {
        self.shards.clear();
    }

    /// The route is split anew, or its log has another name: its old leases are over.
    pub(crate) fn ended(&mut self, route: &str) {
        self.shards.retain(|(name, _), _| name != route);
    }

    /// Records a settlement. Returns the broken rule, if any.
    pub(crate) fn settled(&mut self, lease: &Lease) -> Option<String> {
        let term = self.latest(lease)?;
        let is_old = term.lease.epoch != lease.epoch;
        is_old
            .then(|| format!("P3 progress of shard {} was written under an old epoch", lease.shard))
    }
}
