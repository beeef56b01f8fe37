//! The messages of a shard in memory: which are read and not settled, which may be sent, how far
//! the finished prefix reaches, and what the next settlement will write. Holds no I/O.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use posthaste_core::{
    Batch, Delivery, Failure, Horizon, Next, Park, Parked, Position, Repark, Seq, Settlement,
    Snapshot,
};

use crate::{
    floor::Floors,
    lane::{ItemId, LaneId, Lanes},
    planted::{self, Planted},
};

/// First id of parked messages that are tried again; lower ids are messages from the log.
const PARKED_FIRST: ItemId = 1 << 63;

/// One message in memory.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) delivery: Arc<Delivery>,
    /// The lane of the message; `None` for a message without a key, which waits for no other.
    pub(crate) lane: Option<LaneId>,
    /// Age when it was read, by the database's clock.
    age: Duration,
    /// When it was read, by the relay's clock.
    read_at: Duration,
    /// Whether the message is acknowledged, or handed to the settlement as parked.
    is_done: bool,
    /// Definite refusals so far.
    pub(crate) attempts: u32,
    /// Unknown outcomes so far.
    pub(crate) unknowns: u32,
}

impl Item {
    /// The present age of the message.
    pub(crate) fn age(&self, now: Duration) -> Duration {
        self.age + now.saturating_sub(self.read_at)
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.delivery.message.key.as_deref()
    }
}

/// The end of one fetched batch.
#[derive(Debug)]
struct Mark {
    /// The batch's items are below this id.
    until: ItemId,
    /// The highest seq that the fetch scanned.
    end: Seq,
    /// The snapshot of the fetch.
    snapshot: Snapshot,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) lanes: Lanes,
    /// Messages from the log in the order read; the first has id `log_first`.
    log: VecDeque<Item>,
    log_first: ItemId,
    /// Parked messages being tried again.
    parked: HashMap<ItemId, Item>,
    parked_next: ItemId,
    /// Ends of the batches in `log`.
    marks: VecDeque<Mark>,
    /// The position that covers all messages that left `log`.
    settled: Position,
    /// Whether `settled` moved past a message since the last settlement.
    has_moved: bool,
    /// Whether `settled` moved at all, perhaps only over other routes' messages.
    has_skipped: bool,
    /// Messages that left `log` and whose settlement is not confirmed: a crash would repeat them.
    unconfirmed: usize,
    /// Bytes of all messages in `log` and `parked`, and of messages to park until they are written.
    bytes: usize,
    /// Keys with a parked message: later messages of these keys are parked behind it.
    blocked: HashSet<String>,
    /// The next settlement, without the position.
    pending: Settlement,
    /// Messages to park that are behind an unfinished message of `log`. Each is written together
    /// with the position that passes it. If it were written before, a relay that takes over would
    /// find it both parked and in the log, and could send a message that a person has discarded
    /// meanwhile.
    parked_ahead: BTreeMap<ItemId, Park>,
    /// Parked messages whose outcome was unknown; the unknown outcome counts once another message
    /// is acknowledged.
    suspects: BTreeMap<Seq, Repark>,
    /// The floors of messages that enter the window.
    pub(crate) floors: Floors,
}

impl Window {
    pub(crate) fn new(
        position: Position,
        blocked: Vec<String>,
        lanes: Lanes,
        floors: Floors,
    ) -> Self {
        Self {
            lanes,
            floors,
            log: VecDeque::new(),
            log_first: 0,
            parked: HashMap::new(),
            parked_next: PARKED_FIRST,
            marks: VecDeque::new(),
            settled: position,
            has_moved: false,
            has_skipped: false,
            unconfirmed: 0,
            bytes: 0,
            blocked: blocked.into_iter().collect(),
            pending: Settlement::default(),
            parked_ahead: BTreeMap::new(),
            suspects: BTreeMap::new(),
        }
    }

    /// Adds the batch of a fetch. Messages of blocked keys go straight to the next settlement.
    pub(crate) fn add_batch(&mut self, batch: Batch, now: Duration) {
        for fetched in batch.messages {
            let id = self.log_first + self.log.len() as u64;
            let delivery = Delivery {
                seq: fetched.seq,
                message: fetched.message,
                enqueued_at: fetched.enqueued_at,
                attempt: 1,
                redriven: 0,
                floor: Some(self.floors.current()),
            };
            self.bytes += delivery.message.weight();
            let lane = self.lanes.of(delivery.message.key.as_deref());
            self.log.push_back(Item {
                delivery: Arc::new(delivery),
                lane,
                age: fetched.age,
                read_at: now,
                is_done: false,
                attempts: 0,
                unknowns: 0,
            });
            let key = self.log.back().and_then(Item::key);
            if key.is_some_and(|key| self.blocked.contains(key)) {
                self.park_behind(id, now);
            } else {
                self.lanes.push(lane, id);
            }
        }
        let until = self.log_first + self.log.len() as u64;
        self.marks.push_back(Mark { until, end: batch.end, snapshot: batch.snapshot });
        self.advance();
    }

