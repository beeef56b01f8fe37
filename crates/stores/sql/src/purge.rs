//! Removing what is finished: messages that every route has passed for long enough, and discarded dead
//! letters. `journal.rs` thins the journal of progress.

use std::{collections::BTreeMap, sync::PoisonError};

use posthaste_core::{Purged, Retention, Seq, StoreError, TopicPattern};
use uuid::Uuid;

use crate::{
    Dialect, Fault, Optional, Session, SqlStore, Statement, call, journal, message::is_matched,
    params, route,
};

/// Rows that one statement looks at, and statements in one call: bounds a call that finds nothing.
const SCAN_ROWS: usize = 10_000;
const SCANS_MAX: usize = 16;

/// The purge port.
pub(crate) async fn purge<D: Dialect>(
    store: &SqlStore<D>,
    retention: Retention,
    rows_max: u32,
) -> Result<Purged, StoreError> {
    // First, so that a long journal, which makes what follows slow, gets shorter in every round.
    let progress = journal::thin(store, retention.delivered).await?;
    // Where a lock keeps the log from being cleaned, the rest is cleaned first.
    let messages = D::purge_log(store, retention, rows_max).await;
    let argument = (retention, rows_max);
    let discarded =
        call!(store, "purge", Transaction, argument, |session, (retention, rows_max)| {
            tidy(session, *retention, *rows_max)
        });
    let discarded = discarded.await?;
    Ok(Purged { messages: messages?, discarded, progress })
}

/// How far a log that is in the order of commits has been swept. Rows up to `seq` that are still there match
/// none of `topics`, so they are not looked at again until the topics change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    topics: Vec<TopicPattern>,
    seq: Seq,
}

/// What a sweep found.
#[derive(Clone, Debug)]
struct Sweep {
    /// Rows that may go.
    seqs: Vec<Seq>,
    /// How far the log is swept once they are gone.
    swept: Swept,
}

/// Removes messages from a log that is in the order of commits.
pub(crate) async fn sweep<D: Dialect>(
    store: &SqlStore<D>,
    retention: Retention,
    rows_max: u32,
) -> Result<u64, StoreError> {
    let swept = || store.memory.swept.lock().unwrap_or_else(PoisonError::into_inner);
    let argument = (swept().clone(), retention, rows_max);
    let found =
        call!(store, "purge", Statements, argument, |session, (swept, retention, rows_max)| {
            find(session, swept, *retention, *rows_max)
        });
    let found = found.await?;
    if found.seqs.is_empty() {
        *swept() = found.swept;
        return Ok(0);
    }
    let argument = (found, retention);
    let remove = call!(store, "purge", Ranges, argument, |session, (found, retention)| {
        remove(session, found, *retention)
    });
    let (removed, now) = remove.await?;
    *swept() = now;
    Ok(removed)
}

/// Finds up to `rows_max` rows to remove, without a lock.
async fn find<D: Dialect>(
    session: &mut Session<'_, D>,
    swept: &Swept,
    retention: Retention,
    rows_max: u32,
) -> Result<Sweep, Fault> {
    let topics = route::topics(session).await?;
    let seq = if topics == swept.topics { swept.seq } else { 0 };
    let mut sweep = Sweep { seqs: Vec::new(), swept: Swept { topics, seq } };
    let Some(floor) = floor(session, retention).await? else {
        return Ok(sweep);
    };
    for _ in 0..SCANS_MAX {
        let scan = params![after: sweep.swept.seq, floor: floor, limit: SCAN_ROWS];
        let rows = session.optional(Optional::PurgeScan, &scan).await?.rows;
        for row in &rows {
            if sweep.seqs.len() >= rows_max as usize {
                return Ok(sweep);
            }
            let seq = row.number(0)?;
            if is_matched(&sweep.swept.topics, &row.string(1)?) {
                sweep.seqs.push(seq);
            }
            sweep.swept.seq = seq;
        }
        if rows.len() < SCAN_ROWS {
            break;
        }
    }
    Ok(sweep)
}

/// Removes what a sweep found, while no route is registered or changed; returns how much, and how far the
/// log is swept now. Whether a row may go is decided here: a sweep only saves looking at rows under the
/// lock.
async fn remove<D: Dialect>(
    session: &mut Session<'_, D>,
    sweep: &Sweep,
    retention: Retention,
) -> Result<(u64, Swept), Fault> {
    let routes = session.optional(Optional::PurgeLockRoutes, &[]).await?.rows;
    if route::patterns(&routes)? != sweep.swept.topics {
        // What the sweep chose by other topics may wait for a route by now.
        return Ok((0, Swept::default()));
    }
    session.optional(Optional::MarkRoutes, &[]).await?;
    let floor = floor(session, retention).await?.unwrap_or(0);
    let delete = params![seqs: sweep.seqs.as_slice(), floor: floor];
    let removed = session.optional(Optional::PurgeMessages, &delete).await?.affected;
    let swept = Swept { topics: sweep.swept.topics.clone(), seq: sweep.swept.seq.min(floor) };
    Ok((removed, swept))
}

/// The highest seq that every shard of every route had passed when the retention time began; `None` where
/// one of them had passed nothing, or there is none.
async fn floor<D: Dialect>(
    session: &mut Session<'_, D>,
    retention: Retention,
) -> Result<Option<Seq>, Fault> {
    let look = params![retention: retention.delivered];
    let rows = session.optional(Optional::PurgeFloor, &look).await?.rows;
    let passed = rows.iter().map(|row| row.int(0)).collect::<Result<Option<Vec<Seq>>, _>>()?;
    Ok(passed.and_then(|seqs| seqs.into_iter().min()))
}

/// Removes what is finished beside the log: discarded dead letters, of which it returns how many, relays
/// that fell silent, and old rewinds.
async fn tidy<D: Dialect>(
    session: &mut Session<'_, D>,
    retention: Retention,
    rows_max: u32,
) -> Result<u64, Fault> {
    session.optional(Optional::PurgePatience, &[]).await?;
    let scan = params![retention: retention.discarded, limit: rows_max];
    let mut letters: BTreeMap<String, Vec<Seq>> = BTreeMap::new();
    for row in &session.rows(Statement::PurgeDiscardedScan, &scan).await? {
        letters.entry(row.string(0)?).or_default().push(row.number(1)?);
    }
    let mut discarded = 0;
    for (route, seqs) in &letters {
        let delete = params![route: route, seqs: seqs.as_slice()];
        discarded += session.execute(Statement::PurgeDiscarded, &delete).await?;
    }
    let silent = session.rows(Statement::PurgeRelaysScan, &[]).await?;
    let silent = silent.iter().map(|row| row.uuid(0)).collect::<Result<Vec<_>, _>>()?;
    let silent: Vec<Uuid> = silent.into_iter().flatten().collect();
    if !silent.is_empty() {
        session.execute(Statement::PurgeRelays, &params![ids: silent]).await?;
    }
    session.execute(Statement::PurgeRewinds, &[]).await?;
    Ok(discarded)
}
