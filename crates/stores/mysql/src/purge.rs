//! Removing what is finished: messages every route has passed for long enough, and discarded dead
//! letters. Never a row of the outbox: what is there is in no log yet. `journal.rs` thins the journal
//! of progress.

use posthaste_core::{Retention, Seq, TopicPattern};
use serde_json::json;
use sqlx::{Connection, Executor, MySqlConnection, Row};

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

/// Removes what a sweep found, while no route is registered or changed; returns how much, and how far
/// the log is swept now. Whether it may go is decided here: a sweep only saves looking at rows under
/// the lock.
pub(crate) async fn remove(
    connection: &mut MySqlConnection,
    sweep: &Sweep,
    retention: Retention,
) -> Result<(u64, Swept), Fault> {
    if sweep.seqs.is_empty() {
        return Ok((0, sweep.swept.clone()));
    }
    // Of the next transaction only; then nobody inserts between rows that are locked.
    connection.execute(sqlx::raw_sql(include_str!("../sql/purge_isolation.sql"))).await?;
    let mut transaction = connection.begin().await?;
    let rows = sqlx::query(include_str!("../sql/purge_lock_routes.sql"))
        .fetch_all(&mut *transaction)
        .await?;
    if route::patterns(&rows)? != sweep.swept.topics {
        // What the sweep chose by other topics may wait for a route by now.
        transaction.rollback().await?;
        return Ok((0, Swept::default()));
    }
    route::mark(&mut transaction).await?;
    let floor = floor(&mut transaction, retention).await?.unwrap_or(0);
    let messages = sqlx::query(include_str!("../sql/purge_messages.sql"))
        .bind(json_array(sweep.seqs.iter().copied()))
        .bind(floor)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    let swept = Swept { topics: sweep.swept.topics.clone(), seq: sweep.swept.seq.min(floor) };
    Ok((messages.rows_affected(), swept))
}

/// Removes what is finished beside the log: discarded dead letters, of which it returns how many, relays
/// that fell silent, and old rewinds.
pub(crate) async fn tidy(
    connection: &mut MySqlConnection,
    retention: Retention,
    rows_max: u32,
) -> Result<u64, Fault> {
    let mut transaction = connection.begin().await?;
    let discarded = forget_discarded(&mut transaction, retention, rows_max).await?;
    forget_relays(&mut transaction).await?;
    sqlx::query(include_str!("../sql/purge_rewinds.sql")).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(discarded)
}

async fn forget_discarded(
    connection: &mut MySqlConnection,
    retention: Retention,
    rows_max: u32,
) -> Result<u64, Fault> {
    let letters: Vec<(Vec<u8>, Seq)> =
        sqlx::query_as(include_str!("../sql/purge_discarded_scan.sql"))
            .bind(micros(retention.discarded))
            .bind(rows_max)
            .fetch_all(&mut *connection)
            .await?;
    if letters.is_empty() {
        return Ok(0);
    }
    let letters = letters.iter().map(|(route, seq)| json!([row::hex(route), seq]));
    let done = sqlx::query(include_str!("../sql/purge_discarded.sql"))
        .bind(json_array(letters))
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

async fn forget_relays(connection: &mut MySqlConnection) -> Result<(), Fault> {
    let silent = sqlx::query(include_str!("../sql/purge_relays_scan.sql"))
        .fetch_all(&mut *connection)
        .await?;
    let ids: Result<Vec<Option<String>>, Fault> =
        silent.iter().map(|row| row::text(row, 0)).collect();
    let ids = ids?;
    if !ids.is_empty() {
        sqlx::query(include_str!("../sql/purge_relays.sql"))
            .bind(json_array(ids))
            .execute(connection)
            .await?;
    }
    Ok(())
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
