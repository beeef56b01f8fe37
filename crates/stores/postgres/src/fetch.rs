//! Reading the log: late commits first, then what lies ahead, bounded in rows and bytes.
//!
//! Rows are taken apart as the driver gives them, by index and without the engine's cells: looking up names
//! costs a tenth of a fetch.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use posthaste_core::{
    Batch, Fetch, Fetched, Message, MessageId, Position, Seq, Shard, Snapshot, StoreError, Witness,
};
use posthaste_store_sql::{
    Cell, Dialect, Fault, Optional, Present, Session, call, headers_from_json, params,
};
use sqlx::{Row, ValueRef, postgres::PgRow};
use uuid::Uuid;

use crate::{
    Postgres, PostgresStore, error,
    snapshot::{self, Seen},
    value,
};

// The columns of `fetch` and `fetch_some`.
const SEQ: usize = 0;
const ID: usize = 1;
const TOPIC: usize = 2;
const KEY: usize = 3;
const EVENT_TYPE: usize = 4;
const PAYLOAD: usize = 5;
/// NULL unless the payload was left out.
const PAYLOAD_BYTES: usize = 6;
const HEADERS: usize = 7;
const CONTENT_TYPE: usize = 8;
/// When the message was enqueued; in the header, the time of the fetch.
const TIME: usize = 9;
const SNAPSHOT: usize = 10;
const TAKES_ALL: usize = 11;
const SCANNED: usize = 12;
const EPOCH: usize = 13;
const EVIDENCE: usize = 14;
const WITNESS: usize = 15;

/// Routes that took every topic when they were last read. They are read by the cheaper statement,
/// which tells when that has changed; so this is never wrong for longer than one call.
#[derive(Debug, Default)]
pub(crate) struct WholeRoutes(Mutex<HashSet<String>>);

