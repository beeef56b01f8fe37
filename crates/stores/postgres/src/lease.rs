//! Taking, keeping and giving back the right to serve a shard.

use std::time::Duration;

use posthaste_core::{Claim, Evidence, Grant, Lease, Position, Shard};
use sqlx::{PgConnection, Row, postgres::PgRow};
use uuid::Uuid;

use crate::{
    error::Fault,
    parked, rewind,
    route::{self, Split},
    row::{position, seconds},
    snapshot,
    transaction::{query, scalar},
};

/// Parked messages that one call looks at in search of blocked keys.
const BLOCKED_ROWS_MAX: i64 = 20_000;

/// Keys of a shard that something parked holds back.
pub(crate) struct Blocked {
    pub(crate) keys: Vec<String>,
    /// Behind which key there may be more.
    pub(crate) more: Option<String>,
}

/// The blocked keys of a shard behind key `after`, as far as one call looks.
pub(crate) async fn blocked(
    connection: &mut PgConnection,
    lease: Lease,
    after: String,
) -> Result<Blocked, Fault> {
    let rows = query(include_str!("../sql/blocked_keys.sql"))
        .bind(&lease.route)
        .bind(i32::from(lease.shard.of))
        .bind(i32::from(lease.shard.index))
        .bind(after)
        .bind(BLOCKED_ROWS_MAX)
        .fetch_all(connection)
        .await?;
    let (mut keys, mut looked, mut last) = (Vec::new(), 0, None);
    for row in &rows {
        let key: String = row.try_get(0)?;
        last = Some(key.clone());
        if row.try_get(1)? {
            keys.push(key);
        }
        looked += row.try_get::<i64, _>(2)?;
    }
    Ok(Blocked { keys, more: last.filter(|_| looked >= BLOCKED_ROWS_MAX) })
}

/// The acquire port, but for blocked keys, which [`blocked`] reads once the lease is taken.
pub(crate) async fn acquire(
    connection: &mut PgConnection,
    claim: Claim,
) -> Result<Option<Grant>, Fault> {
    if let Some(rewound) = claim.rewound {
        rewind::realign(connection, &claim, rewound).await?;
    }
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
    let latest = last_position(connection, &claim.route, claim.shard).await?;
    let (_, present) = rewind::read(connection, &claim.route, claim.shard.index, None).await?;
    let position = rewind::bounded(connection, &claim, &present, latest).await?;
    let until = barrier(connection, &claim.route, &split, &position).await?;
    let undelivered = parked::undelivered(connection, &claim.route, claim.shard).await?;
    let log = log(connection, &claim.route).await?;
    let evidence =
        Evidence { lineage: present.lineage().clone(), entry: present.entry(), witness: None };
    Ok(Some(Grant {
        lease: Lease { route: claim.route, shard: claim.shard, relay: claim.relay, epoch },
        position,
        until,
        blocked: Vec::new(),
        log,
        undelivered,
        evidence,
    }))
}

/// Which log the route reads. With the lease taken, so that it goes with the topics.
async fn log(connection: &mut PgConnection, route: &str) -> Result<Uuid, Fault> {
    query(include_str!("../sql/draw_log.sql")).bind(route).execute(&mut *connection).await?;
    let log = read_log(connection, route).await?;
    Ok(log.ok_or_else(|| Fault::internal("a log's name cannot be drawn"))?.name())
}

/// A log's name: what was drawn for the route, on the server's timeline.
pub(crate) struct NamedLog {
    pub(crate) drawn: Uuid,
    timeline: String,
}

impl NamedLog {
    /// Another one on every timeline.
    pub(crate) fn name(&self) -> Uuid {
        Uuid::new_v5(&self.drawn, self.timeline.as_bytes())
    }
}

/// The name of the log that the route reads, if one was drawn.
pub(crate) async fn read_log(
    connection: &mut PgConnection,
    route: &str,
) -> Result<Option<NamedLog>, Fault> {
    let row =
        query(include_str!("../sql/read_log.sql")).bind(route).fetch_optional(connection).await?;
    let named = |row: PgRow| Ok(NamedLog { drawn: row.try_get(0)?, timeline: row.try_get(1)? });
    row.map(named).transpose()
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
        .execute(&mut *connection)
        .await?;
    if done.rows_affected() == 0 {
        let (found, _) = rewind::read(connection, &lease.route, lease.shard.index, None).await?;
        return Err(rewind::gone(found, lease.epoch));
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
