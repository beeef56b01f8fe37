//! Pages of a watermark: handled seqs above a floor that stands still.

use posthaste_core::{LaneKey, LanePage, PageRange, PagesWanted, Shard};
use sqlx::{MySql, MySqlConnection, QueryBuilder, mysql::MySqlArguments, query::Query};

pub(crate) async fn read(
    connection: &mut MySqlConnection,
    lane: &LaneKey,
    wanted: &PagesWanted,
) -> Result<Vec<LanePage>, sqlx::Error> {
    let mut select = QueryBuilder::new(include_str!("../sql/inbox_read_pages.sql"));
    select.push_bind(lane.consumer.as_bytes());
    select.push(" AND log = ").push_bind(lane.log.as_bytes().to_vec());
    select.push(" AND lane = ").push_bind(lane.lane.as_bytes());
    select.push(" AND topic = ").push_bind(lane.topic.as_bytes());
    select.push(" AND shards = ").push_bind(wanted.shard.of);
    select.push(" AND shard = ").push_bind(wanted.shard.index);
    select.push(" AND number IN (");
    let mut list = select.separated(", ");
    for number in &wanted.numbers {
        list.push_bind(*number);
    }
    select.push(") FOR UPDATE");
    // Only the statement for one page is worth keeping: the others differ in length.
    let is_common = wanted.numbers.len() == 1;
    let select = select.build_query_as::<(i64, Vec<u8>)>().persistent(is_common);
    let page = |(number, seqs): (i64, Vec<u8>)| LanePage {
        number,
        seqs: String::from_utf8_lossy(&seqs).into_owned(),
    };
    Ok(select.fetch_all(connection).await?.into_iter().map(page).collect())
}

pub(crate) async fn write(
    connection: &mut MySqlConnection,
    lane: &LaneKey,
    shard: Shard,
    pages: &[LanePage],
) -> Result<(), sqlx::Error> {
    let mut insert = QueryBuilder::new(include_str!("../sql/inbox_write_pages.sql"));
    insert.push_values(pages, |mut row, page| {
        row.push_bind(lane.consumer.as_bytes())
            .push_bind(lane.log.as_bytes().to_vec())
            .push_bind(lane.lane.as_bytes())
            .push_bind(lane.topic.as_bytes())
            .push_bind(shard.of)
            .push_bind(shard.index)
            .push_bind(page.number)
            .push_bind(page.seqs.as_bytes());
    });
    insert.push("\n").push(include_str!("../sql/inbox_write_pages_again.sql"));
    insert.build().persistent(pages.len() == 1).execute(connection).await?;
    Ok(())
}

pub(crate) async fn remove(
    connection: &mut MySqlConnection,
    lane: &LaneKey,
    shard: Shard,
    range: PageRange,
    limit: u32,
) -> Result<i64, sqlx::Error> {
    let next = sqlx::query_scalar::<_, i64>(include_str!("../sql/inbox_next_page.sql"))
        .bind(lane.consumer.as_bytes())
        .bind(lane.log.as_bytes().to_vec())
        .bind(lane.lane.as_bytes())
        .bind(lane.topic.as_bytes())
        .bind(shard.of)
        .bind(shard.index)
        .bind(range.first)
        .bind(range.last)
        .bind(limit)
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
) -> Query<'q, MySql, MySqlArguments> {
    sqlx::query(sql)
        .bind(lane.consumer.as_bytes())
        .bind(lane.log.as_bytes().to_vec())
        .bind(lane.lane.as_bytes())
        .bind(lane.topic.as_bytes())
        .bind(shard.of)
        .bind(shard.index)
}
