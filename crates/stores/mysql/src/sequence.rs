//! The sequencer: moves committed messages from the outbox, where applications write them, to the
//! end of the log, where relays read them.
//!
//! A row of the outbox is moved by the first step that sees it, whatever its `seq`: a transaction that
//! commits late only shows up later. So nothing has to be known about transactions that are still
//! open, and nothing is ever decided by waiting. `docs/adr/0006-reading-mysql.md` has the argument.

use std::sync::atomic::{AtomicBool, Ordering};

use posthaste_core::{Seq, StoreError};
use sqlx::{Executor, MySqlConnection, Row};
use tokio::{sync::Mutex, time::Instant};

use crate::{MySqlStore, error::Fault};

/// With fewer rows of the log before a reader, the next ones are moved ahead: what a step for a backlog
/// moves at most, as in `sequence_run.sql`.
const AHEAD_ROWS: Seq = 25_000;

/// Steps between two looks for a run, where ids have many gaps.
const RUNS_AGAIN_IN: u8 = 20;

/// What the relays of this process know about moving.
#[derive(Debug, Default)]
pub(crate) struct Sequencer {
    /// The last step: shards that need one at the same time share it. Held while one runs; others
    /// wait here rather than with a connection each.
    last: Mutex<Option<Step>>,
    /// Whether a step is running ahead of the readers.
    is_ahead: AtomicBool,
}

impl Sequencer {
    /// Forgets the last step: the log may have gone back in time since.
    pub(crate) async fn forget(&self) {
        *self.last.lock().await = None;
    }

    /// Whether the last step left something. Where one is running it may be either way.
    pub(crate) fn is_backlog(&self) -> bool {
        self.last.try_lock().is_ok_and(|last| last.is_some_and(|step| step.is_more))
    }
}

/// One step that was done.
#[derive(Clone, Copy, Debug)]
struct Step {
    began: Instant,
    /// Whether it stopped at a limit while there was more.
    is_more: bool,
    /// The end of the log behind it.
    log_end: Seq,
    /// How many steps are to come before one looks for a run again, as the last look found none.
    runs_in: u8,
}

/// Moves what is there, or shares a step that began after this call did, or one that brought the log
/// further than `log_end` meanwhile. Returns whether there may be more.
pub(crate) async fn step(store: &MySqlStore, log_end: Seq) -> Result<bool, StoreError> {
    let asked = Instant::now();
    let mut last = store.sequencer.last.lock().await;
    if let Some(step) = *last {
        if step.began > asked {
            return Ok(step.is_more);
        }
        if step.log_end > log_end {
            return Ok(true);
        }
    }
    let step = store.statements("sequence", *last, |connection, last| {
        Box::pin(async move { work(connection, *last).await })
    });
    let step = step.await?;
    *last = Some(step);
    Ok(step.is_more)
}

/// While there is a backlog: moves the next messages while the reader is busy with the `left` ones
/// that were moved before.
pub(crate) fn run_ahead(store: &MySqlStore, left: Seq) {
    let sequencer = &store.sequencer;
    if left < AHEAD_ROWS
        && sequencer.is_backlog()
        && !sequencer.is_ahead.swap(true, Ordering::Relaxed)
    {
        let store = store.clone();
        tokio::spawn(async move {
            if let Err(error) = step(&store, Seq::MAX).await {
                // The reader that needs it does it again and reports what happens then.
                tracing::debug!(%error, "moving messages ahead failed");
            }
            store.sequencer.is_ahead.store(false, Ordering::Relaxed);
        });
    }
}

async fn work(connection: &mut MySqlConnection, last: Option<Step>) -> Result<Step, Fault> {
    let backlog = last.filter(|last| last.is_more);
    let mut runs_in = backlog.map_or(0, |last| last.runs_in.saturating_sub(1));
    if backlog.is_some() && runs_in == 0 {
        let step = send(connection, include_str!("../sql/sequence_run.sql")).await?;
        if step.is_more {
            return Ok(step);
        }
        runs_in = RUNS_AGAIN_IN;
    }
    // There was no run, or it was the end: only this one looks at everything.
    Ok(Step { runs_in, ..send(connection, include_str!("../sql/sequence.sql")).await? })
}

/// On an error the connection is closed, and with it the transaction that the text began.
async fn send(connection: &mut MySqlConnection, text: &'static str) -> Result<Step, Fault> {
    let began = Instant::now();
    let row = connection.fetch_one(sqlx::raw_sql(text)).await?;
    let is_more: i64 = row.try_get(1)?;
    Ok(Step { began, is_more: is_more != 0, log_end: row.try_get(0)?, runs_in: 0 })
}
