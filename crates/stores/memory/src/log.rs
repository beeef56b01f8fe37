//! The log: rows by seq, and which transactions are open.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use posthaste_core::{Message, MessageId, Seq};

use crate::{
    LogRow,
    parked::instant,
    snapshot::{Coverage, View},
};

/// A transaction's id.
pub(crate) type Xid = u64;

/// One message in the log, committed or not.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) xid: Xid,
    pub(crate) message: Message,
    pub(crate) created_at: Duration,
}

/// The outbox itself.
#[derive(Clone, Default)]
pub(crate) struct Log {
    rows: BTreeMap<Seq, Row>,
    /// The same rows by transaction: how late rows are found.
    by_xid: BTreeSet<(Xid, Seq)>,
    /// Transactions that have an id and have not ended.
    open: BTreeSet<Xid>,
    /// The last id and the last seq handed out; never used again, whatever became of them.
    xid_last: Xid,
    seq_last: Seq,
}

impl Log {
    pub(crate) fn begin(&mut self) -> Xid {
        self.xid_last += 1;
        self.open.insert(self.xid_last);
        self.xid_last
    }

    pub(crate) fn insert(&mut self, xid: Xid, message: Message, now: Duration) {
        self.seq_last += 1;
        self.by_xid.insert((xid, self.seq_last));
        let row = Row { xid, message, created_at: now };
        self.rows.insert(self.seq_last, row);
    }

    pub(crate) fn commit(&mut self, xid: Xid) {
        self.open.remove(&xid);
    }

    pub(crate) fn rollback(&mut self, xid: Xid) {
        let rows: Vec<Seq> = self.of(xid, 0, Seq::MAX).collect();
        for seq in rows {
            self.remove(seq);
        }
        self.open.remove(&xid);
    }

    pub(crate) fn remove(&mut self, seq: Seq) {
        if let Some(row) = self.rows.remove(&seq) {
            self.by_xid.remove(&(row.xid, seq));
        }
    }

    /// Rolls back every open transaction.
    pub(crate) fn end_all(&mut self) {
        for xid in self.open.clone() {
            self.rollback(xid);
        }
    }

    /// The message at a place of the log.
    pub(crate) fn id(&self, seq: Seq) -> Option<MessageId> {
        self.rows.get(&seq).map(|row| row.message.id)
    }

    /// Whether everything the position speaks of has happened here: its seqs were handed out, and its
    /// transactions had begun.
    pub(crate) fn has_seen(&self, position: &Coverage) -> bool {
        let end = self.xid_last + 1;
        position.seq() <= self.seq_last && position.steps.iter().all(|(_, view)| view.end <= end)
    }

    /// What can be seen now.
    pub(crate) fn view(&self) -> View {
        View { end: self.xid_last + 1, open: self.open.clone() }
    }

    /// The highest seq that is in the log.
    pub(crate) fn seq_last(&self) -> Seq {
        self.rows.last_key_value().map_or(0, |(seq, _)| *seq)
    }

    /// Every row, in seq order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = LogRow> {
        self.rows.iter().map(|(seq, row)| LogRow {
            seq: *seq,
            message: row.message.clone(),
            is_committed: !self.open.contains(&row.xid),
        })
    }

    /// Every committed message, in seq order.
    pub(crate) fn committed(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.visible(0, Seq::MAX).map(|(_, row)| &row.message)
    }

    /// When the message was enqueued.
    pub(crate) fn enqueued_at(&self, seq: Seq) -> Option<SystemTime> {
        self.rows.get(&seq).map(|row| instant(row.created_at, Duration::ZERO))
    }

    /// Committed rows above one seq, up to another, in seq order.
    pub(crate) fn visible(
        &self,
        above: Seq,
        upto: Seq,
    ) -> impl DoubleEndedIterator<Item = (Seq, &Row)> {
        let rows = self.rows.range(above.saturating_add(1)..=upto.max(above.saturating_add(1)));
        rows.filter(move |(seq, row)| **seq <= upto && !self.open.contains(&row.xid))
            .map(|(seq, row)| (*seq, row))
    }

    /// The first `limit` committed rows that `after` does not cover, in seq order; with `until`,
    /// only rows that it covers.
    ///
    /// Below what has been read, only transactions that were open then can have rows: a
    /// transaction that began later drew later seqs.
    pub(crate) fn uncovered(
        &self,
        after: &Coverage,
        until: Option<&Coverage>,
        limit: usize,
    ) -> Vec<(Seq, &Row)> {
        let is_wanted = |(seq, row): &(Seq, &Row)| until.is_none_or(|u| u.covers(*seq, row.xid));
        let mut found = Vec::new();
        let mut above = 0;
        for (upto, view) in &after.steps {
            for xid in view.open.iter().filter(|xid| !self.open.contains(xid)) {
                let late = self.of(*xid, above, *upto);
                let late = late.map(|seq| (seq, &self.rows[&seq]));
                found.extend(late.filter(is_wanted).take(limit));
            }
            above = *upto;
        }
        found.sort_unstable_by_key(|(seq, _)| *seq);
        found.truncate(limit);
        let fresh = self.visible(after.seq(), until.map_or(Seq::MAX, Coverage::seq));
        found.extend(fresh.filter(is_wanted).take(limit - found.len()));
        found
    }

    /// Seqs of a transaction's rows above one seq, up to another.
    fn of(&self, xid: Xid, above: Seq, upto: Seq) -> impl Iterator<Item = Seq> {
        let range = (xid, above.saturating_add(1))..=(xid, upto.max(above.saturating_add(1)));
        let rows = self.by_xid.range(range).map(|(_, seq)| *seq);
        rows.filter(move |seq| *seq <= upto)
    }
}
