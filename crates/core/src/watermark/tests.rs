//! The rule on known cases, and attacked by a model of relays that crash, park, reshard and send
//! again in another order, and of brokers that redeliver.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fastrand::Rng;
use uuid::Uuid;

use super::*;

const NEW: Judgement = Judgement::New { is_reordered: false, is_impossible: false };

fn floor(shard: Shard, seq: Seq, missing: &[Seq]) -> Floor {
    Floor { log: Uuid::nil(), shard, seq, missing: missing.to_vec() }
}

fn whole(seq: Seq, missing: &[Seq]) -> Floor {
    floor(Shard::WHOLE, seq, missing)
}

/// Some time, not always in the order of seqs.
fn written(seq: Seq) -> Option<SystemTime> {
    let seq = seq.unsigned_abs();
    Some(UNIX_EPOCH + Duration::from_micros(1_000 + seq + seq * 7 % 20))
}

fn judge(mark: &Watermark, seq: Seq, floor: &Floor) -> Judgement {
    mark.judge(&Place { seq, key: Some("k"), floor, written_at: None })
}

fn take(mark: &mut Watermark, seq: Seq, floor: &Floor) {
    assert_ne!(judge(mark, seq, floor), Judgement::Copy, "{seq} is new: {mark}");
    mark.record(&Place { seq, key: Some("k"), floor, written_at: None });
    assert_eq!(judge(mark, seq, floor), Judgement::Copy, "{seq} is a copy now: {mark}");
}

#[test]
fn what_is_at_or_below_the_floor_or_was_handled_is_a_copy() {
    let mut mark = Watermark::default();
    take(&mut mark, 1, &whole(0, &[]));
    take(&mut mark, 2, &whole(0, &[]));
    assert_eq!(mark.to_string(), "0of1/0//1x1");
    take(&mut mark, 5, &whole(2, &[]));
    assert_eq!(mark.to_string(), "0of1/2//3");
    for copy in [1, 2, 5] {
        assert_eq!(judge(&mark, copy, &whole(0, &[])), Judgement::Copy);
    }
    assert_eq!(judge(&mark, 6, &whole(2, &[])), NEW);
}

#[test]
fn r8_06_a_redriven_dead_letter_takes_effect_once() {
    let mut mark = Watermark::default();
    take(&mut mark, 1, &whole(0, &[]));
    take(&mut mark, 3, &whole(2, &[2]));
    assert_eq!(mark.to_string(), "0of1/2/2/1");
    take(&mut mark, 2, &whole(3, &[2]));
    assert_eq!(judge(&mark, 2, &whole(9, &[2])), Judgement::Copy, "sent twice by the redrive");
    take(&mut mark, 10, &whole(9, &[2]));
    assert_eq!(judge(&mark, 2, &whole(9, &[2])), Judgement::Copy);
}

#[test]
fn a_lower_floor_changes_nothing() {
    let mut mark = Watermark::default();
    take(&mut mark, 9, &whole(8, &[4]));
    let before = mark.clone();
    take(&mut mark, 4, &whole(3, &[2]));
    assert_eq!(judge(&mark, 2, &whole(3, &[2])), Judgement::Copy);
    assert_ne!(mark, before);
}

#[test]
fn contradictions_and_reorderings_are_told_and_still_handled() {
    let mut mark = Watermark::default();
    let impossible = judge(&mark, 4, &whole(7, &[]));
    assert_eq!(impossible, Judgement::New { is_reordered: false, is_impossible: true });
    take(&mut mark, 10, &whole(2, &[]));
    let reordered = judge(&mark, 9, &whole(2, &[]));
    assert_eq!(reordered, Judgement::New { is_reordered: true, is_impossible: false });
}

