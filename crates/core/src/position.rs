//! How far a shard has read, exact under concurrent commits.
//!
//! A store hands out `seq` before commit, so the statement "all rows up to seq 40 have been read"
//! can never be made: a transaction that drew 38 may still be open. The statement "all rows up to
//! seq 40 **that snapshot S sees** have been read" can be made. A position is a short list of such
//! statements, one per stretch of the log:
//!
//! ```text
//! steps:   [(seq 40, S2), (seq 90, S1)]
//!          rows 1..=40  that S2 sees have been passed,
//!          rows 41..=90 that S1 sees have been passed, nothing above 90 has.
//! ```
//!
//! A fetch returns, in `seq` order, committed rows that the position does not cover. Once the rows
//! up to seq `m` are handled under the fetch's own snapshot, the position becomes
//! [`passed`](Position::passed)`(m, snapshot)`. Normally that is one step. A second step exists
//! only while a reader pages through more late rows than fit in one batch.

use std::{fmt, str::FromStr, sync::Arc};

/// The number of a message in the log; handed out before commit, so it is not the order of commits.
pub type Seq = i64;

/// The store's description of the transactions that had committed; opaque outside the store. Stores
/// whose `seq` order is commit order (SQLite) leave it empty.
pub type Snapshot = Arc<str>;

/// The store's description of the moment of a settlement; opaque outside the store, and empty if
/// `Snapshot` is.
pub type Horizon = Arc<str>;

/// "Every row above the previous step's seq, up to `seq`, that `snapshot` sees has been passed."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Highest seq this statement covers.
    pub seq: Seq,
    /// The transactions that it covers there.
    pub snapshot: Snapshot,
}

/// How far a shard has read. See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Ascending in `seq`; empty at the very beginning of the log.
    steps: Vec<Step>,
}

impl Position {
    /// The position that covers rows up to `seq` as `snapshot` sees them.
    #[must_use]
    pub fn at(seq: Seq, snapshot: impl Into<Snapshot>) -> Self {
        Self { steps: vec![Step { seq, snapshot: snapshot.into() }] }
    }

    /// Highest seq covered; 0 at the beginning.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.steps.last().map_or(0, |step| step.seq)
    }

    /// The statements this position makes, ascending in seq.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The position after all rows up to `seq` that `snapshot` sees have been handled too.
    /// `snapshot` must be younger than every snapshot of this position, as the snapshot of a later
    /// fetch is.
    #[must_use]
    pub fn passed(&self, seq: Seq, snapshot: &Snapshot) -> Self {
        let mut steps = vec![Step { seq, snapshot: snapshot.clone() }];
        for step in self.steps.iter().filter(|step| step.seq > seq) {
            match steps.last_mut() {
                Some(last) if last.snapshot == step.snapshot => last.seq = step.seq,
                _ => steps.push(step.clone()),
            }
        }
        Self { steps }
    }
}

/// `40@S2;90@S1`, empty at the beginning: the form stores keep.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let separator = if index == 0 { "" } else { ";" };
            write!(f, "{separator}{}@{}", step.seq, step.snapshot)?;
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || format!("position `{text}` is not of the form seq@snapshot;...");
        let steps = text
            .split(';')
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (seq, snapshot) = part.split_once('@').ok_or_else(bad)?;
                Ok(Step { seq: seq.parse().map_err(|_| bad())?, snapshot: snapshot.into() })
            })
            .collect::<Result<Vec<_>, String>>()?;
        if steps.windows(2).any(|pair| pair[0].seq >= pair[1].seq) {
            return Err(bad());
        }
        Ok(Self { steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        text.into()
    }

    #[test]
    fn passing_everything_leaves_one_step() {
        let position = Position::at(90, "S1").passed(120, &snapshot("S2"));
        assert_eq!(position, Position::at(120, "S2"));
    }

    #[test]
    fn passing_a_page_of_late_rows_keeps_what_lies_above() {
        let position = Position::at(90, "S1").passed(40, &snapshot("S2"));
        assert_eq!(position.to_string(), "40@S2;90@S1");
        assert_eq!(position.seq(), 90);
        assert_eq!(position.passed(60, &snapshot("S3")).to_string(), "60@S3;90@S1");
        assert_eq!(position.passed(10, &snapshot("S3")).to_string(), "10@S3;40@S2;90@S1");
        assert_eq!(position.passed(90, &snapshot("S3")).to_string(), "90@S3");
    }

    #[test]
    fn equal_snapshots_merge() {
        let position = Position::at(90, "").passed(40, &snapshot(""));
        assert_eq!(position, Position::at(90, ""));
    }

    #[test]
    fn text_form_round_trips_and_refuses_nonsense() {
        for text in ["", "1@3:3:", "40@7:9:7,8;90@3:3:"] {
            assert_eq!(text.parse::<Position>().unwrap().to_string(), text);
        }
        for text in ["x", "1", "@", "a@b", "9@a;3@b"] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }
}
