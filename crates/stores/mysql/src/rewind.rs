//! Noticing that the log went back in time, or is another server's.
//!
//! What a relay knows of a history ([`Evidence`]) is looked for by every fetch and every settlement. A
//! row that was read must be there, unless the shard's journal has passed it and retention removed it; a log that ends earlier and a journal that ends earlier do as well. Servers
//! do not say which line of history they are on: a replica's own name is no use, because the nodes of a
//! cluster have one each.

use posthaste_core::{Claim, Entry, Evidence, Lease, Position, Rewound, Seq, Settlement, Witness};
use sqlx::{MySqlConnection, Row};
use uuid::Uuid;

use crate::{error::Fault, lease, route, row};

/// What the server says about its history.
pub(crate) struct Present {
    /// The epoch of the shard's lease.
    epoch: Option<i64>,
    log_end: Seq,
    entry: Entry,
    /// How far the journal is.
    passed: Seq,
    /// The message at the witness's place, if one is there.
    witnessed: Option<Uuid>,
}

impl Present {
    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }

    /// Fails where the evidence, or a position read with it, is not from this log's past, and where the
    /// epoch is not the latest.
    pub(crate) fn check(
        &self,
        epoch: Option<i64>,
        evidence: Option<&Evidence>,
        position: &Position,
    ) -> Result<(), Fault> {
        let is_kept = |witness: Witness| match self.witnessed {
            Some(id) => id == witness.id.0,
            None => self.passed >= witness.seq,
        };
        let is_known = |evidence: &Evidence| {
            self.entry >= evidence.entry
                && evidence.witness.is_none_or(is_kept)
                && position.seq() <= self.log_end
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
pub(crate) async fn read(
    connection: &mut MySqlConnection,
    route: &str,
    shard: u16,
    witness: Option<Witness>,
) -> Result<Present, Fault> {
    let row = sqlx::query(include_str!("../sql/read_evidence.sql"))
        .bind(route.as_bytes())
        .bind(shard)
        .bind(route.as_bytes())
        .bind(shard)
        .bind(route.as_bytes())
        .bind(shard)
        .bind(witness.map(|witness| witness.seq))
        .bind(route.as_bytes())
        .bind(shard)
        .fetch_one(connection)
        .await?;
    let entry = match (row.try_get(2)?, row.try_get(3)?) {
        (Some(epoch), Some(n)) => Entry { epoch, n },
        _ => Entry::default(),
    };
    Ok(Present {
        epoch: row.try_get(0)?,
        log_end: row.try_get(1)?,
        entry,
        passed: row.try_get::<Option<Seq>, _>(5)?.unwrap_or(0),
        witnessed: row::text(&row, 4)?.and_then(|id| id.parse().ok()),
    })
}

/// Fails as a settlement must that hit no row: the lease is another's, or the history is another.
pub(crate) async fn refuse(
    connection: &mut MySqlConnection,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<(), Fault> {
    let evidence = settlement.evidence.as_ref();
    let witness = evidence.and_then(|evidence| evidence.witness);
    let present = read(connection, &lease.route, lease.shard.index, witness).await?;
    let reached = settlement.position.clone().unwrap_or_default();
    present.check(Some(lease.epoch), evidence, &reached)
}

/// The latest position of the shard's journal that this log has reached.
pub(crate) async fn bounded(
    connection: &mut MySqlConnection,
    claim: &Claim,
    present: &Present,
    latest: Position,
) -> Result<Position, Fault> {
    if latest.seq() <= present.log_end {
        return Ok(latest);
    }
    let row = sqlx::query(include_str!("../sql/read_journal.sql"))
        .bind(claim.route.as_bytes())
        .bind(claim.shard.index)
        .bind(present.log_end)
        .fetch_optional(connection)
        .await?;
    let text = row.map(|row| row::text(&row, 0)).transpose()?;
    row::position(&text.flatten().unwrap_or_default())
}

/// A relay found the log gone back in time: unless the log has another name already, ends the route's
/// leases and has another name drawn. Notes it either way.
pub(crate) async fn realign(
    connection: &mut MySqlConnection,
    claim: &Claim,
    rewound: Rewound,
) -> Result<(), Fault> {
    route::lock(connection, &claim.route).await?;
    route::lock_leases(connection, &claim.route).await?;
    let route = claim.route.as_bytes();
    if lease::read_log(connection, &claim.route).await? == Some(rewound.log) {
        sqlx::query(include_str!("../sql/forget_log.sql"))
            .bind(route)
            .execute(&mut *connection)
            .await?;
        sqlx::query(include_str!("../sql/rewind_leases.sql"))
            .bind(rewound.epoch)
            .bind(route)
            .execute(&mut *connection)
            .await?;
    } else {
        sqlx::query(include_str!("../sql/release_own.sql"))
            .bind(route)
            .bind(claim.shard.index)
            .bind(claim.relay.to_string())
            .execute(&mut *connection)
            .await?;
    }
    sqlx::query(include_str!("../sql/record_rewind.sql"))
        .bind(claim.relay.to_string())
        .bind(route)
        .execute(connection)
        .await?;
    Ok(())
}