#[test]
fn a_floor_that_contradicts_itself_covers_nothing() {
    let mut mark = Watermark::default();
    take(&mut mark, 5, &whole(0, &[]));
    take(&mut mark, 9, &whole(9, &[]));
    for unseen in 6..9 {
        take(&mut mark, unseen, &whole(0, &[]));
    }
    take(&mut mark, Seq::MAX, &whole(Seq::MAX, &[]));
    take(&mut mark, Seq::MAX - 1, &whole(Seq::MAX, &[Seq::MAX - 1]));
    assert_eq!(mark.to_string().parse(), Ok(mark));
}

#[test]
fn shards_do_not_speak_for_each_other() {
    let mut mark = Watermark::default();
    let [zero, one] = [0, 1].map(|index| Shard { index, of: 2 });
    let keys = keys_of(2);
    let place = |seq, floor| Place { seq, key: Some(&keys[0]), floor, written_at: None };
    mark.record(&place(100, &floor(zero, 99, &[])));
    let theirs = floor(one, 0, &[]);
    let other = Place { seq: 7, key: Some(&keys[1]), floor: &theirs, written_at: None };
    assert_eq!(mark.judge(&other), NEW);
}

#[test]
fn a_message_that_comes_again_from_another_layout_is_a_copy() {
    let mut mark = Watermark::default();
    // 5 was parked, sent by the whole route with its answer lost, and handled.
    take(&mut mark, 6, &whole(5, &[5]));
    take(&mut mark, 5, &whole(6, &[5]));
    let key = &keys_of(2)[0];
    for seq in [0, 6] {
        let again = floor(Shard { index: 0, of: 2 }, seq, &[5][..usize::from(seq > 0)]);
        let place = Place { seq: 5, key: Some(key), floor: &again, written_at: None };
        assert_eq!(mark.judge(&place), Judgement::Copy);
    }
}

#[test]
fn the_text_form_round_trips_and_nonsense_is_refused() {
    let mut random = Rng::with_seed(1);
    for _ in 0..200 {
        let mark = Watermark {
            marks: (0..random.u16(0..4)).map(|index| some_mark(index, &mut random)).collect(),
            latest: random.bool().then(|| random.u64(..)),
        };
        assert_eq!(mark.to_string().parse(), Ok(mark));
    }
    for bad in [
        "x",
        "@",
        "@-1",
        "0of1",
        "0of1/1",
        "0of1/1/",
        "1of1/1//",
        "0of1/1/x/",
        "0of1/1///",
        "0of1/a//",
        "0of1/1///x",
        "0of1/1///5-4",
        "0of1/1///4-5/",
    ] {
        assert!(bad.parse::<Watermark>().is_err(), "{bad}");
    }
}

fn some_mark(index: u16, random: &mut Rng) -> Mark {
    let floor = random.i64(0..50);
    let mut some = |from: Seq, to: Seq| (from..=to).filter(|_| random.u8(0..3) > 0).collect();
    let (missing, handled) = (some(1, floor), some(floor + 1, 80));
    let paged = random.bool().then_some(PageRange { first: 3, last: 3 + i64::from(index) });
    Mark { missing, handled, floor, paged, ..Mark::new(Shard { index, of: 4 }) }
}

/// A key for each of so many shards.
fn keys_of(of: u16) -> Vec<String> {
    let key = |index| {
        let mut names = (0..).map(|n: u32| format!("key-{n}"));
        let is_served = |key: &String| Shard { index, of }.serves(bucket(Some(key), 1));
        names.find(is_served).expect("some key is served")
    };
    (0..of).map(key).collect()
}

/// A watermark and its pages as a store keeps them.
#[derive(Clone, Default)]
struct Kept {
    text: String,
    pages: BTreeMap<(u16, u16, i64), String>,
}

impl Kept {
    /// Reads the watermark, and the pages that judging and recording the place takes.
    fn open(&self, place: &Place<'_>) -> Watermark {
        let mut mark: Watermark = self.text.parse().expect("what was written can be read");
        for wanted in mark.wanted(&[place]) {
            let pages = self.read(&wanted);
            mark.read(&wanted, &pages).expect("what was written can be read");
        }
        mark
    }

