//! Reading the log.

use std::time::Duration;

use posthaste_core::{Batch, Fetch, Fetched, StoreError, Witness, bucket};

use crate::{
    State,
    lease::fenced,
    parked::instant,
    rewind::{Present, rewound},
    snapshot::{self, Coverage},
};

impl State {
    pub(crate) fn fetch(&mut self, fetch: &Fetch, now: Duration) -> Result<Batch, StoreError> {
        let after = Coverage::of(&fetch.after)?;
        let until = fetch.until.as_ref().map(Coverage::of).transpose()?;
        self.check_evidence(fetch)?;
        let route = self.route(&fetch.route, "fetch")?;
        if let Some(epoch) = fetch.epoch
            && route.shard(fetch.shard).is_none_or(|shard| shard.epoch != epoch)
        {
            return Err(fenced(&fetch.route, fetch.shard, epoch, "fetch"));
        }
        let route = &self.routes[&fetch.route];
        let rows_max = fetch.rows_max.max(1) as usize;
        let mut rows = self.log.uncovered(&after, until.as_ref(), rows_max + 1);
        let mut more = rows.len() > rows_max;
        rows.truncate(rows_max);

        let mut batch = self.nothing_left(fetch, &after, until.as_ref());
        let mut bytes = 0;
        let mut looked_at = None;
        for (seq, row) in rows {
            let bucket = || bucket(row.message.key.as_deref(), seq);
            if route.takes(&row.message.topic) && fetch.shard.serves(bucket()) {
                bytes += row.message.payload.len();
                if bytes > fetch.bytes_max && !batch.messages.is_empty() {
                    more = true;
                    break;
                }
                batch.messages.push(Fetched {
                    seq,
                    message: row.message.clone(),
                    enqueued_at: instant(row.created_at, Duration::ZERO),
                    age: now.saturating_sub(row.created_at),
                });
            }
            looked_at = Some(seq);
            batch.witness = Some(Witness { seq, id: row.message.id });
        }
        if let Some(seq) = looked_at {
            batch.end = if more { seq } else { batch.end.max(seq) };
        }
        batch.more = more;
        Ok(batch)
    }

    fn check_evidence(&mut self, fetch: &Fetch) -> Result<(), StoreError> {
        let lineage = self.lineage();
        self.route(&fetch.route, "fetch")?;
        let Self { routes, log, .. } = self;
        let shard = routes.get_mut(&fetch.route).and_then(|route| route.shard(fetch.shard));
        let (Some(shard), Some(evidence)) = (shard, &fetch.evidence) else { return Ok(()) };
        let is_known = Present { lineage, log }.has(shard, evidence, &fetch.after)?
            && fetch.epoch.is_none_or(|epoch| shard.epoch >= epoch);
        if is_known { Ok(()) } else { Err(rewound(&fetch.route, "fetch")) }
    }

    /// The batch of a fetch that finds nothing.
    ///
    /// Up to a barrier, what was looked at is what the *barrier* saw, not what can be seen now: rows
    /// that committed since are left out, and a position that claimed them would lose them.
    fn nothing_left(&self, fetch: &Fetch, after: &Coverage, until: Option<&Coverage>) -> Batch {
        let barrier = until.and_then(|until| until.steps.last());
        let (end, snapshot) = match (barrier, fetch.after.steps().last()) {
            (None, _) => (fetch.after.seq(), snapshot::name(&self.log.view())),
            // Beyond the barrier already: stay there.
            (Some((seq, view)), Some(last)) if !after.is_within(*seq, view) => {
                (last.seq, last.snapshot.clone())
            }
            (Some((seq, view)), _) => (*seq, snapshot::name(view)),
        };
        Batch { messages: Vec::new(), end, snapshot, more: false, witness: None }
    }
}
