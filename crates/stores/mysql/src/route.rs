//! Routes, how they are split, and the relays that serve them. A resize stops every shard at a
//! common position first.

use std::{collections::BTreeSet, time::Duration};

use posthaste_core::{
    Layout, Pause, Position, RelayBeat, RelayId, RouteSpec, SHARDS_MAX, Seq, TopicPattern, bucket,
};
use serde_json::json;
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    error::Fault,
    parked,
    row::{self, hex_array, json_array, micros},
};

/// Rows parked by one statement when topics change.
const WAITING_ROWS: i64 = 1_000;

/// A route as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// JSON array of patterns.
    topics: String,
    pub(crate) shards: u16,
    /// Set together with `barrier` while the route is being resized.
    resizing_to: Option<u16>,
    /// Where every shard stops before the resize completes.
    pub(crate) barrier: Option<String>,
}

impl Stored {
    fn of(row: &MySqlRow) -> Result<Self, Fault> {
        Ok(Self {
            topics: row::text(row, 0)?.unwrap_or_default(),
            shards: row.try_get(1)?,
            resizing_to: row.try_get(2)?,
            barrier: row::text(row, 3)?,
        })
    }

    fn layout(&self) -> Layout {
        Layout { shards: self.shards, resizing_to: self.resizing_to }
    }

    /// What this route is to become, but for the place to stop at.
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

/// A route as it is now.
pub(crate) async fn read(
    connection: &mut MySqlConnection,
    name: &str,
) -> Result<Option<Stored>, Fault> {
    let row = sqlx::query(include_str!("../sql/read_route.sql"))
        .bind(name.as_bytes())
        .fetch_optional(connection)
        .await?;
    row.map(|row| Stored::of(&row)).transpose()
}

/// A route, which stays as it is until the transaction ends.
pub(crate) async fn lock(
    connection: &mut MySqlConnection,
    name: &str,
) -> Result<Option<Stored>, Fault> {
    let row = sqlx::query(include_str!("../sql/lock_route.sql"))
        .bind(name.as_bytes())
        .fetch_optional(connection)
        .await?;
    row.map(|row| Stored::of(&row)).transpose()
}

/// The layout, where the route is known just as it is to be: most registrations change nothing.
pub(crate) async fn registered(
    connection: &mut MySqlConnection,
    spec: &RouteSpec,
) -> Result<Option<Layout>, Fault> {
    let stored = read(connection, &spec.name).await?;
    Ok(stored.filter(|stored| stored.asks_for(spec) == *stored).map(|stored| stored.layout()))
}

/// The register port, in a transaction.
pub(crate) async fn register(
    connection: &mut MySqlConnection,
    spec: &RouteSpec,
) -> Result<Layout, Fault> {
    if !(1..=SHARDS_MAX).contains(&spec.shards) {
        return Err(Fault::refused(format!(
            "route `{}` asks for {} shards; must be 1 to {SHARDS_MAX}",
            spec.name, spec.shards
        )));
    }
    sqlx::query(include_str!("../sql/register_route.sql"))
        .bind(spec.name.as_bytes())
        .bind(row::topics_to(&spec.topics).into_bytes())
        .bind(spec.shards)
        .execute(&mut *connection)
        .await?;
    // Another may have been first, and with other topics.
    let stored = lock(connection, &spec.name).await?;
    let stored = stored.ok_or_else(|| Fault::internal("a route vanished"))?;
    insert_leases(connection, &spec.name, stored.shards, 0).await?;
    let mut wanted = stored.asks_for(spec);
    if wanted.topics != stored.topics {
        change_topics(connection, spec).await?;
    }
    if wanted.resizing_to.is_some() && wanted.barrier.is_none() {
        wanted.barrier = Some(end(connection).await?.to_string());
    }
    write(connection, &spec.name, &wanted).await?;
    mark(connection).await?;
    Ok(wanted.layout())
}

/// Keeps a purge out that another node of a cluster has begun; `sql/mark_routes.sql` says how. Last of
/// all, so that whoever waits for it has the routes locked already.
pub(crate) async fn mark(connection: &mut MySqlConnection) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/mark_routes.sql")).execute(connection).await?;
    Ok(())
}

