//! The picture for people and monitors. Every statement reads a bounded number of rows by an index.

use posthaste_core::{
    LeaseStatus, Pause, REWINDS_MAX, RelayStatus, RewindStatus, RouteStatus, Status, UnroutedTopic,
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::{
    error::Fault,
    row::count,
    transaction::{query, scalar},
};

/// The status port.
pub(crate) async fn status(connection: &mut PgConnection) -> Result<Status, Fault> {
    let mut routes = all(connection, include_str!("../sql/status_routes.sql"), route).await?;
    for route in &mut routes {
        parked(connection, route).await?;
    }
    unregistered(connection, &mut routes).await?;
    let leases = all(connection, include_str!("../sql/status_leases.sql"), ahead).await?;
    for ahead in leases {
        if let Some(route) = routes.iter_mut().find(|route| route.name == ahead.route) {
            route.pending = route.pending.max(ahead.pending);
            let oldest = &mut route.oldest_pending_age_seconds;
            *oldest = oldest.max(ahead.oldest_age_seconds);
            route.leases.push(ahead.lease);
        }
    }
    let relays = all(connection, include_str!("../sql/status_relays.sql"), relay).await?;
    let unrouted = all(connection, include_str!("../sql/status_unrouted.sql"), unrouted).await?;
    let rewinds = rewinds(connection).await?;
    let mut status = Status { routes, relays: Vec::with_capacity(relays.len()), unrouted, rewinds };
    for (relay, paused) in relays {
        status.add_pauses(&relay.id, &paused, relay.seen_seconds_ago);
        status.relays.push(relay);
    }
    Ok(status)
}

/// Adds the names that retrying or dead messages belong to and that are no routes.
async fn unregistered(
    connection: &mut PgConnection,
    routes: &mut Vec<RouteStatus>,
) -> Result<(), Fault> {
    let mut name = String::new();
    loop {
        let next: Option<String> = scalar(include_str!("../sql/status_owners.sql"))
            .bind(&name)
            .fetch_one(&mut *connection)
            .await?;
        let Some(next) = next else { return Ok(()) };
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
async fn parked(connection: &mut PgConnection, route: &mut RouteStatus) -> Result<(), Fault> {
    let row = query(include_str!("../sql/status_parked.sql"))
        .bind(&route.name)
        .fetch_one(connection)
        .await?;
    route.retrying = count(row.try_get::<i64, _>(0)?);
    route.dead = count(row.try_get::<i64, _>(1)?);
    route.oldest_retrying_age_seconds = row.try_get::<Option<f64>, _>(2)?.unwrap_or(0.0);
    Ok(())
}

async fn rewinds(connection: &mut PgConnection) -> Result<Vec<RewindStatus>, Fault> {
    let rows = query(include_str!("../sql/status_rewinds.sql"))
        .bind(i64::from(REWINDS_MAX))
        .fetch_all(connection)
        .await?;
    let rewind = |row: &PgRow| {
        Ok(RewindStatus {
            route: row.try_get(0)?,
            seconds_ago: row.try_get(1)?,
            relay: row.try_get(2)?,
        })
    };
    rows.iter().map(rewind).collect()
}

async fn all<T>(
    connection: &mut PgConnection,
    sql: &'static str,
    decode: fn(&PgRow) -> Result<T, sqlx::Error>,
) -> Result<Vec<T>, Fault> {
    let rows = query(sql).fetch_all(connection).await?;
    Ok(rows.iter().map(decode).collect::<Result<_, _>>()?)
}

fn route(row: &PgRow) -> Result<RouteStatus, sqlx::Error> {
    Ok(RouteStatus {
        registered: true,
        topics: row.try_get(1)?,
        ..RouteStatus::unregistered(row.try_get(0)?)
    })
}

/// A lease and what lies ahead of it.
struct Ahead {
    route: String,
    lease: LeaseStatus,
    pending: u64,
    oldest_age_seconds: f64,
}

fn ahead(row: &PgRow) -> Result<Ahead, sqlx::Error> {
    Ok(Ahead {
        route: row.try_get(0)?,
        lease: LeaseStatus {
            shard: u16::try_from(row.try_get::<i32, _>(1)?).unwrap_or(u16::MAX),
            relay: row.try_get(2)?,
            epoch: row.try_get(3)?,
            seq: row.try_get(4)?,
            expires_in_seconds: row.try_get(5)?,
        },
        pending: count(row.try_get::<i64, _>(6)?),
        oldest_age_seconds: row.try_get::<Option<f64>, _>(7)?.unwrap_or(0.0),
    })
}

/// A relay, and the routes it has paused.
fn relay(row: &PgRow) -> Result<(RelayStatus, Vec<Pause>), sqlx::Error> {
    let relay = RelayStatus {
        id: row.try_get(0)?,
        name: row.try_get(1)?,
        version: row.try_get(2)?,
        seen_seconds_ago: row.try_get(3)?,
    };
    let paused: Option<String> = row.try_get(4)?;
    Ok((relay, paused.map(|text| Pause::from_text(&text)).unwrap_or_default()))
}

fn unrouted(row: &PgRow) -> Result<UnroutedTopic, sqlx::Error> {
    Ok(UnroutedTopic { topic: row.try_get(0)?, messages: count(row.try_get::<i64, _>(1)?) })
}
