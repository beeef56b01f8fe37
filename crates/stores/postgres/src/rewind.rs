//! Noticing that the log went back in time, or is another server's.
//!
//! What a relay knows of a history ([`Evidence`]) is looked for by every fetch and every settlement, in
//! the same statement. A row that was read must be there, unless the shard's journal has passed it and
//! retention removed it; a seq that was never handed out, a snapshot from the
//! future, a journal that ends earlier, another timeline or another server do as well.

use posthaste_core::{
    Claim, Entry, Evidence, Lease, Lineage, Position, Rewound, Seq, Settlement, StoreErrorKind,
    Witness,
};
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::{
    error::Fault,
    lease::{self, NamedLog},
    route,
    row::position,
    snapshot,
    transaction::query,
};

/// Journal entries looked at for a position that this server has seen. Relays write none that it has not;
/// this bounds what tables written by other means can cost.
const JOURNAL_MAX: i64 = 1000;

/// What the server says about its history, in the statement that reads or writes.
pub(crate) struct Present {
    lineage: Lineage,
    seq_last: Seq,
    entry: Entry,
    /// How far the journal is.
    passed: Seq,
    /// The message at the witness's place, if one is there.
    witnessed: Option<Uuid>,
    snapshot: String,
}

impl Present {
    /// From the array that statements return, and their snapshot.
    pub(crate) fn of(facts: &[Option<String>], snapshot: &str) -> Result<Self, Fault> {
        let bad = || Fault::internal("a statement returned evidence that cannot be read");
        let [lineage, seq_last, entry, witnessed] = facts else { return Err(bad()) };
        let Some(lineage) = lineage else {
            return Err(Fault::Store(
                StoreErrorKind::ReadOnly,
                "the server is a standby now; the relay waits for a primary".to_owned(),
            ));
        };
        let number = |text: &str| text.parse().map_err(|_| bad());
        let (entry, passed) = match entry.as_deref() {
            Some(text) => {
                let (epoch, rest) = text.split_once('.').ok_or_else(bad)?;
                let (n, seq) = rest.split_once('.').ok_or_else(bad)?;
                (Entry { epoch: number(epoch)?, n: number(n)? }, number(seq)?)
            }
            None => (Entry::default(), 0),
        };
        Ok(Self {
            lineage: Lineage(lineage.as_str().into()),
            seq_last: number(seq_last.as_deref().ok_or_else(bad)?)?,
            entry,
            passed,
            witnessed: witnessed.as_deref().and_then(|id| id.parse().ok()),
            snapshot: snapshot.to_owned(),
        })
    }

    pub(crate) fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }

    /// Whether everything the position speaks of has happened on this server.
    pub(crate) fn has_seen(&self, position: &Position) -> bool {
        position.seq() <= self.seq_last && snapshot::is_reached(position, &self.snapshot)
    }

    /// Fails where the evidence, or a position read with it, is not from this server's past.
    pub(crate) fn check(&self, evidence: &Evidence, position: &Position) -> Result<(), Fault> {
        let is_kept = |witness: Witness| match self.witnessed {
            Some(id) => id == witness.id.0,
            None => self.passed >= witness.seq,
        };
        let is_known = self.lineage == evidence.lineage
            && self.entry >= evidence.entry
            && evidence.witness.is_none_or(is_kept)
            && self.has_seen(position);
        if is_known { Ok(()) } else { Err(Fault::rewound()) }
    }
}

/// What the server says now, and the epoch of the shard's lease.
pub(crate) async fn read(
    connection: &mut PgConnection,
    route: &str,
    shard: u16,
    witness: Option<Witness>,
) -> Result<(Option<i64>, Present), Fault> {
    let row = query(include_str!("../sql/read_evidence.sql"))
        .bind(route)
        .bind(i32::from(shard))
        .bind(witness.map(|witness| witness.seq))
        .fetch_one(connection)
        .await?;
    let facts: Vec<Option<String>> = row.try_get(1)?;
    Ok((row.try_get(0)?, Present::of(&facts, row.try_get(2)?)?))
}

/// Why a call under a lease hit no row: the lease is another's, or the history is another.
pub(crate) async fn why_refused(
    connection: &mut PgConnection,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Fault, Fault> {
    let witness = settlement.evidence.as_ref().and_then(|evidence| evidence.witness);
    let (epoch, present) = read(connection, &lease.route, lease.shard.index, witness).await?;
    let reached = settlement.position.clone().unwrap_or_default();
    let checked = settlement.evidence.as_ref().map(|evidence| present.check(evidence, &reached));
    Ok(match checked {
        Some(Err(rewound)) => rewound,
        _ => gone(epoch, lease.epoch),
    })
}

/// The fault of a holder who does not find its epoch. Epochs only grow, so a lower one is from another
/// history.
pub(crate) fn gone(found: Option<i64>, epoch: i64) -> Fault {
    if found.is_some_and(|found| found < epoch) { Fault::rewound() } else { Fault::fenced() }
}

/// The latest position of the shard's journal that this server has seen.
pub(crate) async fn bounded(
    connection: &mut PgConnection,
    claim: &Claim,
    present: &Present,
    latest: Position,
) -> Result<Position, Fault> {
    if present.has_seen(&latest) {
        return Ok(latest);
    }
    let rows = query(include_str!("../sql/read_journal.sql"))
        .bind(&claim.route)
        .bind(i32::from(claim.shard.index))
        .bind(JOURNAL_MAX)
        .fetch_all(connection)
        .await?;
    for row in &rows {
        let earlier = position(row.try_get(0)?)?;
        if present.has_seen(&earlier) {
            return Ok(earlier);
        }
    }
    Ok(Position::default())
}

/// A relay found the log gone back in time: unless the log has another name already, ends the route's
/// leases and has another name drawn. Notes it either way.
pub(crate) async fn realign(
    connection: &mut PgConnection,
    claim: &Claim,
    rewound: Rewound,
) -> Result<(), Fault> {
    route::lock(connection, &claim.route).await?;
    route::lock_leases(connection, Some(&claim.route)).await?;
    let named = lease::read_log(connection, &claim.route).await?;
    match named.filter(|named| named.name() == rewound.log) {
        Some(NamedLog { drawn, .. }) => {
            query(include_str!("../sql/rename_log.sql"))
                .bind(&claim.route)
                .bind(drawn)
                .execute(&mut *connection)
                .await?;
            query(include_str!("../sql/rewind_leases.sql"))
                .bind(&claim.route)
                .bind(rewound.epoch)
                .execute(&mut *connection)
                .await?;
        }
        None => {
            query(include_str!("../sql/release_own.sql"))
                .bind(&claim.route)
                .bind(i32::from(claim.shard.index))
                .bind(claim.relay.0)
                .execute(&mut *connection)
                .await?;
        }
    }
    query(include_str!("../sql/record_rewind.sql"))
        .bind(&claim.route)
        .bind(claim.relay.0)
        .execute(connection)
        .await?;
    Ok(())
}
