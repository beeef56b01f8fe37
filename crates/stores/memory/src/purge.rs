//! Removing what is finished.

use std::time::Duration;

use posthaste_core::{Purged, Retention, Seq};

use crate::{State, lease::ShardState, route::Route, snapshot::Coverage};

impl State {
    pub(crate) fn purge(&mut self, retention: Retention, rows_max: usize, now: Duration) -> Purged {
        let mut purged = Purged::default();
        if let Some(before) = now.checked_sub(retention.delivered) {
            let passed = self.removable(before, rows_max);
            purged.messages = passed.len() as u64;
            for seq in passed {
                self.log.remove(seq);
            }
            let shards = self.routes.values_mut().flat_map(|route| &mut route.shards);
            purged.progress = shards.map(|shard| shard.forget_progress(before)).sum();
        }
        if let Some(before) = now.checked_sub(retention.discarded) {
            let routes = self.routes.values_mut();
            purged.discarded = routes.map(|route| route.parked.forget_discarded(before)).sum();
        }
        self.relays.retain(|_, relay| relay.expires_at > now);
        purged
    }

    /// Rows that every shard of every route had passed by then, has passed by its latest position
    /// too, and that some route wanted.
    fn removable(&self, before: Duration, rows_max: usize) -> Vec<Seq> {
        let shards = self.routes.values().flat_map(|route| &route.shards);
        let passed: Vec<Coverage> =
            shards.flat_map(|shard| [shard.passed(before), shard.passed(Duration::MAX)]).collect();
        let Some(upto) = passed.iter().map(Coverage::seq).min() else {
            return Vec::new();
        };
        let rows = self.log.visible(0, upto).filter(|(seq, row)| {
            passed.iter().all(|passed| passed.covers(*seq, row.xid))
                && self.routes.values().any(|route: &Route| route.takes(&row.message.topic))
        });
        rows.map(|(seq, _)| seq).take(rows_max).collect()
    }
}

impl ShardState {
    /// What the shard had passed by then.
    fn passed(&self, before: Duration) -> Coverage {
        let entry = self.progress.iter().rev().find(|entry| entry.at <= before);
        entry.map(|entry| entry.coverage()).unwrap_or_default()
    }

    /// Forgets entries older than the one that tells what had been passed by then.
    fn forget_progress(&mut self, before: Duration) -> u64 {
        let needed = self.progress.iter().rposition(|entry| entry.at <= before);
        self.progress.drain(..needed.unwrap_or(0)).count() as u64
    }
}
