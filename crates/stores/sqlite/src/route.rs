//! Routes, and how they are split: a resize stops every shard at a common position first.

use std::collections::BTreeSet;

use posthaste_core::{
    Layout, Lease, Position, RelayId, RouteSpec, SHARDS_MAX, Seq, Shard, TopicPattern, bucket,
};
use serde_json::json;
use sqlx::{Row, SqliteConnection};
use uuid::Uuid;

use crate::{
    error::Fault, fetch::unknown_route, lease::parse_position, parked, purge, row, settle,
};

/// Rows parked by one statement when topics change.
const SCAN_ROWS: u32 = 1_000;

/// A route as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    /// JSON array of patterns.
    topics: String,
    shards: u16,
    /// Set together with `barrier` while the route is being resized.
    resizing_to: Option<u16>,
    /// Where every shard stops before the resize completes.
    barrier: Option<String>,
}

impl Stored {
    fn layout(&self) -> Layout {
        Layout { shards: self.shards, resizing_to: self.resizing_to }
    }

    /// What this route is to become, but for the place to stop at, which `barrier` finds.
    fn asks_for(&self, spec: &RouteSpec) -> Self {
        let resizing_to = (self.shards != spec.shards).then_some(spec.shards);
        Self {
            topics: row::topics_to(&spec.topics),
            shards: self.shards,
            resizing_to,
            // Shards may have been told where to stop: another target does not move it.
            barrier: self.barrier.clone().filter(|_| resizing_to.is_some()),
        }
    }
}

/// The layout, where the route is known just as it is to be. Asked without a lock: most
/// registrations change nothing.
pub(crate) async fn registered(
    conn: &mut SqliteConnection,
    spec: &RouteSpec,
) -> Result<Option<Layout>, Fault> {
    let stored = read(conn, &spec.name).await?;
    Ok(stored.filter(|stored| stored.asks_for(spec) == *stored).map(|stored| stored.layout()))
}

/// In a transaction that holds the write lock.
pub(crate) async fn register(
    conn: &mut SqliteConnection,
    spec: &RouteSpec,
) -> Result<Layout, Fault> {
    if !(1..=SHARDS_MAX).contains(&spec.shards) {
        return Err(Fault::refused(format!(
            "route `{}` asks for {} shards; must be 1 to {SHARDS_MAX}",
            spec.name, spec.shards
        )));
    }
    let Some(stored) = read(conn, &spec.name).await? else {
        return create(conn, spec).await;
    };
    let mut wanted = stored.asks_for(spec);
    if wanted.topics != stored.topics {
        sqlx::query(include_str!("../sql/fence_leases.sql"))
            .bind(&spec.name)
            .execute(&mut *conn)
            .await?;
        sqlx::query(include_str!("../sql/forget_log.sql"))
            .bind(&spec.name)
            .execute(&mut *conn)
            .await?;
        park_waiting(conn, spec).await?;
    }
    if wanted.resizing_to.is_some() && wanted.barrier.is_none() {
        wanted.barrier = Some(barrier(conn, &spec.name).await?.to_string());
    }
    write(conn, &spec.name, &wanted).await?;
    Ok(wanted.layout())
}

/// In a transaction that holds the write lock.
pub(crate) async fn reshard(conn: &mut SqliteConnection, route: &str) -> Result<Layout, Fault> {
    let stored = read(conn, route).await?.ok_or_else(|| unknown_route(route))?;
    let (Some(shards), Some(barrier)) = (stored.resizing_to, &stored.barrier) else {
        return Ok(stored.layout());
    };
    let barrier = parse_position(barrier)?;
    let present = read_shards(conn, route).await?;
    if present.iter().any(|(_, seq)| *seq != barrier.seq()) {
        return Ok(stored.layout());
    }
    let epoch = present.iter().map(|(epoch, _)| epoch + 1).max();
    split(conn, route, shards, epoch.unwrap_or(1), &barrier).await?;
    let resized = Stored { shards, resizing_to: None, barrier: None, ..stored };
    write(conn, route, &resized).await?;
    Ok(resized.layout())
}

/// Each shard's epoch and how far it has read.
async fn read_shards(conn: &mut SqliteConnection, route: &str) -> Result<Vec<(i64, Seq)>, Fault> {
    Ok(sqlx::query_as(include_str!("../sql/read_shards.sql")).bind(route).fetch_all(conn).await?)
}

