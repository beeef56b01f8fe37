//! Taking, keeping and giving back the right to serve a shard. All times are the database's.

use std::time::Duration;

use posthaste_core::{Claim, Evidence, Grant, Lease, Position, Settlement, Shard, StoreError};
use uuid::Uuid;

use crate::{
    Dialect, Fault, Optional, Session, SqlStore, Statement, call, params, parked, rewind, route,
};

/// Parked messages that one call looks at in search of blocked keys.
const BLOCKED_ROWS_MAX: i64 = 20_000;

/// The acquire port.
pub(crate) async fn acquire<D: Dialect>(
    store: &SqlStore<D>,
    claim: &Claim,
) -> Result<Option<Grant>, StoreError> {
    // Asked without a lock, so that relays standing by disturb nobody.
    let is_free = call!(store, "acquire", Statements, claim.clone(), |session, claim| is_free(
        session, claim
    ));
    if claim.rewound.is_none() && !is_free.await? {
        return Ok(None);
    }
    let grant =
        call!(store, "acquire", Transaction, claim.clone(), |session, claim| take(session, claim));
    let grant = grant.await?;
    D::after_acquire(store).await;
    let Some(mut grant) = grant else {
        return Ok(None);
    };
    match blocked(store, &grant.lease).await {
        Ok(blocked) => grant.blocked = blocked,
        Err(error) => {
            // Nobody else has to wait for a lease that is of no use. Where this fails, it expires.
            let lease = grant.lease;
            let _ = call!(store, "release", Statements, lease, |session, lease| release(
                session, lease
            ))
            .await;
            return Err(error);
        }
    }
    Ok(Some(grant))
}

async fn is_free<D: Dialect>(session: &mut Session<'_, D>, claim: &Claim) -> Result<bool, Fault> {
    let look = params![route: &claim.route, shard: claim.shard.index];
    let row = session.row(Statement::AcquireLook, &look).await?;
    let row = row.ok_or_else(|| Fault::unknown_route(&claim.route))?;
    Ok(row.number::<u16>(0)? == claim.shard.of && row.bool(1)?)
}

/// Takes the lease, in a transaction. Blocked keys are read once it is taken.
async fn take<D: Dialect>(
    session: &mut Session<'_, D>,
    claim: &Claim,
) -> Result<Option<Grant>, Fault> {
    let Claim { route, shard, relay, .. } = claim;
    if let Some(rewound) = claim.rewound {
        rewind::realign(session, claim, rewound).await?;
    }
    let mut split = route::read(session, route).await?;
    if split.as_ref().is_some_and(|split| split.barrier.is_some()) {
        // Only now, because locks are taken on the route before its leases, and never needlessly.
        split = route::lock(session, route).await?;
    }
    let split = split.ok_or_else(|| Fault::unknown_route(route))?;
    if split.shards != shard.of {
        return Ok(None);
    }
    let update = params![route: route, shard: shard.index, relay: *relay, ttl: claim.ttl];
    if session.execute(Statement::Acquire, &update).await? == 0 {
        return Ok(None);
    }
    let epoch = epoch(session, route, *shard).await?;
    mark(session, route, *shard, epoch - 1).await?;
    let latest = last_position(session, route, *shard).await?;
    let present = rewind::read(session, route, *shard, None).await?;
    let position = rewind::bounded(session, claim, &present, latest).await?;
    let until = match &split.barrier {
        // A holder from before the resize knew of no stop and may have read past it. Then the stop moves
        // to the present end of the log, where no shard has been yet, rather than that anything is sent
        // twice.
        Some(barrier) if !session.dialect.is_within(&position, barrier) => {
            Some(route::move_barrier(session, route, split).await?)
        }
        barrier => barrier.clone(),
    };
    let undelivered = parked::undelivered(session, route, *shard).await?;
    let log = log(session, route).await?;
    Ok(Some(Grant {
        lease: Lease { route: route.clone(), shard: *shard, relay: *relay, epoch },
        position,
        until,
        blocked: Vec::new(),
        log,
        undelivered,
        evidence: Evidence { lineage: present.lineage, entry: present.entry, witness: None },
    }))
}

async fn epoch<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    shard: Shard,
) -> Result<i64, Fault> {
    let lease = params![route: route, shard: shard.index];
    let row = session.row(Statement::ReadEpoch, &lease).await?;
    row.ok_or_else(|| Fault::internal("a lease vanished"))?.number(0)
}

