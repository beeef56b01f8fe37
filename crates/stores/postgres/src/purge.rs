//! Removing what is finished, in bounded chunks. A row of the log goes only when, for the retention
//! time, the snapshot of every shard's position has seen it: being below a position is not enough,
//! it may have been committed after it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use posthaste_core::{Purged, Retention, Seq, StoreError};
use sqlx::{PgConnection, Row};
use tokio::time::Instant;

use crate::{
    PostgresStore,
    error::Fault,
    journal,
    row::{count, seconds},
    transaction::query,
};

/// Rows of the log one statement looks at.
const LOOK_ROWS: i64 = 10_000;
/// Statements one round takes at most.
const LOOKS_MAX: usize = 20;
/// So many rows that must stay are cheaply looked at again in every round.
const KEPT_ROWS_FEW: i64 = 10_000;
/// More are looked at again after this time: a late commit may have become finished among them.
const SWEEP_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// Where cleaning the log goes on. Rows that must stay (topics without a route) would otherwise be
/// looked at from the start in every round.
#[derive(Debug, Default)]
pub(crate) struct Sweep(Mutex<SweepState>);

#[derive(Clone, Copy, Debug, Default)]
struct SweepState {
    /// Everything up to here has been looked at in this sweep.
    seq: Seq,
    /// Rows that this sweep had to leave.
    kept: i64,
    /// Whether this sweep reached the end that it had.
    is_complete: bool,
    /// When this sweep began; `None` before the first.
    began: Option<Instant>,
}

impl SweepState {
    /// A sweep from the beginning of the log.
    fn start() -> Self {
        Self { began: Some(Instant::now()), ..Self::default() }
    }
}

impl Sweep {
    /// Where to go on.
    fn resume(&self) -> SweepState {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = state.began.is_none_or(|began| began.elapsed() >= SWEEP_AGAIN_AFTER);
        let is_over = state.is_complete && (stale || state.kept <= KEPT_ROWS_FEW);
        if state.began.is_none() || is_over {
            *state = SweepState::start();
        }
        *state
    }

    fn pause(&self, state: SweepState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

/// The purge port. Each chunk is a transaction of its own. Where a lock keeps the log from being
/// cleaned, the rest is cleaned first.
pub(crate) async fn purge(
    store: &PostgresStore,
    retention: Retention,
    rows_max: u32,
) -> Result<Purged, StoreError> {
    let delivered = seconds(retention.delivered);
    let discarded = seconds(retention.discarded);
    let rows_max = i64::from(rows_max);
    // First, so that a long journal, which makes what follows slow, gets shorter in every round.
    let progress = journal::thin(store, delivered).await?;
    let messages = sweep(store, delivered, rows_max).await;
    let discarded = store
        .call("purge", move |connection| {
            Box::pin(async move {
                query(include_str!("../sql/purge_patience.sql")).execute(&mut *connection).await?;
                let discarded = query(include_str!("../sql/purge_discarded.sql"))
                    .bind(discarded)
                    .bind(rows_max)
                    .execute(&mut *connection)
                    .await?;
                query(include_str!("../sql/purge_relays.sql")).execute(&mut *connection).await?;
                query(include_str!("../sql/purge_rewinds.sql")).execute(connection).await?;
                Ok(discarded.rows_affected())
            })
        })
        .await?;
    Ok(Purged { messages: messages?, discarded, progress })
}

/// Looks through the log from where the last round stopped.
async fn sweep(
    store: &PostgresStore,
    retention_seconds: f64,
    rows_max: i64,
) -> Result<u64, StoreError> {
    let mut state = store.sweep.resume();
    let mut removed = 0;
    for _ in 0..LOOKS_MAX {
        let (from, room) = (state.seq, rows_max - removed);
        let chunk = store
            .call("purge", move |connection| {
                Box::pin(chunk(connection, from, room, retention_seconds))
            })
            .await?;
        if chunk.end < from {
            // An end that lies behind means a new route, and with it other rows that may go.
            state = SweepState::start();
            store.sweep.pause(state);
            continue;
        }
        removed += chunk.removed;
        let is_full = removed >= rows_max;
        let is_end = chunk.looked < LOOK_ROWS;
        state.seq = match (is_full, is_end) {
            (true, _) => chunk.removed_last.unwrap_or(from),
            (false, true) => chunk.end,
            (false, false) => chunk.looked_last.unwrap_or(chunk.end),
        };
        state.kept += if is_full { 0 } else { chunk.looked - chunk.removed };
        state.is_complete = is_end && !is_full;
        store.sweep.pause(state);
        if is_full || is_end {
            break;
        }
    }
    Ok(count(removed))
}

/// What one statement found.
struct Chunk {
    /// The highest seq that may go.
    end: Seq,
    looked: i64,
    looked_last: Option<Seq>,
    removed: i64,
    removed_last: Option<Seq>,
}

/// Decides what may go, and removes it, while no route is registered or changed: a route that appears
/// in between would find what waits for it gone.
async fn chunk(
    connection: &mut PgConnection,
    after: Seq,
    rows_max: i64,
    retention_seconds: f64,
) -> Result<Chunk, Fault> {
    for sql in [
        include_str!("../sql/purge_patience.sql"),
        include_str!("../sql/purge_lock_log.sql"),
        include_str!("../sql/purge_lock_routes.sql"),
    ] {
        query(sql).execute(&mut *connection).await?;
    }
    let row = query(include_str!("../sql/purge_messages.sql"))
        .bind(after)
        .bind(LOOK_ROWS)
        .bind(rows_max)
        .bind(retention_seconds)
        .fetch_one(connection)
        .await?;
    Ok(Chunk {
        end: row.try_get(0)?,
        looked: row.try_get(1)?,
        looked_last: row.try_get(2)?,
        removed: row.try_get(3)?,
        removed_last: row.try_get(4)?,
    })
}
