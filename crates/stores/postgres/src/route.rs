//! Routes and how they are split, and the relays that serve them.

use std::time::Duration;

use posthaste_core::{Layout, Pause, Position, RelayBeat, RelayId, RouteSpec, Seq, TopicPattern};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::{
    error::Fault,
    fetch,
    row::{position, seconds},
    snapshot::{self, Seen},
    transaction::{query, scalar},
};

/// How a route is split.
pub(crate) struct Split {
    pub(crate) shards: u16,
    pub(crate) resizing_to: Option<u16>,
    /// Where the present shards stop; set exactly while `resizing_to` is.
    pub(crate) barrier: Option<Position>,
}

impl Split {
    fn of(route: &str, row: Option<PgRow>) -> Result<Self, Fault> {
        let row = row.ok_or_else(|| Fault::unknown_route(route))?;
        let barrier: Option<&str> = row.try_get(2)?;
        Ok(Self {
            shards: number(row.try_get(0)?),
            resizing_to: row.try_get::<Option<i32>, _>(1)?.map(number),
            barrier: barrier.map(position).transpose()?,
        })
    }

    fn layout(&self) -> Layout {
        Layout { shards: self.shards, resizing_to: self.resizing_to }
    }
}

/// The table keeps shards between 1 and 256.
fn number(shards: i32) -> u16 {
    u16::try_from(shards).unwrap_or(u16::MAX)
}

/// The split of a route, as it is now.
pub(crate) async fn read(connection: &mut PgConnection, name: &str) -> Result<Split, Fault> {
    let row =
        query(include_str!("../sql/read_route.sql")).bind(name).fetch_optional(connection).await?;
    Split::of(name, row)
}

/// The split of a route, which stays as it is until the transaction ends.
pub(crate) async fn lock(connection: &mut PgConnection, name: &str) -> Result<Split, Fault> {
    let row =
        query(include_str!("../sql/lock_route.sql")).bind(name).fetch_optional(connection).await?;
    Split::of(name, row)
}

/// A position that covers all that is committed now, with a listed snapshot (ADR 12).
///
/// Other than in a fetch, the transaction may have an id of its own, and then the server does not
/// tell which one is the next. So between the two reads an id is drawn, and given up again: all who
/// drew a seq up to the head have lower ids, and all of these are below the snapshot's `xmax`.
pub(crate) async fn head(connection: &mut PgConnection) -> Result<Position, Fault> {
    let seq: Seq = scalar(include_str!("../sql/read_head.sql")).fetch_one(&mut *connection).await?;
    fetch::draw_xid(connection).await?;
    let plain: String =
        scalar(include_str!("../sql/read_snapshot.sql")).fetch_one(connection).await?;
    match snapshot::listed(&format!("{plain}+0")) {
        Some(Seen::Listed(snapshot)) => Ok(Position::at(seq, snapshot)),
        _ => Err(Fault::internal("the server's snapshot cannot be read")),
    }
}

/// Starts a resize, moves its barrier, or ends it.
pub(crate) async fn set_resize(
    connection: &mut PgConnection,
    name: &str,
    resize: Option<(u16, &Position)>,
) -> Result<(), Fault> {
    query(include_str!("../sql/set_resize.sql"))
        .bind(name)
        .bind(resize.map(|(shards, _)| i32::from(shards)))
        .bind(resize.map(|(_, barrier)| barrier.to_string()))
        .execute(connection)
        .await?;
    Ok(())
}

/// The register port.
pub(crate) async fn register(
    connection: &mut PgConnection,
    spec: RouteSpec,
) -> Result<Layout, Fault> {
    let topics: Vec<&str> = spec.topics.iter().map(TopicPattern::as_str).collect();
    let likes: Vec<String> = spec.topics.iter().map(like).collect();
    let lock = || query(include_str!("../sql/register_lock.sql")).bind(spec.name.clone());
    let row = match lock().fetch_optional(&mut *connection).await? {
        Some(row) => row,
        None => {
            query(include_str!("../sql/register_route.sql"))
                .bind(&spec.name)
                .bind(&topics)
                .bind(&likes)
                .bind(i32::from(spec.shards))
                .execute(&mut *connection)
                .await?;
            // Another may have been first, and with other topics.
            lock().fetch_one(&mut *connection).await?
        }
    };
    let mut layout = Layout {
        shards: number(row.try_get(0)?),
        resizing_to: row.try_get::<Option<i32>, _>(1)?.map(number),
    };
    insert_leases(connection, &spec.name, layout.shards, 0).await?;
    if row.try_get::<Vec<String>, _>(2)? != topics {
        change_topics(connection, &spec.name, &topics, &likes).await?;
    }
    let wanted = (spec.shards != layout.shards).then_some(spec.shards);
    if wanted != layout.resizing_to {
        let head = head(connection).await?;
        let resize = wanted.map(|shards| (shards, &head));
        set_resize(connection, &spec.name, resize).await?;
        layout.resizing_to = wanted;
    }
    Ok(layout)
}

