//! Writing progress down.

use std::time::Duration;

use posthaste_core::{Entry, Lease, Settled, Settlement, StoreError, StoreErrorKind};

use crate::{
    State,
    lease::fenced,
    rewind::{Present, rewound},
    snapshot::{self, Coverage},
};

impl State {
    /// Everything that can fail comes first: a settlement is written whole or not at all.
    pub(crate) fn settle(
        &mut self,
        lease: &Lease,
        settlement: &Settlement,
        now: Duration,
    ) -> Result<Settled, StoreError> {
        let view = self.log.view();
        self.check_settlement(lease, settlement)?;
        let route = self.route(&lease.route, "settle")?;
        let shard = route.shard(lease.shard);
        let shard = shard.filter(|shard| shard.epoch == lease.epoch);
        let shard =
            shard.ok_or_else(|| fenced(&lease.route, lease.shard, lease.epoch, "settle"))?;
        for park in &settlement.park {
            park.message.validate().map_err(|invalid| {
                StoreError::new(StoreErrorKind::Refused, "settle", invalid.to_string())
            })?;
        }
        let coverage = settlement.position.as_ref().map(Coverage::of).transpose()?;

        let is_repeated = settlement.position == Some(shard.position());
        let entry = match &settlement.position {
            Some(position) => shard.advance(position, now),
            None => Entry::default(),
        };
        if let (Some(coverage), Some(resize)) = (&coverage, &route.resize) {
            let barrier = Coverage::of(&resize.barrier)?;
            let (seq, barrier) = barrier.steps.last().expect("a barrier has a step");
            let is_within = coverage.is_within(*seq, barrier);
            route.keep_barrier_ahead(is_within, coverage.seq(), &view);
        }
        let route = self.routes.get_mut(&lease.route).expect("found above");
        let unblocked = route.parked.settle(settlement, &self.log, is_repeated, now);
        Ok(Settled { unblocked, horizon: snapshot::horizon(&view), entry })
    }

    fn check_settlement(
        &mut self,
        lease: &Lease,
        settlement: &Settlement,
    ) -> Result<(), StoreError> {
        let lineage = self.lineage();
        self.route(&lease.route, "settle")?;
        let Self { routes, log, .. } = self;
        let shard = routes.get_mut(&lease.route).and_then(|route| route.shard(lease.shard));
        let (Some(shard), Some(evidence)) = (shard, &settlement.evidence) else { return Ok(()) };
        let position = settlement.position.clone().unwrap_or_default();
        let is_known =
            Present { lineage, log }.has(shard, evidence, &position)? && shard.epoch >= lease.epoch;
        if is_known { Ok(()) } else { Err(rewound(&lease.route, "settle")) }
    }
}