    fn read(&self, PagesWanted { shard, numbers }: &PagesWanted) -> Vec<LanePage> {
        let page = |&number: &i64| {
            let seqs = self.pages.get(&(shard.of, shard.index, number))?.clone();
            Some(LanePage { number, seqs })
        };
        numbers.iter().filter_map(page).collect()
    }

    fn record(&mut self, mut mark: Watermark, place: &Place<'_>) {
        mark.record(place);
        for overflow in mark.overflow() {
            let shard = overflow.there.shard;
            let there = self.read(&overflow.there);
            for page in overflow.into_pages(&there).expect("what was written can be read") {
                self.pages.insert((shard.of, shard.index, page.number), page.seqs);
            }
        }
        // One at a time: a floor that rises far leaves some for later.
        for (shard, range) in mark.passed() {
            let key = |number| (shard.of, shard.index, number);
            let mut there = self.pages.range(key(range.first)..=key(range.last));
            let first = there.next().map(|(key, _)| *key);
            let next = there.next().map_or(range.last + 1, |(key, _)| key.2);
            first.and_then(|first| self.pages.remove(&first));
            mark.removed(shard, next);
        }
        self.text = mark.to_string();
    }
}

/// A message on its way, with the floor it was given when it was sent.
#[derive(Clone)]
struct Sent {
    seq: Seq,
    floor: Floor,
}

/// What happened to a message, as its relay knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Open,
    Acked,
    Parked,
}

/// An outbox with late commits, relays of one or several shards, one lane, and a consumer.
struct World {
    random: Rng,
    keys: Vec<String>,
    shards: u16,
    /// Every seq handed out; `None` while its transaction is open.
    log: BTreeMap<Seq, Option<usize>>,
    /// What the present relays know.
    known: BTreeMap<Seq, Known>,
    /// What they have written down: all that is left after a crash.
    settled: BTreeMap<Seq, Known>,
    /// Sent and not yet at the broker; may arrive in any order, or never.
    flying: Vec<Sent>,
    lane: Vec<Sent>,
    /// Where the consumer reads next.
    cursor: usize,
    kept: Kept,
    /// The same without pages.
    naive: Watermark,
    effects: BTreeMap<Seq, u32>,
}

impl World {
    /// From one seq to the next: several to a page, and many pages.
    const STEP: Seq = 1_500;

