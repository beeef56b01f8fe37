//! Removing what is finished: messages every route has passed for long enough, and discarded dead
//! letters. `journal.rs` thins the journal of progress.

use posthaste_core::{Purged, Retention, Seq, TopicPattern};
use sqlx::{Row, SqliteConnection};

use crate::{error::Fault, row};

/// Rows looked at in one statement, and statements in one call: bounds a call that finds nothing.
const SCAN_ROWS: u32 = 10_000;
const SCANS_MAX: usize = 16;

/// How far the log has been swept. Rows up to `seq` that are still there match none of `topics`, so
/// they are not looked at again until the topics change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    topics: Vec<TopicPattern>,
    seq: Seq,
}

/// What a sweep found.
pub(crate) struct Sweep {
    /// Rows that may go.
    seqs: Vec<Seq>,
    /// How far the log is swept once they are gone.
    swept: Swept,
}

/// Finds up to `rows_max` rows to remove, without a lock.
pub(crate) async fn sweep(
    conn: &mut SqliteConnection,
    swept: Swept,
    retention: Retention,
    rows_max: u32,
) -> Result<Sweep, Fault> {
    let topics = topics(conn).await?;
    let seq = if topics == swept.topics { swept.seq } else { 0 };
    let mut sweep = Sweep { seqs: Vec::new(), swept: Swept { topics, seq } };
    let Some(floor) = floor(conn, retention).await? else {
        return Ok(sweep);
    };
    for _ in 0..SCANS_MAX {
        let rows = sqlx::query(include_str!("../sql/purge_scan.sql"))
            .bind(sweep.swept.seq)
            .bind(floor)
            .bind(SCAN_ROWS)
            .fetch_all(&mut *conn)
            .await?;
        for row in &rows {
            if sweep.seqs.len() >= rows_max as usize {
                return Ok(sweep);
            }
            let seq: Seq = row.try_get("seq")?;
            let topic = row::text(row, "topic")?.unwrap_or_default();
            let mut patterns = sweep.swept.topics.iter();
            if patterns.any(|pattern| pattern.matches(&topic)) {
                sweep.seqs.push(seq);
            }
            sweep.swept.seq = seq;
        }
        if rows.len() < SCAN_ROWS as usize {
            break;
        }
    }
    Ok(sweep)
}

/// Removes what a sweep found and what else is finished, in a transaction that holds the write lock;
/// returns how far the log is swept now.
pub(crate) async fn purge(
    conn: &mut SqliteConnection,
    sweep: Sweep,
    retention: Retention,
    rows_max: u32,
) -> Result<(Purged, Swept), Fault> {
    // Decided here, where no route is registered or changed meanwhile: what the sweep chose by other
    // topics may wait for a route by now, and a route registered since has passed nothing.
    let is_current = topics(conn).await? == sweep.swept.topics;
    let (seqs, swept) = if is_current { (sweep.seqs, sweep.swept) } else { Default::default() };
    let floor = floor(conn, retention).await?.unwrap_or(0);
    let messages = sqlx::query(include_str!("../sql/purge_messages.sql"))
        .bind(row::json_array(seqs))
        .bind(floor)
        .execute(&mut *conn)
        .await?;
    let discarded = sqlx::query(include_str!("../sql/purge_discarded.sql"))
        .bind(retention.discarded.as_secs_f64())
        .bind(rows_max)
        .execute(&mut *conn)
        .await?;
    sqlx::query(include_str!("../sql/purge_rewinds.sql")).execute(conn).await?;
    let purged = Purged {
        messages: messages.rows_affected(),
        discarded: discarded.rows_affected(),
        progress: 0,
    };
    let swept = Swept { seq: swept.seq.min(floor), ..swept };
    Ok((purged, swept))
}

/// The patterns of all routes.
pub(crate) async fn topics(conn: &mut SqliteConnection) -> Result<Vec<TopicPattern>, Fault> {
    let routes: Vec<String> =
        sqlx::query_scalar(include_str!("../sql/purge_routes.sql")).fetch_all(conn).await?;
    let mut topics = Vec::new();
    for route in routes {
        topics.extend(row::topics_from(&route)?);
    }
    Ok(topics)
}

/// The highest seq that every shard of every route had passed when the retention time began; `None`
/// where one of them had passed nothing, or there is none.
async fn floor(conn: &mut SqliteConnection, retention: Retention) -> Result<Option<Seq>, Fault> {
    let passed: Vec<Option<Seq>> = sqlx::query_scalar(include_str!("../sql/purge_floor.sql"))
        .bind(retention.delivered.as_secs_f64())
        .fetch_all(conn)
        .await?;
    let all: Option<Vec<Seq>> = passed.into_iter().collect();
    Ok(all.and_then(|seqs| seqs.into_iter().min()))
}
