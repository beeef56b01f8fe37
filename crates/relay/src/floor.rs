//! Computes the floor that every message of a shard carries: which messages were acknowledged
//! before it. Holds no I/O.
//!
//! A floor may claim too little, never too much. It rises to a seq that a settlement had passed,
//! once all rows up to that seq have been passed again under a snapshot that hides no transaction
//! of that time (`docs/adr/0009-floor.md`).

use std::{collections::BTreeSet, sync::Arc};

use posthaste_core::{FLOOR_MISSING_MAX, Floor, Horizon, Position, Seq, Shard, Snapshot};
use uuid::Uuid;

use crate::planted::{self, Planted};

/// Most seqs of parked messages that are remembered; if there are more, the lowest.
const UNDELIVERED_MAX: usize = 1024;

/// Seqs of parked messages that may still be delivered.
#[derive(Debug)]
struct Undelivered {
    seqs: BTreeSet<Seq>,
    /// Up to this seq, `seqs` is complete.
    complete_to: Seq,
}

impl Undelivered {
    /// From the seqs that the store returned: the lowest `FLOOR_MISSING_MAX + 1`.
    fn new(told: &[Seq]) -> Self {
        let last = told.get(FLOOR_MISSING_MAX..).and_then(<[Seq]>::last);
        let complete_to = last.copied().unwrap_or(Seq::MAX);
        Self { seqs: told.iter().copied().collect(), complete_to }
    }

    fn add(&mut self, seq: Seq) {
        self.seqs.insert(seq);
        if self.seqs.len() > UNDELIVERED_MAX
            && let Some(last) = self.seqs.pop_last()
        {
            self.complete_to = self.complete_to.min(last - 1);
        }
    }

    /// The highest seq up to `reached` below which all undelivered seqs are known and fit in a
    /// floor, with these seqs.
    fn up_to(&self, reached: Seq) -> (Seq, Vec<Seq>) {
        let mut seq = reached.min(self.complete_to);
        if let Some(&first_too_many) = self.seqs.range(..=seq).nth(FLOOR_MISSING_MAX) {
            seq = first_too_many - 1;
        }
        (seq, self.seqs.range(..=seq).copied().collect())
    }
}

/// A seq that a settlement had passed, with the horizon of the settlement.
#[derive(Debug)]
struct Goal {
    seq: Seq,
    horizon: Horizon,
}

/// The floor of one shard, under one lease.
#[derive(Debug)]
pub(crate) struct Floors {
    undelivered: Undelivered,
    /// Counts changes of `undelivered` by this relay.
    changes: u64,
    /// The seq to which the floor rises next.
    goal: Option<Goal>,
    /// The latest settlement since `goal` was set; it becomes the next goal.
    next_goal: Option<Goal>,
    /// All rows up to this seq have been passed, and no row can appear there any more.
    reached: Seq,
    /// The present floor; all messages share it until it changes.
    current: Arc<Floor>,
}

impl Floors {
    /// The floor of a lease that was just granted: only the parked messages are known.
    pub(crate) fn new(log: Uuid, shard: Shard, undelivered: &[Seq]) -> Self {
        Self {
            undelivered: Undelivered::new(undelivered),
            changes: 0,
            goal: None,
            next_goal: None,
            reached: 0,
            current: Arc::new(Floor { log, shard, seq: 0, missing: Vec::new() }),
        }
    }

    /// Records that a message was parked. Call it before the position passes the message.
    pub(crate) fn parked(&mut self, seq: Seq) {
        if planted::has(Planted::FloorForgetsParked) {
            return;
        }
        self.changes += 1;
        self.undelivered.add(seq);
    }

    /// Records that a parked message was acknowledged and that this is settled. Before the
    /// settlement, a relay that takes over would send the message again and name it as missing.
    pub(crate) fn delivered(&mut self, seq: Seq) {
        self.changes += 1;
        self.undelivered.seqs.remove(&seq);
    }

    /// The number of changes of parked messages by this relay.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Replaces the undelivered seqs by those of the store, which knows what people redrove and
    /// discarded. The store was asked when all changes were settled and [`changes`](Self::changes)
    /// had this value.
    pub(crate) fn told(&mut self, undelivered: &[Seq], changes: u64) {
        if changes == self.changes {
            self.undelivered = Undelivered::new(undelivered);
        }
    }

