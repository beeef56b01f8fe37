//! Reading the log. One sequencer writes it at a time, so `seq > after` misses nothing.
//!
//! The rows looked at come without their payloads, except for a route that takes everything, whose
//! small payloads come along; the rest are loaded for messages that are wanted and within the limit.

use std::collections::HashMap;

use bytes::Bytes;
use posthaste_core::{Batch, Fetch, Fetched, Message, Seq, Shard, TopicPattern, Witness, bucket};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    error::Fault,
    rewind,
    row::{self, CREATED, MORE, SEQ},
};

/// A batch, and what lies ahead of it.
pub(crate) struct Read {
    pub(crate) batch: Batch,
    /// Whether all of the log was read, and there are messages that were not in it.
    pub(crate) is_behind: bool,
    /// The end of the log when it was read.
    pub(crate) log_end: Seq,
}

/// The fetch port, but for moving messages to the log. With a backlog, nobody needs to look whether
/// there is something to move.
pub(crate) async fn fetch(
    connection: &mut MySqlConnection,
    fetch: &Fetch,
    is_backlog: bool,
) -> Result<Read, Fault> {
    let route = Route::read(connection, &fetch.route).await?;
    let after = fetch.after.seq();
    let until = fetch.until.as_ref().map_or(Seq::MAX, |until| until.seq());
    let lines = scan(connection, fetch, &route, until).await?;
    check_holder(connection, fetch).await?;
    let witness = lines.last().map(|line| Witness { seq: line.seq, id: line.message.id });
    let last = lines.last().map_or(after, |line| line.seq);
    let selection = select(fetch, &route.topics, lines);
    let cut = selection.cut;
    // Nothing left: all up to the end of the log has been looked at. So a shard reaches the position
    // it is to stop at even where no row has that very seq.
    let end = cut.unwrap_or_else(|| last.max(route.log_end.min(until)));
    let messages = load(connection, &route, selection.lines).await?;
    let is_all = cut.is_none() && fetch.until.is_none();
    Ok(Read {
        batch: Batch { messages, end, snapshot: "".into(), more: cut.is_some(), witness },
        is_behind: is_all && (is_backlog || has_more(connection, end).await?),
        log_end: route.log_end,
    })
}

/// What is known before the log is read.
struct Route {
    topics: Vec<TopicPattern>,
    /// Read before the log, so that a scan which finds nothing more has seen everything up to it.
    log_end: Seq,
    /// The database's time, in microseconds since 1970.
    now: i64,
}

impl Route {
    async fn read(connection: &mut MySqlConnection, name: &str) -> Result<Self, Fault> {
        let row = sqlx::query(include_str!("../sql/fetch_route.sql"))
            .bind(name.as_bytes())
            .fetch_optional(connection)
            .await?;
        let row = row.ok_or_else(|| Fault::unknown_route(name))?;
        Ok(Self {
            topics: row::topics_from(row.try_get(0)?)?,
            log_end: row.try_get(1)?,
            now: row.try_get(2)?,
        })
    }

    fn takes_all(&self) -> bool {
        self.topics.iter().any(|pattern| pattern.as_str().bytes().all(|byte| byte == b'*'))
    }
}

/// Whether what was read is what comes next: another holder may have passed, and retention removed, rows
/// before it, or the log may be another one than the holder knows.
async fn check_holder(connection: &mut MySqlConnection, fetch: &Fetch) -> Result<(), Fault> {
    if fetch.epoch.is_none() && fetch.evidence.is_none() {
        return Ok(());
    }
    let evidence = fetch.evidence.as_ref();
    let witness = evidence.and_then(|evidence| evidence.witness);
    let present = rewind::read(connection, &fetch.route, fetch.shard.index, witness).await?;
    present.check(fetch.epoch, evidence, &fetch.after)
}

/// Whether there are messages beyond this end of the log: in the outbox, or moved since the log was
/// read.
async fn has_more(connection: &mut MySqlConnection, end: Seq) -> Result<bool, Fault> {
    let has_more: i64 = sqlx::query_scalar(include_str!("../sql/fetch_more.sql"))
        .bind(end)
        .fetch_one(connection)
        .await?;
    Ok(has_more != 0)
}

