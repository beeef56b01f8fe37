//! Parked messages: what is due for the relay, and dead letters for people.

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
    let rows = filtered(include_str!("../sql/dead.sql"), &filter)
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?;
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

/// The redrive port.
pub(crate) async fn redrive(
    connection: &mut PgConnection,
    filter: ParkedFilter,
    by: String,
) -> Result<u64, Fault> {
    lock_leases(connection, filter.route.as_deref()).await?;
    let rows = filtered(include_str!("../sql/redrive.sql"), &filter)
        .bind(by)
        .fetch_all(&mut *connection)
        .await?;
    promote(connection, &rows).await
}

/// The discard port.
pub(crate) async fn discard(
    connection: &mut PgConnection,
    filter: ParkedFilter,
    by: String,
    why: String,
) -> Result<u64, Fault> {
    lock_leases(connection, filter.route.as_deref()).await?;
    let rows = filtered(include_str!("../sql/discard.sql"), &filter)
        .bind(by)
        .bind(why)
        .fetch_all(&mut *connection)
        .await?;
    promote(connection, &rows).await
}

/// Lets the keys of changed rows (route, key) go on; returns how many rows there were.
async fn promote(connection: &mut PgConnection, rows: &[PgRow]) -> Result<u64, Fault> {
    let mut routes = Vec::new();
    let mut keys = Vec::new();
    for row in rows {
        if let Some(key) = row.try_get(1)? {
            routes.push(row.try_get(0)?);
            keys.push(key);
        }
    }
    if !keys.is_empty() {
        promote_heads(connection, &routes, &keys).await?;
    }
    Ok(row::count(rows.len()))
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