    /// Adds parked messages to try again, in order per key.
    pub(crate) fn add_due(&mut self, messages: Vec<Parked>, now: Duration) {
        for parked in messages {
            let id = self.parked_next;
            self.parked_next += 1;
            if let Some(key) = &parked.message.key {
                self.blocked.insert(key.clone());
            }
            self.bytes += parked.message.weight();
            let lane = self.lanes.of(parked.message.key.as_deref());
            self.lanes.push(lane, id);
            let delivery = Delivery {
                seq: parked.seq,
                message: parked.message,
                enqueued_at: parked.enqueued_at,
                attempt: parked.attempts + parked.unknowns + 1,
                redriven: parked.redriven,
                floor: Some(self.floors.current()),
            };
            let item = Item {
                delivery: Arc::new(delivery),
                lane,
                age: parked.age,
                read_at: now,
                is_done: false,
                attempts: parked.attempts,
                unknowns: parked.unknowns,
            };
            self.parked.insert(id, item);
        }
    }

    /// The item; `None` if it has left the window.
    pub(crate) fn item(&self, id: ItemId) -> Option<&Item> {
        if id >= PARKED_FIRST {
            return self.parked.get(&id);
        }
        let index = usize::try_from(id.checked_sub(self.log_first)?).ok()?;
        self.log.get(index)
    }

    fn log_item(&mut self, id: ItemId) -> &mut Item {
        let index = usize::try_from(id - self.log_first).expect("an id of the log is an index");
        &mut self.log[index]
    }

    /// Records that the broker acknowledged the message.
    pub(crate) fn acknowledged(&mut self, id: ItemId) {
        if id < PARKED_FIRST {
            self.log_item(id).is_done = true;
        } else if let Some(item) = self.forget_parked(id) {
            self.suspects.remove(&item.delivery.seq);
            self.pending.delivered.push(item.delivery.seq);
        }
    }

    /// Parks a refused message, with the messages of its key behind it. `next` says whether it is
    /// tried again.
    pub(crate) fn refused(&mut self, id: ItemId, failure: Failure, next: Next, now: Duration) {
        self.put_aside(id, 1, failure, next, now);
    }

    /// The same as [`refused`](Self::refused), but without spending an attempt, because the message
    /// may not be at fault.
    pub(crate) fn put_off(&mut self, id: ItemId, failure: Failure, next: Next, now: Duration) {
        self.put_aside(id, 0, failure, next, now);
    }

    fn put_aside(&mut self, id: ItemId, spent: u32, failure: Failure, next: Next, now: Duration) {
        let Some(&Item { ref delivery, attempts, unknowns, .. }) = self.item(id) else { return };
        // A message from the log has one unknown outcome per probe of the outage; together they do
        // not count.
        let unknowns = if Self::is_from_log(id) { 0 } else { unknowns };
        let (seq, attempts, failure) = (delivery.seq, attempts + spent, Some(failure));
        self.set_aside(id, Repark { seq, attempts, unknowns, failure, next }, now);
    }

    fn set_aside(&mut self, id: ItemId, report: Repark, now: Duration) {
        let key = self.item(id).and_then(Item::key).map(str::to_owned);
        // The key may go on behind a dead letter, but not before the dead letter is settled: a
        // relay that takes over would try it again, and it could arrive after later messages of the
        // key.
        let blocks = match report.next {
            Next::Dead => !planted::has(Planted::GoesOnUnwritten),
            Next::Retry(_) | Next::DeadAndBlock => !planted::has(Planted::ContinueAfterFail),
        };
        if id >= PARKED_FIRST {
            self.forget_parked(id);
            // This report replaces all earlier reports about the message.
            self.suspects.remove(&report.seq);
            self.pending.repark.retain(|earlier| earlier.seq != report.seq);
            self.pending.repark.push(report);
        } else {
            self.park(id, report, now);
        }
        if let (Some(key), true) = (key, blocks) {
            self.block(key, now);
        }
    }

    fn block(&mut self, key: String, now: Duration) {
        let Self { lanes, log, log_first, parked, .. } = self;
        let is_of_key = |id: ItemId| {
            let item = match id.checked_sub(PARKED_FIRST) {
                Some(_) => parked.get(&id),
                None => usize::try_from(id - *log_first).ok().and_then(|index| log.get(index)),
            };
            item.and_then(Item::key) == Some(&key)
        };
        let behind = match lanes.of(Some(&key)) {
            Some(lane) => lanes.remove(lane, is_of_key),
            None => Vec::new(),
        };
        self.blocked.insert(key);
        for id in behind {
            self.hold_back(id, now);
        }
    }

