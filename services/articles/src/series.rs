//! Likes counted by second, or by longer stretches where there are many: which stretches there are
//! ([`Window`]), how many likes each has ([`Series`]). Time is UTC throughout, and a second without
//! likes is a zero, not a gap.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::AuthorId;

/// Most stretches a picture shows: more are narrower than a pixel or two.
pub const POINTS_MAX: i64 = 300;
/// Most stretches of a table of numbers: a day by seconds.
pub const ROWS_MAX: i64 = 86_400;

/// Lengths of stretches that read well on an axis, in seconds.
const STEPS: [i64; 18] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/// The second of Unix time an instant is in: rounded down, before 1970 too.
#[must_use]
pub fn second(at: Timestamp) -> i64 {
    let second = at.as_nanosecond().div_euclid(1_000_000_000);
    i64::try_from(second).expect("instants are within a few thousand years")
}

/// Time cut into stretches of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    from: i64,
    until: i64,
    step: i64,
}

impl Window {
    /// All stretches from the second `first` to the second `last`, both included; as short as fits
    /// in `points_max`. Stretches longer than a second begin at round times.
    #[must_use]
    pub fn covering(first: i64, last: i64, points_max: i64) -> Self {
        let last = last.max(first);
        let fits = |step: &i64| last.div_euclid(*step) - first.div_euclid(*step) < points_max;
        let days = |step: &i64| STEPS[STEPS.len() - 1] * step;
        let step = STEPS.into_iter().find(fits).or_else(|| (2..).map(|n| days(&n)).find(fits));
        let step = step.expect("one of infinitely many");
        let (from, last) = (first.div_euclid(step) * step, last.div_euclid(step) * step);
        Self { from, until: last + step, step }
    }

    /// The first second.
    #[must_use]
    pub fn from(self) -> i64 {
        self.from
    }

    /// The first second behind it.
    #[must_use]
    pub fn until(self) -> i64 {
        self.until
    }

    /// The length of a stretch.
    #[must_use]
    pub fn step_seconds(self) -> i64 {
        self.step
    }

    /// How many stretches there are.
    #[must_use]
    pub fn len(self) -> usize {
        usize::try_from((self.until - self.from) / self.step).expect("until is not before from")
    }

    /// Never: a window has a stretch.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Which stretch a second is in.
    #[must_use]
    pub fn stretch(self, second: i64) -> Option<usize> {
        if second < self.from || second >= self.until {
            return None;
        }
        usize::try_from((second - self.from) / self.step).ok()
    }

    /// When each stretch begins.
    pub fn starts(self) -> impl Iterator<Item = i64> {
        (0..).map(move |n| self.from + n * self.step).take_while(move |start| *start < self.until)
    }
}

/// Likes of an author in one stretch of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Whose.
    pub author: AuthorId,
    /// Which stretch, from 0.
    pub stretch: usize,
    /// How many.
    pub likes: u64,
}

impl Count {
    /// Counts as a database returns them.
    pub(crate) fn of_rows(rows: impl Iterator<Item = (AuthorId, i64, i64)>) -> Vec<Self> {
        rows.filter_map(|(author, stretch, likes)| {
            let (stretch, likes) = (stretch.try_into().ok()?, likes.try_into().ok()?);
            Some(Self { author, stretch, likes })
        })
        .collect()
    }
}

/// Likes by stretch and author.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// When the first stretch begins.
    pub from: Timestamp,
    /// The length of a stretch.
    pub step_seconds: i64,
    /// How many stretches there are.
    pub stretches: usize,
    /// All likes.
    pub total: u64,
    /// Per author a number for every stretch.
    pub authors: BTreeMap<AuthorId, Vec<u64>>,
}

impl Series {
    /// Counts within a window; what is not counted is zero.
    #[must_use]
    pub fn new(window: Window, counts: impl IntoIterator<Item = Count>) -> Self {
        let mut authors: BTreeMap<AuthorId, Vec<u64>> = BTreeMap::new();
        for Count { author, stretch, likes } in counts {
            let points = authors.entry(author).or_insert_with(|| vec![0; window.len()]);
            points[stretch] += likes;
        }
        let total = authors.values().flatten().sum();
        // A stretch that begins at a round time may begin before the first instant there is.
        let from = Timestamp::from_second(window.from).unwrap_or(Timestamp::MIN);
        Self { from, step_seconds: window.step, stretches: window.len(), total, authors }
    }

    /// Without any stretch: nobody was liked yet.
    #[must_use]
    pub fn empty() -> Self {
        let (from, authors) = (Timestamp::UNIX_EPOCH, BTreeMap::new());
        Self { from, step_seconds: 1, stretches: 0, total: 0, authors }
    }

