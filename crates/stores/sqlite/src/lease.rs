//! Leases and the relays that hold them. All times are the database's.

use std::time::Duration;

use posthaste_core::{Claim, Grant, Lease, Lineage, Pause, Position, RelayBeat, Shard};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::{
    error::Fault,
    fetch::unknown_route,
    parked,
    rewind::{self, Holder},
    route, row,
    settle::fenced,
};

/// What a claim finds: the number of shards, where the route is to stop, whether the lease is free.
type Look = (u16, Option<String>, bool);

/// Whether there is something to take. Asked without a lock, so that relays standing by disturb no
/// writer.
pub(crate) async fn is_free(conn: &mut SqliteConnection, claim: &Claim) -> Result<bool, Fault> {
    let (shards, _, is_free) = look(conn, claim).await?;
    Ok(shards == claim.shard.of && is_free)
}

/// How far a shard has got, as far as it was written down.
pub(crate) async fn last_position(
    conn: &mut SqliteConnection,
    route: &str,
    shard: Shard,
) -> Result<Position, Fault> {
    let position: Option<String> = sqlx::query_scalar(include_str!("../sql/acquire_position.sql"))
        .bind(route)
        .bind(shard.index)
        .fetch_optional(conn)
        .await?;
    parse_position(position.as_deref().unwrap_or_default())
}

/// In a transaction that holds the write lock.
pub(crate) async fn acquire(
    conn: &mut SqliteConnection,
    claim: &Claim,
    lineage: Lineage,
) -> Result<Option<Grant>, Fault> {
    if let Some(rewound) = claim.rewound {
        rewind::realign(conn, claim, rewound).await?;
    }
    let (shards, barrier, is_free) = look(conn, claim).await?;
    if shards != claim.shard.of || !is_free {
        return Ok(None);
    }
    let epoch: i64 = sqlx::query_scalar(include_str!("../sql/acquire_lease.sql"))
        .bind(&claim.route)
        .bind(claim.shard.index)
        .bind(claim.relay.to_string())
        .bind(claim.ttl.as_secs_f64())
        .fetch_one(&mut *conn)
        .await?;
    let latest = last_position(conn, &claim.route, claim.shard).await?;
    let present = rewind::read(conn, &claim.route, claim.shard, None, lineage).await?;
    let position = rewind::bounded(conn, claim, &present, latest).await?;
    let mut until = barrier.as_deref().map(parse_position).transpose()?;
    if until.as_ref().is_some_and(|until| position.seq() > until.seq()) {
        // Its last holder had the lease from before the resize, knew of no stop and read past it.
        // Nothing may be sent twice, so all shards go further instead.
        until = Some(route::move_barrier(conn, &claim.route).await?);
    }
    let blocked = sqlx::query_scalar(include_str!("../sql/acquire_blocked.sql"))
        .bind(&claim.route)
        .bind(claim.shard.index)
        .bind(claim.shard.of)
        .fetch_all(&mut *conn)
        .await?;
    let undelivered = parked::undelivered(conn, &claim.route, claim.shard).await?;
    let log = log(conn, &claim.route).await?;
    Ok(Some(Grant {
        lease: Lease { route: claim.route.clone(), shard: claim.shard, relay: claim.relay, epoch },
        position,
        until,
        blocked,
        log,
        undelivered,
        evidence: present.evidence(),
    }))
}

/// Which log the route reads.
async fn log(conn: &mut SqliteConnection, route: &str) -> Result<Uuid, Fault> {
    sqlx::query(include_str!("../sql/draw_log.sql"))
        .bind(route)
        .bind(Uuid::new_v4().to_string())
        .execute(&mut *conn)
        .await?;
    let log = read_log(conn, route).await?;
    log.ok_or_else(|| Fault::unreadable("log", "it has no name".to_owned()))
}

/// The name of the log that the route reads, if one was drawn.
pub(crate) async fn read_log(
    conn: &mut SqliteConnection,
    route: &str,
) -> Result<Option<Uuid>, Fault> {
    let text: Option<String> = sqlx::query_scalar(include_str!("../sql/read_log.sql"))
        .bind(route)
        .fetch_optional(conn)
        .await?;
    let log = text.map(|text| text.parse()).transpose();
    log.map_err(|error: uuid::Error| Fault::unreadable("log", error.to_string()))
}

/// A position as it is stored.
pub(crate) fn parse_position(text: &str) -> Result<Position, Fault> {
    text.parse().map_err(|error| Fault::unreadable("position", error))
}

async fn look(conn: &mut SqliteConnection, claim: &Claim) -> Result<Look, Fault> {
    sqlx::query_as(include_str!("../sql/acquire_look.sql"))
        .bind(&claim.route)
        .bind(claim.shard.index)
        .fetch_optional(conn)
        .await?
        .ok_or_else(|| unknown_route(&claim.route))
}

pub(crate) async fn renew(
    conn: &mut SqliteConnection,
    lease: &Lease,
    ttl: Duration,
) -> Result<(), Fault> {
    let renewed = sqlx::query(include_str!("../sql/renew.sql"))
        .bind(&lease.route)
        .bind(lease.shard.index)
        .bind(lease.relay.to_string())
        .bind(lease.epoch)
        .bind(ttl.as_secs_f64())
        .execute(&mut *conn)
        .await?;
    if renewed.rows_affected() == 1 {
        return Ok(());
    }
    let holder = Holder {
        route: &lease.route,
        shard: lease.shard,
        epoch: Some(lease.epoch),
        evidence: None,
        lineage: Lineage::default(),
    };
    holder.check(conn, &Position::default()).await?;
    Err(fenced(&lease.route, lease.shard, lease.epoch))
}

pub(crate) async fn release(conn: &mut SqliteConnection, lease: &Lease) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/release.sql"))
        .bind(&lease.route)
        .bind(lease.shard.index)
        .bind(lease.relay.to_string())
        .bind(lease.epoch)
        .execute(conn)
        .await?;
    Ok(())
}

/// In a transaction that holds the write lock.
pub(crate) async fn beat(
    conn: &mut SqliteConnection,
    relay: &RelayBeat,
    ttl: Duration,
) -> Result<Vec<u32>, Fault> {
    let routes = row::json_array(relay.routes.iter().map(String::as_str));
    sqlx::query(include_str!("../sql/beat_forget.sql")).execute(&mut *conn).await?;
    sqlx::query(include_str!("../sql/beat_relay.sql"))
        .bind(relay.id.to_string())
        .bind(&relay.name)
        .bind(&relay.version)
        .bind(&routes)
        .bind(ttl.as_secs_f64())
        .bind(Pause::to_text(&relay.paused))
        .execute(&mut *conn)
        .await?;
    Ok(sqlx::query_scalar(include_str!("../sql/beat_count.sql"))
        .bind(&routes)
        .fetch_all(conn)
        .await?)
}

pub(crate) async fn retire(conn: &mut SqliteConnection, relay: &RelayBeat) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/retire.sql")).bind(relay.id.to_string()).execute(conn).await?;
    Ok(())
}
