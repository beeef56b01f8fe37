//! Leases, and the relays that want them.

use std::time::Duration;

use posthaste_core::{
    Claim, Entry, Evidence, Grant, Lease, LeaseStatus, Lineage, Position, RelayBeat, RelayId,
    Shard, StoreError, StoreErrorKind,
};

use uuid::Uuid;

use crate::{
    State,
    log::Log,
    rewind::{Rewind, rewound},
    route::Route,
    snapshot::Coverage,
};

/// One shard's lease and progress.
#[derive(Clone, Default)]
pub(crate) struct ShardState {
    /// `None` after a release; an expired holder stays until someone takes over.
    holder: Option<Holder>,
    /// That of the latest grant.
    pub(crate) epoch: i64,
    /// Where it was, and since when; the last one counts. Earlier ones tell a purge how long ago
    /// something was passed.
    pub(crate) progress: Vec<Progress>,
}

#[derive(Clone, Copy)]
struct Holder {
    relay: RelayId,
    expires_at: Duration,
}

#[derive(Clone)]
pub(crate) struct Progress {
    pub(crate) at: Duration,
    pub(crate) position: Position,
    pub(crate) entry: Entry,
}

impl Progress {
    pub(crate) fn coverage(&self) -> Coverage {
        Coverage::of(&self.position).expect("settle takes no position that cannot be understood")
    }
}

/// A relay that said it was there.
#[derive(Clone)]
pub(crate) struct Relay {
    pub(crate) beat: RelayBeat,
    pub(crate) seen_at: Duration,
    pub(crate) expires_at: Duration,
}

impl ShardState {
    /// A free shard of a new layout.
    pub(crate) fn starting(epoch: i64, position: &Position, now: Duration) -> Self {
        let entry = Entry { epoch, n: 1 };
        Self {
            holder: None,
            epoch,
            progress: vec![Progress { at: now, position: position.clone(), entry }],
        }
    }

    /// Appends to the journal, and names the entry.
    pub(crate) fn advance(&mut self, position: &Position, now: Duration) -> Entry {
        let latest = self.entry();
        let n = if latest.epoch == self.epoch { latest.n + 1 } else { 1 };
        let entry = Entry { epoch: self.epoch, n };
        self.progress.push(Progress { at: now, position: position.clone(), entry });
        entry
    }

    pub(crate) fn position(&self) -> Position {
        let last = self.progress.last();
        last.map(|last| last.position.clone()).unwrap_or_default()
    }

    /// Ends the present term, if any.
    pub(crate) fn fence(&mut self) {
        self.holder = None;
        self.epoch += 1;
    }

    /// The holder, if the lease is this very term of this very relay.
    fn held_under(&mut self, lease: &Lease) -> Option<&mut Holder> {
        let holder = self.holder.as_mut()?;
        (holder.relay == lease.relay && self.epoch == lease.epoch).then_some(holder)
    }

    pub(crate) fn status(&self, index: usize, now: Duration) -> LeaseStatus {
        let holder = self.holder.filter(|holder| holder.expires_at > now);
        LeaseStatus {
            shard: u16::try_from(index).expect("at most 256 shards"),
            relay: holder.map(|holder| holder.relay.to_string()),
            epoch: self.epoch,
            seq: self.position().seq(),
            expires_in_seconds: holder.map(|holder| (holder.expires_at - now).as_secs_f64()),
        }
    }
}

impl Route {
    fn acquire(&mut self, claim: &Claim, log_rows: &Log, now: Duration) -> Option<Grant> {
        let until = self.resize.as_ref().map(|resize| resize.barrier.clone());
        let blocked = self.parked.blocked(claim.shard);
        let undelivered = self.parked.undelivered(claim.shard);
        let log = self.log;
        let shard = self.shard(claim.shard)?;
        if shard.holder.is_some_and(|holder| holder.expires_at > now) {
            return None;
        }
        let evidence = Evidence { entry: shard.entry(), ..Evidence::default() };
        shard.epoch += 1;
        shard.holder = Some(Holder { relay: claim.relay, expires_at: now + claim.ttl });
        Some(Grant {
            lease: Lease {
                route: claim.route.clone(),
                shard: claim.shard,
                relay: claim.relay,
                epoch: shard.epoch,
            },
            position: shard.position_within(log_rows),
            until,
            blocked,
            log,
            undelivered,
            evidence,
        })
    }

