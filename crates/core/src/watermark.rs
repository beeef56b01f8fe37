//! Tells duplicates from new messages by position: exact, without a clock, and bounded by the
//! messages in flight.
//!
//! The rule holds for a consumer that handles a lane's messages one after another, in the order in
//! which the broker acknowledged them. For each shard it keeps a floor `F`, the seqs `M` at or
//! below the floor that have not been handled, and the seqs `H` above the floor that have been
//! handled. A message with seq `s` has been handled if `s` is in some `H`, or if some shard that
//! its key belongs to has `s <= F` and `s` not in `M`.
//!
//! The rule is exact because a message's [`Floor`] covers only messages that the broker had
//! acknowledged before the message was sent: in an ordered lane all of them come, and so are
//! handled, before it.
//!
//! While a floor stands still, `H` grows with every message. The oldest part of `H` then goes to
//! pages ([`LanePage`]), which stores keep beside the watermark, so that the watermark stays small.
//!
//! A source that was restored from a backup hands out seqs a second time, perhaps without another
//! name for its log. So a watermark also keeps the time at which the latest handled message was
//! written. A copy of a handled message was written no later than that. So a message at a handled
//! seq that was written later is not a copy. Only times of the same source's clock are compared,
//! and only for this check.

mod mark;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    time::{SystemTime, UNIX_EPOCH},
};

use self::mark::{Mark, distances};
use crate::{Floor, LanePage, PageRange, Seq, Shard, bucket};

/// The position of a message, as its sender reports it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'m> {
    /// The seq of the message.
    pub seq: Seq,
    /// The key of the message, which determines the shards it can come from.
    pub key: Option<&'m str>,
    /// The floor that the message carries.
    pub floor: &'m Floor,
    /// When the message was written, by the clock of its source; the same on every copy.
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
    /// The message has been handled.
    Copy,
    /// Another message of the same seq has been handled: this one was written later than all
    /// handled messages.
    Reused,
    /// The message has not been handled.
    New {
        /// Whether a later message had been handled: this one was parked and sent again, or the
        /// lane is not in order.
        is_reordered: bool,
        /// Whether the sender contradicts itself: the message's own floor says that it had been
        /// acknowledged before it was sent, but no earlier floor did.
        is_impossible: bool,
    },
}

/// The handled messages of one log in one lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// One mark for every shard of every layout that messages came from; there are few.
    marks: Vec<Mark>,
    /// When the latest handled message was written, in microseconds of Unix time.
    latest: Option<u64>,
}

/// Pages of a shard to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesWanted {
    /// The shard.
    pub shard: Shard,
    /// Their numbers, ascending.
    pub numbers: Vec<i64>,
}

/// Handled seqs that a watermark moves to pages.
#[derive(Clone, Debug)]
pub struct Overflow {
    /// The pages of these seqs that may exist already: read them before writing.
    pub there: PagesWanted,
    pages: BTreeMap<i64, BTreeSet<Seq>>,
}

impl Overflow {
    /// The pages to write, merged with the existing ones.
    ///
    /// # Errors
    /// When an existing page cannot be parsed.
    pub fn into_pages(mut self, there: &[LanePage]) -> Result<Vec<LanePage>, String> {
        for page in there {
            self.pages.entry(page.number).or_default().append(&mut mark::page_seqs(page)?);
        }
        Ok(self.pages.into_iter().map(|(number, seqs)| mark::page_text(number, seqs)).collect())
    }
}

