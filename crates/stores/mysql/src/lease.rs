//! Taking, keeping and giving back the right to serve a shard. All times are the database's.

use std::time::Duration;

use posthaste_core::{Claim, Evidence, Grant, Lease, Position, Settlement, Shard};
use sqlx::{MySqlConnection, Row};
use uuid::Uuid;

use crate::{
    error::Fault,
    parked, rewind, route,
    row::{self, micros},
};

/// Whether there is something to take. Asked without a lock, so that relays standing by disturb
/// nobody.
pub(crate) async fn is_free(
    connection: &mut MySqlConnection,
    claim: &Claim,
) -> Result<bool, Fault> {
    let row = sqlx::query(include_str!("../sql/acquire_look.sql"))
        .bind(claim.shard.index)
        .bind(claim.route.as_bytes())
        .fetch_optional(connection)
        .await?;
    let row = row.ok_or_else(|| Fault::unknown_route(&claim.route))?;
    let shards: u16 = row.try_get(0)?;
    Ok(shards == claim.shard.of && row.try_get::<i64, _>(1)? != 0)
}

/// The acquire port, in a transaction.
pub(crate) async fn acquire(
    connection: &mut MySqlConnection,
    claim: &Claim,
) -> Result<Option<Grant>, Fault> {
    if let Some(rewound) = claim.rewound {
        rewind::realign(connection, claim, rewound).await?;
    }
    let mut split = route::read(connection, &claim.route).await?;
    if split.as_ref().is_some_and(|split| split.barrier.is_some()) {
        // Only now, because locks are taken on the route before its leases, and never needlessly.
        split = route::lock(connection, &claim.route).await?;
    }
    let split = split.ok_or_else(|| Fault::unknown_route(&claim.route))?;
    if split.shards != claim.shard.of {
        return Ok(None);
    }
    let Some(epoch) = take(connection, claim).await? else {
        return Ok(None);
    };
    mark(connection, &claim.route, claim.shard, epoch - 1).await?;
    let latest = last_position(connection, &claim.route, claim.shard).await?;
    let present = rewind::read(connection, &claim.route, claim.shard.index, None).await?;
    let position = rewind::bounded(connection, claim, &present, latest).await?;
    let until = match &split.barrier {
        // A holder from before the resize knew of no stop and may have read past it; then the stop
        // moves to the present end of the log, where no shard has been yet, rather than sending
        // anything twice.
        Some(barrier) if position.seq() > row::position(barrier)?.seq() => {
            Some(route::move_barrier(connection, &claim.route, split).await?)
        }
        barrier => barrier.as_deref().map(row::position).transpose()?,
    };
    let blocked = blocked(connection, claim).await?;
    let undelivered = parked::undelivered(connection, &claim.route, claim.shard).await?;
    let log = log(connection, &claim.route).await?;
    let Claim { route, shard, relay, .. } = claim.clone();
    let lease = Lease { route, shard, relay, epoch };
    let evidence = Evidence { entry: present.entry(), ..Evidence::default() };
    Ok(Some(Grant { lease, position, until, blocked, log, undelivered, evidence }))
}

/// Which log the route reads. With the lease taken, so that it goes with the topics.
async fn log(connection: &mut MySqlConnection, route: &str) -> Result<Uuid, Fault> {
    sqlx::query(include_str!("../sql/draw_log.sql"))
        .bind(route.as_bytes())
        .bind(Uuid::new_v4().to_string())
        .execute(&mut *connection)
        .await?;
    let log = read_log(connection, route).await?;
    log.ok_or_else(|| Fault::internal("a log's name cannot be drawn"))
}

/// The name of the log that the route reads, if one was drawn.
pub(crate) async fn read_log(
    connection: &mut MySqlConnection,
    route: &str,
) -> Result<Option<Uuid>, Fault> {
    let row = sqlx::query(include_str!("../sql/read_log.sql"))
        .bind(route.as_bytes())
        .fetch_optional(connection)
        .await?;
    let text = row.map(|row| row::text(&row, 0)).transpose()?.flatten();
    let log = text.map(|text| text.parse()).transpose();
    log.map_err(|_| Fault::internal("a log's identity cannot be read"))
}

async fn take(connection: &mut MySqlConnection, claim: &Claim) -> Result<Option<i64>, Fault> {
    let taken = sqlx::query(include_str!("../sql/acquire.sql"))
        .bind(claim.relay.to_string())
        .bind(micros(claim.ttl))
        .bind(claim.route.as_bytes())
        .bind(claim.shard.index)
        .execute(&mut *connection)
        .await?;
    if taken.rows_affected() == 0 {
        return Ok(None);
    }
    let epoch = sqlx::query_scalar(include_str!("../sql/acquire_epoch.sql"))
        .bind(claim.route.as_bytes())
        .bind(claim.shard.index)
        .fetch_one(connection)
        .await?;
    Ok(Some(epoch))
}

/// Keeps settlements of an epoch out that another node of a cluster has committed and that are not
/// here yet; `sql/mark_lease.sql` says how.
pub(crate) async fn mark(
    connection: &mut MySqlConnection,
    route: &str,
    shard: Shard,
    epoch: i64,
) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/mark_lease.sql"))
        .bind(epoch)
        .bind(route.as_bytes())
        .bind(shard.index)
        .execute(connection)
        .await?;
    Ok(())
}

/// How far a shard has got, as far as it was written down.
pub(crate) async fn last_position(
    connection: &mut MySqlConnection,
    route: &str,
    shard: Shard,
) -> Result<Position, Fault> {
    let row = sqlx::query(include_str!("../sql/acquire_position.sql"))
        .bind(route.as_bytes())
        .bind(shard.index)
        .fetch_optional(connection)
        .await?;
    let text = row.map(|row| row::text(&row, 0)).transpose()?;
    row::position(&text.flatten().unwrap_or_default())
}

async fn blocked(connection: &mut MySqlConnection, claim: &Claim) -> Result<Vec<String>, Fault> {
    let rows = sqlx::query(include_str!("../sql/acquire_blocked.sql"))
        .bind(claim.route.as_bytes())
        .bind(claim.shard.of)
        .bind(claim.shard.index)
        .fetch_all(connection)
        .await?;
    let keys: Result<Vec<Option<String>>, Fault> =
        rows.iter().map(|row| row::text(row, 0)).collect();
    Ok(keys?.into_iter().flatten().collect())
}

/// The renew port.
pub(crate) async fn renew(
    connection: &mut MySqlConnection,
    lease: &Lease,
    ttl: Duration,
) -> Result<(), Fault> {
    let done = sqlx::query(include_str!("../sql/renew.sql"))
        .bind(micros(ttl))
        .bind(lease.route.as_bytes())
        .bind(lease.shard.index)
        .bind(lease.relay.to_string())
        .bind(lease.epoch)
        .execute(&mut *connection)
        .await?;
    if done.rows_affected() == 0 {
        rewind::refuse(connection, lease, &Settlement::default()).await?;
        return Err(Fault::fenced());
    }
    Ok(())
}

/// The release port.
pub(crate) async fn release(connection: &mut MySqlConnection, lease: &Lease) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/release.sql"))
        .bind(lease.route.as_bytes())
        .bind(lease.shard.index)
        .bind(lease.relay.to_string())
        .bind(lease.epoch)
        .execute(connection)
        .await?;
    Ok(())
}
