//! The floor that a message carries, by which a consumer can tell duplicates from new messages
//! without remembering every message for ever.

use std::{fmt, str::FromStr};

use uuid::Uuid;

use crate::{Seq, Shard};

/// Most missing seqs of a floor. A floor that would need more stays lower.
pub const FLOOR_MISSING_MAX: usize = 32;

/// "Before this message was sent, the broker had acknowledged every message of this shard's log
/// with a seq at or below `seq`, except those in `missing`; and no transaction that is still open
/// can own such a seq."
///
/// Once true, the statement stays true. A consumer that takes the shard's messages in the order of
/// their acknowledgements has therefore received every message that a floor covers before the
/// message that carries the floor. No later floor of the shard names a covered seq as missing,
/// whichever relay sends it, so the highest known floor is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The name of the log, one per route. It is drawn when the route is first registered, when the
    /// outbox is restored from a backup (seqs are then handed out a second time), and when the
    /// topics of the route change (messages that no floor covered may then come late).
    pub log: Uuid,
    /// The shard whose messages the floor covers. Messages of one seq may come from shards of
    /// several layouts.
    pub shard: Shard,
    /// The highest seq that the floor covers; 0 covers nothing.
    pub seq: Seq,
    /// Seqs at or below `seq` of parked messages that may still come; ascending, at most
    /// [`FLOOR_MISSING_MAX`]. A seq of a message that will never come does no harm.
    pub missing: Vec<Seq>,
}

/// `LOG/0of4/123/17,29`: the form that travels.
impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log, shard, seq, missing } = self;
        write!(f, "{}/{}of{}/{seq}", log.simple(), shard.index, shard.of)?;
        for (index, seq) in missing.iter().enumerate() {
            write!(f, "{}{seq}", if index == 0 { "/" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Floor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || format!("floor `{text}` is not of the form LOG/INDEXofSHARDS/SEQ/SEQ,SEQ");
        let mut parts = text.splitn(4, '/');
        let mut part = || parts.next().ok_or_else(bad);
        let log = Uuid::try_parse(part()?).map_err(|_| bad())?;
        let (index, of) = part()?.split_once("of").ok_or_else(bad)?;
        let shard =
            Shard { index: index.parse().map_err(|_| bad())?, of: of.parse().map_err(|_| bad())? };
        let seq = part()?.parse().map_err(|_| bad())?;
        let missing = match parts.next() {
            None => Vec::new(),
            Some(list) => list
                .split(',')
                .map(|seq| seq.parse().map_err(|_| bad()))
                .collect::<Result<Vec<Seq>, _>>()?,
        };
        let is_ascending = missing.windows(2).all(|pair| pair[0] < pair[1]);
        let is_below = missing.last().is_none_or(|&last| last <= seq);
        if shard.index >= shard.of
            || missing.len() > FLOOR_MISSING_MAX
            || !is_ascending
            || !is_below
        {
            return Err(bad());
        }
        Ok(Self { log, shard, seq, missing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_round_trips() {
        for missing in [vec![], vec![17], vec![17, 29, 123]] {
            let shard = Shard { index: 3, of: 8 };
            let floor = Floor { log: Uuid::from_u128(7), shard, seq: 123, missing };
            assert_eq!(floor.to_string().parse(), Ok(floor));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let log = "00000000000000000000000000000007";
        let long = (1..=33).map(|seq| seq.to_string()).collect::<Vec<_>>().join(",");
        let tails = ["", "/", "/0of1", "/0of0/5", "/1of1/5", "/0of1/x", "/0of1/5/", "/0of1/5/6"];
        let lists =
            ["/0of1/5/3,2".to_owned(), "/0of1/5/1,,2".to_owned(), format!("/0of1/50/{long}")];
        for tail in tails.map(str::to_owned).iter().chain(&lists) {
            assert!(format!("{log}{tail}").parse::<Floor>().is_err(), "{tail}");
        }
        assert!("x/0of1/5".parse::<Floor>().is_err());
    }
}
