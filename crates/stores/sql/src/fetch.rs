//! Reading a log that is in the order of commits: `seq > after` misses nothing.
//!
//! The rows looked at come without their payloads, except for a route that takes everything, whose small
//! payloads come along. The rest are loaded for messages that are wanted and within the limit.

use std::collections::HashMap;

use bytes::Bytes;
use posthaste_core::{
    Batch, Fetch, Fetched, Message, Seq, StoreError, TopicPattern, Witness, bucket,
};

use crate::{
    Dialect, Fault, Optional, Row, Session, SqlStore, call,
    message::{self, CREATED, MORE, SEQ, is_matched, topics_from_json},
    params, rewind,
};

/// A batch, and what lies ahead of it.
#[derive(Debug)]
pub struct Read {
    /// The batch.
    pub batch: Batch,
    /// Whether all of the log was read, and no place to stop was given.
    pub is_all: bool,
    /// The end of the log when it was read.
    pub log_end: Seq,
}

/// The fetch port, for a log that is in the order of commits.
pub(crate) async fn in_order<D: Dialect>(
    store: &SqlStore<D>,
    fetch: &Fetch,
) -> Result<Batch, StoreError> {
    let read =
        call!(store, "fetch", Statements, fetch.clone(), |session, fetch| { read(session, fetch) });
    Ok(read.await?.batch)
}

/// Reads the next messages of a log that is in the order of commits.
///
/// # Errors
/// As [`Store::fetch`](posthaste_core::Store::fetch).
pub async fn read<D: Dialect>(session: &mut Session<'_, D>, fetch: &Fetch) -> Result<Read, Fault> {
    let route = Route::read(session, &fetch.route).await?;
    let after = fetch.after.seq();
    let until = fetch.until.as_ref().map_or(Seq::MAX, |until| until.seq());
    let lines = scan(session, fetch, &route, until).await?;
    check_holder(session, fetch).await?;
    let witness = lines.last().map(|line| Witness { seq: line.seq, id: line.message.id });
    let last = lines.last().map_or(after, |line| line.seq);
    let selection = select(fetch, &route.topics, lines);
    let cut = selection.cut;
    // Nothing left: all up to the end of the log has been looked at. So a shard reaches the position it is
    // to stop at even where no row has that very seq.
    let end = cut.unwrap_or_else(|| last.max(route.log_end.min(until)));
    let messages = load(session, selection.lines, &route).await?;
    Ok(Read {
        batch: Batch { messages, end, snapshot: "".into(), more: cut.is_some(), witness },
        is_all: cut.is_none() && fetch.until.is_none(),
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
    async fn read<D: Dialect>(session: &mut Session<'_, D>, name: &str) -> Result<Self, Fault> {
        let outcome = session.optional(Optional::FetchRoute, &params![route: name]).await?;
        let row = outcome.rows.first().ok_or_else(|| Fault::unknown_route(name))?;
        Ok(Self {
            topics: topics_from_json(&row.string(0)?)?,
            log_end: row.number(1)?,
            now: row.number(2)?,
        })
    }

    fn takes_all(&self) -> bool {
        self.topics.iter().any(|pattern| pattern.as_str().bytes().all(|byte| byte == b'*'))
    }
}

/// Whether what was read is what comes next: another holder may have passed, and retention removed, rows
/// before it, or the log may be another one than the holder knows.
async fn check_holder<D: Dialect>(
    session: &mut Session<'_, D>,
    fetch: &Fetch,
) -> Result<(), Fault> {
    let evidence = fetch.evidence.as_ref();
    if fetch.epoch.is_none() && evidence.is_none() {
        return Ok(());
    }
    let witness = evidence.and_then(|evidence| evidence.witness);
    let present = rewind::read(session, &fetch.route, fetch.shard, witness).await?;
    present.check(session.dialect, fetch.epoch, evidence, &fetch.after)
}

/// A row of the log; its payload may have been left out.
struct Line {
    seq: Seq,
    message: Message,
    row: Row,
    payload_bytes: usize,
}

impl Line {
    fn of(mut row: Row) -> Result<Self, Fault> {
        Ok(Self {
            seq: row.number(SEQ)?,
            message: message::message(&mut row)?,
            payload_bytes: row.number(MORE)?,
            row,
        })
    }

    fn is_left_out(&self) -> bool {
        self.message.payload.len() != self.payload_bytes
    }
}

/// One row more than asked for, to know whether there is more.
async fn scan<D: Dialect>(
    session: &mut Session<'_, D>,
    fetch: &Fetch,
    route: &Route,
    until: Seq,
) -> Result<Vec<Line>, Fault> {
    // Payloads up to this size come with their rows: however many there are, they fit.
    let is_whole = route.takes_all() && fetch.shard.of == 1;
    let small = if is_whole { fetch.bytes_max / fetch.rows_max.max(1) as usize } else { 0 };
    let scan = params![
        after: fetch.after.seq(),
        until: until,
        limit: i64::from(fetch.rows_max.max(1)) + 1,
        small: small,
    ];
    let rows = session.optional(Optional::FetchScan, &scan).await?.rows;
    rows.into_iter().map(Line::of).collect()
}

/// Which rows a batch takes and how far it goes.
struct Selection {
    lines: Vec<Line>,
    /// Where a limit stopped it.
    cut: Option<Seq>,
}

fn select(fetch: &Fetch, topics: &[TopicPattern], scanned: Vec<Line>) -> Selection {
    let mut lines: Vec<Line> = Vec::with_capacity(scanned.len());
    let mut bytes = 0;
    let mut passed = fetch.after.seq();
    for (index, line) in scanned.into_iter().enumerate() {
        // The hash last: it costs most, and a route that is not split can do without.
        let key = line.message.key.as_deref();
        let is_wanted = is_matched(topics, &line.message.topic)
            && (fetch.shard.of == 1 || fetch.shard.serves(bucket(key, line.seq)));
        let is_full = index >= fetch.rows_max.max(1) as usize
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

/// The messages, with the payloads that were left out. A row that retention removed between the statements
/// has been passed by every route, so this fetch is a stale holder's: it fails, and the holder finds out.
async fn load<D: Dialect>(
    session: &mut Session<'_, D>,
    lines: Vec<Line>,
    route: &Route,
) -> Result<Vec<Fetched>, Fault> {
    let left_out = lines.iter().filter(|line| line.is_left_out()).map(|line| line.seq);
    let mut payloads = payloads(session, &left_out.collect::<Vec<_>>()).await?;
    let mut messages = Vec::with_capacity(lines.len());
    for mut line in lines {
        if line.is_left_out() {
            line.message.payload = payloads.remove(&line.seq).ok_or_else(|| {
                Fault::internal(format!("message {} was removed while it was read", line.seq))
            })?;
        }
        let created: i64 = line.row.number(CREATED)?;
        let age = u64::try_from(route.now.saturating_sub(created)).unwrap_or(0);
        messages.push(Fetched {
            seq: line.seq,
            message: line.message,
            enqueued_at: line.row.instant(CREATED)?,
            age: std::time::Duration::from_micros(age),
        });
    }
    Ok(messages)
}

async fn payloads<D: Dialect>(
    session: &mut Session<'_, D>,
    seqs: &[Seq],
) -> Result<HashMap<Seq, Bytes>, Fault> {
    if seqs.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = session.optional(Optional::FetchPayloads, &params![seqs: seqs]).await?.rows;
    let payload = |mut row: Row| {
        let payload = row.take_bytes(1)?.map(Bytes::from).unwrap_or_default();
        Ok((row.number(0)?, payload))
    };
    rows.into_iter().map(payload).collect()
}