impl WholeRoutes {
    fn routes(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the cheaper statement is likely to do.
    pub(crate) fn suits(&self, fetch: &Fetch) -> bool {
        fetch.shard == Shard::WHOLE && fetch.until.is_none() && self.routes().contains(&fetch.route)
    }

    pub(crate) fn learn(&self, route: &str, takes_all: bool) {
        let mut routes = self.routes();
        if takes_all && !routes.contains(route) {
            routes.insert(route.to_owned());
        } else if !takes_all {
            routes.remove(route);
        }
    }
}

/// The fetch port.
pub(crate) async fn fetch(store: &PostgresStore, fetch: &Fetch) -> Result<Batch, StoreError> {
    let whole_routes = &store.dialect().whole_routes;
    let mut is_whole = whole_routes.suits(fetch);
    let mut may_draw = true;
    loop {
        let argument = (fetch.clone(), is_whole);
        let read = call!(store, "fetch", Statements, argument, |session, (fetch, is_whole)| {
            read(session, fetch, *is_whole)
        });
        let read = read.await?;
        whole_routes.learn(&fetch.route, read.takes_all);
        match read.batch {
            None => is_whole = false,
            Some(_) if !read.is_listed && may_draw => {
                may_draw = false;
                call!(store, "fetch", Statements, (), |session, ()| draw_xid(session)).await?;
            }
            Some(batch) => return Ok(batch),
        }
    }
}

/// What one reading of the log came to.
struct Read {
    /// `None` where the cheaper statement does not do for the route, which it finds out by running.
    batch: Option<Batch>,
    /// Whether the route takes every topic.
    takes_all: bool,
    /// Whether the batch's snapshot lists every open transaction (ADR 12).
    is_listed: bool,
}

/// Reads the log. Takes no lock; the transaction around it only serves poolers. One statement reads
/// the log, and it is the first of its transaction, which `sql/fetch.sql` needs.
async fn read(
    session: &mut Session<'_, Postgres>,
    fetch: &Fetch,
    is_whole: bool,
) -> Result<Read, Fault> {
    let page = Page::read(session, fetch, is_whole).await?;
    let Header { takes_all, is_listed, .. } = page.header;
    if is_whole && !takes_all {
        return Ok(Read { batch: None, takes_all, is_listed });
    }
    let (batch, large) = page.batch(fetch);
    Ok(Read { batch: Some(load(session, batch, large).await?), takes_all, is_listed })
}

/// Draws a transaction id and gives it up, so that the snapshots of later statements have an `xmax`
/// above all ids handed out until now.
pub(crate) async fn draw_xid(session: &mut Session<'_, Postgres>) -> Result<(), Fault> {
    let text = session.dialect.text("draw_xid")?;
    session.dialect.script(session.connection, &text.sql).await
}

/// The place at which the holder has seen a message.
fn witness(fetch: &Fetch) -> Option<Seq> {
    fetch.evidence.as_ref()?.witness.map(|witness| witness.seq)
}

/// A position as the arrays statements take.
pub(crate) fn steps(position: &Position) -> (Vec<Seq>, Vec<String>) {
    let steps = position.steps().iter();
    steps.map(|step| (step.seq, step.snapshot.to_string())).unzip()
}

/// What a statement returned.
struct Page {
    header: Header,
    /// Messages of the shard, ascending in seq.
    rows: Vec<Line>,
}

/// The row that speaks of the fetch as a whole.
struct Header {
    snapshot: Snapshot,
    /// Whether the snapshot lists every open transaction.
    is_listed: bool,
    /// The database's clock, in microseconds: a timestamp as PostgreSQL sends it, because taking its
    /// epoch apart on the server costs a twentieth of a fetch.
    now: i64,
    takes_all: bool,
    /// How many rows were looked at and the last of them, where some may have been left out.
    scanned: Option<Vec<Option<i64>>>,
    /// The last row that was looked at, where messages do not tell.
    witness: Option<Uuid>,
}

impl Header {
    fn of(dialect: &Postgres, row: &PgRow, fetch: &Fetch) -> Result<Self, Fault> {
        let takes_all: Option<bool> = get(row, TAKES_ALL)?;
        let takes_all = takes_all.ok_or_else(|| Fault::unknown_route(&fetch.route))?;
        let seen: &str = get(row, SNAPSHOT)?;
        if fetch.epoch.is_some() || fetch.evidence.is_some() {
            let present = present(dialect, row, seen)?;
            present.check(dialect, fetch.epoch, fetch.evidence.as_ref(), &fetch.after)?;
        }
        let (snapshot, is_listed) = match snapshot::listed(seen) {
            Some(Seen::Listed(snapshot)) => (snapshot, true),
            Some(Seen::Plain(snapshot)) => (snapshot, false),
            None => return Err(Fault::internal("a fetch without a snapshot")),
        };
        Ok(Self {
            snapshot: snapshot.into(),
            witness: get(row, WITNESS)?,
            is_listed,
            now: get(row, TIME)?,
            takes_all,
            scanned: get(row, SCANNED)?,
        })
    }
}

/// What the server says about its history, in the statement that reads the log.
fn present(dialect: &Postgres, row: &PgRow, snapshot: &str) -> Result<Present, Fault> {
    let facts: Vec<Option<String>> = get(row, EVIDENCE)?;
    let Ok([lineage, seq_last, entry, witnessed]) = <[_; 4]>::try_from(facts) else {
        return Err(Fault::internal("a fetch with evidence that cannot be read"));
    };
    let number = |text: Option<&str>| {
        let number = text.and_then(|text| text.parse().ok());
        number.map_or(Cell::Null, Cell::Int)
    };
    let text = |text: Option<String>| text.map_or(Cell::Null, Cell::Text);
    let mut entry = entry.as_deref().into_iter().flat_map(|entry| entry.split('.'));
    // As the columns of `read_evidence`.
    let columns = posthaste_store_sql::Row(vec![
        get::<Option<i64>>(row, EPOCH)?.map_or(Cell::Null, Cell::Int),
        number(seq_last.as_deref()),
        number(entry.next()),
        number(entry.next()),
        number(entry.next()),
        text(witnessed),
        text(lineage),
        Cell::Text(snapshot.to_owned()),
    ]);
    Present::of(dialect, &columns, 0)
}

/// A column. Unchecked: the statements are ours and so are the types of their columns.
fn get<'r, T>(row: &'r PgRow, index: usize) -> Result<T, Fault>
where
    T: sqlx::Decode<'r, sqlx::Postgres>,
{
    row.try_get_unchecked(index).map_err(error::fault)
}

