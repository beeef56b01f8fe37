//! Going back in time: what a restored backup, or a promoted standby that lags, does to a database.

use std::{collections::HashSet, time::Duration};

use posthaste_core::{
    Entry, Evidence, Lineage, MessageId, Position, RewindStatus, StoreError, StoreErrorKind,
    Witness,
};

use crate::{MemoryStore, State, lease::ShardState, log::Log, snapshot::Coverage};

/// Everything a store held at some moment.
pub struct MemoryBackup(State);

/// Whether a server can tell by itself that it is on another line of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// It says so, as PostgreSQL's timeline does after a standby was promoted.
    Other,
    /// It does not know, as with a copy of its files put back.
    Same,
}

/// A time at which a relay found that the log had gone back.
#[derive(Clone)]
pub(crate) struct Rewind {
    pub(crate) route: String,
    pub(crate) relay: String,
    pub(crate) at: Duration,
}

impl Rewind {
    pub(crate) fn status(&self, now: Duration) -> RewindStatus {
        RewindStatus {
            route: self.route.clone(),
            seconds_ago: now.saturating_sub(self.at).as_secs_f64(),
            relay: self.relay.clone(),
        }
    }
}

impl MemoryStore {
    /// What the store holds now; transactions that are open are not part of it.
    #[must_use]
    pub fn backup(&self) -> MemoryBackup {
        self.with(|state, _| {
            let mut state = state.clone();
            state.log.end_all();
            MemoryBackup(state)
        })
    }

    /// Every message that the store holds, in the log or parked: what a restore did not take away.
    #[must_use]
    pub fn held(&self) -> HashSet<MessageId> {
        self.with(|state, _| {
            let parked = state.routes.values().flat_map(|route| route.parked.ids());
            let rows = state.log.rows().map(|row| row.message.id);
            rows.chain(parked).collect()
        })
    }

    /// Puts the store back to what it was. What was committed since is gone, transactions that are open
    /// end without a trace, and seqs are handed out a second time.
    pub fn restore(&self, backup: &MemoryBackup, line: Line) {
        self.with(|state, _| {
            let (lineage, incarnation) = (state.lineage, state.incarnation);
            *state = backup.0.clone();
            state.lineage = lineage + u64::from(line == Line::Other);
            state.incarnation = incarnation + 1;
        });
    }
}

/// What a relay's evidence is held against, besides its shard.
pub(crate) struct Present<'s> {
    pub(crate) lineage: Lineage,
    pub(crate) log: &'s Log,
}

impl Present<'_> {
    /// Whether the evidence, and a position that was read with it, are from this log's past.
    pub(crate) fn has(
        &self,
        shard: &ShardState,
        evidence: &Evidence,
        position: &Position,
    ) -> Result<bool, StoreError> {
        let is_passed = |witness: Witness| shard.position().seq() >= witness.seq;
        let is_kept = |witness: Witness| match self.log.id(witness.seq) {
            Some(id) => id == witness.id,
            None => is_passed(witness),
        };
        Ok(evidence.lineage == self.lineage
            && shard.entry() >= evidence.entry
            && evidence.witness.is_none_or(is_kept)
            && self.log.has_seen(&Coverage::of(position)?))
    }
}

impl State {
    pub(crate) fn lineage(&self) -> Lineage {
        Lineage(self.lineage.to_string().into())
    }
}

impl ShardState {
    /// The latest entry of the journal.
    pub(crate) fn entry(&self) -> Entry {
        self.progress.last().map(|last| last.entry).unwrap_or_default()
    }

    /// The latest position that this log has seen.
    pub(crate) fn position_within(&self, log: &Log) -> Position {
        let seen = self.progress.iter().rev().find(|entry| log.has_seen(&entry.coverage()));
        seen.map(|entry| entry.position.clone()).unwrap_or_default()
    }
}

/// The error of a call whose evidence is not from this log's past.
pub(crate) fn rewound(route: &str, operation: &'static str) -> StoreError {
    let message = format!("the log of route `{route}` is not the one its lease was granted in");
    StoreError::new(StoreErrorKind::Rewound, operation, message)
}
