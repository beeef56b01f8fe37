//! The picture for people and monitors. Every statement is bounded, whatever the size of the log.

use posthaste_core::{
    LeaseStatus, Pause, REWINDS_MAX, RelayStatus, RewindStatus, RouteStatus, Seq, Status,
    TopicPattern, UnroutedTopic, bucket,
};
use sqlx::{Row, SqliteConnection};

use crate::{error::Fault, row};

/// Rows looked at to find the oldest one that is pending.
const ROWS_MAX: u32 = 10_000;

pub(crate) async fn status(conn: &mut SqliteConnection) -> Result<Status, Fault> {
    type Columns = (String, String, u16, Seq, Seq);
    let found: Vec<Columns> =
        sqlx::query_as(include_str!("../sql/status_routes.sql")).fetch_all(&mut *conn).await?;
    let mut routes = Vec::new();
    let mut patterns = Vec::new();
    for (name, topics, shards, log_start, log_end) in found {
        let topics = row::topics_from(&topics)?;
        let leases = leases(conn, &name).await?;
        let passed = leases.iter().map(|lease| lease.seq).min().unwrap_or(0);
        let mut route = RouteStatus {
            registered: true,
            oldest_pending_age_seconds: oldest_pending(conn, &topics, shards, &leases).await?,
            topics: topics.iter().map(ToString::to_string).collect(),
            leases,
            pending: u64::try_from(log_end - passed.max(log_start)).unwrap_or(0),
            ..RouteStatus::unregistered(name)
        };
        parked(conn, &mut route).await?;
        routes.push(route);
        patterns.extend(topics);
    }
    unregistered(conn, &mut routes).await?;
    let unrouted = unrouted(conn, &patterns).await?;
    let rewinds = rewinds(conn).await?;
    let mut status = Status { routes, relays: Vec::new(), unrouted, rewinds };
    relays(conn, &mut status).await?;
    Ok(status)
}

async fn rewinds(conn: &mut SqliteConnection) -> Result<Vec<RewindStatus>, Fault> {
    let found: Vec<(String, f64, String)> =
        sqlx::query_as(include_str!("../sql/status_rewinds.sql"))
            .bind(REWINDS_MAX)
            .fetch_all(conn)
            .await?;
    let rewinds = found.into_iter().map(|(route, seconds_ago, relay)| RewindStatus {
        route,
        seconds_ago,
        relay,
    });
    Ok(rewinds.collect())
}

/// Adds the names that retrying or dead messages belong to and that are no routes.
async fn unregistered(
    conn: &mut SqliteConnection,
    routes: &mut Vec<RouteStatus>,
) -> Result<(), Fault> {
    let mut name = String::new();
    loop {
        let next: Option<String> = sqlx::query_scalar(include_str!("../sql/status_owners.sql"))
            .bind(&name)
            .fetch_one(&mut *conn)
            .await?;
        let Some(next) = next else { return Ok(()) };
        name = next;
        if routes.iter().any(|route| route.name == name) {
            continue;
        }
        let mut route = RouteStatus::unregistered(name.clone());
        parked(conn, &mut route).await?;
        if route.retrying + route.dead > 0 {
            routes.push(route);
        }
    }
}

/// Counts the route's parked messages.
async fn parked(conn: &mut SqliteConnection, route: &mut RouteStatus) -> Result<(), Fault> {
    let (retrying, dead, oldest): (u32, u32, f64) =
        sqlx::query_as(include_str!("../sql/status_parked.sql"))
            .bind(&route.name)
            .fetch_one(conn)
            .await?;
    (route.retrying, route.dead) = (retrying.into(), dead.into());
    route.oldest_retrying_age_seconds = oldest.max(0.0);
    Ok(())
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

/// Adds every relay, and what those that are there say of their routes.
async fn relays(conn: &mut SqliteConnection, status: &mut Status) -> Result<(), Fault> {
    type Columns = (String, String, String, f64, String);
    let found: Vec<Columns> =
        sqlx::query_as(include_str!("../sql/status_relays.sql")).fetch_all(conn).await?;
    for (id, name, version, seen, paused) in found {
        let seen_seconds_ago = seen.max(0.0);
        status.add_pauses(&id, &Pause::from_text(&paused), seen_seconds_ago);
        status.relays.push(RelayStatus { id, name, version, seen_seconds_ago });
    }
    Ok(())
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