/// Gives a route other topics. Its leases end: their holders may have read on by the old ones. What
/// no route took until now and this one has passed is parked for it.
async fn change_topics(
    connection: &mut PgConnection,
    name: &str,
    topics: &[&str],
    likes: &[String],
) -> Result<(), Fault> {
    let present = positions(connection, Some(name)).await?;
    query(include_str!("../sql/fence_leases.sql")).bind(name).execute(&mut *connection).await?;
    query(include_str!("../sql/forget_log.sql")).bind(name).execute(&mut *connection).await?;
    let steps = present.iter().flat_map(|shard| {
        let steps = shard.position.steps().iter();
        steps.map(|step| (shard.shard, (step.seq, &*step.snapshot)))
    });
    let (shards, (seqs, snapshots)): (Vec<i32>, (Vec<Seq>, Vec<&str>)) = steps.unzip();
    let parked = query(include_str!("../sql/park_waiting.sql"))
        .bind(name)
        .bind(likes)
        .bind(shards)
        .bind(seqs)
        .bind(snapshots)
        .bind(i32::try_from(present.len()).unwrap_or(i32::MAX))
        .execute(&mut *connection)
        .await?;
    if parked.rows_affected() > 0 {
        query(include_str!("../sql/promote_waiting.sql"))
            .bind(name)
            .execute(&mut *connection)
            .await?;
    }
    query(include_str!("../sql/register_topics.sql"))
        .bind(name)
        .bind(topics)
        .bind(likes)
        .execute(connection)
        .await?;
    Ok(())
}

/// A topic pattern as LIKE writes it.
fn like(pattern: &TopicPattern) -> String {
    let mut like = String::with_capacity(pattern.as_str().len());
    for character in pattern.as_str().chars() {
        match character {
            '*' => like.push('%'),
            '\\' | '%' | '_' => like.extend(['\\', character]),
            other => like.push(other),
        }
    }
    like
}

async fn insert_leases(
    connection: &mut PgConnection,
    name: &str,
    shards: u16,
    epoch: i64,
) -> Result<(), Fault> {
    query(include_str!("../sql/insert_leases.sql"))
        .bind(name)
        .bind(i32::from(shards))
        .bind(epoch)
        .execute(connection)
        .await?;
    Ok(())
}

/// The reshard port.
pub(crate) async fn reshard(connection: &mut PgConnection, name: String) -> Result<Layout, Fault> {
    let split = lock(connection, &name).await?;
    let (Some(shards), Some(barrier)) = (split.resizing_to, &split.barrier) else {
        return Ok(split.layout());
    };
    let mut epoch = 0;
    let mut reached = true;
    for shard in positions(connection, Some(&name)).await? {
        epoch = epoch.max(shard.epoch);
        reached &= shard.position == *barrier;
    }
    if !reached {
        return Ok(split.layout());
    }
    for sql in
        [include_str!("../sql/delete_leases.sql"), include_str!("../sql/delete_progress.sql")]
    {
        query(sql).bind(&name).execute(&mut *connection).await?;
    }
    insert_leases(connection, &name, shards, epoch + 1).await?;
    query(include_str!("../sql/insert_progress.sql"))
        .bind(&name)
        .bind(barrier.to_string())
        .bind(barrier.seq())
        .execute(&mut *connection)
        .await?;
    query(include_str!("../sql/set_shards.sql"))
        .bind(&name)
        .bind(i32::from(shards))
        .execute(connection)
        .await?;
    Ok(Layout { shards, resizing_to: None })
}

/// One shard and how far it is.
pub(crate) struct ShardPosition {
    pub(crate) route: String,
    pub(crate) shard: i32,
    pub(crate) epoch: i64,
    pub(crate) position: Position,
}

/// The positions of a route's shards, or of all, with their leases locked: nobody settles
/// meanwhile.
pub(crate) async fn positions(
    connection: &mut PgConnection,
    route: Option<&str>,
) -> Result<Vec<ShardPosition>, Fault> {
    lock_leases(connection, route).await?;
    let rows =
        query(include_str!("../sql/read_positions.sql")).bind(route).fetch_all(connection).await?;
    let shard = |row: &PgRow| {
        Ok(ShardPosition {
            route: row.try_get(0)?,
            shard: row.try_get(1)?,
            epoch: row.try_get(2)?,
            position: position(row.try_get(3)?)?,
        })
    };
    rows.iter().map(shard).collect()
}

/// Keeps settlements of a route, or of all, out until the transaction ends.
pub(crate) async fn lock_leases(
    connection: &mut PgConnection,
    route: Option<&str>,
) -> Result<(), Fault> {
    query(include_str!("../sql/lock_leases.sql")).bind(route).fetch_all(connection).await?;
    Ok(())
}

/// The beat port.
pub(crate) async fn beat(
    connection: &mut PgConnection,
    relay: RelayBeat,
    ttl: Duration,
) -> Result<Vec<u32>, Fault> {
    query(include_str!("../sql/beat.sql"))
        .bind(relay.id.0)
        .bind(&relay.name)
        .bind(&relay.version)
        .bind(&relay.routes)
        .bind(seconds(ttl))
        .bind(Pause::to_text(&relay.paused))
        .execute(&mut *connection)
        .await?;
    let counts: Vec<i64> = scalar(include_str!("../sql/count_relays.sql"))
        .bind(&relay.routes)
        .fetch_all(connection)
        .await?;
    let count = |count: i64| u32::try_from(count).unwrap_or(u32::MAX);
    Ok(counts.into_iter().map(count).collect())
}

/// The retire port.
pub(crate) async fn retire(connection: &mut PgConnection, relay: RelayId) -> Result<(), Fault> {
    query(include_str!("../sql/retire.sql")).bind(relay.0).execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_likes_with_everything_else_escaped() {
        for (pattern, expected) in
            [("*", "%"), ("orders.*", "orders.%"), ("a_%", r"a\_\%"), (r"a\*", r"a\\%")]
        {
            assert_eq!(like(&pattern.parse().unwrap()), expected);
        }
    }
}