impl Watermark {
    /// Pages that must be [`read`](Self::read) before these places are judged and recorded: the
    /// pages of their seqs, and of the missing seqs of their floors, if pages may hold them.
    #[must_use]
    pub fn wanted(&self, places: &[&Place<'_>]) -> Vec<PagesWanted> {
        let of_mark = |mark: &Mark| {
            let mut numbers = BTreeSet::new();
            for place in places {
                numbers.extend(mark.page_for(place.seq));
                if place.floor.shard == mark.shard {
                    let missing = place.floor.missing.iter();
                    numbers.extend(missing.filter_map(|seq| mark.page_for(*seq)));
                }
            }
            PagesWanted { shard: mark.shard, numbers: numbers.into_iter().collect() }
        };
        self.marks.iter().map(of_mark).filter(|wanted| !wanted.numbers.is_empty()).collect()
    }

    /// Adds the existing ones of the wanted pages.
    ///
    /// # Errors
    /// When a page cannot be parsed.
    pub fn read(&mut self, wanted: &PagesWanted, pages: &[LanePage]) -> Result<(), String> {
        let own = self.own(wanted.shard);
        own.pages.extend(wanted.numbers.iter().map(|number| (*number, BTreeSet::new())));
        for page in pages {
            own.pages.insert(page.number, mark::page_seqs(page)?);
        }
        Ok(())
    }

    /// Removes handled seqs from shards that have too many. The caller must write them to pages in
    /// the same transaction as the watermark.
    pub fn overflow(&mut self) -> Vec<Overflow> {
        let mut all = Vec::new();
        for mark in &mut self.marks {
            let pages = mark.overflow();
            let (Some((&first, _)), Some((&last, _))) =
                (pages.first_key_value(), pages.last_key_value())
            else {
                continue;
            };
            let is_there = |number: &i64| mark.paged.is_some_and(|paged| paged.contains(*number));
            let numbers = pages.keys().copied().filter(is_there).collect();
            all.push(Overflow { there: PagesWanted { shard: mark.shard, numbers }, pages });
            let paged = mark.paged.unwrap_or(PageRange { first, last });
            mark.paged =
                Some(PageRange { first: paged.first.min(first), last: paged.last.max(last) });
        }
        all
    }

    /// Pages that a floor has passed as a whole, which can be removed.
    #[must_use]
    pub fn passed(&self) -> Vec<(Shard, PageRange)> {
        let of_mark = |mark: &Mark| Some((mark.shard, mark.passed()?));
        self.marks.iter().filter_map(of_mark).collect()
    }

    /// Records that pages of the shard were removed; `next` is the first that may be left.
    pub fn removed(&mut self, shard: Shard, next: i64) {
        let own = self.own(shard);
        own.paged = own.paged.and_then(|PageRange { first, last }| {
            let first = first.max(next);
            (first <= last).then_some(PageRange { first, last })
        });
    }

    /// Whether the message has been handled. Its pages must have been [`read`](Self::read).
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

    /// Records that the message has been handled, and raises its shard's floor to the message's
    /// floor, unless the message contradicts itself.
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

    /// The number of seqs in the watermark itself, without those in pages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.marks.iter().map(|mark| mark.missing.len() + mark.handled.len()).sum()
    }

    /// Whether the watermark itself has no seqs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn has_handled(&self, place: &Place<'_>) -> bool {
        self.marks.iter().any(|mark| mark.has_handled(place.seq))
            || self.owners(place).iter().any(|&index| self.marks[index].covers(place.seq))
    }

    /// Whether the message was written later than all handled messages. `false` for messages
    /// without a key, because their copies may come in another lane than the first.
    fn is_later(&self, place: &Place<'_>) -> bool {
        let times = self.latest.zip(place.written_micros());
        place.key.is_some() && times.is_some_and(|(latest, written)| written > latest)
    }

    /// The shards that can have sent the message: the shard it came from, and the shards of other
    /// layouts that its key belongs to. A key that does not belong to the sending shard was changed
    /// on the way and is ignored.
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

/// `0of4/123/17,12/1x9,30;1of4/…;@1763312345000000`: per shard its floor, the missing seqs and the
/// handled seqs, and after another `/` the pages that hold more handled seqs; last, the time at
/// which the latest message was written. Seqs are distances: missing seqs from 0 and from each
/// other, handled seqs from the floor and from each other; `x9` is nine more in a row.
impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mark) in self.marks.iter().enumerate() {
            let Mark { shard, floor, missing, handled, paged, .. } = mark;
            let between = if index == 0 { "" } else { ";" };
            let (missing, handled) = (distances(0, missing), distances(*floor, handled));
            write!(f, "{between}{}of{}/{floor}/{missing}/{handled}", shard.index, shard.of)?;
            if let Some(paged) = paged {
                write!(f, "/{paged}")?;
            }
        }
        self.latest.map_or(Ok(()), |latest| write!(f, ";@{latest}"))
    }
}

impl FromStr for Watermark {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut watermark = Self::default();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let bad = || format!("`{part}` is no part of a watermark");
            match part.strip_prefix('@') {
                Some(latest) => watermark.latest = Some(latest.parse().map_err(|_| bad())?),
                None => watermark.marks.push(mark::mark(part).ok_or_else(bad)?),
            }
        }
        Ok(watermark)
    }
}

#[cfg(test)]
mod tests;