    /// Records that a settlement which passed all rows up to `seq` has been written.
    pub(crate) fn settled(&mut self, seq: Seq, horizon: Horizon) {
        let goal = Some(Goal { seq, horizon });
        if self.goal.is_none() {
            self.goal = goal;
        } else {
            self.next_goal = goal;
        }
    }

    /// Raises the floor as far as it can be proved. All messages that `position` covers must be
    /// acknowledged or parked.
    pub(crate) fn raise(
        &mut self,
        position: &Position,
        is_past: impl Fn(&Horizon, &Snapshot) -> bool,
    ) {
        let Some(step) = position.steps().first() else { return };
        while let Some(goal) = &self.goal
            && goal.seq <= step.seq
            && is_past(&goal.horizon, &step.snapshot)
        {
            self.reached = self.reached.max(goal.seq);
            self.goal = self.next_goal.take();
        }
        let (seq, missing) = self.undelivered.up_to(self.reached);
        if seq != self.current.seq || missing != self.current.missing {
            let Floor { log, shard, .. } = *self.current;
            self.current = Arc::new(Floor { log, shard, seq, missing });
        }
    }

    /// The floor for the next message.
    pub(crate) fn current(&self) -> Arc<Floor> {
        self.current.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floors(undelivered: &[Seq]) -> Floors {
        Floors::new(Uuid::nil(), Shard::WHOLE, undelivered)
    }

    fn at(floors: &mut Floors, position: &Position) -> (Seq, Vec<Seq>) {
        floors.raise(position, |horizon, snapshot| **snapshot >= **horizon);
        (floors.current().seq, floors.current().missing.clone())
    }

    #[test]
    fn it_waits_for_a_snapshot_past_the_settlement() {
        let mut floors = floors(&[]);
        let position = |seq, snapshot: &str| Position::at(seq, snapshot);
        assert_eq!(at(&mut floors, &position(9, "5")), (0, vec![]), "nothing settled");
        floors.settled(9, "6".into());
        assert_eq!(at(&mut floors, &position(20, "5")).0, 0, "an open transaction may own 8");
        floors.settled(20, "7".into());
        assert_eq!(at(&mut floors, &position(20, "6")).0, 9);
        assert_eq!(at(&mut floors, &position(20, "7")).0, 20);
        let paging: Position = "10@8;20@7".parse().expect("a position");
        floors.settled(20, "8".into());
        floors.settled(30, "8".into());
        assert_eq!(at(&mut floors, &paging).0, 20, "late rows above 10 have not been passed");
        assert_eq!(at(&mut floors, &position(29, "9")).0, 20, "30 is not passed under 9");
        assert_eq!(at(&mut floors, &position(30, "9")).0, 30);
    }

    #[test]
    fn what_is_undelivered_is_said_and_bounds_it() {
        let told: Vec<Seq> = (1..=33).map(|n| n * 10).collect();
        let mut floors = floors(&told);
        let position = Position::at(1000, "9");
        floors.settled(1000, "1".into());
        assert_eq!(at(&mut floors, &position), (329, told[..32].to_vec()));
        floors.delivered(10);
        assert_eq!(at(&mut floors, &position), (330, told[1..].to_vec()), "340 is not known of");
        floors.parked(320);
        floors.told(&[20, 30], floors.changes() - 1);
        assert_eq!(at(&mut floors, &position).0, 330, "asked before something was parked");
        floors.told(&[20, 30], floors.changes());
        assert_eq!(at(&mut floors, &position), (1000, vec![20, 30]));
    }

    #[test]
    fn of_very_many_the_lowest_are_remembered() {
        let mut floors = floors(&[]);
        for seq in (1..=2000).rev() {
            floors.parked(seq);
        }
        floors.settled(5000, "1".into());
        let position = Position::at(5000, "9");
        assert_eq!(at(&mut floors, &position), (32, (1..=32).collect()));
        for seq in 1..=1024 {
            floors.delivered(seq);
        }
        assert_eq!(at(&mut floors, &position), (1024, vec![]), "1025 was not remembered");
    }

    #[test]
    fn messages_share_a_floor_until_it_changes() {
        let mut floors = floors(&[]);
        let position = Position::at(5, "9");
        floors.settled(5, "1".into());
        at(&mut floors, &position);
        let before = floors.current();
        at(&mut floors, &position);
        assert!(Arc::ptr_eq(&before, &floors.current()));
    }
}
