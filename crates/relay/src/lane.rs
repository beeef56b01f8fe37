//! Decides which items may be sent next: of each key one at a time (or one call of items); items
//! without a key are always free.

use std::{collections::VecDeque, hash::BuildHasher};

use foldhash::{HashMap, fast::FixedState};

use crate::planted::{self, Planted};

/// The id of an item in the window.
pub(crate) type ItemId = u64;

/// A 64-bit hash of a key: two keys that collide share a lane, which only makes them wait for each
/// other.
pub(crate) type LaneId = u64;

#[derive(Debug, Default)]
struct Lane {
    /// Items of the key not yet sent, in order.
    queue: VecDeque<ItemId>,
    /// Whether items of the key are in flight, or the lane is in `ready`.
    is_taken: bool,
}

#[derive(Clone, Copy, Debug)]
enum Ready {
    Lane(LaneId),
    Single(ItemId),
}

/// Items waiting to be sent, by key.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// Whether all items share one lane: the broker keeps the order of a call, so all items are
    /// sent in the order of the log, one call at a time.
    is_single: bool,
    lanes: HashMap<LaneId, Lane>,
    /// Lanes and items that could be sent now, longest waiting first.
    ready: VecDeque<Ready>,
}

fn lane_id(key: &str) -> LaneId {
    FixedState::default().hash_one(key)
}

impl Lanes {
    /// Lanes by key, or one lane for all items.
    pub(crate) fn new(is_single: bool) -> Self {
        Self { is_single, ..Self::default() }
    }

    /// Whether all items share one lane.
    pub(crate) fn is_single(&self) -> bool {
        self.is_single
    }

    /// The lane of a key; `None` for a message without a key, which waits for no other message.
    pub(crate) fn of(&self, key: Option<&str>) -> Option<LaneId> {
        if planted::has(Planted::Pipelined) {
            return None;
        }
        if self.is_single { Some(0) } else { key.map(lane_id) }
    }

    /// Queues an item behind all of its key.
    pub(crate) fn push(&mut self, lane: Option<LaneId>, item: ItemId) {
        let Some(id) = lane else {
            self.ready.push_back(Ready::Single(item));
            return;
        };
        let lane = self.lanes.entry(id).or_default();
        lane.queue.push_back(item);
        if !lane.is_taken {
            lane.is_taken = true;
            self.ready.push_back(Ready::Lane(id));
        }
    }

    /// Takes up to `limit` items that may be sent in one call: of each key its first item, or with
    /// `whole_lanes` as many as fit. Stops at `share` so that other keys can use a parallel call.
    /// The key of a taken item stays closed until [`answered`](Self::answered).
    pub(crate) fn take(&mut self, share: usize, limit: usize, whole_lanes: bool) -> Vec<ItemId> {
        let mut taken = Vec::with_capacity(limit.min(self.ready.len()));
        while taken.len() < limit.min(share) {
            match self.ready.pop_front() {
                None => break,
                Some(Ready::Single(item)) => taken.push(item),
                Some(Ready::Lane(id)) => {
                    let room = if whole_lanes { limit - taken.len() } else { 1 };
                    let lane = self.lanes.get_mut(&id).expect("a ready lane exists");
                    let count = room.min(lane.queue.len());
                    taken.extend(lane.queue.drain(..count));
                    if count == 0 {
                        // All its items were removed while the lane was in `ready`.
                        self.lanes.remove(&id);
                    }
                }
            }
        }
        taken
    }

    /// Takes the one ready item for which `badness` is lowest.
    pub(crate) fn take_best(&mut self, badness: impl Fn(ItemId) -> u32) -> Option<ItemId> {
        let head = |ready: &Ready| match ready {
            Ready::Single(item) => Some(*item),
            Ready::Lane(id) => self.lanes.get(id).and_then(|lane| lane.queue.front().copied()),
        };
        let best = (0..self.ready.len())
            .min_by_key(|&index| head(&self.ready[index]).map_or(u32::MAX, &badness))?;
        let ready = self.ready.remove(best).expect("an index of the queue");
        self.ready.push_front(ready);
        self.take(1, 1, false).pop()
    }

