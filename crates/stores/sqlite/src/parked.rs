//! Parked messages: which are due, which are dead, and what people do with those.
//!
//! A message that is retrying, or dead and blocking, holds back the later ones of its key. Only the
//! first of a key has an attempt planned; [`order_keys`] restores that after every change.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use posthaste_core::{
    Due, FLOOR_MISSING_MAX, Lease, ParkState, Parked, ParkedFilter, ParkedView, Seq, Shard,
};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use crate::{error::Fault, row};

/// Makes the messages of the keys wait for the first of their key, and plans that one's attempt.
pub(crate) async fn order_keys(
    conn: &mut SqliteConnection,
    route: &str,
    keys: &[String],
    now: f64,
) -> Result<(), Fault> {
    let keys = row::json_array(keys.iter().map(String::as_str));
    sqlx::query(include_str!("../sql/hold_followers.sql"))
        .bind(route)
        .bind(&keys)
        .execute(&mut *conn)
        .await?;
    sqlx::query(include_str!("../sql/promote_heads.sql"))
        .bind(route)
        .bind(&keys)
        .bind(now)
        .execute(conn)
        .await?;
    Ok(())
}

pub(crate) async fn due(
    conn: &mut SqliteConnection,
    lease: &Lease,
    limit: u32,
    bytes_max: usize,
) -> Result<Due, Fault> {
    let heads: Vec<(Seq, Option<String>)> = sqlx::query_as(include_str!("../sql/due_heads.sql"))
        .bind(&lease.route)
        .bind(lease.shard.index)
        .bind(lease.shard.of)
        .bind(limit)
        .fetch_all(&mut *conn)
        .await?;
    let next_in: Option<f64> = sqlx::query_scalar(include_str!("../sql/due_next.sql"))
        .bind(&lease.route)
        .bind(lease.shard.index)
        .bind(lease.shard.of)
        .fetch_optional(&mut *conn)
        .await?;
    let seqs = with_followers(conn, &lease.route, heads, limit).await?;
    let seqs = within(conn, &lease.route, seqs, bytes_max).await?;
    Ok(Due {
        messages: load(conn, &lease.route, &seqs).await?,
        next_in: next_in.map(row::seconds),
        undelivered: undelivered(conn, &lease.route, lease.shard).await?,
    })
}

/// Seqs of the shard that may still come, as many as a grant tells.
pub(crate) async fn undelivered(
    conn: &mut SqliteConnection,
    route: &str,
    shard: Shard,
) -> Result<Vec<Seq>, Fault> {
    Ok(sqlx::query_scalar(include_str!("../sql/undelivered.sql"))
        .bind(route)
        .bind(shard.index)
        .bind(shard.of)
        .bind(i64::try_from(FLOOR_MISSING_MAX + 1).unwrap_or(i64::MAX))
        .fetch_all(conn)
        .await?)
}

/// The heads and those queued behind them, key by key. Every head has its place before followers
/// take what is left, so that one long queue does not keep other keys waiting.
async fn with_followers(
    conn: &mut SqliteConnection,
    route: &str,
    heads: Vec<(Seq, Option<String>)>,
    limit: u32,
) -> Result<Vec<Seq>, Fault> {
    let mut room = limit as usize - heads.len();
    let mut seqs = Vec::new();
    for (head, key) in heads {
        seqs.push(head);
        let Some(key) = key.filter(|_| room > 0) else {
            continue;
        };
        let followers: Vec<Seq> = sqlx::query_scalar(include_str!("../sql/due_followers.sql"))
            .bind(route)
            .bind(key)
            .bind(head)
            .bind(i64::try_from(room).unwrap_or(i64::MAX))
            .fetch_all(&mut *conn)
            .await?;
        room -= followers.len();
        seqs.extend(followers);
    }
    Ok(seqs)
}

/// As many of the seqs as fit, and at least one.
async fn within(
    conn: &mut SqliteConnection,
    route: &str,
    mut seqs: Vec<Seq>,
    bytes_max: usize,
) -> Result<Vec<Seq>, Fault> {
    let sizes: HashMap<Seq, i64> = sqlx::query_as(include_str!("../sql/due_sizes.sql"))
        .bind(route)
        .bind(row::json_array(seqs.iter().copied()))
        .fetch_all(conn)
        .await?
        .into_iter()
        .collect();
    let mut bytes = 0;
    let fitting = seqs.iter().take_while(|seq| {
        bytes += sizes.get(seq).map_or(0, |size| size.unsigned_abs() as usize);
        bytes <= bytes_max
    });
    let count = fitting.count().max(1);
    seqs.truncate(count);
    Ok(seqs)
}

