//! Snapshots in the text form of `pg_snapshot`, `xmin:xmax:xip,xip`: listing every open transaction in
//! them, and comparing positions by what they cover.

use std::fmt::Write as _;

use posthaste_core::{Horizon, Position, Seq};

/// So many transaction ids from a snapshot's `xmax` on are listed in it. Open transactions are rarely
/// more; the ids of one that sets a savepoint for every row may be.
const LISTED_MAX: u64 = 1_000;

/// What a fetch saw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A snapshot that lists every transaction that was open, see [`listed`].
    Listed(String),
    /// The snapshot as the server gave it: too many ids from its `xmax` on had been handed out.
    Plain(String),
}

/// Lists in a snapshot all transactions that were open when it was taken (ADR 12). `text` is the
/// snapshot, a plus sign, and how many ids had been handed out from its `xmax` on; `None` where it is
/// not.
///
/// PostgreSQL lists open transactions below `xmax` only, and `xmax` is one past the highest id that had
/// *ended*. The listed form has the ids up to the next one to be handed out in its list, that next one
/// included, and an `xmax` behind it. It sees the same transactions. A row that it does not see and
/// that lies below one that it sees is of a transaction in the list, so late rows are found without
/// looking at what was written later. The next id being in the list is what a listed snapshot is
/// known by: the server itself never gives one that lists `xmax - 1`.
pub(crate) fn listed(text: &str) -> Option<Seen> {
    let (plain, ahead) = text.split_once('+')?;
    let snapshot = Snapshot::parse(plain)?;
    // Below zero, the transaction has an id of its own, and the number is not what it should be.
    let Some(ahead) = ahead.parse().ok().filter(|ahead: &u64| *ahead <= LISTED_MAX) else {
        return Some(Seen::Plain(plain.to_owned()));
    };
    let (xmin, _) = plain.split_once(':')?;
    let next = snapshot.xmax + ahead;
    let mut text = format!("{xmin}:{}:", next + 1);
    for xid in snapshot.open.iter().copied().chain(snapshot.xmax..=next) {
        // Writing into a String cannot fail.
        let _ = write!(text, "{xid},");
    }
    text.pop();
    Some(Seen::Listed(text))
}

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

    /// As the server gave it, whether it was listed since or not: both see the same.
    fn plain(mut self) -> Self {
        while self.open.last().is_some_and(|last| last + 1 == self.xmax) {
            self.open.pop();
            self.xmax -= 1;
        }
        self
    }

    /// Whether the transaction had ended.
    fn sees(&self, xid: u64) -> bool {
        xid < self.xmax && !self.open.contains(&xid)
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
    let parse = |text: &str| Snapshot::parse(text).map(Snapshot::plain);
    let Some(outer) = parse(&limit.snapshot) else {
        return false;
    };
    position.seq() <= limit.seq
        && position
            .steps()
            .iter()
            .all(|step| parse(&step.snapshot).is_some_and(|inner| inner.is_within(&outer)))
}

/// Whether the position covers the row of that seq, which the transaction `xid` wrote; one that cannot be read
/// counts as not covered.
pub(crate) fn covers(position: &Position, seq: Seq, xid: &str) -> bool {
    let step = position.steps().iter().find(|step| seq <= step.seq);
    let snapshot = step.and_then(|step| Snapshot::parse(&step.snapshot));
    match (snapshot, xid.parse()) {
        (Some(snapshot), Ok(xid)) => snapshot.sees(xid),
        _ => false,
    }
}

/// The first transaction that no snapshot of the position, as the server gave it, speaks of.
pub(crate) fn xmax(position: &Position) -> u64 {
    let steps = position.steps().iter().filter_map(|step| Snapshot::parse(&step.snapshot));
    steps.map(|step| step.plain().xmax).max().unwrap_or(0)
}

/// Whether `now`, a snapshot as the server gave it, is no earlier than every snapshot of the position;
/// what cannot be read counts as earlier.
pub(crate) fn is_reached(position: &Position, now: &str) -> bool {
    let plain = now.split('+').next().unwrap_or(now);
    let Some(now) = Snapshot::parse(plain) else {
        return false;
    };
    let mut steps = position.steps().iter().map(|step| Snapshot::parse(&step.snapshot));
    steps.all(|step| step.is_some_and(|step| step.plain().xmax <= now.xmax))
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
    fn a_position_is_reached_once_its_transactions_were_handed_out() {
        for (text, expected) in [
            ("", true),
            ("40@10:20:12", true),
            ("40@10:21:", false),
            ("20@3:25:;40@9:12:9", false),
            ("40@nonsense", false),
        ] {
            let position: Position = text.parse().unwrap();
            assert_eq!(is_reached(&position, "15:20:15"), expected, "{text}");
        }
    }

    #[test]
    fn every_open_transaction_is_listed_and_none_is_seen_that_was_not() {
        for (text, expected) in [
            ("20:20:+0", Some("20:21:20")),
            ("20:20:+3", Some("20:24:20,21,22,23")),
            ("17:20:17,18+1", Some("17:22:17,18,20,21")),
            ("17:20:17+1000000", None),
            ("17:20:17+-3", None),
        ] {
            let plain = text.split('+').next().unwrap().to_owned();
            let expected = expected.map_or(Seen::Plain(plain), |text| Seen::Listed(text.into()));
            assert_eq!(listed(text), Some(expected), "{text}");
        }
        assert_eq!(listed("20:20:"), None);
        assert_eq!(listed("nonsense+1"), None);
    }

    #[test]
    fn a_listed_snapshot_is_within_the_plain_one_and_the_other_way_round() {
        let [plain, listed]: [Position; 2] =
            ["40@17:20:17,18", "40@17:22:17,18,20,21"].map(|text| text.parse().unwrap());
        for (one, other) in [(&plain, &listed), (&listed, &plain), (&listed, &listed)] {
            assert!(is_within(one, other), "{one} {other}");
        }
        let later: Position = "40@17:21:17,18".parse().unwrap();
        assert!(!is_within(&later, &listed));
    }

    #[test]
    fn a_position_covers_the_rows_of_transactions_that_had_ended() {
        let position: Position = "20@10:20:12;40@5:9:5,7".parse().unwrap();
        for (seq, xid, expected) in [
            (20, "11", true),
            (20, "12", false),
            (20, "20", false),
            (21, "8", true),
            (21, "7", false),
            (21, "11", false),
            (41, "3", false),
            (1, "nonsense", false),
        ] {
            assert_eq!(covers(&position, seq, xid), expected, "{seq} of {xid}");
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
