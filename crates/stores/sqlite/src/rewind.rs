//! Noticing that the log went back in time: an earlier copy was put in the file's place.
//!
//! What a relay knows of a history ([`Evidence`]) is looked for by every fetch and every settlement. A
//! row that was read must be there, unless the shard's journal has passed it and retention removed it; a log that ends earlier, a journal that ends earlier and another file do as well.

use posthaste_core::{
    Claim, Entry, Evidence, Lineage, Position, Rewound, Seq, Shard, StoreErrorKind, Witness,
};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::{
    error::Fault,
    lease::{parse_position, read_log},
    settle::fenced,
};

/// What the file says about its history.
pub(crate) struct Present {
    /// The epoch of the shard's lease.
    epoch: Option<i64>,
    seq_last: Seq,
    entry: Entry,
    /// How far the journal is.
    passed: Seq,
    /// The message at the witness's place, if one is there.
    witnessed: Option<Uuid>,
    /// Which file it is.
    lineage: Lineage,
}

/// A shard, and what its holder knows.
pub(crate) struct Holder<'h> {
    pub(crate) route: &'h str,
    pub(crate) shard: Shard,
    /// `None` for one who only looks.
    pub(crate) epoch: Option<i64>,
    pub(crate) evidence: Option<&'h Evidence>,
    /// The file that is at the path now.
    pub(crate) lineage: Lineage,
}

impl Holder<'_> {
    /// Fails where the evidence, or a position read with it, is not from this file's past, and where the
    /// epoch is not the latest.
    pub(crate) async fn check(
        self,
        conn: &mut SqliteConnection,
        position: &Position,
    ) -> Result<(), Fault> {
        let witness = self.evidence.and_then(|evidence| evidence.witness);
        let lineage = self.lineage.clone();
        let present = read(conn, self.route, self.shard, witness, lineage).await?;
        let is_earlier =
            present.epoch.is_some_and(|found| self.epoch.is_some_and(|epoch| found < epoch));
        let is_known = |evidence: &Evidence| present.has(evidence, position);
        if self.evidence.is_some_and(|evidence| !is_known(evidence)) || is_earlier {
            return Err(rewound());
        }
        match self.epoch {
            Some(epoch) if present.epoch != Some(epoch) => {
                Err(fenced(self.route, self.shard, epoch))
            }
            _ => Ok(()),
        }
    }
}

impl Present {
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence { lineage: self.lineage.clone(), entry: self.entry, witness: None }
    }

    fn has(&self, evidence: &Evidence, position: &Position) -> bool {
        let is_kept = |witness: Witness| match self.witnessed {
            Some(id) => id == witness.id.0,
            None => self.passed >= witness.seq,
        };
        self.lineage == evidence.lineage
            && self.entry >= evidence.entry
            && evidence.witness.is_none_or(is_kept)
            && position.seq() <= self.seq_last
    }
}

/// What the file says now.
pub(crate) async fn read(
    conn: &mut SqliteConnection,
    route: &str,
    shard: Shard,
    witness: Option<Witness>,
    lineage: Lineage,
) -> Result<Present, Fault> {
    type Columns = (Option<i64>, Seq, Option<i64>, Option<i64>, Option<String>, Seq);
    let (epoch, seq_last, entry_epoch, entry_n, witnessed, passed): Columns =
        sqlx::query_as(include_str!("../sql/read_evidence.sql"))
            .bind(route)
            .bind(shard.index)
            .bind(witness.map(|witness| witness.seq))
            .fetch_one(conn)
            .await?;
    let entry = match (entry_epoch, entry_n) {
        (Some(epoch), Some(n)) => Entry { epoch, n },
        _ => Entry::default(),
    };
    let witnessed = witnessed.and_then(|id| id.parse().ok());
    Ok(Present { epoch, seq_last, entry, passed, witnessed, lineage })
}

/// The latest position of the shard's journal that this log has reached.
pub(crate) async fn bounded(
    conn: &mut SqliteConnection,
    claim: &Claim,
    present: &Present,
    latest: Position,
) -> Result<Position, Fault> {
    if latest.seq() <= present.seq_last {
        return Ok(latest);
    }
    let text: Option<String> = sqlx::query_scalar(include_str!("../sql/read_journal.sql"))
        .bind(&claim.route)
        .bind(claim.shard.index)
        .bind(present.seq_last)
        .fetch_optional(conn)
        .await?;
    parse_position(text.as_deref().unwrap_or_default())
}

/// A relay found the log gone back in time: unless the log has another name already, ends the route's
/// leases and has another name drawn. Notes it either way.
pub(crate) async fn realign(
    conn: &mut SqliteConnection,
    claim: &Claim,
    rewound: Rewound,
) -> Result<(), Fault> {
    if read_log(conn, &claim.route).await? == Some(rewound.log) {
        sqlx::query(include_str!("../sql/forget_log.sql"))
            .bind(&claim.route)
            .execute(&mut *conn)
            .await?;
        sqlx::query(include_str!("../sql/rewind_leases.sql"))
            .bind(&claim.route)
            .bind(rewound.epoch)
            .execute(&mut *conn)
            .await?;
    } else {
        sqlx::query(include_str!("../sql/release_own.sql"))
            .bind(&claim.route)
            .bind(claim.shard.index)
            .bind(claim.relay.to_string())
            .execute(&mut *conn)
            .await?;
    }
    sqlx::query(include_str!("../sql/record_rewind.sql"))
        .bind(&claim.route)
        .bind(claim.relay.to_string())
        .execute(conn)
        .await?;
    Ok(())
}

/// The error of a call whose evidence is not from this file's past.
fn rewound() -> Fault {
    let message = "the log went back in time since the lease was granted: an earlier copy of the \
                   file was put in its place";
    Fault::Store(StoreErrorKind::Rewound, message.to_owned())
}