/// Which log the route reads. Asked with the lease taken, so that it goes with the topics.
async fn log<D: Dialect>(session: &mut Session<'_, D>, route: &str) -> Result<Uuid, Fault> {
    let draw = params![route: route, log: Uuid::new_v4()];
    session.execute(Statement::DrawLog, &draw).await?;
    let log = read_log(session, route).await?;
    log.ok_or_else(|| Fault::internal("a log's name cannot be drawn"))
}

/// The name of the log that the route reads, if one was drawn. It is another one on every timeline of a
/// server.
pub(crate) async fn read_log<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
) -> Result<Option<Uuid>, Fault> {
    let Some(row) = session.row(Statement::ReadLog, &params![route: route]).await? else {
        return Ok(None);
    };
    let drawn = row.uuid(0)?.ok_or_else(|| Fault::internal("a log's name cannot be read"))?;
    Ok(Some(match row.string(1)?.as_str() {
        "" => drawn,
        timeline => Uuid::new_v5(&drawn, timeline.as_bytes()),
    }))
}

/// Keeps settlements of an epoch out that another node of a cluster has committed and that are not here
/// yet.
pub(crate) async fn mark<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    shard: Shard,
    epoch: i64,
) -> Result<(), Fault> {
    let mark = params![route: route, shard: shard.index, epoch: epoch];
    session.optional(Optional::MarkLease, &mark).await?;
    Ok(())
}

/// How far a shard has got, as far as it was written down.
pub(crate) async fn last_position<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    shard: Shard,
) -> Result<Position, Fault> {
    let journal = params![route: route, shard: shard.index];
    let row = session.row(Statement::ReadPosition, &journal).await?;
    row.map_or_else(|| Ok(Position::default()), |row| row.position(0))
}

/// Keys that a parked message holds back, a bounded number of parked messages in each call.
async fn blocked<D: Dialect>(
    store: &SqlStore<D>,
    lease: &Lease,
) -> Result<Vec<String>, StoreError> {
    let mut keys = Vec::new();
    let mut after = Some(String::new());
    while let Some(key) = after {
        let argument = (lease.clone(), key);
        let page = call!(store, "acquire", Statements, argument, |session, (lease, key)| {
            blocked_page(session, lease, key)
        });
        let page = page.await?;
        keys.extend(page.keys);
        after = page.more;
    }
    Ok(keys)
}

struct BlockedPage {
    keys: Vec<String>,
    /// Behind which key there may be more.
    more: Option<String>,
}

async fn blocked_page<D: Dialect>(
    session: &mut Session<'_, D>,
    lease: &Lease,
    after: &str,
) -> Result<BlockedPage, Fault> {
    let look = params![
        route: &lease.route,
        of: lease.shard.of,
        index: lease.shard.index,
        after: after,
        limit: BLOCKED_ROWS_MAX,
    ];
    let (mut keys, mut looked, mut last) = (Vec::new(), 0, None);
    for row in &session.rows(Statement::BlockedKeys, &look).await? {
        let key = row.string(0)?;
        last = Some(key.clone());
        if row.bool(1)? {
            keys.push(key);
        }
        looked += row.number::<i64>(2)?;
    }
    Ok(BlockedPage { keys, more: last.filter(|_| looked >= BLOCKED_ROWS_MAX) })
}

/// The renew port.
pub(crate) async fn renew<D: Dialect>(
    session: &mut Session<'_, D>,
    lease: &Lease,
    ttl: Duration,
) -> Result<(), Fault> {
    let update = params![
        route: &lease.route,
        shard: lease.shard.index,
        relay: lease.relay,
        epoch: lease.epoch,
        ttl: ttl,
    ];
    if session.execute(Statement::Renew, &update).await? > 0 {
        return Ok(());
    }
    rewind::check(session, lease, &Settlement::default()).await?;
    Err(Fault::fenced())
}

/// The release port.
pub(crate) async fn release<D: Dialect>(
    session: &mut Session<'_, D>,
    lease: &Lease,
) -> Result<(), Fault> {
    let update = params![
        route: &lease.route,
        shard: lease.shard.index,
        relay: lease.relay,
        epoch: lease.epoch,
    ];
    session.execute(Statement::Release, &update).await?;
    Ok(())
}
