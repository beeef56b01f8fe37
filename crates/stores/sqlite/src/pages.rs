//! Pages of a watermark: handled seqs above a floor that stands still.

use posthaste_core::{LaneKey, LanePage, PageRange, PagesWanted, Shard};
use sqlx::{Sqlite, SqliteConnection, query::Query, sqlite::SqliteArguments};

pub(crate) async fn read(
    conn: &mut SqliteConnection,
    lane: &LaneKey,
    wanted: &PagesWanted,
) -> Result<Vec<LanePage>, sqlx::Error> {
    let numbers: Vec<String> = wanted.numbers.iter().map(i64::to_string).collect();
    let sql = include_str!("../sql/inbox_read_pages.sql");
    let select = sqlx::query_as::<_, (i64, String)>(sql)
        .bind(&lane.consumer)
        .bind(lane.log.to_string())
        .bind(&lane.lane)
        .bind(&lane.topic)
        .bind(wanted.shard.of)
        .bind(wanted.shard.index)
        .bind(format!("[{}]", numbers.join(",")));
    let rows = select.fetch_all(conn).await?;
    Ok(rows.into_iter().map(|(number, seqs)| LanePage { number, seqs }).collect())
}

pub(crate) async fn write(
    conn: &mut SqliteConnection,
    lane: &LaneKey,
    shard: Shard,
    pages: &[LanePage],
) -> Result<(), sqlx::Error> {
    for page in pages {
        let insert = of_shard(include_str!("../sql/inbox_write_page.sql"), lane, shard);
        insert.bind(page.number).bind(&page.seqs).execute(&mut *conn).await?;
    }
    Ok(())
}

pub(crate) async fn remove(
    conn: &mut SqliteConnection,
    lane: &LaneKey,
    shard: Shard,
    range: PageRange,
    limit: u32,
) -> Result<i64, sqlx::Error> {
    let next = sqlx::query_scalar::<_, i64>(include_str!("../sql/inbox_next_page.sql"))
        .bind(&lane.consumer)
        .bind(lane.log.to_string())
        .bind(&lane.lane)
        .bind(&lane.topic)
        .bind(shard.of)
        .bind(shard.index)
        .bind(range.first)
        .bind(range.last)
        .bind(limit)
        .fetch_optional(&mut *conn)
        .await?;
    let end = next.unwrap_or(range.last.saturating_add(1));
    let delete = of_shard(include_str!("../sql/inbox_remove_pages.sql"), lane, shard);
    delete.bind(range.first).bind(end - 1).execute(conn).await?;
    Ok(end)
}

/// A statement whose first parameters are a lane's key and a shard.
fn of_shard<'q>(
    sql: &'static str,
    lane: &'q LaneKey,
    shard: Shard,
) -> Query<'q, Sqlite, SqliteArguments> {
    sqlx::query(sql)
        .bind(&lane.consumer)
        .bind(lane.log.to_string())
        .bind(&lane.lane)
        .bind(&lane.topic)
        .bind(shard.of)
        .bind(shard.index)
}
