//! The handled messages of one shard: its floor, the seqs around it, and the pages of older seqs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::{Floor, LanePage, PageRange, Seq, Shard, page_of};

/// Most handled seqs that a mark keeps itself. More than a relay has in flight, so that pages are
/// written only above a floor that stands still. The model of the tests has few messages, and few
/// here.
const HANDLED_MAX: usize = if cfg!(test) { 6 } else { 512 };
/// How many of them are left when the others go to pages.
const HANDLED_KEPT: usize = HANDLED_MAX / 2;

/// The handled messages of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) shard: Shard,
    /// The highest floor seen. Never goes back.
    pub(super) floor: Seq,
    /// At or below the floor, and not handled.
    pub(super) missing: BTreeSet<Seq>,
    /// Above the floor, and handled; the highest of those, and any that came late.
    pub(super) handled: BTreeSet<Seq>,
    /// Pages that may hold handled seqs besides; `None` while there are none.
    pub(super) paged: Option<PageRange>,
    /// Pages that were read in this transaction; an empty one is not there. Never written from
    /// here.
    pub(super) pages: BTreeMap<i64, BTreeSet<Seq>>,
}

impl Mark {
    pub(super) fn new(shard: Shard) -> Self {
        Self {
            shard,
            floor: 0,
            missing: BTreeSet::new(),
            handled: BTreeSet::new(),
            paged: None,
            pages: BTreeMap::new(),
        }
    }

    /// Whether the floor covers this seq, given that it is of this shard.
    pub(super) fn covers(&self, seq: Seq) -> bool {
        seq <= self.floor && !self.missing.contains(&seq)
    }

    /// Whether the seq is above the floor and has been handled. Its page must have been read.
    pub(super) fn has_handled(&self, seq: Seq) -> bool {
        if self.handled.contains(&seq) {
            return true;
        }
        let Some(number) = self.page_for(seq) else { return false };
        let page = self.pages.get(&number);
        page.expect("pages are read before they are asked").contains(&seq)
    }

    /// The page that may hold the seq. None does at or below the floor: there the floor decides.
    pub(super) fn page_for(&self, seq: Seq) -> Option<i64> {
        let number = page_of(seq);
        (seq > self.floor && self.paged?.contains(number)).then_some(number)
    }

    /// Takes a higher floor in. What another shard's mark knows of a missing seq is asked when the
    /// message comes.
    pub(super) fn raise(&mut self, floor: &Floor) {
        let is_open = |seq: &Seq| !self.covers(*seq) && !self.has_handled(*seq);
        self.missing = floor.missing.iter().copied().filter(is_open).collect();
        self.handled = self.handled.split_off(&floor.seq.saturating_add(1));
        self.floor = floor.seq;
    }

    pub(super) fn highest(&self) -> Seq {
        self.handled.last().copied().unwrap_or(0).max(self.floor)
    }

    /// Takes the lowest handled seqs out where there are too many, by page; empty where there are
    /// not.
    pub(super) fn overflow(&mut self) -> BTreeMap<i64, BTreeSet<Seq>> {
        let mut pages: BTreeMap<i64, BTreeSet<Seq>> = BTreeMap::new();
        if self.handled.len() > HANDLED_MAX {
            while self.handled.len() > HANDLED_KEPT
                && let Some(seq) = self.handled.pop_first()
            {
                pages.entry(page_of(seq)).or_default().insert(seq);
            }
        }
        pages
    }

    /// The pages that the floor has passed as a whole.
    pub(super) fn passed(&self) -> Option<PageRange> {
        let paged = self.paged?;
        let last = paged.last.min(page_of(self.floor.saturating_add(1)) - 1);
        (paged.first <= last).then_some(PageRange { first: paged.first, last })
    }
}

/// The seqs of a page as text.
pub(super) fn page_text(number: i64, seqs: BTreeSet<Seq>) -> LanePage {
    LanePage { number, seqs: distances(number.saturating_mul(LanePage::SEQS), &seqs) }
}

/// The seqs of a page from its text.
pub(super) fn page_seqs(page: &LanePage) -> Result<BTreeSet<Seq>, String> {
    seqs(page.number.saturating_mul(LanePage::SEQS), &page.seqs)
        .ok_or_else(|| format!("`{}` are no seqs of page {}", page.seqs, page.number))
}

/// Seqs as distances from `from` and from each other; `x9` is nine more in a row.
pub(super) fn distances(from: Seq, seqs: &BTreeSet<Seq>) -> String {
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

/// The text form of one shard's part of a watermark, read.
pub(super) fn mark(text: &str) -> Option<Mark> {
    let mut parts = text.split('/');
    let (index, of) = parts.next()?.split_once("of")?;
    let shard = Shard { index: index.parse().ok()?, of: of.parse().ok()? };
    let floor = parts.next()?.parse().ok()?;
    let missing = seqs(0, parts.next()?)?;
    let handled = seqs(floor, parts.next()?)?;
    let paged = match parts.next() {
        None => None,
        Some(range) => Some(range.parse().ok()?),
    };
    let is_whole = parts.next().is_none() && shard.index < shard.of;
    let pages = BTreeMap::new();
    is_whole.then_some(Mark { shard, floor, missing, handled, paged, pages })
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