    /// Puts taken items that were not delivered back before all other items of the key, in order,
    /// and opens the key again.
    pub(crate) fn answered(&mut self, id: LaneId, returned: &[ItemId]) {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        for item in returned.iter().rev() {
            lane.queue.push_front(*item);
        }
        if lane.queue.is_empty() {
            self.lanes.remove(&id);
        } else {
            self.ready.push_back(Ready::Lane(id));
        }
    }

    /// Puts a keyless item back.
    pub(crate) fn return_single(&mut self, item: ItemId) {
        self.ready.push_back(Ready::Single(item));
    }

    /// Removes the queued items of the key's lane that `select` chooses, and returns them in order.
    /// Call it before [`answered`](Self::answered) while the key is taken, or on a key that is not
    /// taken.
    pub(crate) fn remove(&mut self, id: LaneId, select: impl Fn(ItemId) -> bool) -> Vec<ItemId> {
        let mut removed = Vec::new();
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.queue.retain(|&item| {
                let goes = select(item);
                if goes {
                    removed.push(item);
                }
                !goes
            });
        }
        removed
    }

    /// Removes a waiting keyless item.
    pub(crate) fn remove_single(&mut self, item: ItemId) {
        self.ready.retain(|ready| !matches!(ready, Ready::Single(single) if *single == item));
    }

    /// Whether any item could be sent.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LaneId = 1;
    const B: LaneId = 2;

    #[test]
    fn one_item_of_a_key_is_out_at_a_time() {
        let mut lanes = Lanes::default();
        for (lane, item) in [(Some(A), 1), (Some(A), 2), (Some(B), 3), (None, 4), (None, 5)] {
            lanes.push(lane, item);
        }
        assert_eq!(lanes.take(99, 10, false), [1, 3, 4, 5]);
        assert!(lanes.take(99, 10, false).is_empty());
        lanes.push(Some(A), 6);
        assert!(lanes.take(99, 10, false).is_empty(), "a is still out");
        lanes.answered(A, &[]);
        assert_eq!(lanes.take(99, 10, false), [2]);
        lanes.answered(A, &[2]);
        assert_eq!(lanes.take(99, 10, false), [2], "returned before what is queued");
    }

    #[test]
    fn whole_lanes_keep_their_order_and_the_limit() {
        let mut lanes = Lanes::default();
        for item in 1..=5 {
            lanes.push(Some(A), item);
        }
        lanes.push(Some(B), 9);
        assert_eq!(lanes.take(99, 3, true), [1, 2, 3]);
        assert_eq!(lanes.take(99, 3, true), [9], "the rest of a waits for its answers");
        lanes.answered(A, &[2, 3]);
        assert_eq!(lanes.take(99, 9, true), [2, 3, 4, 5]);
    }

    #[test]
    fn a_share_leaves_other_keys_for_another_call_and_does_not_split_one() {
        let mut lanes = Lanes::default();
        for (lane, item) in [(A, 1), (A, 2), (A, 3), (B, 4), (3, 5), (4, 6)] {
            lanes.push(Some(lane), item);
        }
        assert_eq!(lanes.take(2, 9, true), [1, 2, 3]);
        assert_eq!(lanes.take(2, 9, true), [4, 5]);
        assert_eq!(lanes.take(2, 9, true), [6]);
    }

    #[test]
    fn the_best_head_is_taken_for_a_probe() {
        let mut lanes = Lanes::default();
        for (lane, item) in [(Some(A), 1), (Some(A), 2), (Some(B), 3)] {
            lanes.push(lane, item);
        }
        assert_eq!(lanes.take_best(|item| u32::from(item == 1)), Some(3));
        lanes.answered(B, &[]);
        assert_eq!(lanes.take_best(|item| u32::from(item == 1)), Some(1));
    }

    #[test]
    fn removing_leaves_the_others_in_order() {
        let mut lanes = Lanes::default();
        for item in 1..=4 {
            lanes.push(Some(A), item);
        }
        assert_eq!(lanes.take(99, 1, false), [1]);
        assert_eq!(lanes.remove(A, |item| item != 3), [2, 4]);
        lanes.answered(A, &[]);
        assert_eq!(lanes.take(99, 9, true), [3]);
    }
}