/// Parks what no route took until now, what the route is to take from now on, and what it has
/// passed. Before the new topics are written.
async fn park_waiting(conn: &mut SqliteConnection, spec: &RouteSpec) -> Result<(), Fault> {
    let passed: Vec<Seq> =
        read_shards(conn, &spec.name).await?.into_iter().map(|(_, seq)| seq).collect();
    let Some(end) = passed.iter().copied().max() else {
        return Ok(());
    };
    let topics = waiting_topics(conn, spec, end).await?;
    let now: f64 =
        sqlx::query_scalar(include_str!("../sql/read_now.sql")).fetch_one(&mut *conn).await?;
    let mut after = 0;
    loop {
        let rows = sqlx::query(include_str!("../sql/waiting_scan.sql"))
            .bind(after)
            .bind(end)
            .bind(&topics)
            .bind(SCAN_ROWS)
            .fetch_all(&mut *conn)
            .await?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        after = last.try_get("seq")?;
        let mut waiting = Vec::new();
        let mut keys = BTreeSet::new();
        for row in &rows {
            let seq: Seq = row.try_get("seq")?;
            let key = row::text(row, "key")?;
            let bucket = bucket(key.as_deref(), seq);
            if seq <= passed[bucket as usize % passed.len()] {
                waiting.push(json!([seq, bucket, row::text(row, "topic")?, key]));
                keys.extend(key);
            }
        }
        sqlx::query(include_str!("../sql/park_waiting.sql"))
            .bind(&spec.name)
            .bind(row::json_array(waiting))
            .bind(now)
            .execute(&mut *conn)
            .await?;
        let keys: Vec<String> = keys.into_iter().collect();
        parked::order_keys(conn, &spec.name, &keys, now).await?;
    }
}

/// The topics in the log, up to a seq, that the route is to take and no route took until now: a JSON
/// array of them in hex, since not every text in a database is one.
async fn waiting_topics(
    conn: &mut SqliteConnection,
    spec: &RouteSpec,
    end: Seq,
) -> Result<String, Fault> {
    let taken = purge::topics(conn).await?;
    let matches =
        |topics: &[TopicPattern], topic: &str| topics.iter().any(|pattern| pattern.matches(topic));
    let rows =
        sqlx::query(include_str!("../sql/waiting_topics.sql")).bind(end).fetch_all(conn).await?;
    let mut waiting: Vec<String> = Vec::new();
    for row in &rows {
        let topic = row::text(row, "topic")?.unwrap_or_default();
        if matches(&spec.topics, &topic) && !matches(&taken, &topic) {
            waiting.push(row.try_get("hex")?);
        }
    }
    Ok(row::json_array(waiting))
}

async fn create(conn: &mut SqliteConnection, spec: &RouteSpec) -> Result<Layout, Fault> {
    let route = Stored {
        topics: row::topics_to(&spec.topics),
        shards: spec.shards,
        resizing_to: None,
        barrier: None,
    };
    write(conn, &spec.name, &route).await?;
    for index in 0..spec.shards {
        create_lease(conn, &spec.name, index, 0).await?;
    }
    Ok(route.layout())
}

/// Replaces all leases by free ones of the new layout, each starting at the barrier. The old journal
/// goes too: its shards served other keys.
async fn split(
    conn: &mut SqliteConnection,
    route: &str,
    shards: u16,
    epoch: i64,
    barrier: &Position,
) -> Result<(), Fault> {
    for statement in
        [include_str!("../sql/delete_leases.sql"), include_str!("../sql/delete_progress.sql")]
    {
        sqlx::query(statement).bind(route).execute(&mut *conn).await?;
    }
    let now: f64 =
        sqlx::query_scalar(include_str!("../sql/read_now.sql")).fetch_one(&mut *conn).await?;
    for index in 0..shards {
        create_lease(conn, route, index, epoch).await?;
        let nobody = Lease {
            route: route.to_owned(),
            shard: Shard { index, of: shards },
            relay: RelayId(Uuid::nil()),
            epoch,
        };
        settle::progress(conn, &nobody, barrier, now).await?;
    }
    Ok(())
}

async fn create_lease(
    conn: &mut SqliteConnection,
    route: &str,
    index: u16,
    epoch: i64,
) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/create_lease.sql"))
        .bind(route)
        .bind(index)
        .bind(epoch)
        .execute(conn)
        .await?;
    Ok(())
}

/// Makes the shards of a route that is being resized stop further on, at the present end of the log.
pub(crate) async fn move_barrier(
    conn: &mut SqliteConnection,
    route: &str,
) -> Result<Position, Fault> {
    let barrier = barrier(conn, route).await?;
    sqlx::query(include_str!("../sql/move_barrier.sql"))
        .bind(route)
        .bind(barrier.to_string())
        .execute(conn)
        .await?;
    Ok(barrier)
}

/// The end of the log, or of what a shard of the route has read.
async fn barrier(conn: &mut SqliteConnection, route: &str) -> Result<Position, Fault> {
    let seq: Seq = sqlx::query_scalar(include_str!("../sql/register_barrier.sql"))
        .bind(route)
        .fetch_one(conn)
        .await?;
    Ok(Position::at(seq, ""))
}

async fn read(conn: &mut SqliteConnection, route: &str) -> Result<Option<Stored>, Fault> {
    type Columns = (String, u16, Option<u16>, Option<String>);
    let found: Option<Columns> = sqlx::query_as(include_str!("../sql/read_route.sql"))
        .bind(route)
        .fetch_optional(conn)
        .await?;
    Ok(found.map(|(topics, shards, resizing_to, barrier)| Stored {
        topics,
        shards,
        resizing_to,
        barrier,
    }))
}

async fn write(conn: &mut SqliteConnection, name: &str, route: &Stored) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/register_route.sql"))
        .bind(name)
        .bind(&route.topics)
        .bind(route.shards)
        .bind(route.resizing_to)
        .bind(&route.barrier)
        .execute(conn)
        .await?;
    Ok(())
}
