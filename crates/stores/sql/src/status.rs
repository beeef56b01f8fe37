//! The picture for people and monitors. Every statement reads a bounded number of rows by an index.

use posthaste_core::{
    LeaseStatus, Pause, REWINDS_MAX, RelayStatus, RewindStatus, RouteStatus, Seq, Status,
    TopicPattern, UnroutedTopic, bucket,
};

use crate::{
    Dialect, Fault, Row, Session, Statement,
    message::{is_matched, topics_from_json},
    params,
};

/// Rows that one statement looks at for the oldest message that is pending, and statements in one call.
const OLDEST_ROWS: usize = 1_000;
const OLDEST_LOOKS_MAX: usize = 10;

/// The log as a whole.
struct Log {
    /// Before its first row.
    start: Seq,
    end: Seq,
    /// Upper bound of messages that are not in it yet.
    outside: u64,
}

/// The status port.
pub(crate) async fn status<D: Dialect>(session: &mut Session<'_, D>) -> Result<Status, Fault> {
    let log = log(session).await?;
    let mut routes = Vec::new();
    let mut patterns = Vec::new();
    for row in &session.rows(Statement::StatusRoutes, &[]).await? {
        let topics = topics_from_json(&row.string(1)?)?;
        routes.push(route(session, &log, row.string(0)?, &topics, row.number(2)?).await?);
        patterns.extend(topics);
    }
    unregistered(session, &mut routes).await?;
    let unrouted = unrouted(session, &patterns).await?;
    let rewinds = rewinds(session).await?;
    let mut status = Status { routes, relays: Vec::new(), unrouted, rewinds };
    relays(session, &mut status).await?;
    Ok(status)
}

async fn log<D: Dialect>(session: &mut Session<'_, D>) -> Result<Log, Fault> {
    let row = session.row(Statement::StatusLog, &[]).await?;
    let row = row.ok_or_else(|| Fault::internal("the log cannot be looked at"))?;
    Ok(Log { start: row.number(0)?, end: row.number(1)?, outside: row.count(2)? })
}

async fn route<D: Dialect>(
    session: &mut Session<'_, D>,
    log: &Log,
    name: String,
    topics: &[TopicPattern],
    shards: u16,
) -> Result<RouteStatus, Fault> {
    let leases = leases(session, &name).await?;
    let behind = leases.iter().map(|lease| log.end - lease.seq.max(log.start)).max();
    let behind = u64::try_from(behind.unwrap_or(0)).unwrap_or(0);
    let mut route = RouteStatus {
        registered: true,
        topics: topics.iter().map(ToString::to_string).collect(),
        pending: behind + log.outside,
        oldest_pending_age_seconds: oldest_pending(session, topics, shards, &leases).await?,
        leases,
        ..RouteStatus::unregistered(name)
    };
    parked(session, &mut route).await?;
    Ok(route)
}

async fn leases<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
) -> Result<Vec<LeaseStatus>, Fault> {
    let lease = |row: &Row| {
        Ok(LeaseStatus {
            shard: row.number(0)?,
            relay: row.text(1)?,
            epoch: row.number(2)?,
            seq: row.number(3)?,
            expires_in_seconds: row.duration(4)?.map(|left| left.as_secs_f64()),
        })
    };
    session.rows(Statement::StatusLeases, &params![route: route]).await?.iter().map(lease).collect()
}