/// Ends the route's leases, whose holders may have read on by the old topics, and parks what no route
/// took until now, what the route is to take from now on, and what it has passed. Before the new
/// topics are written.
async fn change_topics(connection: &mut MySqlConnection, spec: &RouteSpec) -> Result<(), Fault> {
    lock_leases(connection, &spec.name).await?;
    mark_leases(connection, &spec.name).await?;
    let passed: Vec<Seq> =
        read_shards(connection, &spec.name).await?.into_iter().map(|(_, seq)| seq).collect();
    execute(connection, include_str!("../sql/fence_leases.sql"), &spec.name).await?;
    execute(connection, include_str!("../sql/forget_log.sql"), &spec.name).await?;
    let topics =
        waiting_topics(connection, spec, passed.iter().copied().max().unwrap_or(0)).await?;
    if topics.is_empty() {
        return Ok(());
    }
    let topics = hex_array(topics.iter().map(String::as_str));
    let mut after = 0;
    loop {
        let rows = sqlx::query(include_str!("../sql/waiting_scan.sql"))
            .bind(after)
            .bind(passed.iter().copied().max())
            .bind(&topics)
            .bind(WAITING_ROWS)
            .fetch_all(&mut *connection)
            .await?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        after = last.try_get(0)?;
        park_waiting(connection, &spec.name, &passed, &rows).await?;
    }
}

/// Parks those of the rows (seq, key) that the shard they belong to has passed.
async fn park_waiting(
    connection: &mut MySqlConnection,
    route: &str,
    passed: &[Seq],
    rows: &[MySqlRow],
) -> Result<(), Fault> {
    let mut waiting = Vec::new();
    let mut keys = BTreeSet::new();
    for row in rows {
        let seq: Seq = row.try_get(0)?;
        let key = row::text(row, 1)?;
        let bucket = bucket(key.as_deref(), seq);
        if seq <= passed[bucket as usize % passed.len()] {
            waiting.push(json!([seq, bucket]));
            keys.extend(key);
        }
    }
    sqlx::query(include_str!("../sql/park_waiting.sql"))
        .bind(route.as_bytes())
        .bind(json_array(waiting))
        .execute(&mut *connection)
        .await?;
    let keys: Vec<String> = keys.into_iter().collect();
    parked::order_keys(connection, route, &keys).await
}

/// The topics in the log, up to a seq, that the route is to take and no route took until now.
async fn waiting_topics(
    connection: &mut MySqlConnection,
    spec: &RouteSpec,
    end: Seq,
) -> Result<Vec<String>, Fault> {
    let taken = topics(connection).await?;
    let matches =
        |topics: &[TopicPattern], topic: &str| topics.iter().any(|pattern| pattern.matches(topic));
    let rows = sqlx::query(include_str!("../sql/waiting_topics.sql"))
        .bind(end)
        .fetch_all(connection)
        .await?;
    let mut waiting = Vec::new();
    for row in &rows {
        let topic = row::text(row, 0)?.unwrap_or_default();
        if matches(&spec.topics, &topic) && !matches(&taken, &topic) {
            waiting.push(topic);
        }
    }
    Ok(waiting)
}

/// The patterns of all routes.
pub(crate) async fn topics(connection: &mut MySqlConnection) -> Result<Vec<TopicPattern>, Fault> {
    let rows = sqlx::query(include_str!("../sql/read_topics.sql")).fetch_all(connection).await?;
    patterns(&rows)
}

/// The patterns in rows whose first column is a route's topics.
pub(crate) fn patterns(rows: &[MySqlRow]) -> Result<Vec<TopicPattern>, Fault> {
    let mut topics = Vec::new();
    for row in rows {
        topics.extend(row::topics_from(row.try_get(0)?)?);
    }
    Ok(topics)
}

/// The reshard port, in a transaction.
pub(crate) async fn reshard(connection: &mut MySqlConnection, name: &str) -> Result<Layout, Fault> {
    let stored = lock(connection, name).await?.ok_or_else(|| Fault::unknown_route(name))?;
    let (Some(shards), Some(barrier)) = (stored.resizing_to, &stored.barrier) else {
        return Ok(stored.layout());
    };
    let barrier = row::position(barrier)?;
    lock_leases(connection, name).await?;
    let present = read_shards(connection, name).await?;
    if present.iter().any(|(_, seq)| *seq != barrier.seq()) {
        return Ok(stored.layout());
    }
    mark_leases(connection, name).await?;
    let epoch = present.iter().map(|(epoch, _)| epoch + 1).max().unwrap_or(1);
    for sql in
        [include_str!("../sql/delete_leases.sql"), include_str!("../sql/delete_progress.sql")]
    {
        execute(connection, sql, name).await?;
    }
    insert_leases(connection, name, shards, epoch).await?;
    sqlx::query(include_str!("../sql/insert_progress.sql"))
        .bind(barrier.to_string())
        .bind(barrier.seq())
        .bind(name.as_bytes())
        .execute(&mut *connection)
        .await?;
    let resized = Stored { shards, resizing_to: None, barrier: None, ..stored };
    write(connection, name, &resized).await?;
    Ok(resized.layout())
}

