//! Telling copies from news by position: exact, without a clock, bounded by what is in flight.
//!
//! The rule, for a consumer that handles a lane's messages one after another in the order in which
//! the broker acknowledged them. Of each shard it keeps a floor `F`, the seqs `M` at or below it that
//! have not been handled, and the seqs `H` above it that have. A message with seq `s` has been handled
//! if `s` is in some `H`, or if some shard that its key belongs to has `s <= F` and `s` not in `M`.
//!
//! It is exact because a message's [`Floor`] speaks only of what the broker had acknowledged before
//! the message was sent: in an ordered lane all of that comes, and so is handled, before it.
//!
//! A source that was taken back to a backup hands seqs out a second time, and nobody may have told
//! its log to take another name. So a watermark also keeps when the latest message that was handled
//! had been written. A copy was handled, so it was written no later than that; what stands where
//! something was handled and was written later is no copy. Clocks are compared with themselves only,
//! and only to find this out.

use std::{
    collections::BTreeSet,
    fmt,
    fmt::Write as _,
    str::FromStr,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{Floor, Seq, Shard, bucket};

/// Where a message stands, as its sender says.
#[derive(Clone, Copy, Debug)]
pub struct Place<'m> {
    /// Its place in the log.
    pub seq: Seq,
    /// Its key: which shards it can come from.
    pub key: Option<&'m str>,
    /// What its sender knew of those before it.
    pub floor: &'m Floor,
    /// When it was written, by the clock of its source; the same on every copy.
    pub written_at: Option<SystemTime>,
}

impl Place<'_> {
    fn written_micros(&self) -> Option<u64> {
        let since = self.written_at?.duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(since.as_micros()).ok()
    }
}

/// Whether a message has been handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It has.
    Copy,
    /// Another has, of the same seq: it was written later than everything that has been handled.
    Reused,
    /// It has not.
    New {
        /// Something later had been handled: it was parked and sent again, or the lane is not in
        /// order.
        is_reordered: bool,
        /// Its own floor says that it had been acknowledged before it was sent, and so did no
        /// earlier one: the sender contradicts itself.
        is_impossible: bool,
    },
}

/// What has been handled of one log in one lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// One for every shard of every layout that messages came from; few.
    marks: Vec<Mark>,
    /// When the latest message that was handled had been written, in microseconds of Unix time.
    latest: Option<u64>,
}

/// What has been handled of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    shard: Shard,
    /// The highest floor seen. Never goes back.
    floor: Seq,
    /// At or below the floor, and not handled.
    missing: BTreeSet<Seq>,
    /// Above the floor, and handled.
    handled: BTreeSet<Seq>,
}

impl Mark {
    fn new(shard: Shard) -> Self {
        Self { shard, floor: 0, missing: BTreeSet::new(), handled: BTreeSet::new() }
    }

    /// Whether everything the floor speaks of includes this seq, given that it is of this shard.
    fn covers(&self, seq: Seq) -> bool {
        seq <= self.floor && !self.missing.contains(&seq)
    }

    /// Takes a higher floor in. What another shard's mark knows of a missing seq is asked when the
    /// message comes.
    fn raise(&mut self, floor: &Floor) {
        let is_open = |seq: &Seq| !self.covers(*seq) && !self.handled.contains(seq);
        self.missing = floor.missing.iter().copied().filter(is_open).collect();
        self.handled = self.handled.split_off(&floor.seq.saturating_add(1));
        self.floor = floor.seq;
    }

    fn highest(&self) -> Seq {
        self.handled.last().copied().unwrap_or(0).max(self.floor)
    }
}

impl Watermark {
    /// Whether the message has been handled.
    #[must_use]
    pub fn judge(&self, place: &Place<'_>) -> Judgement {
        if self.has_handled(place) {
            return if self.is_later(place) { Judgement::Reused } else { Judgement::Copy };
        }
        let own = self.marks.iter().find(|mark| mark.shard == place.floor.shard);
        Judgement::New {
            is_reordered: own.is_some_and(|mark| place.seq < mark.highest()),
            is_impossible: is_impossible(place),
        }
    }

    /// Notes that the message has been handled, and raises its shard's floor to what it says, unless
    /// it contradicts itself.
    pub fn record(&mut self, place: &Place<'_>) {
        self.latest = self.latest.max(place.written_micros());
        let Place { seq, floor, .. } = *place;
        let owners = self.owners(place);
        for &index in &owners {
            self.marks[index].missing.remove(&seq);
        }
        let is_covered = owners.iter().any(|&index| self.marks[index].covers(seq));
        let own = self.own(floor.shard);
        if !is_covered {
            own.handled.insert(seq);
        }
        if floor.seq > own.floor && !is_impossible(place) {
            own.raise(floor);
        }
    }

