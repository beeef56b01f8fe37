//! Pages: rows for handled seqs that are too many for the watermark's own row.
//!
//! Pages are needed only while a floor stands still, for example when more messages are parked than
//! a floor can name. A page holds the handled seqs of a stretch of the log; reading or writing a
//! page costs the same however many pages there are.

use std::{fmt, str::FromStr};

use crate::Seq;

/// The handled seqs of one shard from `number * SEQS` to the next page, in the form that a store
/// keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanePage {
    /// The number of the page.
    pub number: i64,
    /// The seqs as text: distances from the page's first seq and from each other.
    pub seqs: String,
}

impl LanePage {
    /// Seqs in a page, handled or not. Part of the stored format: never changed.
    pub const SEQS: Seq = 4096;
}

/// The page that a seq belongs to.
#[must_use]
pub fn page_of(seq: Seq) -> i64 {
    seq.div_euclid(LanePage::SEQS)
}

/// Pages from a first to a last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// The first.
    pub first: i64,
    /// The last; not below the first.
    pub last: i64,
}

impl PageRange {
    /// Whether the page is in the range.
    #[must_use]
    pub fn contains(&self, number: i64) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

/// `12-40`.
impl fmt::Display for PageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for PageRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || format!("`{text}` are no pages");
        let (first, last) = text.split_once('-').ok_or_else(bad)?;
        let range = Self {
            first: first.parse().map_err(|_| bad())?,
            last: last.parse().map_err(|_| bad())?,
        };
        if range.first <= range.last { Ok(range) } else { Err(bad()) }
    }
}