/// Makes the shards of a route that is being resized stop further on, at the present end of the log.
pub(crate) async fn move_barrier(
    connection: &mut MySqlConnection,
    name: &str,
    route: Stored,
) -> Result<Position, Fault> {
    let barrier = end(connection).await?;
    write(connection, name, &Stored { barrier: Some(barrier.to_string()), ..route }).await?;
    Ok(barrier)
}

/// The end of the log.
async fn end(connection: &mut MySqlConnection) -> Result<Position, Fault> {
    let seq: Seq =
        sqlx::query_scalar(include_str!("../sql/read_end.sql")).fetch_one(connection).await?;
    Ok(Position::at(seq, ""))
}

async fn write(connection: &mut MySqlConnection, name: &str, route: &Stored) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/write_route.sql"))
        .bind(route.topics.as_bytes())
        .bind(route.shards)
        .bind(route.resizing_to)
        .bind(route.barrier.as_deref().map(str::as_bytes))
        .bind(name.as_bytes())
        .execute(connection)
        .await?;
    Ok(())
}

async fn insert_leases(
    connection: &mut MySqlConnection,
    name: &str,
    shards: u16,
    epoch: i64,
) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/insert_leases.sql"))
        .bind(name.as_bytes())
        .bind(epoch)
        .bind(json_array(0..shards))
        .execute(connection)
        .await?;
    Ok(())
}

/// Each shard's epoch and how far it has read, in the order of shards.
async fn read_shards(
    connection: &mut MySqlConnection,
    name: &str,
) -> Result<Vec<(i64, Seq)>, Fault> {
    Ok(sqlx::query_as(include_str!("../sql/read_shards.sql"))
        .bind(name.as_bytes())
        .fetch_all(connection)
        .await?)
}

/// Keeps settlements of a route out until the transaction ends.
pub(crate) async fn lock_leases(
    connection: &mut MySqlConnection,
    route: &str,
) -> Result<(), Fault> {
    execute(connection, include_str!("../sql/lock_leases.sql"), route).await
}

/// Keeps settlements of a route out that another node of a cluster has committed and that are not
/// here yet; `sql/mark_lease.sql` says how. With the leases locked.
pub(crate) async fn mark_leases(
    connection: &mut MySqlConnection,
    route: &str,
) -> Result<(), Fault> {
    execute(connection, include_str!("../sql/mark_leases.sql"), route).await
}

/// Keeps settlements of all routes out until the transaction ends.
pub(crate) async fn lock_all_leases(connection: &mut MySqlConnection) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/lock_all_leases.sql")).fetch_all(connection).await?;
    Ok(())
}

/// Runs a statement whose one parameter is a route.
async fn execute(
    connection: &mut MySqlConnection,
    sql: &'static str,
    route: &str,
) -> Result<(), Fault> {
    sqlx::query(sql).bind(route.as_bytes()).execute(connection).await?;
    Ok(())
}

/// The beat port.
pub(crate) async fn beat(
    connection: &mut MySqlConnection,
    relay: &RelayBeat,
    ttl: Duration,
) -> Result<Vec<u32>, Fault> {
    let routes = json_array(relay.routes.iter().map(String::as_str));
    let paused = Pause::to_text(&relay.paused);
    sqlx::query(include_str!("../sql/beat.sql"))
        .bind(relay.id.to_string())
        .bind(relay.name.as_bytes())
        .bind(relay.version.as_bytes())
        .bind(routes.as_bytes())
        .bind(paused.as_bytes())
        .bind(micros(ttl))
        .bind(relay.name.as_bytes())
        .bind(relay.version.as_bytes())
        .bind(routes.as_bytes())
        .bind(paused.as_bytes())
        .bind(micros(ttl))
        .execute(&mut *connection)
        .await?;
    let rows = sqlx::query(include_str!("../sql/beat_routes.sql")).fetch_all(connection).await?;
    let mut counts = vec![0; relay.routes.len()];
    for row in &rows {
        let served: Vec<String> =
            serde_json::from_slice(row.try_get(0)?).map_err(Fault::internal)?;
        for (count, route) in counts.iter_mut().zip(&relay.routes) {
            *count += u32::from(served.contains(route));
        }
    }
    Ok(counts)
}

/// The retire port.
pub(crate) async fn retire(connection: &mut MySqlConnection, relay: RelayId) -> Result<(), Fault> {
    sqlx::query(include_str!("../sql/retire.sql"))
        .bind(relay.to_string())
        .execute(connection)
        .await?;
    Ok(())
}
