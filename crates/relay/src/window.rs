//! What a shard holds in memory: messages read and not settled, which of them may be sent, how far
//! the contiguous prefix of finished ones reaches, and what the next settlement will write.
//! Holds no I/O.

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

/// Ids from here on are parked messages being tried again; below, messages from the log.
const PARKED_FIRST: ItemId = 1 << 63;

/// One message in memory.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) delivery: Arc<Delivery>,
    /// The lane it waits in; `None` where it waits for nobody.
    pub(crate) lane: Option<LaneId>,
    /// Age when it was read, by the database's clock.
    age: Duration,
    /// When it was read, by ours.
    read_at: Duration,
    /// Acknowledged, or handed to the settlement as parked.
    is_done: bool,
    /// Definite refusals before now.
    pub(crate) attempts: u32,
    /// Unknown outcomes before now.
    pub(crate) unknowns: u32,
}

impl Item {
    /// Its age now.
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
    /// Everything up to this seq was looked at ...
    end: Seq,
    /// ... under this snapshot.
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
    /// Ends of the batches `log` came in.
    marks: VecDeque<Mark>,
    /// Covers everything that left `log`.
    settled: Position,
    /// Whether `settled` moved past a message since the last settlement.
    has_moved: bool,
    /// Whether `settled` moved at all, perhaps only over other routes' messages.
    has_skipped: bool,
    /// Messages that left `log` and whose settlement is not confirmed: what a crash would repeat.
    unconfirmed: usize,
    /// Weight of everything in `log` and `parked`, and of what is put aside until that is written.
    bytes: usize,
    /// Keys with a parked message: later messages of theirs are parked behind it.
    blocked: HashSet<String>,
    /// What the next settlement writes besides the position.
    pending: Settlement,
    /// Put aside, but behind something of `log` that is not finished. Each is written together with the
    /// position that passes it: were it written before, whoever takes over would find it both parked
    /// and in the log, and send what a person may have discarded meanwhile.
    parked_ahead: BTreeMap<ItemId, Park>,
    /// Parked messages whose outcome was unknown; charged once another message passes.
    suspects: BTreeMap<Seq, Repark>,
    /// What messages that enter are told about those before them.
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

    /// Takes in what a fetch found. Messages of blocked keys go straight to the next settlement.
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

    /// Takes in parked messages to try again, in order per key.
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

    /// The item, unless it is gone.
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

    /// The broker has it.
    pub(crate) fn acknowledged(&mut self, id: ItemId) {
        if id < PARKED_FIRST {
            self.log_item(id).is_done = true;
        } else if let Some(item) = self.forget_parked(id) {
            self.suspects.remove(&item.delivery.seq);
            self.pending.delivered.push(item.delivery.seq);
        }
    }

    /// The broker refused it: put it aside as `next` says, and with it what waits behind it.
    pub(crate) fn refused(&mut self, id: ItemId, failure: Failure, next: Next, now: Duration) {
        self.put_aside(id, 1, failure, next, now);
    }

    /// As [`refused`](Self::refused), but no attempt is spent: it may not be the message's fault.
    pub(crate) fn put_off(&mut self, id: ItemId, failure: Failure, next: Next, now: Duration) {
        self.put_aside(id, 0, failure, next, now);
    }

    fn put_aside(&mut self, id: ItemId, spent: u32, failure: Failure, next: Next, now: Duration) {
        let Some(&Item { ref delivery, attempts, unknowns, .. }) = self.item(id) else { return };
        // Of the log it has as many as the outage had probes, which all count as one, or none.
        let unknowns = if Self::is_from_log(id) { 0 } else { unknowns };
        let (seq, attempts, failure) = (delivery.seq, attempts + spent, Some(failure));
        self.set_aside(id, Repark { seq, attempts, unknowns, failure, next }, now);
    }

    fn set_aside(&mut self, id: ItemId, report: Repark, now: Duration) {
        let key = self.item(id).and_then(Item::key).map(str::to_owned);
        // Behind a dead letter the key may go on, but not before that is written: whoever takes over
        // would try it again, and it could arrive after what was behind it.
        let blocks = match report.next {
            Next::Dead => !planted::has(Planted::GoesOnUnwritten),
            Next::Retry(_) | Next::DeadAndBlock => !planted::has(Planted::ContinueAfterFail),
        };
        if id >= PARKED_FIRST {
            self.forget_parked(id);
            // This is the latest about it: nothing learned before may be written instead or later.
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

    /// An item of a blocked key that is in no lane any more, and all of its key that is.
    pub(crate) fn hold_back_with_followers(&mut self, id: ItemId, now: Duration) {
        let key = self.item(id).and_then(Item::key).map(str::to_owned);
        self.hold_back(id, now);
        if let Some(key) = key {
            self.block(key, now);
        }
    }

    /// An item that must not be sent because one before it of its key was put aside.
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

    /// The broker cannot be used, or did not say what became of it. A message from the log stays to
    /// be sent again (true: put it back); a parked one is due again later.
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

    /// The broker is back: whatever it did not answer twice, while now it answers others, is put
    /// aside without spending an attempt, so that one message that breaks the connection cannot stop
    /// the rest. However long the outage was, this is one unknown outcome. `next` says what happens
    /// after so many of them.
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

    /// Puts a message from the log aside that is in no lane any more and was left unanswered.
    pub(crate) fn suspect(&mut self, id: ItemId, next: Next, now: Duration) {
        let item = self.log_item(id);
        let detail = format!("no answer to {} sends", item.unknowns);
        let failure = Some(Failure::new("unknown", detail));
        let seq = item.delivery.seq;
        self.set_aside(id, Repark { seq, attempts: 0, unknowns: 1, failure, next }, now);
    }

    /// Parked messages behind one that is due again later wait for it there.
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

    /// Lets go of the finished prefix and moves the position over it.
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

    /// Raises what messages that enter from now on are told, as far as can be proved.
    pub(crate) fn raise_floor(&mut self, is_past: impl Fn(&Horizon, &Snapshot) -> bool) {
        self.advance();
        self.floors.raise(&self.settled, is_past);
    }

    /// What to write now, if anything, and how many messages it confirms. Progress over nothing but
    /// other routes' messages is written only when `even_if_skipped`.
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

    /// A settlement that confirms so many messages has been written.
    pub(crate) fn confirmed(&mut self, settlement: &Settlement, messages: usize) {
        self.unconfirmed -= messages;
        self.bytes -= settlement.park.iter().map(|park| park.message.weight()).sum::<usize>();
    }

    fn has_pending(&self) -> bool {
        let Settlement { park, repark, delivered, .. } = &self.pending;
        !(park.is_empty() && repark.is_empty() && delivered.is_empty())
    }

    /// Whether nothing finished waits for a settlement.
    pub(crate) fn settlement_is_empty(&mut self) -> bool {
        self.advance();
        !self.has_moved && !self.has_pending()
    }

    /// Whether everything taken in has been finished and handed to a settlement.
    pub(crate) fn is_settled(&self) -> bool {
        self.log.is_empty() && self.parked.is_empty() && !self.has_moved && !self.has_pending()
    }

    /// Keys that nothing parked holds back any more, unless the next settlement parks one again.
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

    /// Ends at the barrier exactly: everything it covers has been read and finished.
    pub(crate) fn reach(&mut self, barrier: &Position) {
        self.settled = barrier.clone();
        self.has_moved = true;
    }

    /// Messages held, and those that a crash would repeat.
    pub(crate) fn len(&self) -> usize {
        self.log.len() + self.parked.len() + self.unconfirmed
    }

    /// Weight held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether something is put aside that the store does not know of.
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