/// A row that is a message.
struct Line {
    seq: Seq,
    message: Message,
    /// Size of a payload that was left out.
    left_out: Option<i32>,
    /// When it was enqueued, as [`Header::now`].
    time: i64,
}

impl Line {
    fn of(row: &PgRow) -> Result<Self, Fault> {
        let payload: Option<&[u8]> = get(row, PAYLOAD)?;
        let headers: Option<&str> = get(row, HEADERS)?;
        let message = Message {
            id: MessageId(get(row, ID)?),
            topic: get(row, TOPIC)?,
            key: get(row, KEY)?,
            event_type: get(row, EVENT_TYPE)?,
            payload: payload.map(Bytes::copy_from_slice).unwrap_or_default(),
            headers: headers.map(headers_from_json).unwrap_or_default(),
            content_type: get(row, CONTENT_TYPE)?,
        };
        Ok(Self {
            seq: get(row, SEQ)?,
            message,
            left_out: get(row, PAYLOAD_BYTES)?,
            time: get(row, TIME)?,
        })
    }

    fn bytes(&self) -> usize {
        self.left_out.map_or(self.message.payload.len(), |bytes| bytes.unsigned_abs() as usize)
    }
}

/// A timestamp as PostgreSQL sends it: microseconds since the year 2000.
fn instant(micros: i64) -> SystemTime {
    const YEAR_2000: Duration = Duration::from_secs(946_684_800);
    let distance = Duration::from_micros(micros.unsigned_abs());
    let start = UNIX_EPOCH + YEAR_2000;
    let instant =
        if micros < 0 { start.checked_sub(distance) } else { start.checked_add(distance) };
    // `infinity` and the like, which the table does not refuse.
    instant.unwrap_or(UNIX_EPOCH)
}

impl Page {
    async fn read(
        session: &mut Session<'_, Postgres>,
        fetch: &Fetch,
        is_whole: bool,
    ) -> Result<Self, Fault> {
        let text = session.dialect.text(if is_whole { "fetch" } else { "fetch_some" })?;
        let (seqs, snapshots) = steps(&fetch.after);
        let until = fetch.until.as_ref().and_then(|until| until.steps().last());
        let rows_max = fetch.rows_max.max(1);
        let params = params![
            seqs: seqs,
            snapshots: snapshots.as_slice(),
            after: fetch.after.seq(),
            limit: rows_max,
            // Payloads up to this size come with their rows: however many there are, they fit.
            small: fetch.bytes_max / rows_max as usize,
            route: &fetch.route,
            of: fetch.shard.of,
            index: fetch.shard.index,
            until_seq: until.map(|step| step.seq),
            until_snapshot: until.map(|step| &*step.snapshot),
            witness: witness(fetch),
        ];
        let arguments = value::arguments(&text.bound(&params)?)?;
        let rows = value::query(text, arguments, session.reuse).fetch(&mut *session.connection);
        Self::of(session.dialect, rows, fetch).await
    }

    /// Reads rows as they come, so that the server makes the next while we take this one apart.
    async fn of(
        dialect: &Postgres,
        mut stream: impl Stream<Item = Result<PgRow, sqlx::Error>> + Unpin,
        fetch: &Fetch,
    ) -> Result<Self, Fault> {
        let is_header = |row: &PgRow| Ok(!row.try_get_raw(SNAPSHOT)?.is_null());
        let mut header = None;
        let mut rows = Vec::with_capacity(fetch.rows_max.min(10_000) as usize);
        while let Some(row) = stream.try_next().await.map_err(error::fault)? {
            // The header is the first in practice, but nothing promises the order of a union.
            if header.is_none() && is_header(&row).map_err(error::fault)? {
                header = Some(Header::of(dialect, &row, fetch)?);
            } else {
                rows.push(Line::of(&row)?);
            }
        }
        if !rows.is_sorted_by_key(|row| row.seq) {
            rows.sort_by_key(|row| row.seq);
        }
        Ok(Self { header: header.ok_or_else(|| Fault::internal("a fetch without header"))?, rows })
    }