    /// How many stretches there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stretches
    }

    /// Whether there is no stretch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stretches == 0
    }

    /// The sum of all authors, for every stretch.
    #[must_use]
    pub fn totals(&self) -> Vec<u64> {
        (0..self.len()).map(|n| self.authors.values().map(|points| points[n]).sum()).collect()
    }

    /// When a stretch begins, in seconds of Unix time.
    #[must_use]
    pub fn start(&self, stretch: usize) -> i64 {
        let stretch = i64::try_from(stretch).expect("few stretches");
        self.from.as_second() + stretch * self.step_seconds
    }

    /// As a table for other programs: a line for every stretch, a column for every author.
    #[must_use]
    pub fn csv(&self) -> String {
        let heads: String = self.authors.keys().map(|author| format!(",author_{author}")).collect();
        let mut text = format!("second_utc,likes{heads}\n");
        for (stretch, total) in self.totals().into_iter().enumerate() {
            let start = Timestamp::from_second(self.start(stretch)).unwrap_or(Timestamp::MAX);
            let points: String =
                self.authors.values().map(|points| format!(",{}", points[stretch])).collect();
            text.push_str(&format!("{start},{total}{points}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author(id: i64) -> AuthorId {
        id.try_into().expect("an id")
    }

    #[test]
    fn r7_09_offsets_are_turned_into_true_utc_seconds() {
        for (text, expected) in [
            ("2026-03-01T16:27:05.25+02:00", "2026-03-01T14:27:05Z"),
            ("2026-03-01T09:27:05-05:00", "2026-03-01T14:27:05Z"),
            ("2026-03-01T14:27:05.999999999Z", "2026-03-01T14:27:05Z"),
            ("2026-03-01T00:15:00+05:45", "2026-02-28T18:30:00Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
        ] {
            let at: Timestamp = text.parse().unwrap();
            let expected: Timestamp = expected.parse().unwrap();
            assert_eq!(second(at), expected.as_second(), "{text}");
        }
    }

    #[test]
    fn r7_09_seconds_without_likes_are_zero() {
        let window = Window::covering(100, 105, POINTS_MAX);
        let count = |stretch, likes| Count { author: author(1), stretch, likes };
        let series = Series::new(window, [count(0, 2), count(5, 1)]);
        assert_eq!(series.totals(), [2, 0, 0, 0, 0, 1]);
        assert_eq!(series.total, 3);
    }

    #[test]
    fn r7_09_authors_are_counted_apart() {
        let window = Window::covering(59, 61, POINTS_MAX);
        let count = |id, stretch| Count { author: author(id), stretch, likes: 1 };
        let series = Series::new(window, [count(1, 0), count(2, 0), count(2, 2)]);
        assert_eq!(series.totals(), [2, 0, 1]);
        assert_eq!(
            series.csv(),
            "second_utc,likes,author_1,author_2\n\
             1970-01-01T00:00:59Z,2,1,1\n\
             1970-01-01T00:01:00Z,0,0,0\n\
             1970-01-01T00:01:01Z,1,0,1\n"
        );
    }

    #[test]
    fn long_times_have_longer_stretches_that_begin_at_round_times() {
        let window = Window::covering(61, 661, POINTS_MAX);
        assert_eq!((window.step_seconds(), window.from(), window.until()), (5, 60, 665));
        assert_eq!(window.stretch(59), None);
        assert_eq!(window.stretch(664), Some(window.len() - 1));
        assert_eq!(window.stretch(665), None);
        let centuries = Window::covering(-9_000_000_000, 9_000_000_000, POINTS_MAX);
        assert!(i64::try_from(centuries.len()).unwrap() <= POINTS_MAX);
        assert_eq!(centuries.step_seconds() % 86_400, 0);
    }

    #[test]
    fn all_of_time_can_be_asked_for() {
        let (first, last) = (second(Timestamp::MIN), second(Timestamp::MAX));
        let series = Series::new(Window::covering(first, last, POINTS_MAX), []);
        assert_eq!(series.csv().lines().count(), series.len() + 1);
        assert!(crate::plot::png(&series).is_ok());
    }

    #[test]
    fn a_window_has_a_stretch_for_every_start() {
        for (first, last) in [(0, 0), (7, 3), (-5, 5), (0, 299), (0, 300), (1, 90_000)] {
            let window = Window::covering(first, last, POINTS_MAX);
            assert_eq!(window.starts().count(), window.len(), "{first}..{last}");
            assert_eq!(window.stretch(first), Some(0));
        }
    }
}
