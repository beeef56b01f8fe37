//! The picture for people and monitors. Every statement reads a bounded number of rows by an index.

use posthaste_core::{LeaseStatus, RelayStatus, RouteStatus, Status, UnroutedTopic};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::{error::Fault, row::count, transaction::query};

/// The status port.
pub(crate) async fn status(connection: &mut PgConnection) -> Result<Status, Fault> {
    let mut routes = all(connection, include_str!("../sql/status_routes.sql"), route).await?;
    let leases = all(connection, include_str!("../sql/status_leases.sql"), ahead).await?;
    for ahead in leases {
        if let Some(route) = routes.iter_mut().find(|route| route.name == ahead.route) {
            route.pending = route.pending.max(ahead.pending);
            let oldest = &mut route.oldest_pending_age_seconds;
            *oldest = oldest.max(ahead.oldest_age_seconds);
            route.leases.push(ahead.lease);
        }
    }
    Ok(Status {
        routes,
        relays: all(connection, include_str!("../sql/status_relays.sql"), relay).await?,
        unrouted: all(connection, include_str!("../sql/status_unrouted.sql"), unrouted).await?,
    })
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
        name: row.try_get(0)?,
        topics: row.try_get(1)?,
        leases: Vec::new(),
        pending: 0,
        oldest_pending_age_seconds: 0.0,
        retrying: count(row.try_get::<i64, _>(2)?),
        dead: count(row.try_get::<i64, _>(3)?),
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

fn relay(row: &PgRow) -> Result<RelayStatus, sqlx::Error> {
    Ok(RelayStatus {
        id: row.try_get(0)?,
        name: row.try_get(1)?,
        version: row.try_get(2)?,
        seen_seconds_ago: row.try_get(3)?,
    })
}

fn unrouted(row: &PgRow) -> Result<UnroutedTopic, sqlx::Error> {
    Ok(UnroutedTopic { topic: row.try_get(0)?, messages: count(row.try_get::<i64, _>(1)?) })
}