    /// The batch, and the seqs of messages whose payload is still to be loaded.
    fn batch(self, fetch: &Fetch) -> (Batch, Vec<Seq>) {
        let (mut end, mut more) = self.end(fetch);
        let witness = self.witness();
        let mut messages = Vec::with_capacity(self.rows.len());
        let mut large = Vec::new();
        let mut bytes = 0;
        for line in self.rows {
            bytes += line.bytes();
            if bytes > fetch.bytes_max
                && let Some(Fetched { seq, .. }) = messages.last()
            {
                (end, more) = (*seq, true);
                break;
            }
            if line.left_out.is_some() {
                large.push(line.seq);
            }
            let age = self.header.now.saturating_sub(line.time);
            let age = Duration::from_micros(u64::try_from(age).unwrap_or(0));
            let enqueued_at = instant(line.time);
            messages.push(Fetched { seq: line.seq, message: line.message, enqueued_at, age });
        }
        let snapshot = claimed(fetch, &self.header.snapshot);
        (Batch { messages, end, snapshot, more, witness }, large)
    }

    /// The last row that was looked at.
    fn witness(&self) -> Option<Witness> {
        match (self.header.scanned.as_deref(), self.header.witness) {
            (Some([_, Some(seq)]), Some(id)) => Some(Witness { seq: *seq, id: MessageId(id) }),
            _ => self.rows.last().map(|row| Witness { seq: row.seq, id: row.message.id }),
        }
    }

    /// How far the statement looked, and whether there may be more.
    fn end(&self, fetch: &Fetch) -> (Seq, bool) {
        let last = self.rows.last().map_or(0, |row| row.seq);
        let (rows, last) = match self.header.scanned.as_deref() {
            Some([rows, last]) => (rows.unwrap_or(0), last.unwrap_or(0)),
            // Nothing was left out, so what came back is what was looked at.
            _ => (i64::try_from(self.rows.len()).unwrap_or(i64::MAX), last),
        };
        if rows >= i64::from(fetch.rows_max.max(1)) {
            return (last, true);
        }
        // Everything there is was looked at; up to a barrier that is all of the barrier.
        let until = fetch.until.as_ref().map_or(0, Position::seq);
        (last.max(fetch.after.seq()).max(until), false)
    }
}

/// Up to a barrier the new position must claim no more than the barrier does: rows it leaves out
/// may be visible to this statement, and would be skipped if the resize were called off.
fn claimed(fetch: &Fetch, seen: &Snapshot) -> Snapshot {
    let until = fetch.until.as_ref().and_then(|until| until.steps().last());
    until.map_or(seen, |step| &step.snapshot).clone()
}

/// Fills in large payloads. A row that retention removed between the statements has been passed by
/// every route, so this fetch is a stale holder's: it fails, and the holder finds out.
async fn load(
    session: &mut Session<'_, Postgres>,
    mut batch: Batch,
    large: Vec<Seq>,
) -> Result<Batch, Fault> {
    if large.is_empty() {
        return Ok(batch);
    }
    let wanted = params![seqs: large.as_slice()];
    let rows = session.optional(Optional::FetchPayloads, &wanted).await?.rows;
    let mut payloads = HashMap::with_capacity(rows.len());
    for mut row in rows {
        let payload = row.take_bytes(1)?.unwrap_or_default();
        payloads.insert(row.number::<Seq>(0)?, Bytes::from(payload));
    }
    for fetched in &mut batch.messages {
        if large.binary_search(&fetched.seq).is_ok() {
            fetched.message.payload = payloads.remove(&fetched.seq).ok_or_else(|| {
                let seq = fetched.seq;
                Fault::internal(format!("message {seq} was removed while it was read"))
            })?;
        }
    }
    Ok(batch)
}
