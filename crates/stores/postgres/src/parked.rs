//! Parked messages: what is due for the relay, and dead letters for people.

use std::collections::BTreeSet;

use posthaste_core::{
    Due, FLOOR_MISSING_MAX, Lease, ParkState, Parked, ParkedFilter, ParkedView, Seq, Shard,
};
use sqlx::{
    PgConnection, Postgres, Row,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use uuid::Uuid;

use crate::{
    error::Fault,
    route::lock_leases,
    row::{self, MORE, SEQ, TIME},
    settle::promote_heads,
    transaction::{query, scalar},
};

/// The due port.
pub(crate) async fn due(
    connection: &mut PgConnection,
    lease: Lease,
    limit: u32,
    bytes_max: usize,
) -> Result<Due, Fault> {
    let rows = query(include_str!("../sql/due.sql"))
        .bind(&lease.route)
        .bind(i32::from(lease.shard.of))
        .bind(i32::from(lease.shard.index))
        .bind(i64::from(limit))
        .bind(i64::try_from(bytes_max).unwrap_or(i64::MAX))
        .fetch_all(&mut *connection)
        .await?;
    let messages = rows.iter().map(parked).collect::<Result<Vec<_>, _>>()?;
    let next: Option<f64> = scalar(include_str!("../sql/due_next.sql"))
        .bind(&lease.route)
        .bind(i32::from(lease.shard.of))
        .bind(i32::from(lease.shard.index))
        .fetch_optional(&mut *connection)
        .await?;
    let undelivered = undelivered(connection, &lease.route, lease.shard).await?;
    Ok(Due { messages, next_in: next.map(row::duration), undelivered })
}

/// Seqs of the shard that may still come, as many as a grant tells.
pub(crate) async fn undelivered(
    connection: &mut PgConnection,
    route: &str,
    shard: Shard,
) -> Result<Vec<Seq>, Fault> {
    Ok(scalar(include_str!("../sql/undelivered.sql"))
        .bind(route)
        .bind(i32::from(shard.of))
        .bind(i32::from(shard.index))
        .bind(i64::try_from(FLOOR_MISSING_MAX + 1).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await?)
}

fn parked(row: &PgRow) -> Result<Parked, Fault> {
    Ok(Parked {
        seq: row.try_get(SEQ)?,
        message: row::message(row)?,
        attempts: number(row, MORE)?,
        unknowns: number(row, MORE + 1)?,
        redriven: number(row, MORE + 2)?,
        enqueued_at: row::instant(row.try_get_unchecked(MORE + 3)?),
        age: row::duration(row.try_get(TIME)?),
    })
}

pub(crate) fn number(row: &PgRow, index: usize) -> Result<u32, Fault> {
    Ok(u32::try_from(row.try_get::<i32, _>(index)?).unwrap_or(0))
}

/// The dead port.
pub(crate) async fn dead(
    connection: &mut PgConnection,
    filter: ParkedFilter,
    limit: u32,
) -> Result<Vec<ParkedView>, Fault> {
    let sql = match filter.is_retrying {
        true => include_str!("../sql/retrying.sql"),
        false => include_str!("../sql/dead.sql"),
    };
    let rows = filtered(sql, &filter).bind(i64::from(limit)).fetch_all(connection).await?;
    rows.iter().map(view).collect()
}

pub(crate) fn view(row: &PgRow) -> Result<ParkedView, Fault> {
    let pair = |first: usize, second: usize| -> Result<Option<(String, String)>, Fault> {
        let first: Option<String> = row.try_get(MORE + first)?;
        Ok(first.zip(row.try_get(MORE + second)?))
    };
    Ok(ParkedView {
        seq: row.try_get(SEQ)?,
        message: row::message(row)?,
        next_attempt_in: row.try_get::<Option<f64>, _>(TIME)?.map(row::duration),
        attempts: number(row, MORE)?,
        unknowns: number(row, MORE + 1)?,
        redriven: number(row, MORE + 2)?,
        route: row.try_get(MORE + 3)?,
        state: state(row.try_get(MORE + 4)?),
        first_error: pair(5, 6)?,
        last_error: pair(7, 8)?,
        created_at: row.try_get(MORE + 9)?,
        parked_at: row.try_get(MORE + 10)?,
        state_at: row.try_get(MORE + 11)?,
        acted: pair(12, 13)?,
    })
}

/// The table has these three states and no other.
fn state(word: &str) -> ParkState {
    let states = [ParkState::Retrying, ParkState::Discarded];
    let state = states.into_iter().find(|state| state.as_str() == word);
    state.unwrap_or(ParkState::Dead)
}

/// Dead letters that one call acts on: their leases are locked meanwhile.
pub(crate) const ACT_ROWS_MAX: i64 = 2_000;

/// What one call did to dead letters.
pub(crate) struct Acted {
    pub(crate) letters: u64,
    /// From where on there may be more. A letter that dies again meanwhile lies before it.
    pub(crate) more: Option<Seq>,
}

/// The redrive port, for the first [`ACT_ROWS_MAX`] letters from seq `from` on.
pub(crate) async fn redrive(
    connection: &mut PgConnection,
    filter: ParkedFilter,
    by: String,
    from: Seq,
) -> Result<Acted, Fault> {
    if filter.is_retrying {
        return Ok(Acted { letters: 0, more: None });
    }
    let routes = lock_routes_of(connection, &filter).await?;
    let rows = filtered(include_str!("../sql/redrive.sql"), &filter)
        .bind(by)
        .bind(from)
        .bind(ACT_ROWS_MAX)
        .bind(routes)
        .fetch_all(&mut *connection)
        .await?;
    promote(connection, &rows).await
}

/// The discard port, likewise.
pub(crate) async fn discard(
    connection: &mut PgConnection,
    filter: ParkedFilter,
    by: String,
    why: String,
    from: Seq,
) -> Result<Acted, Fault> {
    if filter.is_retrying {
        return discard_retrying(connection, filter, by, why).await;
    }
    let routes = lock_routes_of(connection, &filter).await?;
    let rows = filtered(include_str!("../sql/discard.sql"), &filter)
        .bind(by)
        .bind(from)
        .bind(ACT_ROWS_MAX)
        .bind(why)
        .bind(routes)
        .fetch_all(&mut *connection)
        .await?;
    promote(connection, &rows).await
}

/// Discards messages that are still retrying, all at once: their holders are fenced for it.
async fn discard_retrying(
    connection: &mut PgConnection,
    filter: ParkedFilter,
    by: String,
    why: String,
) -> Result<Acted, Fault> {
    lock_leases(connection, filter.route.as_deref()).await?;
    let rows = filtered(include_str!("../sql/discard_retrying.sql"), &filter)
        .bind(by)
        .bind(why)
        .fetch_all(&mut *connection)
        .await?;
    fence(connection, &rows).await?;
    Ok(Acted { more: None, ..promote(connection, &rows).await? })
}

/// Ends the leases of the routes of changed rows (route, key): their holders may be trying them.
async fn fence(connection: &mut PgConnection, rows: &[PgRow]) -> Result<(), Fault> {
    let routes = rows.iter().map(|row| row.try_get(0)).collect::<Result<BTreeSet<String>, _>>()?;
    for route in routes {
        query(include_str!("../sql/fence_leases.sql"))
            .bind(route)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Keeps settlements of the routes that have matching dead letters out until the transaction ends, and
/// returns these routes. Of no other: one whose lease somebody keeps locked does not stop the rest.
async fn lock_routes_of(
    connection: &mut PgConnection,
    filter: &ParkedFilter,
) -> Result<Vec<String>, Fault> {
    let routes: Vec<String> = match &filter.route {
        Some(route) => vec![route.clone()],
        None => {
            let rows = filtered(include_str!("../sql/dead_routes.sql"), filter)
                .fetch_all(&mut *connection)
                .await?;
            rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?
        }
    };
    for route in &routes {
        lock_leases(connection, Some(route)).await?;
    }
    Ok(routes)
}

/// Lets the keys of changed rows (route, key, seq) go on.
async fn promote(connection: &mut PgConnection, rows: &[PgRow]) -> Result<Acted, Fault> {
    let mut routes = Vec::new();
    let mut keys = Vec::new();
    let mut last = None;
    for row in rows {
        last = last.max(Some(row.try_get(2)?));
        if let Some(key) = row.try_get(1)? {
            routes.push(row.try_get(0)?);
            keys.push(key);
        }
    }
    if !keys.is_empty() {
        promote_heads(connection, &routes, &keys).await?;
    }
    let letters = row::count(rows.len());
    Ok(Acted { letters, more: last.filter(|_| letters >= ACT_ROWS_MAX.unsigned_abs()) })
}

/// A statement whose first four parameters are the filter.
pub(crate) fn filtered(
    sql: &'static str,
    filter: &ParkedFilter,
) -> Query<'static, Postgres, PgArguments> {
    let ids: Vec<Uuid> = filter.ids.iter().map(|id| id.0).collect();
    query(sql)
        .bind(filter.route.clone())
        .bind((!ids.is_empty()).then_some(ids))
        .bind(filter.topic.clone())
        .bind(filter.class.clone())
}
