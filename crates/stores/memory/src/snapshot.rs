//! Which transactions had committed at some moment, and what a position therefore covers.

use std::{collections::BTreeSet, fmt, str::FromStr};

use posthaste_core::{Horizon, Position, Seq, Snapshot, StoreError, StoreErrorKind};

use crate::log::Xid;

/// Every transaction below `end` that is not `open` had ended. As text: `end:open,open`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) end: Xid,
    pub(crate) open: BTreeSet<Xid>,
}

impl View {
    pub(crate) fn sees(&self, xid: Xid) -> bool {
        xid < self.end && !self.open.contains(&xid)
    }

    /// Every transaction below this one had ended.
    fn ended(&self) -> Xid {
        self.open.first().copied().unwrap_or(self.end)
    }

    /// Whether everything the other sees is seen here too.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let mut hidden_here = self.open.range(..other.end);
        self.end >= other.end && hidden_here.all(|xid| other.open.contains(xid))
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open: Vec<String> = self.open.iter().map(ToString::to_string).collect();
        write!(f, "{}:{}", self.end, open.join(","))
    }
}

impl FromStr for View {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (end, open) = text.split_once(':')?;
            let open = open.split(',').filter(|xid| !xid.is_empty());
            Some(Self {
                end: end.parse().ok()?,
                open: open.map(|xid| xid.parse().ok()).collect::<Option<_>>()?,
            })
        };
        parse().ok_or_else(|| {
            let message = format!("`{text}` is not a snapshot of this store");
            StoreError::new(StoreErrorKind::Refused, "fetch", message)
        })
    }
}

/// A position, understood.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    /// Ascending in seq, as the position's steps.
    pub(crate) steps: Vec<(Seq, View)>,
}

impl Coverage {
    pub(crate) fn of(position: &Position) -> Result<Self, StoreError> {
        let steps = position.steps().iter().map(|step| Ok((step.seq, step.snapshot.parse()?)));
        Ok(Self { steps: steps.collect::<Result<_, StoreError>>()? })
    }

    /// Highest seq it says anything about.
    pub(crate) fn seq(&self) -> Seq {
        self.steps.last().map_or(0, |(seq, _)| *seq)
    }

    pub(crate) fn covers(&self, seq: Seq, xid: Xid) -> bool {
        let step = self.steps.iter().find(|(upto, _)| seq <= *upto);
        step.is_some_and(|(_, view)| view.sees(xid))
    }

    /// Whether it says nothing that the other, a later moment, does not say too.
    pub(crate) fn is_within(&self, seq: Seq, snapshot: &View) -> bool {
        let mut steps = self.steps.iter();
        self.seq() <= seq && steps.all(|(_, view)| snapshot.includes(view))
    }
}

/// The first transaction that has not begun yet: those that may have drawn a seq are below it.
pub(crate) fn horizon(view: &View) -> Horizon {
    view.end.to_string().into()
}

/// Whether every transaction below the horizon had ended.
pub(crate) fn is_past(horizon: &Horizon, snapshot: &Snapshot) -> bool {
    match (horizon.parse::<Xid>(), snapshot.parse::<View>()) {
        (Ok(horizon), Ok(view)) => view.ended() >= horizon,
        _ => false,
    }
}

/// The snapshot as positions carry it.
pub(crate) fn name(view: &View) -> Snapshot {
    view.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_refuses_nonsense() {
        for text in ["1:", "7:3", "90:3,5,88"] {
            assert_eq!(text.parse::<View>().unwrap().to_string(), text);
        }
        for text in ["", "7", "x:", "7:x"] {
            assert!(text.parse::<View>().is_err(), "{text}");
        }
    }

    #[test]
    fn later_moments_include_earlier_ones() {
        let view = |text: &str| text.parse::<View>().unwrap();
        assert!(view("9:").includes(&view("7:3")));
        assert!(view("7:3").includes(&view("7:3")));
        assert!(view("9:8").includes(&view("7:3")));
        assert!(!view("7:3").includes(&view("7:")));
        assert!(!view("7:").includes(&view("9:3")));
    }

    #[test]
    fn a_horizon_is_past_once_everything_below_it_has_ended() {
        let is_past = |horizon: &str, view: &str| is_past(&horizon.into(), &view.into());
        assert!(is_past("7", "7:"));
        assert!(is_past("7", "9:8"));
        assert!(is_past("7", "9:7"));
        assert!(!is_past("7", "9:6"));
        assert!(!is_past("7", "6:"));
        assert!(!is_past("", "9:"), "nothing is known");
        assert!(!is_past("7", ""), "nothing is known");
    }

    #[test]
    fn coverage_is_per_stretch() {
        let position: Position = "40@9:;90@7:3".parse().unwrap();
        let coverage = Coverage::of(&position).unwrap();
        assert!(coverage.covers(40, 3), "below 41 the younger snapshot counts");
        assert!(!coverage.covers(41, 3), "above it the older one");
        assert!(coverage.covers(90, 5));
        assert!(!coverage.covers(91, 5), "nothing beyond the last step");
    }
}