    fn new(seed: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            keys: (0..6).map(|n| format!("key-{n}")).collect(),
            shards: 1,
            log: BTreeMap::new(),
            known: BTreeMap::new(),
            settled: BTreeMap::new(),
            flying: Vec::new(),
            lane: Vec::new(),
            cursor: 0,
            kept: Kept::default(),
            naive: Watermark::default(),
            effects: BTreeMap::new(),
        }
    }

    fn key(&self, seq: Seq) -> Option<&str> {
        // One in seven has no key.
        let key = self.log[&seq]?;
        self.keys.get(key).map(String::as_str)
    }

    fn shard_of(&self, seq: Seq) -> Shard {
        let bucket = bucket(self.key(seq), seq);
        let shards = (0..self.shards).map(|index| Shard { index, of: self.shards });
        shards.into_iter().find(|shard| shard.serves(bucket)).expect("one serves it")
    }

    /// The highest floor that is true by what the relay of the shard knows.
    fn floor(&self, shard: Shard) -> Floor {
        let mut floor = whole(0, &[]);
        floor.shard = shard;
        for (&seq, key) in &self.log {
            if key.is_none() {
                break;
            }
            if self.shard_of(seq) == shard {
                match self.known.get(&seq).copied().unwrap_or(Known::Open) {
                    Known::Open => break,
                    Known::Acked => {}
                    Known::Parked if floor.missing.len() == 3 => break,
                    Known::Parked => floor.missing.push(seq),
                }
            }
            floor.seq = seq;
        }
        floor
    }

    fn step(&mut self) {
        match self.random.u8(0..100) {
            0..12 => {
                let seq = self.log.last_key_value().map_or(1, |(last, _)| last + Self::STEP);
                self.log.insert(seq, None);
            }
            12..26 => self.commit(),
            26..50 => self.send(),
            50..68 => self.arrive(),
            68..72 => self.settled = self.known.clone(),
            // A relay dies: what it knew and had not written down is gone.
            72..74 => self.known = self.settled.clone(),
            74..76 => self.reshard(),
            76..95 => self.handle(),
            // The broker gives out again from somewhere.
            _ => self.cursor = self.random.usize(0..=self.cursor),
        }
    }

    fn commit(&mut self) {
        let open: Vec<Seq> =
            self.log.iter().filter(|(_, key)| key.is_none()).map(|(seq, _)| *seq).collect();
        if let Some(seq) = self.random.choice(open) {
            let key = self.random.usize(0..=self.keys.len());
            self.log.insert(seq, Some(key));
        }
    }

    fn unsent(&self) -> Vec<Seq> {
        let committed = self.log.iter().filter(|(_, key)| key.is_some()).map(|(seq, _)| *seq);
        committed.filter(|seq| self.known.get(seq) != Some(&Known::Acked)).take(8).collect()
    }

    fn send(&mut self) {
        if let Some(seq) = self.random.choice(self.unsent()) {
            let floor = self.floor(self.shard_of(seq));
            self.flying.push(Sent { seq, floor });
        }
    }

    /// Something gets to the broker, and its relay may or may not hear of it; or it is lost, and its
    /// relay may put the message aside.
    fn arrive(&mut self) {
        if self.flying.is_empty() {
            return;
        }
        let sent = self.flying.swap_remove(self.random.usize(0..self.flying.len()));
        match self.random.u8(0..10) {
            0..6 => {
                self.known.insert(sent.seq, Known::Acked);
                self.lane.push(sent);
            }
            6..8 => self.lane.push(sent),
            8 if self.known.get(&sent.seq) != Some(&Known::Acked) => {
                self.known.insert(sent.seq, Known::Parked);
            }
            _ => {}
        }
    }

    fn reshard(&mut self) {
        // Every shard has passed everything up to a common position: acknowledged or parked.
        let is_done =
            self.log.iter().all(|(seq, key)| key.is_some() && self.known.contains_key(seq));
        if is_done {
            self.settled = self.known.clone();
            self.shards = self.random.u16(1..4);
        }
    }

    fn handle(&mut self) {
        let Some(sent) = self.lane.get(self.cursor).cloned() else {
            return;
        };
        self.cursor += 1;
        let key = self.key(sent.seq).map(str::to_owned);
        let (seq, floor) = (sent.seq, &sent.floor);
        let place = Place { seq, key: key.as_deref(), floor, written_at: written(seq) };
        let mark = self.kept.open(&place);
        assert_eq!(mark.judge(&place), self.naive.judge(&place), "{seq} {mark} {}", self.naive);
        match mark.judge(&place) {
            Judgement::Copy => {}
            Judgement::Reused => panic!("{seq} is none that was written later: {mark}"),
            Judgement::New { is_impossible, .. } => {
                assert!(!is_impossible, "{seq} {mark}");
                *self.effects.entry(sent.seq).or_default() += 1;
                self.naive.record(&place);
                self.kept.record(mark, &place);
            }
        }
    }

    /// Everything is committed, sent and handled; then all of it comes again.
    fn finish(&mut self) {
        while self.log.values().any(Option::is_none) {
            self.commit();
        }
        while let Some(&seq) = self.unsent().first() {
            let floor = self.floor(self.shard_of(seq));
            self.lane.push(Sent { seq, floor });
            self.known.insert(seq, Known::Acked);
        }
        self.lane.append(&mut self.flying);
        for _ in 0..2 {
            while self.cursor < self.lane.len() {
                self.handle();
            }
            self.cursor = 0;
        }
        let seqs: BTreeSet<Seq> = self.log.keys().copied().collect();
        assert_eq!(self.effects.keys().copied().collect::<BTreeSet<_>>(), seqs, "none is lost");
        assert!(self.effects.values().all(|&effects| effects == 1), "none takes effect twice");
        self.restore();
    }

    /// The source is taken back, and writes other messages where these had been.
    fn restore(&self) {
        let last = self.log.last_key_value().map_or(0, |(last, _)| *last);
        let written_at = written(last + 20);
        for sent in &self.lane {
            let key = self.key(sent.seq);
            let place = Place { seq: sent.seq, key, floor: &sent.floor, written_at };
            let expected = if key.is_some() { Judgement::Reused } else { Judgement::Copy };
            let mark = self.kept.open(&place);
            assert_eq!(mark.judge(&place), expected, "{} {mark}", sent.seq);
        }
    }
}

