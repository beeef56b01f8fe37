//! The picture for people and monitors. Every statement reads a bounded number of rows by an index.

use posthaste_core::{
    LeaseStatus, RelayStatus, RouteStatus, Seq, Shard, Status, TopicPattern, UnroutedTopic, bucket,
};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    error::Fault,
    row::{self, count},
};

/// Messages outside the log are counted up to here; beyond, the distance of their seqs has to do.
const OUTSIDE_COUNT_MAX: i64 = 10_000;

/// The log as a whole.
struct Log {
    /// Before its first row.
    start: Seq,
    end: Seq,
    /// Upper bound of messages that are not in it yet.
    outside: i64,
}

/// The status port.
pub(crate) async fn status(connection: &mut MySqlConnection) -> Result<Status, Fault> {
    let log = log(connection).await?;
    let rows =
        sqlx::query(include_str!("../sql/status_routes.sql")).fetch_all(&mut *connection).await?;
    let mut routes = Vec::with_capacity(rows.len());
    let mut patterns = Vec::new();
    for row in &rows {
        let topics = row::topics_from(row.try_get(1)?)?;
        let name = row::text(row, 0)?.unwrap_or_default();
        routes.push(route(connection, &log, name, &topics, row.try_get(2)?).await?);
        patterns.extend(topics);
    }
    Ok(Status {
        routes,
        relays: relays(connection).await?,
        unrouted: unrouted(connection, &patterns).await?,
    })
}

async fn log(connection: &mut MySqlConnection) -> Result<Log, Fault> {
    let (start, end, counted, distance): (Seq, Seq, i64, i64) =
        sqlx::query_as(include_str!("../sql/status_log.sql")).fetch_one(connection).await?;
    let outside = if counted < OUTSIDE_COUNT_MAX { counted } else { distance };
    Ok(Log { start, end, outside })
}

async fn route(
    connection: &mut MySqlConnection,
    log: &Log,
    name: String,
    topics: &[TopicPattern],
    shards: u16,
) -> Result<RouteStatus, Fault> {
    let (retrying, dead): (i64, i64) = sqlx::query_as(include_str!("../sql/status_parked.sql"))
        .bind(name.as_bytes())
        .bind(name.as_bytes())
        .fetch_one(&mut *connection)
        .await?;
    let leases = leases(connection, &name).await?;
    let mut oldest_micros = 0;
    for lease in &leases {
        let shard = Shard { index: lease.shard, of: shards };
        let oldest = oldest(connection, lease.seq, topics, shard).await?;
        oldest_micros = oldest_micros.max(oldest);
    }
    let behind = leases.iter().map(|lease| log.end - lease.seq.max(log.start)).max();
    Ok(RouteStatus {
        name,
        topics: topics.iter().map(ToString::to_string).collect(),
        pending: count(behind.unwrap_or(0)) + count(log.outside),
        oldest_pending_age_seconds: row::duration(oldest_micros).as_secs_f64(),
        retrying: count(retrying),
        dead: count(dead),
        leases,
    })
}

async fn leases(connection: &mut MySqlConnection, name: &str) -> Result<Vec<LeaseStatus>, Fault> {
    let rows = sqlx::query(include_str!("../sql/status_leases.sql"))
        .bind(name.as_bytes())
        .fetch_all(connection)
        .await?;
    let lease = |row: &MySqlRow| {
        let expires_in: Option<i64> = row.try_get(4)?;
        Ok(LeaseStatus {
            shard: row.try_get(0)?,
            relay: row::text(row, 1)?,
            epoch: row.try_get(2)?,
            seq: row.try_get(3)?,
            expires_in_seconds: expires_in.map(|micros| row::duration(micros).as_secs_f64()),
        })
    };
    rows.iter().map(lease).collect()
}

/// Age of the oldest message after a seq that a shard of a route takes; 0 where there is none.
async fn oldest(
    connection: &mut MySqlConnection,
    after: Seq,
    topics: &[TopicPattern],
    shard: Shard,
) -> Result<i64, Fault> {
    let rows = sqlx::query(include_str!("../sql/status_oldest.sql"))
        .bind(after)
        .fetch_all(connection)
        .await?;
    let mut oldest = 0;
    for row in &rows {
        let seq: Option<Seq> = row.try_get(0)?;
        let topic = row::text(row, 1)?.unwrap_or_default();
        let key = row::text(row, 2)?;
        // Without a key and a seq it may become any shard's.
        let is_anyones = key.is_none() && seq.is_none();
        let is_ours = is_anyones || shard.serves(bucket(key.as_deref(), seq.unwrap_or(0)));
        if is_ours && topics.iter().any(|pattern| pattern.matches(&topic)) {
            oldest = oldest.max(row.try_get(3)?);
        }
    }
    Ok(oldest)
}

async fn relays(connection: &mut MySqlConnection) -> Result<Vec<RelayStatus>, Fault> {
    let rows = sqlx::query(include_str!("../sql/status_relays.sql")).fetch_all(connection).await?;
    let text = |row: &MySqlRow, index| Ok::<_, Fault>(row::text(row, index)?.unwrap_or_default());
    let relay = |row: &MySqlRow| {
        Ok(RelayStatus {
            id: text(row, 0)?,
            name: text(row, 1)?,
            version: text(row, 2)?,
            seen_seconds_ago: row::duration(row.try_get(3)?).as_secs_f64(),
        })
    };
    rows.iter().map(relay).collect()
}

async fn unrouted(
    connection: &mut MySqlConnection,
    patterns: &[TopicPattern],
) -> Result<Vec<UnroutedTopic>, Fault> {
    let rows = sqlx::query(include_str!("../sql/status_topics.sql")).fetch_all(connection).await?;
    let mut unrouted = Vec::new();
    for row in &rows {
        let topic = row::text(row, 0)?.unwrap_or_default();
        if !patterns.iter().any(|pattern| pattern.matches(&topic)) {
            unrouted.push(UnroutedTopic { topic, messages: count(row.try_get(1)?) });
        }
    }
    Ok(unrouted)
}
