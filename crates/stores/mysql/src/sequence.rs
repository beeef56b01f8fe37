//! The sequencer: moves committed messages from the outbox, where applications write them, to the
//! end of the log, where relays read them; and the reading of what it moved.
//!
//! A row of the outbox is moved by the first step that sees it, whatever its `seq`: a transaction that
//! commits late only shows up later. So nothing has to be known about transactions that are still
//! open, and nothing is ever decided by waiting. `docs/adr/0006-reading-mysql.md` has the argument.

use std::sync::atomic::{AtomicBool, Ordering};

use posthaste_core::{Batch, Fetch, Seq, StoreError};
use posthaste_store_sql::{Fault, Read, Session, call, params};
use sqlx::{Executor, MySqlConnection, Row};
use tokio::{sync::Mutex, time::Instant};

use crate::{MySql, MySqlStore, error::fault};

/// Steps before a resize sets its barrier: the more is in the log by then, the less has to be read twice
/// over; the rest lies beyond it, which is as good.
const REGISTER_STEPS_MAX: u32 = 2;

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
    fn is_backlog(&self) -> bool {
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

/// The fetch port.
pub(crate) async fn fetch(store: &MySqlStore, fetch: &Fetch) -> Result<Batch, StoreError> {
    let (read, is_behind) = read(store, fetch).await?;
    if !is_behind {
        run_ahead(store, read.log_end - read.batch.end);
        return Ok(read.batch);
    }
    let is_more = step(store, read.log_end).await?;
    // The next step runs while the messages of this one are read.
    run_ahead(store, 0);
    let (Read { mut batch, .. }, _) = self::read(store, fetch).await?;
    batch.more |= is_more;
    Ok(batch)
}

/// Reads the log, and tells whether all of it was read and there are messages that were not in it. With a
/// backlog, nobody needs to look for those.
async fn read(store: &MySqlStore, fetch: &Fetch) -> Result<(Read, bool), StoreError> {
    let argument = (fetch.clone(), store.dialect().sequencer.is_backlog());
    let read = call!(store, "fetch", Statements, argument, |session, (fetch, is_backlog)| async {
        let read = posthaste_store_sql::read(session, fetch).await?;
        let end = read.batch.end;
        let is_behind = read.is_all && (*is_backlog || has_more(session, end).await?);
        Ok((read, is_behind))
    });
    read.await
}

/// Whether there are messages beyond this end of the log: in the outbox, or moved since the log was
/// read.
async fn has_more(session: &mut Session<'_, MySql>, end: Seq) -> Result<bool, Fault> {
    let rows = session.own("fetch_more", &params![end: end]).await?.rows;
    rows.first().map_or(Ok(false), |row| row.bool(0))
}

/// Moves what is there before a route is registered or changed, a bounded number of steps.
pub(crate) async fn catch_up(store: &MySqlStore) -> Result<(), StoreError> {
    for _ in 0..REGISTER_STEPS_MAX {
        if !step(store, Seq::MAX).await? {
            break;
        }
    }
    Ok(())
}

/// Moves what is there, or shares a step that began after this call did, or one that brought the log
/// further than `log_end` meanwhile. Returns whether there may be more.
async fn step(store: &MySqlStore, log_end: Seq) -> Result<bool, StoreError> {
    let asked = Instant::now();
    let mut last = store.dialect().sequencer.last.lock().await;
    if let Some(step) = *last {
        if step.began > asked {
            return Ok(step.is_more);
        }
        if step.log_end > log_end {
            return Ok(true);
        }
    }
    let step = call!(store, "sequence", Statements, *last, |session, last| work(session, *last));
    let step = step.await?;
    *last = Some(step);
    Ok(step.is_more)
}

/// While there is a backlog: moves the next messages while the reader is busy with the `left` ones
/// that were moved before.
fn run_ahead(store: &MySqlStore, left: Seq) {
    let sequencer = &store.dialect().sequencer;
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
            store.dialect().sequencer.is_ahead.store(false, Ordering::Relaxed);
        });
    }
}

async fn work(session: &mut Session<'_, MySql>, last: Option<Step>) -> Result<Step, Fault> {
    let backlog = last.filter(|last| last.is_more);
    let mut runs_in = backlog.map_or(0, |last| last.runs_in.saturating_sub(1));
    if backlog.is_some() && runs_in == 0 {
        let run = session.dialect.own_text("sequence_run")?;
        let step = send(session.connection, run).await.map_err(fault)?;
        if step.is_more {
            return Ok(step);
        }
        runs_in = RUNS_AGAIN_IN;
    }
    // There was no run, or it was the end: only this one looks at everything.
    let all = session.dialect.own_text("sequence")?;
    Ok(Step { runs_in, ..send(session.connection, all).await.map_err(fault)? })
}

/// On an error the connection is closed, and with it the transaction that the text began.
async fn send(connection: &mut MySqlConnection, text: &'static str) -> Result<Step, sqlx::Error> {
    let began = Instant::now();
    let row = connection.fetch_one(sqlx::raw_sql(text)).await?;
    let is_more: i64 = row.try_get(1)?;
    Ok(Step { began, is_more: is_more != 0, log_end: row.try_get(0)?, runs_in: 0 })
}
