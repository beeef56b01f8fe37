//! The picture for people and monitors. Every statement reads a bounded number of rows by an index.

use posthaste_core::{
    LeaseStatus, Pause, REWINDS_MAX, RelayStatus, RewindStatus, RouteStatus, Seq, Shard, Status,
    TopicPattern, UnroutedTopic, bucket,
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
    unregistered(connection, &mut routes).await?;
    let unrouted = unrouted(connection, &patterns).await?;
    let rewinds = rewinds(connection).await?;
    let mut status = Status { routes, relays: Vec::new(), unrouted, rewinds };
    relays(connection, &mut status).await?;
    Ok(status)
}

/// Adds the names that retrying or dead messages belong to and that are no routes.
async fn unregistered(
    connection: &mut MySqlConnection,
    routes: &mut Vec<RouteStatus>,
) -> Result<(), Fault> {
    let mut name = String::new();
    loop {
        let next = sqlx::query(include_str!("../sql/status_owners.sql"))
            .bind(name.as_bytes())
            .fetch_one(&mut *connection)
            .await?;
        let Some(next) = row::text(&next, 0)? else { return Ok(()) };
        name = next;
        if routes.iter().any(|route| route.name == name) {
            continue;
        }
        let mut route = RouteStatus::unregistered(name.clone());
        parked(connection, &mut route).await?;
        if route.retrying + route.dead > 0 {
            routes.push(route);
        }
    }
}

/// Counts the route's parked messages.
async fn parked(connection: &mut MySqlConnection, route: &mut RouteStatus) -> Result<(), Fault> {
    let name = route.name.as_bytes();
    let (retrying, dead, oldest): (i64, i64, i64) =
        sqlx::query_as(include_str!("../sql/status_parked.sql"))
            .bind(name)
            .bind(name)
            .bind(name)
            .fetch_one(connection)
            .await?;
    (route.retrying, route.dead) = (count(retrying), count(dead));
    route.oldest_retrying_age_seconds = row::duration(oldest).as_secs_f64();
    Ok(())
}

async fn rewinds(connection: &mut MySqlConnection) -> Result<Vec<RewindStatus>, Fault> {
    let rows = sqlx::query(include_str!("../sql/status_rewinds.sql"))
        .bind(REWINDS_MAX)
        .fetch_all(connection)
        .await?;
    let rewind = |row: &MySqlRow| {
        Ok(RewindStatus {
            route: row::text(row, 0)?.unwrap_or_default(),
            seconds_ago: row::duration(row.try_get(1)?).as_secs_f64(),
            relay: row::text(row, 2)?.unwrap_or_default(),
        })
    };
    rows.iter().map(rewind).collect()
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
    let leases = leases(connection, &name).await?;
    let mut oldest_micros = 0;
    for lease in &leases {
        let shard = Shard { index: lease.shard, of: shards };
        let oldest = oldest(connection, lease.seq, topics, shard).await?;
        oldest_micros = oldest_micros.max(oldest);
    }
    let behind = leases.iter().map(|lease| log.end - lease.seq.max(log.start)).max();
    let mut route = RouteStatus {
        registered: true,
        topics: topics.iter().map(ToString::to_string).collect(),
        pending: count(behind.unwrap_or(0)) + count(log.outside),
        oldest_pending_age_seconds: row::duration(oldest_micros).as_secs_f64(),
        leases,
        ..RouteStatus::unregistered(name)
    };
    parked(connection, &mut route).await?;
    Ok(route)
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

/// Adds every relay, and what those that are there say of their routes.
async fn relays(connection: &mut MySqlConnection, status: &mut Status) -> Result<(), Fault> {
    let rows = sqlx::query(include_str!("../sql/status_relays.sql")).fetch_all(connection).await?;
    let text = |row: &MySqlRow, index| Ok::<_, Fault>(row::text(row, index)?.unwrap_or_default());
    for row in &rows {
        let relay = RelayStatus {
            id: text(row, 0)?,
            name: text(row, 1)?,
            version: text(row, 2)?,
            seen_seconds_ago: row::duration(row.try_get(3)?).as_secs_f64(),
        };
        let paused = Pause::from_text(&text(row, 4)?);
        status.add_pauses(&relay.id, &paused, relay.seen_seconds_ago);
        status.relays.push(relay);
    }
    Ok(())
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