/// The messages of the seqs, in that order.
async fn load(
    conn: &mut SqliteConnection,
    route: &str,
    seqs: &[Seq],
) -> Result<Vec<Parked>, Fault> {
    if seqs.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(include_str!("../sql/due_messages.sql"))
        .bind(route)
        .bind(row::json_array(seqs.iter().copied()))
        .fetch_all(conn)
        .await?;
    let mut parked = HashMap::new();
    for row in &rows {
        let message = Parked {
            seq: row.try_get("seq")?,
            message: row::message(row)?,
            attempts: row.try_get("attempts")?,
            unknowns: row.try_get("unknowns")?,
            redriven: row.try_get("redriven")?,
            enqueued_at: row::instant(row)?,
            age: row::seconds(row.try_get("age")?),
        };
        parked.insert(message.seq, message);
    }
    Ok(seqs.iter().filter_map(|seq| parked.remove(seq)).collect())
}

pub(crate) async fn dead(
    conn: &mut SqliteConnection,
    filter: &ParkedFilter,
    limit: u32,
) -> Result<Vec<ParkedView>, Fault> {
    let rows = sqlx::query(include_str!("../sql/dead.sql"))
        .bind(&filter.route)
        .bind(ids(filter))
        .bind(&filter.topic)
        .bind(&filter.class)
        .bind(limit)
        .bind(wanted(filter).as_str())
        .fetch_all(conn)
        .await?;
    rows.iter().map(view).collect()
}

/// The state of the messages that a filter means.
fn wanted(filter: &ParkedFilter) -> ParkState {
    if filter.is_retrying { ParkState::Retrying } else { ParkState::Dead }
}

pub(crate) fn view(row: &SqliteRow) -> Result<ParkedView, Fault> {
    let pair = |first: &str, second: &str| -> Result<Option<(String, String)>, Fault> {
        Ok(row::text(row, first)?.zip(row::text(row, second)?))
    };
    let state: &str = row.try_get("state")?;
    Ok(ParkedView {
        route: row.try_get("route")?,
        seq: row.try_get("seq")?,
        message: row::message(row)?,
        state: [ParkState::Retrying, ParkState::Dead, ParkState::Discarded]
            .into_iter()
            .find(|known| known.as_str() == state)
            .ok_or_else(|| Fault::unreadable("state", state))?,
        attempts: row.try_get("attempts")?,
        unknowns: row.try_get("unknowns")?,
        redriven: row.try_get("redriven")?,
        first_error: pair("first_error_class", "first_error")?,
        last_error: pair("last_error_class", "last_error")?,
        created_at: row.try_get("created_at")?,
        parked_at: row.try_get("parked_at")?,
        state_at: row.try_get("state_at")?,
        next_attempt_in: row.try_get::<Option<f64>, _>("next_attempt_in")?.map(row::seconds),
        acted: pair("acted_by", "acted_why")?,
    })
}

/// In a transaction that holds the write lock.
pub(crate) async fn redrive(
    conn: &mut SqliteConnection,
    filter: &ParkedFilter,
    by: &str,
) -> Result<u64, Fault> {
    if filter.is_retrying {
        return Ok(0);
    }
    let changed: Vec<(String, Option<String>)> = sqlx::query_as(include_str!("../sql/redrive.sql"))
        .bind(&filter.route)
        .bind(ids(filter))
        .bind(&filter.topic)
        .bind(&filter.class)
        .bind(by)
        .fetch_all(&mut *conn)
        .await?;
    order_changed(conn, changed).await
}

/// In a transaction that holds the write lock.
pub(crate) async fn discard(
    conn: &mut SqliteConnection,
    filter: &ParkedFilter,
    by: &str,
    why: &str,
) -> Result<u64, Fault> {
    let changed: Vec<(String, Option<String>)> = sqlx::query_as(include_str!("../sql/discard.sql"))
        .bind(&filter.route)
        .bind(ids(filter))
        .bind(&filter.topic)
        .bind(&filter.class)
        .bind(by)
        .bind(why)
        .bind(wanted(filter).as_str())
        .fetch_all(&mut *conn)
        .await?;
    if filter.is_retrying {
        // Their holders may be trying them.
        for route in changed.iter().map(|(route, _)| route).collect::<BTreeSet<_>>() {
            sqlx::query(include_str!("../sql/fence_leases.sql"))
                .bind(route)
                .execute(&mut *conn)
                .await?;
        }
    }
    order_changed(conn, changed).await
}

/// Orders the keys, given with their routes, and says how many messages were changed.
async fn order_changed(
    conn: &mut SqliteConnection,
    changed: Vec<(String, Option<String>)>,
) -> Result<u64, Fault> {
    let count = changed.len() as u64;
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (route, key) in changed {
        keys.entry(route).or_default().extend(key);
    }
    let now: f64 =
        sqlx::query_scalar(include_str!("../sql/read_now.sql")).fetch_one(&mut *conn).await?;
    for (route, keys) in keys {
        let keys: Vec<String> = keys.into_iter().collect();
        order_keys(conn, &route, &keys, now).await?;
    }
    Ok(count)
}

/// The ids as a JSON array; `None` for any.
pub(crate) fn ids(filter: &ParkedFilter) -> Option<String> {
    let ids = filter.ids.iter().map(ToString::to_string);
    (!filter.ids.is_empty()).then(|| row::json_array(ids))
}
