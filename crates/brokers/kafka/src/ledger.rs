//! Which messages a consumer has and has not acknowledged, by partition. Kafka remembers one position a
//! partition, so only what has everything before it acknowledged can be told.

use std::collections::{BTreeSet, HashMap, HashSet};

/// A partition of a topic.
pub(crate) type Place = (String, i32);

/// What was received, and what of it is acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    partitions: HashMap<Place, Partition>,
    receipts: HashMap<u64, (Place, i64)>,
    /// Where to go on in partitions that were lost.
    positions: HashMap<Place, i64>,
    /// What was there when the subscription began. It has one beginning, whatever ends its readers.
    old: Option<HashSet<Place>>,
    receipts_given: u64,
    assignments: u64,
}

#[derive(Debug)]
struct Partition {
    /// Tells it from the same partition, assigned another time.
    assignment: u64,
    outstanding: BTreeSet<i64>,
    /// Behind the last that was received; before there is any, where it begins, if that is known.
    next: Option<i64>,
}

impl Partition {
    /// All before it are acknowledged.
    fn position(&self) -> Option<i64> {
        self.outstanding.first().copied().or(self.next)
    }
}

impl Ledger {
    /// The subscription begins, unless it has, with these partitions there.
    pub(crate) fn begin(&mut self, places: HashSet<Place>) {
        self.old.get_or_insert(places);
    }

    /// Whether a partition was there when the subscription began.
    pub(crate) fn is_old(&self, place: &Place) -> bool {
        self.old.as_ref().is_some_and(|old| old.contains(place))
    }

    /// A partition is ours from now on.
    pub(crate) fn assign(&mut self, place: Place) {
        self.assignments += 1;
        let partition =
            Partition { assignment: self.assignments, outstanding: BTreeSet::new(), next: None };
        self.partitions.insert(place, partition);
    }

    /// Nothing before this offset is for us.
    pub(crate) fn begin_at(&mut self, place: &Place, offset: i64) {
        if let Some(partition) = self.partitions.get_mut(place) {
            partition.next = Some(offset);
        }
    }

    /// A partition is not ours any more: what is unacknowledged comes again, to us or to another.
    pub(crate) fn revoke(&mut self, place: &Place) {
        let Some(partition) = self.partitions.remove(place) else { return };
        self.receipts.retain(|_, (other, _)| other != place);
        if let Some(position) = partition.position() {
            self.positions.insert(place.clone(), position);
        }
    }

    /// Every partition is lost.
    pub(crate) fn revoke_all(&mut self) {
        let places: Vec<Place> = self.partitions.keys().cloned().collect();
        for place in places {
            self.revoke(&place);
        }
    }

    /// Which assignment of a partition is in force.
    pub(crate) fn assignment(&self, place: &Place) -> Option<u64> {
        self.partitions.get(place).map(|partition| partition.assignment)
    }

    /// Where we were in a partition that we had before.
    pub(crate) fn last_position(&self, place: &Place) -> Option<i64> {
        self.positions.get(place).copied()
    }

    pub(crate) fn unacknowledged(&self) -> usize {
        self.receipts.len()
    }

    /// A message was received: its receipt, unless the partition was lost since it was read.
    pub(crate) fn receive(&mut self, place: &Place, assignment: u64, offset: i64) -> Option<u64> {
        let partition = self.partitions.get_mut(place)?;
        if partition.assignment != assignment {
            return None;
        }
        partition.outstanding.insert(offset);
        partition.next = Some(offset + 1);
        self.receipts_given += 1;
        self.receipts.insert(self.receipts_given, (place.clone(), offset));
        Some(self.receipts_given)
    }

    /// A message was handled: the partition's new position, if there is one. `Err` if the partition
    /// is not ours any more.
    pub(crate) fn acknowledge(&mut self, receipt: u64) -> Result<Option<(Place, i64)>, ()> {
        let (place, offset) = self.receipts.remove(&receipt).ok_or(())?;
        let partition = self.partitions.get_mut(&place).ok_or(())?;
        let before = partition.position();
        partition.outstanding.remove(&offset);
        let after = partition.position();
        Ok(after.filter(|_| after != before).map(|position| (place, position)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        ("orders".to_owned(), 3)
    }

    fn ledger(offsets: &[i64]) -> (Ledger, Vec<u64>) {
        let mut ledger = Ledger::default();
        ledger.assign(place());
        let assignment = ledger.assignment(&place()).unwrap();
        let receipts = offsets
            .iter()
            .map(|&offset| ledger.receive(&place(), assignment, offset).unwrap())
            .collect();
        (ledger, receipts)
    }

    #[test]
    fn only_a_prefix_without_holes_is_told() {
        // 12 and 13 were never there: transactions and compaction leave such gaps.
        let (mut ledger, receipts) = ledger(&[10, 11, 14, 15]);
        assert_eq!(ledger.acknowledge(receipts[1]), Ok(None));
        assert_eq!(ledger.acknowledge(receipts[0]), Ok(Some((place(), 14))));
        assert_eq!(ledger.acknowledge(receipts[3]), Ok(None));
        assert_eq!(ledger.acknowledge(receipts[2]), Ok(Some((place(), 16))));
        assert_eq!(ledger.unacknowledged(), 0);
    }

    #[test]
    fn a_lost_partition_takes_its_receipts_along() {
        let (mut ledger, receipts) = ledger(&[10, 11]);
        let old = ledger.assignment(&place()).unwrap();
        _ = ledger.acknowledge(receipts[0]);
        ledger.revoke_all();
        assert_eq!(ledger.acknowledge(receipts[1]), Err(()));
        assert_eq!(ledger.last_position(&place()), Some(11));
        ledger.assign(place());
        assert_eq!(ledger.receive(&place(), old, 12), None, "read before the partition was lost");
    }

    #[test]
    fn a_partition_that_nothing_came_from_is_gone_on_with_where_it_began() {
        let (mut ledger, _) = ledger(&[]);
        ledger.begin_at(&place(), 7);
        ledger.revoke_all();
        assert_eq!(ledger.last_position(&place()), Some(7));
    }

    #[test]
    fn a_subscription_begins_once() {
        let mut ledger = Ledger::default();
        ledger.begin(HashSet::from([place()]));
        let later = ("later".to_owned(), 0);
        ledger.begin(HashSet::from([place(), later.clone()]));
        assert!(ledger.is_old(&place()) && !ledger.is_old(&later));
    }

    #[test]
    fn a_receipt_is_good_once() {
        let (mut ledger, receipts) = ledger(&[10]);
        assert!(ledger.acknowledge(receipts[0]).is_ok());
        assert_eq!(ledger.acknowledge(receipts[0]), Err(()));
    }
}