    /// Ends every lease, with epochs above that one, and gives the log another name.
    fn realign(&mut self, epoch: i64) {
        for shard in &mut self.shards {
            shard.epoch = shard.epoch.max(epoch);
            shard.fence();
        }
        self.log = Uuid::new_v4();
    }

    pub(crate) fn renew(
        &mut self,
        lease: &Lease,
        ttl: Duration,
        now: Duration,
    ) -> Result<(), StoreError> {
        let shard = self.shard(lease.shard);
        if shard.as_ref().is_some_and(|shard| shard.epoch < lease.epoch) {
            return Err(rewound(&lease.route, "renew"));
        }
        let holder = shard.and_then(|shard| shard.held_under(lease));
        let holder =
            holder.ok_or_else(|| fenced(&lease.route, lease.shard, lease.epoch, "renew"))?;
        holder.expires_at = holder.expires_at.max(now + ttl);
        Ok(())
    }

    pub(crate) fn release(&mut self, lease: &Lease) {
        if let Some(shard) = self.shard(lease.shard)
            && shard.held_under(lease).is_some()
        {
            shard.holder = None;
        }
    }

    /// The shard, if the layout has it.
    pub(crate) fn shard(&mut self, shard: Shard) -> Option<&mut ShardState> {
        if usize::from(shard.of) != self.shards.len() {
            return None;
        }
        self.shards.get_mut(usize::from(shard.index))
    }
}

/// What a log is called on a line of history: another name on every line.
fn name_on(log: Uuid, lineage: &Lineage) -> Uuid {
    Uuid::new_v5(&log, lineage.0.as_bytes())
}

/// The error of a call under a lease that has ended.
pub(crate) fn fenced(route: &str, shard: Shard, epoch: i64, operation: &'static str) -> StoreError {
    let message = format!("shard {shard} of route `{route}` is no longer held under epoch {epoch}");
    StoreError::new(StoreErrorKind::Fenced, operation, message)
}

impl State {
    pub(crate) fn acquire(
        &mut self,
        claim: &Claim,
        now: Duration,
    ) -> Result<Option<Grant>, StoreError> {
        let route = self.route(&claim.route, "acquire")?;
        let name = route.log;
        let lineage = self.lineage();
        if let Some(rewound) = claim.rewound {
            let is_named_so = rewound.log == name_on(name, &lineage);
            let (route, relay) = (claim.route.clone(), claim.relay.to_string());
            self.rewinds.push(Rewind { route, relay, at: now });
            let route = self.route(&claim.route, "acquire")?;
            if is_named_so {
                route.realign(rewound.epoch);
            } else if let Some(shard) = route.shard(claim.shard) {
                // It is the claimer's own, and nothing of it is in flight.
                shard.holder = shard.holder.filter(|holder| holder.relay != claim.relay);
            }
        }
        let Self { routes, log, .. } = self;
        let grant = routes.get_mut(&claim.route).and_then(|route| route.acquire(claim, log, now));
        Ok(grant.map(|grant| Grant {
            log: name_on(grant.log, &lineage),
            evidence: Evidence { lineage, ..grant.evidence },
            ..grant
        }))
    }

    pub(crate) fn beat(&mut self, beat: &RelayBeat, ttl: Duration, now: Duration) -> Vec<u32> {
        let relay = Relay { beat: beat.clone(), seen_at: now, expires_at: now + ttl };
        self.relays.insert(beat.id.to_string(), relay);
        let serves = |relay: &&Relay, route: &String| {
            relay.expires_at > now && relay.beat.routes.contains(route)
        };
        let count = |route| self.relays.values().filter(|relay| serves(relay, route)).count();
        let counts = beat.routes.iter().map(count);
        counts.map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect()
    }
}