    /// Seqs it keeps one by one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.marks.iter().map(|mark| mark.missing.len() + mark.handled.len()).sum()
    }

    /// Whether it keeps none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn has_handled(&self, place: &Place<'_>) -> bool {
        self.marks.iter().any(|mark| mark.handled.contains(&place.seq))
            || self.owners(place).iter().any(|&index| self.marks[index].covers(place.seq))
    }

    /// Whether it was written later than everything that has been handled. A copy without a key may
    /// come in another lane than the first, so of those this says nothing.
    fn is_later(&self, place: &Place<'_>) -> bool {
        let times = self.latest.zip(place.written_micros());
        place.key.is_some() && times.is_some_and(|(latest, written)| written > latest)
    }

    /// The shards that can have sent the message: the one it came from, and those of other layouts
    /// that its key belongs to. A key that does not even belong to its sender was changed on the way
    /// and says nothing.
    fn owners(&self, place: &Place<'_>) -> Vec<usize> {
        let sender = place.floor.shard;
        let is_resharded = self.marks.iter().any(|mark| mark.shard.of != sender.of);
        let bucket = is_resharded.then(|| bucket(place.key, place.seq));
        let bucket = bucket.filter(|bucket| sender.serves(*bucket));
        let is_owner = |mark: &Mark| {
            mark.shard == sender
                || (mark.shard.of != sender.of && bucket.is_some_and(|it| mark.shard.serves(it)))
        };
        let marks = self.marks.iter().enumerate();
        marks.filter(|(_, mark)| is_owner(mark)).map(|(index, _)| index).collect()
    }

    fn own(&mut self, shard: Shard) -> &mut Mark {
        let index = self.marks.iter().position(|mark| mark.shard == shard);
        let index = index.unwrap_or_else(|| {
            self.marks.push(Mark::new(shard));
            self.marks.len() - 1
        });
        &mut self.marks[index]
    }
}

/// Whether the floor says that the message had been acknowledged before it was sent.
fn is_impossible(place: &Place<'_>) -> bool {
    place.seq <= place.floor.seq && !place.floor.missing.contains(&place.seq)
}

/// `0of4/123/17,12/1x9,30;1of4/…;@1763312345000000`: per shard its floor, what is missing and what is
/// handled; last, when the latest was written. Seqs are distances: of the missing from 0 and from each
/// other, of the handled from the floor and from each other; `x9` is nine more in a row.
impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mark) in self.marks.iter().enumerate() {
            let Mark { shard, floor, missing, handled } = mark;
            let between = if index == 0 { "" } else { ";" };
            let (missing, handled) = (distances(0, missing), distances(*floor, handled));
            write!(f, "{between}{}of{}/{floor}/{missing}/{handled}", shard.index, shard.of)?;
        }
        self.latest.map_or(Ok(()), |latest| write!(f, ";@{latest}"))
    }
}

fn distances(from: Seq, seqs: &BTreeSet<Seq>) -> String {
    let mut text = String::new();
    let mut last = from;
    let mut run = 0;
    let mut ahead = seqs.iter().copied().peekable();
    while let Some(seq) = ahead.next() {
        if run == 0 {
            if !text.is_empty() {
                text.push(',');
            }
            // Writing into a String cannot fail.
            let _ = write!(text, "{}", seq - last);
        }
        last = seq;
        if ahead.peek().is_some_and(|next| next - seq == 1) {
            run += 1;
        } else if run > 0 {
            let _ = write!(text, "x{run}");
            run = 0;
        }
    }
    text
}

impl FromStr for Watermark {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut watermark = Self::default();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let bad = || format!("`{part}` is no part of a watermark");
            match part.strip_prefix('@') {
                Some(latest) => watermark.latest = Some(latest.parse().map_err(|_| bad())?),
                None => watermark.marks.push(mark(part).ok_or_else(bad)?),
            }
        }
        Ok(watermark)
    }
}

fn mark(text: &str) -> Option<Mark> {
    let mut parts = text.split('/');
    let (index, of) = parts.next()?.split_once("of")?;
    let shard = Shard { index: index.parse().ok()?, of: of.parse().ok()? };
    let floor = parts.next()?.parse().ok()?;
    let missing = seqs(0, parts.next()?)?;
    let handled = seqs(floor, parts.next()?)?;
    let is_whole = parts.next().is_none() && shard.index < shard.of;
    is_whole.then_some(Mark { shard, floor, missing, handled })
}

fn seqs(from: Seq, text: &str) -> Option<BTreeSet<Seq>> {
    let mut seqs = BTreeSet::new();
    let mut last = from;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (distance, run) = part.split_once('x').unwrap_or((part, "0"));
        let first = last.checked_add(distance.parse().ok()?)?;
        last = first.checked_add(run.parse().ok()?)?;
        seqs.extend(first..=last);
    }
    Some(seqs)
}

#[cfg(test)]
mod tests;
