//! Reading the log. SQLite has one writer, so `seq > after` misses nothing.
//!
//! A batch is read in two steps: what decides about each row (topic, key, size), then the messages
//! that are wanted. So neither other routes' payloads nor those beyond the limit are ever loaded.

use posthaste_core::{
    Batch, Fetch, Fetched, Lineage, MessageId, Seq, TopicPattern, Witness, bucket,
};
use sqlx::{Row, SqliteConnection};

use crate::{error::Fault, rewind::Holder, row};

/// A row of the log without what is in it.
struct Scanned {
    seq: Seq,
    topic: String,
    key: Option<String>,
    payload_bytes: usize,
    id: Option<MessageId>,
}

/// Which rows a batch takes and how far it goes.
struct Selection {
    seqs: Vec<Seq>,
    /// Where a limit stopped it.
    cut: Option<Seq>,
}

pub(crate) async fn fetch(
    conn: &mut SqliteConnection,
    fetch: &Fetch,
    lineage: Lineage,
) -> Result<Batch, Fault> {
    let Some((topics, log_end)) = route(conn, &fetch.route).await? else {
        return Err(unknown_route(&fetch.route));
    };
    let after = fetch.after.seq();
    let until = fetch.until.as_ref().map_or(Seq::MAX, |until| until.seq());
    let scanned = scan(conn, after, until, fetch.rows_max).await?;
    check_holder(conn, fetch, lineage).await?;
    let selection = select(fetch, &topics, &scanned);
    let last = scanned.last().map_or(after, |row| row.seq);
    let witness = scanned.last().and_then(|row| row.id.map(|id| Witness { seq: row.seq, id }));
    Ok(Batch {
        messages: load(conn, &selection.seqs).await?,
        // Nothing left: all up to the end of the log has been looked at, gaps included. So a shard
        // reaches the position it is to stop at even where no row has that very seq.
        end: selection.cut.unwrap_or_else(|| last.max(log_end.min(until))),
        snapshot: "".into(),
        more: selection.cut.is_some(),
        witness,
    })
}

/// The refusal of a route that nobody registered.
pub(crate) fn unknown_route(route: &str) -> Fault {
    Fault::refused(format!(
        "route `{route}` is not registered; a relay registers its routes when it starts"
    ))
}

async fn route(
    conn: &mut SqliteConnection,
    route: &str,
) -> Result<Option<(Vec<TopicPattern>, Seq)>, Fault> {
    let found: Option<(String, Seq)> = sqlx::query_as(include_str!("../sql/fetch_route.sql"))
        .bind(route)
        .fetch_optional(conn)
        .await?;
    found.map(|(topics, log_end)| Ok((row::topics_from(&topics)?, log_end))).transpose()
}

/// Whether what was read is what comes next: another holder may have passed, and retention removed, rows
/// before it, or the log may be another one than the holder knows.
async fn check_holder(
    conn: &mut SqliteConnection,
    fetch: &Fetch,
    lineage: Lineage,
) -> Result<(), Fault> {
    if fetch.epoch.is_none() && fetch.evidence.is_none() {
        return Ok(());
    }
    let holder = Holder {
        route: &fetch.route,
        shard: fetch.shard,
        epoch: fetch.epoch,
        evidence: fetch.evidence.as_ref(),
        lineage,
    };
    holder.check(conn, &fetch.after).await
}

/// One row more than asked for, to know whether there is more.
async fn scan(
    conn: &mut SqliteConnection,
    after: Seq,
    until: Seq,
    rows_max: u32,
) -> Result<Vec<Scanned>, Fault> {
    let rows = sqlx::query(include_str!("../sql/fetch_scan.sql"))
        .bind(after)
        .bind(until)
        .bind(i64::from(rows_max) + 1)
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Scanned {
                seq: row.try_get("seq")?,
                topic: row::text(row, "topic")?.unwrap_or_default(),
                key: row::text(row, "key")?,
                payload_bytes: row.try_get::<u32, _>("payload_bytes")? as usize,
                id: row::text(row, "id")?.and_then(|id| id.parse().ok()).map(MessageId),
            })
        })
        .collect()
}

fn select(fetch: &Fetch, topics: &[TopicPattern], scanned: &[Scanned]) -> Selection {
    let mut seqs = Vec::new();
    let mut bytes = 0;
    let mut passed = fetch.after.seq();
    for (index, row) in scanned.iter().enumerate() {
        // The hash last: it costs most, and a route that is not split can do without.
        let is_wanted = topics.iter().any(|pattern| pattern.matches(&row.topic))
            && (fetch.shard.of == 1 || fetch.shard.serves(bucket(row.key.as_deref(), row.seq)));
        let is_full = index >= fetch.rows_max as usize
            || (is_wanted && !seqs.is_empty() && bytes + row.payload_bytes > fetch.bytes_max);
        if is_full {
            return Selection { seqs, cut: Some(passed) };
        }
        if is_wanted {
            seqs.push(row.seq);
            bytes += row.payload_bytes;
        }
        passed = row.seq;
    }
    Selection { seqs, cut: None }
}

async fn load(conn: &mut SqliteConnection, seqs: &[Seq]) -> Result<Vec<Fetched>, Fault> {
    if seqs.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(include_str!("../sql/fetch_messages.sql"))
        .bind(row::json_array(seqs.iter().copied()))
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Fetched {
                seq: row.try_get("seq")?,
                message: row::message(row)?,
                enqueued_at: row::instant(row)?,
                age: row::seconds(row.try_get("age")?),
            })
        })
        .collect()
}
