//! Taking, keeping and giving back the right to serve a shard.

use std::time::Duration;

use posthaste_core::{Claim, Grant, Lease, Position, Shard};
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::{
    error::Fault,
    parked,
    route::{self, Split},
    row::{position, seconds},
    snapshot,
    transaction::{query, scalar},
};

/// The acquire port.
pub(crate) async fn acquire(
    connection: &mut PgConnection,
    claim: Claim,
) -> Result<Option<Grant>, Fault> {
    let mut split = route::read(connection, &claim.route).await?;
    if split.barrier.is_some() {
        // Only now, because locks are taken on the route before its leases, and never needlessly.
        split = route::lock(connection, &claim.route).await?;
    }
    if split.shards != claim.shard.of {
        return Ok(None);
    }
    let Some(epoch) = take(connection, &claim).await? else {
        return Ok(None);
    };
    let position = last_position(connection, &claim.route, claim.shard).await?;
    let until = barrier(connection, &claim.route, &split, &position).await?;
    let blocked = scalar(include_str!("../sql/blocked_keys.sql"))
        .bind(&claim.route)
        .bind(i32::from(claim.shard.of))
        .bind(i32::from(claim.shard.index))
        .fetch_all(&mut *connection)
        .await?;
    let undelivered = parked::undelivered(connection, &claim.route, claim.shard).await?;
    let log = log(connection, &claim.route).await?;
    Ok(Some(Grant {
        lease: Lease { route: claim.route, shard: claim.shard, relay: claim.relay, epoch },
        position,
        until,
        blocked,
        log,
        undelivered,
    }))
}

/// Which log the route reads. With the lease taken, so that it goes with the topics.
async fn log(connection: &mut PgConnection, route: &str) -> Result<Uuid, Fault> {
    query(include_str!("../sql/draw_log.sql")).bind(route).execute(&mut *connection).await?;
    let row = query(include_str!("../sql/read_log.sql")).bind(route).fetch_one(connection).await?;
    let (drawn, timeline): (Uuid, &str) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Uuid::new_v5(&drawn, timeline.as_bytes()))
}

async fn take(connection: &mut PgConnection, claim: &Claim) -> Result<Option<i64>, Fault> {
    Ok(scalar(include_str!("../sql/acquire.sql"))
        .bind(&claim.route)
        .bind(i32::from(claim.shard.index))
        .bind(claim.relay.0)
        .bind(seconds(claim.ttl))
        .fetch_optional(connection)
        .await?)
}

/// How far a shard has got, as far as it was written down.
pub(crate) async fn last_position(
    connection: &mut PgConnection,
    route: &str,
    shard: Shard,
) -> Result<Position, Fault> {
    let text: Option<String> = scalar(include_str!("../sql/read_progress.sql"))
        .bind(route)
        .bind(i32::from(shard.index))
        .fetch_optional(connection)
        .await?;
    position(&text.unwrap_or_default())
}

/// Where the shard must stop, while a resize is under way. A holder from before the resize knew of
/// no stop and may have read past it; then the stop moves to the present head of the log, where no
/// shard has been yet, rather than sending anything twice.
async fn barrier(
    connection: &mut PgConnection,
    name: &str,
    split: &Split,
    reached: &Position,
) -> Result<Option<Position>, Fault> {
    match (&split.barrier, split.resizing_to) {
        (Some(barrier), Some(shards)) if !snapshot::is_within(reached, barrier) => {
            let head = route::head(connection).await?;
            route::set_resize(connection, name, Some((shards, &head))).await?;
            Ok(Some(head))
        }
        (barrier, _) => Ok(barrier.clone()),
    }
}

/// The renew port.
pub(crate) async fn renew(
    connection: &mut PgConnection,
    lease: Lease,
    ttl: Duration,
) -> Result<(), Fault> {
    let done = query(include_str!("../sql/renew.sql"))
        .bind(&lease.route)
        .bind(i32::from(lease.shard.index))
        .bind(lease.relay.0)
        .bind(lease.epoch)
        .bind(seconds(ttl))
        .execute(connection)
        .await?;
    if done.rows_affected() == 0 {
        return Err(Fault::fenced());
    }
    Ok(())
}

/// The release port.
pub(crate) async fn release(connection: &mut PgConnection, lease: Lease) -> Result<(), Fault> {
    query(include_str!("../sql/release.sql"))
        .bind(&lease.route)
        .bind(i32::from(lease.shard.index))
        .bind(lease.relay.0)
        .bind(lease.epoch)
        .execute(connection)
        .await?;
    Ok(())
}