/// Age in seconds of the first message that its shard has not passed. Where none is found among the rows
/// looked at, that of the last of them: what is pending, if anything, is no older.
async fn oldest_pending<D: Dialect>(
    session: &mut Session<'_, D>,
    topics: &[TopicPattern],
    shards: u16,
    leases: &[LeaseStatus],
) -> Result<f64, Fault> {
    let mut after = leases.iter().map(|lease| lease.seq).min().unwrap_or(0);
    let mut age = 0.0;
    for _ in 0..OLDEST_LOOKS_MAX {
        let look = params![after: after, limit: OLDEST_ROWS];
        let rows = session.rows(Statement::StatusOldest, &look).await?;
        for row in &rows {
            let (seq, key) = (row.int(0)?, row.text(2)?);
            age = row.duration(3)?.unwrap_or_default().as_secs_f64();
            // Without a key and a seq a message may become any shard's.
            let bucket = bucket(key.as_deref(), seq.unwrap_or(0));
            let index = (key.is_some() || seq.is_some()).then(|| bucket % u32::from(shards));
            let is_pending = leases.iter().any(|lease| {
                index.is_none_or(|index| u32::from(lease.shard) == index)
                    && seq.is_none_or(|seq| lease.seq < seq)
            });
            if is_pending && is_matched(topics, &row.string(1)?) {
                return Ok(age);
            }
            after = seq.unwrap_or(after);
        }
        if rows.len() < OLDEST_ROWS {
            return Ok(0.0);
        }
    }
    Ok(age)
}

/// Adds the names that retrying or dead messages belong to and that are no routes.
async fn unregistered<D: Dialect>(
    session: &mut Session<'_, D>,
    routes: &mut Vec<RouteStatus>,
) -> Result<(), Fault> {
    let mut name = String::new();
    loop {
        let next = session.row(Statement::StatusOwners, &params![after: &name]).await?;
        let Some(next) = next.map(|row| row.text(0)).transpose()?.flatten() else {
            return Ok(());
        };
        name = next;
        if routes.iter().any(|route| route.name == name) {
            continue;
        }
        let mut route = RouteStatus::unregistered(name.clone());
        parked(session, &mut route).await?;
        if route.retrying + route.dead > 0 {
            routes.push(route);
        }
    }
}

/// Counts the route's parked messages.
async fn parked<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &mut RouteStatus,
) -> Result<(), Fault> {
    let row = session.row(Statement::StatusParked, &params![route: &route.name]).await?;
    let row = row.ok_or_else(|| Fault::internal("parked messages cannot be counted"))?;
    (route.retrying, route.dead) = (row.count(0)?, row.count(1)?);
    route.oldest_retrying_age_seconds = row.duration(2)?.unwrap_or_default().as_secs_f64();
    Ok(())
}

async fn rewinds<D: Dialect>(session: &mut Session<'_, D>) -> Result<Vec<RewindStatus>, Fault> {
    let rewind = |row: &Row| {
        Ok(RewindStatus {
            route: row.string(0)?,
            seconds_ago: row.duration(1)?.unwrap_or_default().as_secs_f64(),
            relay: row.string(2)?,
        })
    };
    let limit = params![limit: i64::from(REWINDS_MAX)];
    session.rows(Statement::StatusRewinds, &limit).await?.iter().map(rewind).collect()
}

/// Adds every relay, and what those that are there say of their routes.
async fn relays<D: Dialect>(
    session: &mut Session<'_, D>,
    status: &mut Status,
) -> Result<(), Fault> {
    for row in &session.rows(Statement::StatusRelays, &[]).await? {
        let relay = RelayStatus {
            id: row.string(0)?,
            name: row.string(1)?,
            version: row.string(2)?,
            seen_seconds_ago: row.duration(3)?.unwrap_or_default().as_secs_f64(),
        };
        let paused = Pause::from_text(&row.string(4)?);
        status.add_pauses(&relay.id, &paused, relay.seen_seconds_ago);
        status.relays.push(relay);
    }
    Ok(())
}

async fn unrouted<D: Dialect>(
    session: &mut Session<'_, D>,
    patterns: &[TopicPattern],
) -> Result<Vec<UnroutedTopic>, Fault> {
    let mut unrouted = Vec::new();
    for row in &session.rows(Statement::StatusTopics, &[]).await? {
        let topic = row.string(0)?;
        if !is_matched(patterns, &topic) {
            unrouted.push(UnroutedTopic { topic, messages: row.count(1)? });
        }
    }
    Ok(unrouted)
}
