//! Removing what is finished, in bounded chunks. A row of the log goes only when, for the retention
//! time, the snapshot of every shard's position has seen it: being below a position is not enough,
//! it may have been committed after it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use posthaste_core::{Position, Purged, Retention, Seq, StoreError};
use sqlx::{PgConnection, Row};
use tokio::time::Instant;

use crate::{
    PostgresStore,
    error::Fault,
    row::{count, position, seconds},
    transaction::{query, scalar},
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

impl Sweep {
    /// Where to go on, given that rows up to `end` may go.
    fn resume(&self, end: Seq) -> SweepState {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = state.began.is_none_or(|began| began.elapsed() >= SWEEP_AGAIN_AFTER);
        let is_over = state.is_complete && (stale || state.kept <= KEPT_ROWS_FEW);
        // An end that lies behind means a new route, and with it other rows that may go.
        if state.began.is_none() || is_over || state.seq > end {
            *state = SweepState { began: Some(Instant::now()), ..SweepState::default() };
        }
        *state
    }

    fn pause(&self, state: SweepState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

/// What every shard had passed a retention time ago: rows up to `end` that all of `snapshots` see.
struct Boundary {
    end: Seq,
    snapshots: Vec<String>,
}

/// The purge port. Each chunk is a transaction of its own.
pub(crate) async fn purge(
    store: &PostgresStore,
    retention: Retention,
    rows_max: u32,
) -> Result<Purged, StoreError> {
    let delivered = seconds(retention.delivered);
    let discarded = seconds(retention.discarded);
    let rows_max = i64::from(rows_max);
    let mut purged = Purged::default();
    let boundary = store.call("purge", move |connection| Box::pin(boundary(connection, delivered)));
    if let Some(boundary) = boundary.await? {
        purged.messages = sweep(store, boundary, rows_max).await?;
    }
    (purged.discarded, purged.progress) = store
        .call("purge", move |connection| {
            Box::pin(async move {
                let run = |sql, keep: f64| query(sql).bind(keep).bind(rows_max);
                let discarded = run(include_str!("../sql/purge_discarded.sql"), discarded)
                    .execute(&mut *connection)
                    .await?;
                let progress = run(include_str!("../sql/purge_progress.sql"), delivered)
                    .execute(&mut *connection)
                    .await?;
                query(include_str!("../sql/purge_relays.sql")).execute(connection).await?;
                Ok((discarded.rows_affected(), progress.rows_affected()))
            })
        })
        .await?;
    Ok(purged)
}

/// `None` where a shard had passed nothing yet, or there is no route: then nothing may go.
async fn boundary(
    connection: &mut PgConnection,
    retention_seconds: f64,
) -> Result<Option<Boundary>, Fault> {
    let texts: Vec<Option<String>> = scalar(include_str!("../sql/purge_boundaries.sql"))
        .bind(retention_seconds)
        .fetch_all(connection)
        .await?;
    let mut boundary: Option<Boundary> = None;
    for text in texts {
        let passed: Position = position(&text.unwrap_or_default())?;
        // Only the first stretch of a position counts: it is the most recent, and the rest is
        // passed soon enough.
        let Some(step) = passed.steps().first() else {
            return Ok(None);
        };
        let boundary =
            boundary.get_or_insert_with(|| Boundary { end: step.seq, snapshots: Vec::new() });
        boundary.end = boundary.end.min(step.seq);
        if !boundary.snapshots.iter().any(|known| **known == *step.snapshot) {
            boundary.snapshots.push(step.snapshot.to_string());
        }
    }
    Ok(boundary)
}

async fn sweep(
    store: &PostgresStore,
    boundary: Boundary,
    rows_max: i64,
) -> Result<u64, StoreError> {
    let mut state = store.sweep.resume(boundary.end);
    let mut removed = 0;
    for _ in 0..LOOKS_MAX {
        let (from, end, snapshots) = (state.seq, boundary.end, boundary.snapshots.clone());
        let room = rows_max - removed;
        let chunk = store
            .call("purge", move |connection| {
                Box::pin(chunk(connection, from..end, snapshots, room))
            })
            .await?;
        removed += chunk.removed;
        let is_full = removed >= rows_max;
        let is_end = chunk.looked < LOOK_ROWS;
        state.seq = match (is_full, is_end) {
            (true, _) => chunk.removed_last.unwrap_or(state.seq),
            (false, true) => boundary.end,
            (false, false) => chunk.looked_last.unwrap_or(boundary.end),
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
    looked: i64,
    looked_last: Option<Seq>,
    removed: i64,
    removed_last: Option<Seq>,
}

async fn chunk(
    connection: &mut PgConnection,
    range: std::ops::Range<Seq>,
    snapshots: Vec<String>,
    rows_max: i64,
) -> Result<Chunk, Fault> {
    let row = query(include_str!("../sql/purge_messages.sql"))
        .bind(range.start)
        .bind(range.end)
        .bind(snapshots)
        .bind(LOOK_ROWS)
        .bind(rows_max)
        .fetch_one(connection)
        .await?;
    Ok(Chunk {
        looked: row.try_get(0)?,
        looked_last: row.try_get(1)?,
        removed: row.try_get(2)?,
        removed_last: row.try_get(3)?,
    })
}
