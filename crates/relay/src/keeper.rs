//! Runs retention off the hot path, and reports topics that no route matches.

use std::{collections::HashSet, sync::Arc, time::Duration};

use posthaste_core::{Clock, Retention, Store};

use crate::events;

/// Most rows removed by one transaction.
const PURGE_ROWS_MAX: u32 = 2000;
/// Longest and shortest pause between rounds.
const PAUSE_MAX: Duration = Duration::from_secs(60);
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Most topics without a route that are reported.
const REPORTED_MAX: usize = 100;

/// Runs retention for ever. After a failed round the next round tries again.
pub(crate) async fn keep(store: Arc<dyn Store>, clock: Arc<dyn Clock>, retention: Retention) {
    let pause = (retention.delivered / 10).clamp(PAUSE_MIN, PAUSE_MAX);
    let mut reported = HashSet::new();
    loop {
        clock.sleep(pause).await;
        purge(&*store, retention).await;
        if let Ok(status) = store.status().await {
            for topic in status.unrouted {
                if reported.len() < REPORTED_MAX && reported.insert(topic.topic.clone()) {
                    events::unrouted(&topic);
                }
            }
        }
    }
}

/// Removes all rows that retention allows, in bounded chunks.
pub(crate) async fn purge(store: &dyn Store, retention: Retention) {
    loop {
        match store.purge(retention, PURGE_ROWS_MAX).await {
            Ok(purged) => {
                events::purged(&purged);
                if purged.messages < u64::from(PURGE_ROWS_MAX) {
                    return;
                }
            }
            Err(error) => {
                events::supervision_failed(&error);
                return;
            }
        }
    }
}
