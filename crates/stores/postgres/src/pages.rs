//! Pages of a watermark: handled seqs above a floor that stands still.

use posthaste_core::{LaneKey, LanePage, PageRange, PagesWanted, Shard};
use sqlx::{PgConnection, Postgres, postgres::PgArguments, query::Query};

pub(crate) async fn read(
    connection: &mut PgConnection,
    lane: &LaneKey,
    wanted: &PagesWanted,
) -> Result<Vec<LanePage>, sqlx::Error> {
    let sql = include_str!("../sql/inbox_read_pages.sql");
    let select = sqlx::query_as::<_, (i64, String)>(sql)
        .bind(&lane.consumer)
        .bind(lane.log)
        .bind(&lane.lane)
        .bind(&lane.topic)
        .bind(i32::from(wanted.shard.of))
        .bind(i32::from(wanted.shard.index))
        .bind(&wanted.numbers);
    let rows = select.fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(number, seqs)| LanePage { number, seqs }).collect())
}

pub(crate) async fn write(
    connection: &mut PgConnection,
    lane: &LaneKey,
    shard: Shard,
    pages: &[LanePage],
) -> Result<(), sqlx::Error> {
    let numbers: Vec<i64> = pages.iter().map(|page| page.number).collect();
    let seqs: Vec<&str> = pages.iter().map(|page| page.seqs.as_str()).collect();
    let insert = of_shard(include_str!("../sql/inbox_write_pages.sql"), lane, shard);
    insert.bind(numbers).bind(seqs).execute(connection).await?;
    Ok(())
}

pub(crate) async fn remove(
    connection: &mut PgConnection,
    lane: &LaneKey,
    shard: Shard,
    range: PageRange,
    limit: u32,
) -> Result<i64, sqlx::Error> {
    let next = sqlx::query_scalar::<_, i64>(include_str!("../sql/inbox_next_page.sql"))
        .bind(&lane.consumer)
        .bind(lane.log)
        .bind(&lane.lane)
        .bind(&lane.topic)
        .bind(i32::from(shard.of))
        .bind(i32::from(shard.index))
        .bind(range.first)
        .bind(range.last)
        .bind(i64::from(limit))
        .fetch_optional(&mut *connection)
        .await?;
    let end = next.unwrap_or(range.last.saturating_add(1));
    let delete = of_shard(include_str!("../sql/inbox_remove_pages.sql"), lane, shard);
    delete.bind(range.first).bind(end - 1).execute(connection).await?;
    Ok(end)
}

/// A statement whose first parameters are a lane's key and a shard.
fn of_shard<'q>(
    sql: &'static str,
    lane: &'q LaneKey,
    shard: Shard,
) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(sql)
        .bind(&lane.consumer)
        .bind(lane.log)
        .bind(&lane.lane)
        .bind(&lane.topic)
        .bind(i32::from(shard.of))
        .bind(i32::from(shard.index))
}
