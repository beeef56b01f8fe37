//! Writing progress down.

use std::time::Duration;

use posthaste_core::{Lease, Settled, Settlement, StoreError, StoreErrorKind};

use crate::{
    State,
    lease::{Progress, fenced},
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
        if let Some(position) = &settlement.position {
            shard.progress.push(Progress { at: now, position: position.clone() });
        }
        if let (Some(coverage), Some(resize)) = (&coverage, &route.resize) {
            let barrier = Coverage::of(&resize.barrier)?;
            let (seq, barrier) = barrier.steps.last().expect("a barrier has a step");
            let is_within = coverage.is_within(*seq, barrier);
            route.keep_barrier_ahead(is_within, coverage.seq(), &view);
        }
        let route = self.routes.get_mut(&lease.route).expect("found above");
        let unblocked = route.parked.settle(settlement, &self.log, is_repeated, now);
        Ok(Settled { unblocked, horizon: snapshot::horizon(&view) })
    }
}