#[test]
fn r8_06_every_message_takes_effect_once_whatever_relays_and_brokers_do() {
    let (mut copies, mut pages) = (0, 0);
    for seed in 0..400 {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        pages += usize::from(!world.kept.pages.is_empty());
        world.finish();
        copies += world.lane.len() - world.log.len();
    }
    assert!(copies > 1_000, "the model sends copies: {copies}");
    assert!(pages > 40, "the model needs pages: {pages}");
}

#[test]
fn r8_06_a_million_messages_leave_a_handful_of_seqs() {
    let mut mark = Watermark::default();
    let mut kept = 0;
    for seq in 1..=1_000_000 {
        let floor = whole((seq - 1) / 64 * 64, &[]);
        mark.record(&Place { seq, key: None, floor: &floor, written_at: None });
        kept = kept.max(mark.len());
    }
    assert!(kept <= 64, "{kept}");
    assert!(mark.to_string().len() < 64, "{mark}");
    for old in [1, 500_000, 999_999, 1_000_000] {
        assert_eq!(judge(&mark, old, &whole(0, &[])), Judgement::Copy, "a year later");
    }
}

/// More are parked than a floor can name, or a transaction stays open for long.
#[test]
fn above_a_floor_that_stands_still_a_watermark_stays_small() {
    let mut kept = Kept::default();
    let place = |seq, floor| Place { seq, key: Some("k"), floor, written_at: None };
    let stuck = whole(5, &[]);
    let mut text = 0;
    // Every third: the others are another lane's.
    for seq in (10..12_000).step_by(3) {
        let place = place(seq, &stuck);
        let mark = kept.open(&place);
        assert_eq!(mark.judge(&place), NEW);
        kept.record(mark, &place);
        text = text.max(kept.text.len());
    }
    assert!(text < 64, "{text}");
    assert_eq!(kept.pages.len(), 12_000 / 4096 + 1);
    for seq in (10..12_000).step_by(7) {
        let place = place(seq, &stuck);
        let is_copy = kept.open(&place).judge(&place) == Judgement::Copy;
        assert_eq!(is_copy, seq % 3 == 1, "{seq}");
    }
    // One that was parked is delivered, among those in pages.
    let late = place(6_000, &stuck);
    kept.record(kept.open(&late), &late);
    assert_eq!(kept.open(&late).judge(&late), Judgement::Copy);
    // The floor rises at last, with one that came and one that did not among the missing.
    let risen = whole(11_990, &[6_000, 6_002]);
    for seq in 12_000..12_020 {
        let place = place(seq, &risen);
        kept.record(kept.open(&place), &place);
    }
    assert!(kept.pages.len() <= 1, "pages that the floor passed are gone: {}", kept.text);
    for (seq, judged) in [(10, Judgement::Copy), (6_000, Judgement::Copy)] {
        assert_eq!(kept.open(&place(seq, &risen)).judge(&place(seq, &risen)), judged, "{seq}");
    }
    let missing = place(6_002, &risen);
    assert!(matches!(kept.open(&missing).judge(&missing), Judgement::New { .. }));
}
