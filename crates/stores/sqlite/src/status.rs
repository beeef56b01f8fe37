//! The picture for people and monitors. Every statement is bounded, whatever the size of the log.

use posthaste_core::{
    LeaseStatus, RelayStatus, RouteStatus, Seq, Status, TopicPattern, UnroutedTopic, bucket,
};
use sqlx::{Row, SqliteConnection};

use crate::{error::Fault, row};

/// Rows looked at to find the oldest one that is pending.
const ROWS_MAX: u32 = 10_000;

pub(crate) async fn status(conn: &mut SqliteConnection) -> Result<Status, Fault> {
    type Columns = (String, String, u16, Seq, Seq, u32, u32);
    let found: Vec<Columns> =
        sqlx::query_as(include_str!("../sql/status_routes.sql")).fetch_all(&mut *conn).await?;
    let mut routes = Vec::new();
    let mut patterns = Vec::new();
    for (name, topics, shards, log_start, log_end, retrying, dead) in found {
        let topics = row::topics_from(&topics)?;
        let leases = leases(conn, &name).await?;
        let passed = leases.iter().map(|lease| lease.seq).min().unwrap_or(0);
        routes.push(RouteStatus {
            oldest_pending_age_seconds: oldest_pending(conn, &topics, shards, &leases).await?,
            name,
            topics: topics.iter().map(ToString::to_string).collect(),
            leases,
            pending: u64::try_from(log_end - passed.max(log_start)).unwrap_or(0),
            retrying: retrying.into(),
            dead: dead.into(),
        });
        patterns.extend(topics);
    }
    Ok(Status { routes, relays: relays(conn).await?, unrouted: unrouted(conn, &patterns).await? })
}

async fn leases(conn: &mut SqliteConnection, route: &str) -> Result<Vec<LeaseStatus>, Fault> {
    type Columns = (u16, Option<String>, i64, Seq, Option<f64>);
    let found: Vec<Columns> = sqlx::query_as(include_str!("../sql/status_leases.sql"))
        .bind(route)
        .fetch_all(conn)
        .await?;
    let leases = found.into_iter();
    Ok(leases
        .map(|(shard, relay, epoch, seq, expires_in_seconds)| LeaseStatus {
            shard,
            relay,
            epoch,
            seq,
            expires_in_seconds,
        })
        .collect())
}

/// Age of the first row that its shard has not passed. Where none is found among the rows looked
/// at, that of the last of them: what is pending, if anything, is no older.
async fn oldest_pending(
    conn: &mut SqliteConnection,
    topics: &[TopicPattern],
    shards: u16,
    leases: &[LeaseStatus],
) -> Result<f64, Fault> {
    let passed = leases.iter().map(|lease| lease.seq).min().unwrap_or(0);
    let rows = sqlx::query(include_str!("../sql/status_oldest.sql"))
        .bind(passed)
        .bind(ROWS_MAX)
        .fetch_all(conn)
        .await?;
    let mut last_age = 0.0;
    for row in &rows {
        let seq: Seq = row.try_get("seq")?;
        let (topic, key) = (row::text(row, "topic")?, row::text(row, "key")?);
        last_age = row::seconds(row.try_get("age")?).as_secs_f64();
        let index = bucket(key.as_deref(), seq) % u32::from(shards);
        let is_pending =
            leases.iter().any(|lease| u32::from(lease.shard) == index && lease.seq < seq);
        let topic = topic.unwrap_or_default();
        if is_pending && topics.iter().any(|pattern| pattern.matches(&topic)) {
            return Ok(last_age);
        }
    }
    let is_everything = rows.len() < ROWS_MAX as usize;
    Ok(if is_everything { 0.0 } else { last_age })
}

async fn relays(conn: &mut SqliteConnection) -> Result<Vec<RelayStatus>, Fault> {
    type Columns = (String, String, String, f64);
    let found: Vec<Columns> =
        sqlx::query_as(include_str!("../sql/status_relays.sql")).fetch_all(conn).await?;
    let relays = found.into_iter();
    Ok(relays
        .map(|(id, name, version, seen)| RelayStatus {
            id,
            name,
            version,
            seen_seconds_ago: seen.max(0.0),
        })
        .collect())
}

async fn unrouted(
    conn: &mut SqliteConnection,
    patterns: &[TopicPattern],
) -> Result<Vec<UnroutedTopic>, Fault> {
    let rows = sqlx::query(include_str!("../sql/status_topics.sql")).fetch_all(conn).await?;
    let mut unrouted = Vec::new();
    for row in &rows {
        let topic = row::text(row, "topic")?.unwrap_or_default();
        if !patterns.iter().any(|pattern| pattern.matches(&topic)) {
            let messages = row.try_get("messages")?;
            unrouted.push(UnroutedTopic { topic, messages });
        }
    }
    Ok(unrouted)
}
