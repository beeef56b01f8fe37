//! Reading the log: late commits first, then what lies ahead, bounded in rows and bytes.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use posthaste_core::{
    Batch, Fetch, Fetched, Message, MessageId, Position, Seq, Shard, Snapshot, Witness,
};
use sqlx::{Connection, PgConnection, Row, postgres::PgRow};
use uuid::Uuid;

use crate::{
    error::Fault,
    rewind::{self, Present},
    row::{self, MORE, PAYLOAD_BYTES, SEQ, TIME},
    snapshot::{self, Seen},
    transaction::query,
};

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

/// What a call of the fetch port came to.
pub(crate) struct Read {
    /// `None` where the cheaper statement does not do for the route, which it finds out by running.
    pub(crate) batch: Option<Batch>,
    /// Whether the route takes every topic.
    pub(crate) takes_all: bool,
    /// Whether the batch's snapshot lists every open transaction (ADR 12).
    pub(crate) is_listed: bool,
}

/// The fetch port. Takes no lock; the transaction around it only serves poolers. One statement reads
/// the log, and it is the first of its transaction, which `sql/fetch.sql` needs.
pub(crate) async fn fetch(
    connection: &mut PgConnection,
    fetch: Fetch,
    is_whole: bool,
) -> Result<Read, Fault> {
    let page = if is_whole {
        read_all(connection, &fetch).await?
    } else {
        read_some(connection, &fetch).await?
    };
    let Header { takes_all, is_listed, .. } = page.header;
    if is_whole && !takes_all {
        return Ok(Read { batch: None, takes_all, is_listed });
    }
    let (batch, large) = page.batch(&fetch);
    Ok(Read { batch: Some(load(connection, batch, large).await?), takes_all, is_listed })
}

/// Draws a transaction id and gives it up, so that the snapshots of later statements have an `xmax`
/// above all ids handed out until now.
pub(crate) async fn draw_xid(connection: &mut PgConnection) -> Result<(), Fault> {
    let mut savepoint = connection.begin().await?;
    query(include_str!("../sql/draw_xid.sql")).execute(&mut *savepoint).await?;
    Ok(savepoint.rollback().await?)
}

async fn read_all(connection: &mut PgConnection, fetch: &Fetch) -> Result<Page, Fault> {
    let (seqs, snapshots) = steps(&fetch.after);
    let rows = query(include_str!("../sql/fetch.sql"))
        .bind(seqs)
        .bind(snapshots)
        .bind(fetch.after.seq())
        .bind(i64::from(fetch.rows_max.max(1)))
        .bind(small_max(fetch))
        .bind(&fetch.route)
        .bind(witness(fetch))
        .fetch(connection);
    Page::of(rows, fetch).await
}

async fn read_some(connection: &mut PgConnection, fetch: &Fetch) -> Result<Page, Fault> {
    let (seqs, snapshots) = steps(&fetch.after);
    let until = fetch.until.as_ref().and_then(|until| until.steps().last());
    let rows = query(include_str!("../sql/fetch_some.sql"))
        .bind(seqs)
        .bind(snapshots)
        .bind(fetch.after.seq())
        .bind(i64::from(fetch.rows_max.max(1)))
        .bind(small_max(fetch))
        .bind(&fetch.route)
        .bind(i32::from(fetch.shard.of))
        .bind(i32::from(fetch.shard.index))
        .bind(until.map(|step| step.seq))
        .bind(until.map(|step| &*step.snapshot))
        .bind(witness(fetch))
        .fetch(connection);
    Page::of(rows, fetch).await
}

/// The place at which the holder has seen a message.
fn witness(fetch: &Fetch) -> Option<Seq> {
    fetch.evidence.as_ref()?.witness.map(|witness| witness.seq)
}

/// A position as the arrays statements take.
pub(crate) fn steps(position: &Position) -> (Vec<Seq>, Vec<&str>) {
    let steps = position.steps().iter();
    steps.map(|step| (step.seq, &*step.snapshot)).unzip()
}

/// Payloads up to this size come with their rows: however many there are, they fit.
fn small_max(fetch: &Fetch) -> i32 {
    let bytes = fetch.bytes_max / fetch.rows_max.max(1) as usize;
    i32::try_from(bytes).unwrap_or(i32::MAX)
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
    fn of(row: &PgRow, fetch: &Fetch) -> Result<Self, Fault> {
        let takes_all: Option<bool> = row.try_get(MORE + 1)?;
        let takes_all = takes_all.ok_or_else(|| Fault::unknown_route(&fetch.route))?;
        let snapshot: &str = row.try_get(MORE)?;
        if let Some(evidence) = &fetch.evidence {
            let facts: Vec<Option<String>> = row.try_get(MORE + 4)?;
            Present::of(&facts, snapshot)?.check(evidence, &fetch.after)?;
        }
        let found: Option<i64> = row.try_get(MORE + 3)?;
        if let Some(epoch) = fetch.epoch
            && found != Some(epoch)
        {
            return Err(rewind::gone(found, epoch));
        }
        let (snapshot, is_listed) = match snapshot::listed(row.try_get(MORE)?) {
            Some(Seen::Listed(snapshot)) => (snapshot, true),
            Some(Seen::Plain(snapshot)) => (snapshot, false),
            None => return Err(Fault::internal("a fetch without a snapshot")),
        };
        Ok(Self {
            snapshot: snapshot.into(),
            witness: row.try_get(MORE + 5)?,
            is_listed,
            now: row.try_get_unchecked(TIME)?,
            takes_all,
            scanned: row.try_get(MORE + 2)?,
        })
    }
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
        Ok(Self {
            seq: row.try_get_unchecked(SEQ)?,
            message: row::message(row)?,
            left_out: row.try_get_unchecked(PAYLOAD_BYTES)?,
            time: row.try_get_unchecked(TIME)?,
        })
    }

    fn bytes(&self) -> usize {
        self.left_out.map_or(self.message.payload.len(), |bytes| bytes.unsigned_abs() as usize)
    }
}

impl Page {
    /// Reads rows as they come, so that the server makes the next while we take this one apart.
    async fn of(
        mut stream: impl Stream<Item = Result<PgRow, sqlx::Error>> + Unpin,
        fetch: &Fetch,
    ) -> Result<Self, Fault> {
        let mut header = None;
        let mut rows = Vec::with_capacity(fetch.rows_max.min(10_000) as usize);
        while let Some(row) = stream.try_next().await? {
            // The header is the first in practice, but nothing promises the order of a union.
            if header.is_none() && row::is_present(&row, MORE)? {
                header = Some(Header::of(&row, fetch)?);
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
            let enqueued_at = row::instant(line.time);
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
    connection: &mut PgConnection,
    mut batch: Batch,
    large: Vec<Seq>,
) -> Result<Batch, Fault> {
    if large.is_empty() {
        return Ok(batch);
    }
    let rows =
        query(include_str!("../sql/fetch_payloads.sql")).bind(&large).fetch_all(connection).await?;
    let mut payloads = HashMap::with_capacity(rows.len());
    for row in &rows {
        let payload: &[u8] = row.try_get(1)?;
        payloads.insert(row.try_get::<Seq, _>(0)?, Bytes::copy_from_slice(payload));
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