    /// Holds back an item of a blocked key that has left its lane, and all queued items of the key.
    pub(crate) fn hold_back_with_followers(&mut self, id: ItemId, now: Duration) {
        let key = self.item(id).and_then(Item::key).map(str::to_owned);
        self.hold_back(id, now);
        if let Some(key) = key {
            self.block(key, now);
        }
    }

    /// Parks an item that must not be sent because an earlier message of its key was parked.
    fn hold_back(&mut self, id: ItemId, now: Duration) {
        if id < PARKED_FIRST {
            self.park_behind(id, now);
        } else {
            self.forget_parked(id);
        }
    }

    /// Whether the item is from the log, not parked.
    pub(crate) fn is_from_log(id: ItemId) -> bool {
        id < PARKED_FIRST
    }

    /// Whether later messages of the key must be held back.
    pub(crate) fn is_blocked(&self, key: &str) -> bool {
        self.blocked.contains(key)
    }

    fn park_behind(&mut self, id: ItemId, now: Duration) {
        let seq = self.log_item(id).delivery.seq;
        let next = Next::Retry(Duration::ZERO);
        self.park(id, Repark { seq, attempts: 0, unknowns: 0, failure: None, next }, now);
    }

    fn park(&mut self, id: ItemId, report: Repark, now: Duration) {
        let item = self.log_item(id);
        item.is_done = true;
        let park = Park { message: item.delivery.message.clone(), age: item.age(now), report };
        self.floors.parked(park.report.seq);
        if planted::has(Planted::ParksAhead) {
            self.bytes += park.message.weight();
            self.pending.park.push(park);
            return;
        }
        self.parked_ahead.insert(id, park);
    }

    /// Records an outcome that is unreachable or unknown. A message from the log stays in the
    /// window and is sent again (returns `true`: put it back to its lane); a parked message is due
    /// again later.
    pub(crate) fn not_sent(&mut self, id: ItemId, unknown: Option<&Failure>) -> bool {
        if id < PARKED_FIRST {
            let item = self.log_item(id);
            if unknown.is_some() {
                item.unknowns += 1;
                Arc::make_mut(&mut item.delivery).attempt += 1;
            }
            return true;
        }
        let Some(item) = self.forget_parked(id) else {
            return false;
        };
        self.forget_behind(&item);
        if let Some(failure) = unknown {
            let report = Repark {
                seq: item.delivery.seq,
                attempts: item.attempts,
                unknowns: item.unknowns + 1,
                failure: Some(failure.clone()),
                next: Next::Dead,
            };
            self.suspects.insert(item.delivery.seq, report);
        }
        false
    }

    /// Parks suspects after an outage: messages that stayed unanswered twice, while the broker now
    /// answers other messages. They spend no attempt, so that one message that breaks the
    /// connection cannot stop the others. However long the outage was, it counts as one unknown
    /// outcome. `next` says what happens after this many unknown outcomes.
    pub(crate) fn set_suspects_aside(&mut self, now: Duration, mut next: impl FnMut(u32) -> Next) {
        for mut report in std::mem::take(&mut self.suspects).into_values() {
            report.next = next(report.unknowns);
            self.pending.repark.push(report);
        }
        let suspects: Vec<ItemId> = (self.log_first..)
            .zip(&self.log)
            .filter(|(_, item)| !item.is_done && item.unknowns >= 2)
            .map(|(id, _)| id)
            .collect();
        for id in suspects {
            if let Some(lane) = self.log_item(id).lane {
                self.lanes.remove(lane, |other| other == id);
            } else {
                self.lanes.remove_single(id);
            }
            self.suspect(id, next(1), now);
        }
    }

    /// Parks an unanswered message from the log that has left its lane.
    pub(crate) fn suspect(&mut self, id: ItemId, next: Next, now: Duration) {
        let item = self.log_item(id);
        let detail = format!("no answer to {} sends", item.unknowns);
        let failure = Some(Failure::new("unknown", detail));
        let seq = item.delivery.seq;
        self.set_aside(id, Repark { seq, attempts: 0, unknowns: 1, failure, next }, now);
    }

    /// Drops the parked messages behind a message that is due again later; they wait for it in the
    /// store.
    fn forget_behind(&mut self, item: &Item) {
        let Some(lane) = item.lane else { return };
        let Self { lanes, parked, .. } = self;
        let is_behind = |id| parked.get(&id).is_some_and(|other| other.key() == item.key());
        for id in lanes.remove(lane, is_behind) {
            self.forget_parked(id);
        }
    }

