//! Removing messages from the log, in bounded chunks. A row goes only when, for the retention
//! time, the snapshot of every shard's position has seen it: being below a position is not enough,
//! it may have been committed after it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use posthaste_core::{Retention, Seq, StoreError};
use posthaste_store_sql::{Fault, Session, call, params};
use tokio::time::Instant;

use crate::{Postgres, PostgresStore};

/// Rows of the log one statement looks at.
const LOOK_ROWS: u64 = 10_000;
/// Statements one round takes at most.
const LOOKS_MAX: usize = 20;
/// So many rows that must stay are cheaply looked at again in every round.
const KEPT_ROWS_FEW: u64 = 10_000;
/// More are looked at again after this time: a late commit may have become finished among them.
const SWEEP_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// Where a purge of the log goes on. Rows that must stay (topics without a route) would otherwise be
/// looked at from the start in every round. Lost with the process: the next one starts from the beginning.
#[derive(Debug, Default)]
pub(crate) struct Sweep(Mutex<SweepState>);

#[derive(Clone, Copy, Debug, Default)]
struct SweepState {
    /// Everything up to here has been looked at in this sweep.
    seq: Seq,
    /// Rows that this sweep had to leave.
    kept: u64,
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

/// Looks through the log from where the last round stopped, each chunk in a transaction of its own; returns
/// how many messages it removed.
pub(crate) async fn sweep(
    store: &PostgresStore,
    retention: Retention,
    rows_max: u32,
) -> Result<u64, StoreError> {
    let sweep = &store.dialect().sweep;
    let rows_max = u64::from(rows_max);
    let mut state = sweep.resume();
    let mut removed = 0;
    for _ in 0..LOOKS_MAX {
        let from = state.seq;
        let argument = (from, rows_max - removed, retention.delivered);
        let chunk =
            call!(store, "purge", Transaction, argument, |session, (from, room, retention)| {
                chunk(session, *from, *room, *retention)
            });
        let chunk = chunk.await?;
        if chunk.end < from {
            // An end that lies behind means a new route, and with it other rows that may go.
            state = SweepState::start();
            sweep.pause(state);
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
        state.kept += if is_full { 0 } else { chunk.looked.saturating_sub(chunk.removed) };
        state.is_complete = is_end && !is_full;
        sweep.pause(state);
        if is_full || is_end {
            break;
        }
    }
    Ok(removed)
}

/// What one statement found.
struct Chunk {
    /// The highest seq that may go.
    end: Seq,
    looked: u64,
    looked_last: Option<Seq>,
    removed: u64,
    removed_last: Option<Seq>,
}

/// Decides what may go, and removes it, while no route is registered or changed: a route that appears
/// in between would find what waits for it gone.
async fn chunk(
    session: &mut Session<'_, Postgres>,
    after: Seq,
    rows_max: u64,
    retention: Duration,
) -> Result<Chunk, Fault> {
    for name in ["purge_patience", "purge_hold_log", "purge_hold_routes"] {
        session.own(name, &[]).await?;
    }
    let look = params![
        after: after,
        look: LOOK_ROWS.cast_signed(),
        limit: rows_max.cast_signed(),
        retention: retention,
    ];
    let outcome = session.own("purge_sweep", &look).await?;
    let row = outcome.rows.first().ok_or_else(|| Fault::internal("a purge without a result"))?;
    Ok(Chunk {
        end: row.number(0)?,
        looked: row.count(1)?,
        looked_last: row.int(2)?,
        removed: row.count(3)?,
        removed_last: row.int(4)?,
    })
}