/// A row of the log; its payload may have been left out.
struct Line {
    seq: Seq,
    message: Message,
    created: i64,
    payload_bytes: usize,
}

impl Line {
    fn of(row: &MySqlRow) -> Result<Self, Fault> {
        Ok(Self {
            seq: row.try_get(SEQ)?,
            message: row::message(row)?,
            created: row.try_get(CREATED)?,
            payload_bytes: row.try_get::<u32, _>(MORE)? as usize,
        })
    }

    fn is_left_out(&self) -> bool {
        self.message.payload.len() != self.payload_bytes
    }
}

/// One row more than asked for, to know whether there is more.
async fn scan(
    connection: &mut MySqlConnection,
    fetch: &Fetch,
    route: &Route,
    until: Seq,
) -> Result<Vec<Line>, Fault> {
    // However many there are, payloads up to this size fit.
    let small_max = fetch.bytes_max / fetch.rows_max.max(1) as usize;
    let small_max = i64::try_from(small_max).unwrap_or(i64::MAX);
    let is_whole = fetch.shard == Shard::WHOLE && route.takes_all();
    let rows = sqlx::query(include_str!("../sql/fetch.sql"))
        .bind(if is_whole { small_max } else { -1 })
        .bind(fetch.after.seq())
        .bind(until)
        .bind(i64::from(fetch.rows_max) + 1)
        .fetch_all(connection)
        .await?;
    rows.iter().map(Line::of).collect()
}

/// Which rows a batch takes and how far it goes.
struct Selection {
    lines: Vec<Line>,
    /// Where a limit stopped it.
    cut: Option<Seq>,
}

fn select(fetch: &Fetch, topics: &[TopicPattern], scanned: Vec<Line>) -> Selection {
    let mut lines = Vec::with_capacity(scanned.len());
    let mut bytes = 0;
    let mut passed = fetch.after.seq();
    for (index, line) in scanned.into_iter().enumerate() {
        // The hash last: it costs most, and a route that is not split can do without.
        let is_wanted = topics.iter().any(|pattern| pattern.matches(&line.message.topic))
            && (fetch.shard.of == 1
                || fetch.shard.serves(bucket(line.message.key.as_deref(), line.seq)));
        let is_full = index >= fetch.rows_max as usize
            || (is_wanted && !lines.is_empty() && bytes + line.payload_bytes > fetch.bytes_max);
        if is_full {
            return Selection { lines, cut: Some(passed) };
        }
        passed = line.seq;
        if is_wanted {
            bytes += line.payload_bytes;
            lines.push(line);
        }
    }
    Selection { lines, cut: None }
}

/// The messages, with the payloads that were left out. A row that retention removed between the
/// statements has been passed by every route, so this fetch is a stale holder's: it fails, and the
/// holder finds out.
async fn load(
    connection: &mut MySqlConnection,
    route: &Route,
    lines: Vec<Line>,
) -> Result<Vec<Fetched>, Fault> {
    let left_out: Vec<Seq> =
        lines.iter().filter(|line| line.is_left_out()).map(|line| line.seq).collect();
    let mut payloads = payloads(connection, &left_out).await?;
    let mut messages = Vec::with_capacity(lines.len());
    for mut line in lines {
        if line.is_left_out() {
            line.message.payload = payloads.remove(&line.seq).ok_or_else(|| {
                Fault::internal(format!("message {} was removed while it was read", line.seq))
            })?;
        }
        messages.push(Fetched {
            seq: line.seq,
            message: line.message,
            enqueued_at: row::instant(line.created),
            age: row::duration(route.now.saturating_sub(line.created)),
        });
    }
    Ok(messages)
}

async fn payloads(
    connection: &mut MySqlConnection,
    seqs: &[Seq],
) -> Result<HashMap<Seq, Bytes>, Fault> {
    if seqs.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query(include_str!("../sql/fetch_payloads.sql"))
        .bind(row::json_array(seqs.iter().copied()))
        .fetch_all(connection)
        .await?;
    let payload = |row: &MySqlRow| {
        let payload: &[u8] = row.try_get(1)?;
        Ok((row.try_get(0)?, Bytes::copy_from_slice(payload)))
    };
    rows.iter().map(payload).collect()
}