    fn forget_parked(&mut self, id: ItemId) -> Option<Item> {
        let item = self.parked.remove(&id)?;
        self.bytes -= item.delivery.message.weight();
        Some(item)
    }

    /// Removes the finished prefix and moves the position over it.
    pub(crate) fn advance(&mut self) {
        let mut last = None;
        while self.log.front().is_some_and(|item| item.is_done) {
            let item = self.log.pop_front().expect("just looked at");
            match self.parked_ahead.remove(&self.log_first) {
                Some(park) => self.pending.park.push(park),
                None => self.bytes -= item.delivery.message.weight(),
            }
            self.log_first += 1;
            self.has_moved = true;
            self.unconfirmed += 1;
            last = Some(item.delivery.seq);
        }
        while self.marks.front().is_some_and(|mark| mark.until <= self.log_first) {
            let mark = self.marks.pop_front().expect("just looked at");
            self.has_skipped |= mark.end > self.settled.seq();
            self.settled = self.settled.passed(mark.end, &mark.snapshot);
            last = last.filter(|&seq| seq > mark.end);
        }
        if let (Some(seq), Some(mark)) = (last, self.marks.front()) {
            self.settled = self.settled.passed(seq, &mark.snapshot);
        }
    }

    /// Raises the floor of messages that enter from now on, as far as it can be proved.
    pub(crate) fn raise_floor(&mut self, is_past: impl Fn(&Horizon, &Snapshot) -> bool) {
        self.advance();
        self.floors.raise(&self.settled, is_past);
    }

    /// The settlement to write now, if any, and the number of messages it confirms. Progress over
    /// messages of other routes alone is written only if `even_if_skipped`.
    pub(crate) fn settlement(&mut self, even_if_skipped: bool) -> Option<(Settlement, usize)> {
        self.advance();
        let is_due = self.has_moved || self.has_pending() || even_if_skipped && self.has_skipped;
        if !is_due {
            return None;
        }
        self.has_moved = false;
        self.has_skipped = false;
        let mut settlement = std::mem::take(&mut self.pending);
        settlement.position = Some(self.settled.clone());
        if planted::has(Planted::SettlesWhatIsRead) {
            let marks = self.marks.iter();
            settlement.position = Some(marks.fold(self.settled.clone(), |position, mark| {
                position.passed(mark.end, &mark.snapshot)
            }));
        }
        Some((settlement, self.unconfirmed))
    }

    /// Records that a settlement which confirms this many messages has been written.
    pub(crate) fn confirmed(&mut self, settlement: &Settlement, messages: usize) {
        self.unconfirmed -= messages;
        self.bytes -= settlement.park.iter().map(|park| park.message.weight()).sum::<usize>();
    }

    fn has_pending(&self) -> bool {
        let Settlement { park, repark, delivered, .. } = &self.pending;
        !(park.is_empty() && repark.is_empty() && delivered.is_empty())
    }

    /// Whether no finished message waits for a settlement.
    pub(crate) fn settlement_is_empty(&mut self) -> bool {
        self.advance();
        !self.has_moved && !self.has_pending()
    }

    /// Whether all messages of the window have been finished and handed to a settlement.
    pub(crate) fn is_settled(&self) -> bool {
        self.log.is_empty() && self.parked.is_empty() && !self.has_moved && !self.has_pending()
    }

    /// Unblocks keys that have no parked message any more, unless the next settlement parks one
    /// again.
    pub(crate) fn unblock(&mut self, keys: Vec<String>) {
        if planted::has(Planted::UnblocksTooEarly) {
            self.blocked.clear();
        }
        for key in keys {
            let parks = |park: &Park| park.message.key.as_deref() == Some(&key);
            let in_memory = self.parked.values().any(|item| item.key() == Some(&key));
            let mut unwritten = self.pending.park.iter().chain(self.parked_ahead.values());
            if !in_memory && !unwritten.any(parks) {
                self.blocked.remove(&key);
            }
        }
    }

    /// Moves the position exactly to the barrier: all messages that the barrier covers have been
    /// read and finished.
    pub(crate) fn reach(&mut self, barrier: &Position) {
        self.settled = barrier.clone();
        self.has_moved = true;
    }

    /// Messages in memory, and messages that a crash would repeat.
    pub(crate) fn len(&self) -> usize {
        self.log.len() + self.parked.len() + self.unconfirmed
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are messages to park that the store does not know yet.
    pub(crate) fn has_parked_ahead(&self) -> bool {
        !self.parked_ahead.is_empty()
    }

    /// Whether parked messages are being tried again, or the result is not written yet.
    pub(crate) fn has_parked(&self) -> bool {
        !self.parked.is_empty() || self.has_pending()
    }
}

#[cfg(test)]
mod tests;
