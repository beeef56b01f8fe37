//! Noticing that the log went back in time, or is another server's.
//!
//! What a relay knows of a history ([`Evidence`]) is looked for by every fetch and every settlement. A row
//! that was read must be there, unless the shard's journal has passed it and retention removed it. A log
//! that ends earlier, a journal that ends earlier, a snapshot from the future and another lineage say that
//! it is another history, too.

use posthaste_core::{
    Claim, Entry, Evidence, Lease, Lineage, Position, Rewound, Seq, Settlement, Shard,
    StoreErrorKind, Witness,
};
use uuid::Uuid;

use crate::{Dialect, Fault, Row, Session, Statement, lease, params, route};

/// Journal entries that are looked at for a position that this server has seen. Relays write none that it
/// has not; this bounds what tables that were written by other means can cost.
const JOURNAL_MAX: i64 = 1000;

/// What the server says about its history.
pub struct Present {
    /// The epoch of the shard's lease.
    pub epoch: Option<i64>,
    /// The highest seq handed out.
    pub seq_last: Seq,
    /// The shard's latest journal entry.
    pub entry: Entry,
    /// How far that entry is.
    pub passed: Seq,
    /// The message at the witness's place, if one is there.
    pub witnessed: Option<Uuid>,
    /// The server's line of history.
    pub lineage: Lineage,
    /// What the statement saw.
    pub snapshot: String,
}

impl Present {
    /// From the columns of `read_evidence`, the first of them at `first`.
    ///
    /// # Errors
    /// Kind `ReadOnly` for a server that is a standby.
    pub fn of<D: Dialect>(dialect: &D, row: &Row, first: usize) -> Result<Self, Fault> {
        let Some(lineage) = row.text(first + 6)? else {
            return Err(Fault::new(
                StoreErrorKind::ReadOnly,
                "the server is a standby now; the relay waits for a primary",
            ));
        };
        let lineage = dialect.lineage().unwrap_or_else(|| Lineage(lineage.as_str().into()));
        let entry = match (row.int(first + 2)?, row.int(first + 3)?) {
            (Some(epoch), Some(n)) => Entry { epoch, n },
            _ => Entry::default(),
        };
        Ok(Self {
            epoch: row.int(first)?,
            seq_last: row.int(first + 1)?.unwrap_or(0),
            entry,
            passed: row.int(first + 4)?.unwrap_or(0),
            witnessed: row.uuid(first + 5)?,
            lineage,
            snapshot: row.string(first + 7)?,
        })
    }

    /// Whether everything that the position speaks of has happened on this server.
    pub(crate) fn has_seen<D: Dialect>(&self, dialect: &D, position: &Position) -> bool {
        position.seq() <= self.seq_last && dialect.has_reached(position, &self.snapshot)
    }

    /// Fails where the evidence, or a position that goes with it, is not from this server's past, and where
    /// the epoch is not the latest.
    ///
    /// # Errors
    /// Kinds `Rewound` and `Fenced`.
    pub fn check<D: Dialect>(
        &self,
        dialect: &D,
        epoch: Option<i64>,
        evidence: Option<&Evidence>,
        position: &Position,
    ) -> Result<(), Fault> {
        let is_kept = |witness: Witness| match self.witnessed {
            Some(id) => id == witness.id.0,
            None => self.passed >= witness.seq,
        };
        let is_known = |evidence: &Evidence| {
            self.lineage == evidence.lineage
                && self.entry >= evidence.entry
                && evidence.witness.is_none_or(is_kept)
                && self.has_seen(dialect, position)
        };
        // Epochs only grow, so a lower one is from another history.
        let is_earlier = self.epoch.is_some_and(|found| epoch.is_some_and(|epoch| found < epoch));
        if evidence.is_some_and(|evidence| !is_known(evidence)) || is_earlier {
            return Err(Fault::rewound());
        }
        if epoch.is_some() && epoch != self.epoch {
            return Err(Fault::fenced());
        }
        Ok(())
    }
}

/// What the server says now.
pub(crate) async fn read<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    shard: Shard,
    witness: Option<Witness>,
) -> Result<Present, Fault> {
    let look = params![
        route: route,
        shard: shard.index,
        witness: witness.map(|witness| witness.seq),
    ];
    let row = session.row(Statement::ReadEvidence, &look).await?;
    let row = row.ok_or_else(|| Fault::internal("the server says nothing of its history"))?;
    Present::of(session.dialect, &row, 0)
}

/// Fails where a settlement must not be written: the lease belongs to another relay, or the history is
/// another.
pub(crate) async fn check<D: Dialect>(
    session: &mut Session<'_, D>,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<(), Fault> {
    let evidence = settlement.evidence.as_ref();
    let witness = evidence.and_then(|evidence| evidence.witness);
    let present = read(session, &lease.route, lease.shard, witness).await?;
    let reached = settlement.position.clone().unwrap_or_default();
    present.check(session.dialect, Some(lease.epoch), evidence, &reached)
}

/// The latest position of the shard's journal that this server has seen.
pub(crate) async fn bounded<D: Dialect>(
    session: &mut Session<'_, D>,
    claim: &Claim,
    present: &Present,
    latest: Position,
) -> Result<Position, Fault> {
    if present.has_seen(session.dialect, &latest) {
        return Ok(latest);
    }
    let look = params![
        route: &claim.route,
        shard: claim.shard.index,
        end: present.seq_last,
        limit: JOURNAL_MAX,
    ];
    for row in &session.rows(Statement::ReadJournal, &look).await? {
        let earlier = row.position(0)?;
        if present.has_seen(session.dialect, &earlier) {
            return Ok(earlier);
        }
    }
    Ok(Position::default())
}

/// A relay found that the log went back in time. Unless the log has another name already, ends the route's
/// leases and has another name drawn. Notes it either way.
pub(crate) async fn realign<D: Dialect>(
    session: &mut Session<'_, D>,
    claim: &Claim,
    rewound: Rewound,
) -> Result<(), Fault> {
    let Claim { route, shard, relay, .. } = claim;
    route::lock(session, route).await?;
    route::lock_leases(session, route).await?;
    if lease::read_log(session, route).await? == Some(rewound.log) {
        session.execute(Statement::ForgetLog, &params![route: route]).await?;
        let rewind = params![route: route, epoch: rewound.epoch];
        session.execute(Statement::RewindLeases, &rewind).await?;
    } else {
        let own = params![route: route, shard: shard.index, relay: *relay];
        session.execute(Statement::ReleaseOwn, &own).await?;
    }
    let note = params![route: route, relay: *relay];
    session.execute(Statement::RecordRewind, &note).await?;
    Ok(())
}
