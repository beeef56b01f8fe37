//! Removing what is finished: messages every route has passed for long enough, discarded dead
//! letters, and entries of the progress journal that nothing needs. Never a row of the outbox: what
//! is there is in no log yet.

use posthaste_core::{Purged, Retention, Seq, TopicPattern};
use sqlx::{MySqlConnection, Row};

use crate::{
    error::Fault,
    route,
    row::{self, json_array, micros},
};

/// Rows looked at in one statement, and statements in one call: bounds a call that finds nothing.
const SCAN_ROWS: usize = 10_000;
const SCANS_MAX: usize = 16;

/// How far the log has been swept. Rows up to `seq` that are still there match none of `topics`, so
/// they are not looked at again until the topics change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    topics: Vec<TopicPattern>,
    seq: Seq,
}

/// What a sweep found.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    /// Rows that may go.
    seqs: Vec<Seq>,
    /// How far the log is swept once they are gone.
    swept: Swept,
}

/// Finds up to `rows_max` rows to remove, without a lock.
pub(crate) async fn sweep(
    connection: &mut MySqlConnection,
    swept: &Swept,
    retention: Retention,
    rows_max: u32,
) -> Result<Sweep, Fault> {
    let topics = route::topics(connection).await?;
    let seq = if topics == swept.topics { swept.seq } else { 0 };
    let mut sweep = Sweep { seqs: Vec::new(), swept: Swept { topics, seq } };
    let Some(floor) = floor(connection, retention).await? else {
        return Ok(sweep);
    };
    for _ in 0..SCANS_MAX {
        let rows = sqlx::query(include_str!("../sql/purge_scan.sql"))
            .bind(sweep.swept.seq)
            .bind(floor)
            .bind(i64::try_from(SCAN_ROWS).unwrap_or(i64::MAX))
            .fetch_all(&mut *connection)
            .await?;
        for row in &rows {
            if sweep.seqs.len() >= rows_max as usize {
                return Ok(sweep);
            }
            let seq: Seq = row.try_get(0)?;
            let topic = row::text(row, 1)?.unwrap_or_default();
            let mut patterns = sweep.swept.topics.iter();
            if patterns.any(|pattern| pattern.matches(&topic)) {
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

/// Removes what a sweep found and what else is finished; returns how far the log is swept now.
pub(crate) async fn purge(
    connection: &mut MySqlConnection,
    sweep: &Sweep,
    retention: Retention,
    rows_max: u32,
) -> Result<(Purged, Swept), Fault> {
    // Again: a route registered since the sweep has passed nothing.
    let floor = floor(connection, retention).await?.unwrap_or(0);
    let messages = sqlx::query(include_str!("../sql/purge_messages.sql"))
        .bind(json_array(sweep.seqs.iter().copied()))
        .bind(floor)
        .execute(&mut *connection)
        .await?;
    let discarded = sqlx::query(include_str!("../sql/purge_discarded.sql"))
        .bind(micros(retention.discarded))
        .bind(rows_max)
        .execute(&mut *connection)
        .await?;
    let progress = sqlx::query(include_str!("../sql/purge_progress.sql"))
        .bind(micros(retention.delivered))
        .bind(micros(retention.delivered))
        .bind(rows_max)
        .execute(&mut *connection)
        .await?;
    sqlx::query(include_str!("../sql/purge_relays.sql")).execute(connection).await?;
    let purged = Purged {
        messages: messages.rows_affected(),
        discarded: discarded.rows_affected(),
        progress: progress.rows_affected(),
    };
    let swept = Swept { topics: sweep.swept.topics.clone(), seq: sweep.swept.seq.min(floor) };
    Ok((purged, swept))
}

/// The highest seq that every shard of every route had passed when the retention time began; `None`
/// where one of them had passed nothing, or there is none.
async fn floor(
    connection: &mut MySqlConnection,
    retention: Retention,
) -> Result<Option<Seq>, Fault> {
    let passed: Vec<Option<Seq>> = sqlx::query_scalar(include_str!("../sql/purge_floor.sql"))
        .bind(micros(retention.delivered))
        .fetch_all(connection)
        .await?;
    let all: Option<Vec<Seq>> = passed.into_iter().collect();
    Ok(all.and_then(|seqs| seqs.into_iter().min()))
}
