//! Comparing positions by what they cover, from the text of `pg_snapshot`: `xmin:xmax:xip,xip`.

use posthaste_core::{Horizon, Position};

/// Which transactions had ended.
struct Snapshot {
    /// Transactions from here on had not.
    xmax: u64,
    /// Transactions below `xmax` that had not either.
    open: Vec<u64>,
}

impl Snapshot {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let _xmin = parts.next()?;
        let xmax = parts.next()?.parse().ok()?;
        let open = parts.next()?.split(',').filter(|xid| !xid.is_empty());
        Some(Self { xmax, open: open.map(str::parse).collect::<Result<_, _>>().ok()? })
    }

    /// Whether everything this one sees, `other` sees too.
    fn is_within(&self, other: &Self) -> bool {
        let hidden_here = |xid: &u64| *xid >= self.xmax || self.open.contains(xid);
        self.xmax <= other.xmax && other.open.iter().all(hidden_here)
    }
}

/// Whether everything `position` covers, `limit` covers too. `limit` has one step, as the head of
/// the log has; what cannot be read counts as not covered.
pub(crate) fn is_within(position: &Position, limit: &Position) -> bool {
    let [limit] = limit.steps() else {
        return false;
    };
    let Some(outer) = Snapshot::parse(&limit.snapshot) else {
        return false;
    };
    position.seq() <= limit.seq
        && position.steps().iter().all(|step| {
            Snapshot::parse(&step.snapshot).is_some_and(|inner| inner.is_within(&outer))
        })
}

/// Whether every transaction below the horizon, the id of a settlement's, had ended.
///
/// A transaction has its id before it draws a seq (ADR 1), so all that drew one before the
/// settlement began have lower ids than it. Another snapshot's `xmax` would not do in its place: that
/// is one past the highest id that had *ended*, and open transactions may lie above it.
pub(crate) fn is_past(horizon: &Horizon, snapshot: &str) -> bool {
    let xmin = snapshot.split(':').next().and_then(|xmin| xmin.parse::<u64>().ok());
    match (horizon.parse::<u64>(), xmin) {
        (Ok(horizon), Some(xmin)) => xmin >= horizon,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_horizon_is_past_once_everything_below_it_has_ended() {
        for (horizon, snapshot, expected) in [
            ("20", "20:20:", true),
            ("20", "21:25:21", true),
            ("20", "19:25:19", false),
            ("20", "19:19:", false),
            ("", "20:20:", false),
            ("20", "", false),
        ] {
            assert_eq!(is_past(&horizon.into(), snapshot), expected, "{horizon} {snapshot}");
        }
    }

    #[test]
    fn a_position_is_within_what_sees_no_less() {
        let limit: Position = "40@10:20:12,15".parse().unwrap();
        for (text, expected) in [
            ("", true),
            ("40@10:20:12,15", true),
            ("30@10:20:12,15", true),
            ("41@10:20:12,15", false),
            ("40@10:21:12,15", false),
            ("40@10:20:12", false),
            ("40@10:20:12,13,15", true),
            ("40@10:14:12", true),
            ("40@11:14:", false),
            ("40@9:12:9", true),
            ("20@10:20:15;40@9:12:9", false),
            ("40@nonsense", false),
        ] {
            let position: Position = text.parse().unwrap();
            assert_eq!(is_within(&position, &limit), expected, "{text}");
        }
    }
}
