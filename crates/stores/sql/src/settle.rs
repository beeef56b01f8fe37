//! Writing progress and parked messages, all or nothing, under the lease's fence.

use posthaste_core::{
    Entry, Failure, Horizon, Lease, Next, Park, ParkState, Position, Repark, Seq, Settled,
    Settlement, StoreError, bucket,
};

use crate::{
    Dialect, Fault, Param, Session, SqlStore, Statement, call,
    lease::{last_position, mark},
    message::headers_to_json,
    params, parked, rewind,
};

/// The settle port.
pub(crate) async fn settle<D: Dialect>(
    store: &SqlStore<D>,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Settled, StoreError> {
    let argument = (lease.clone(), settlement.clone());
    let Settlement { position, park, repark, delivered, .. } = settlement;
    let is_position_only = park.is_empty() && repark.is_empty() && delivered.is_empty();
    if position.is_some() && is_position_only {
        return call!(store, "settle", Statements, argument, |session, (lease, settlement)| {
            advance(session, lease, settlement)
        })
        .await;
    }
    call!(store, "settle", Transaction, argument, |session, (lease, settlement)| {
        write(session, lease, settlement)
    })
    .await
}

/// Adds the settlement's position to the journal: one statement, which is a transaction by itself where
/// the settlement has nothing else. Returns an entry that the journal does not end before.
async fn advance<D: Dialect>(
    session: &mut Session<'_, D>,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Settled, Fault> {
    let Some(position) = &settlement.position else { return Ok(Settled::default()) };
    let insert = entry_of(session.dialect, lease, settlement, position);
    let outcome = session.run(Statement::SettlePosition, &insert).await?;
    if outcome.affected == 0 {
        rewind::check(session, lease, settlement).await?;
        return Err(Fault::fenced());
    }
    let (horizon, entry) = match outcome.rows.first() {
        Some(row) => {
            let horizon = Horizon::from(row.string(0)?);
            (horizon, Entry { epoch: row.number(1)?, n: row.number(2)? })
        }
        None => {
            let known = settlement.evidence.as_ref().map(|evidence| evidence.entry);
            let earlier = known.filter(|known| known.epoch == lease.epoch);
            let n = earlier.map_or(1, |known| known.n + 1);
            (Horizon::default(), Entry { epoch: lease.epoch, n })
        }
    };
    Ok(Settled { horizon, entry, unblocked: Vec::new() })
}

fn entry_of<'p, D: Dialect>(
    dialect: &D,
    lease: &'p Lease,
    settlement: &'p Settlement,
    position: &Position,
) -> [Param<'p>; 13] {
    let evidence = settlement.evidence.as_ref();
    let witness = evidence.and_then(|evidence| evidence.witness);
    params![
        route: &lease.route,
        shard: lease.shard.index,
        relay: lease.relay,
        epoch: lease.epoch,
        position: position,
        seq: position.seq(),
        lineage: evidence.map(|evidence| &*evidence.lineage.0),
        lineage_here: dialect.lineage().map(|lineage| lineage.0.to_string()),
        reach: dialect.reach(position),
        entry_epoch: evidence.map(|evidence| evidence.entry.epoch),
        entry_n: evidence.map(|evidence| evidence.entry.n),
        witness_seq: witness.map(|witness| witness.seq),
        witness_id: witness.map(|witness| witness.id.0),
    ]
}

/// Writes all of a settlement, in a transaction.
async fn write<D: Dialect>(
    session: &mut Session<'_, D>,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Settled, Fault> {
    let route = &lease.route;
    fence(session, lease, settlement).await?;
    let is_repeated = match settlement.parks_up_to() {
        Some(position) => last_position(session, route, lease.shard).await? == *position,
        None => false,
    };
    rewind::check(session, lease, settlement).await?;
    let mut settled = advance(session, lease, settlement).await?;
    if settlement.position.is_none() {
        mark(session, route, lease.shard, lease.epoch).await?;
    }
    // Before rows go: a delivered one takes its key with it.
    let keys = touched_keys(session, lease, settlement).await?;
    if !is_repeated {
        let parks: Vec<_> = settlement.park.iter().map(|park| park_params(route, park)).collect();
        session.each(Statement::SettlePark, &parks).await?;
    }
    let reports: Vec<_> =
        settlement.repark.iter().map(|report| report_params(route, report)).collect();
    session.each(Statement::SettleRepark, &reports).await?;
    if !settlement.delivered.is_empty() {
        let delivered = params![route: route, seqs: settlement.delivered.as_slice()];
        session.execute(Statement::SettleDelivered, &delivered).await?;
    }
    if keys.is_empty() {
        return Ok(settled);
    }
    let parked = settlement.park.iter().map(|park| park.report.seq);
    let reparked = settlement.repark.iter().map(|report| report.seq);
    let seqs: Vec<Seq> = parked.chain(reparked).collect();
    parked::order_keys(session, route, &keys, &seqs).await?;
    let keys = params![route: route, keys: keys.as_slice()];
    for row in &session.rows(Statement::SettleUnblocked, &keys).await? {
        settled.unblocked.extend(row.text(0)?);
    }
    Ok(settled)
}

/// Makes sure that the lease is the caller's until the transaction ends.
async fn fence<D: Dialect>(
    session: &mut Session<'_, D>,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<(), Fault> {
    let held = params![
        route: &lease.route,
        shard: lease.shard.index,
        relay: lease.relay,
        epoch: lease.epoch,
    ];
    if session.row(Statement::Fence, &held).await?.is_some() {
        return Ok(());
    }
    rewind::check(session, lease, settlement).await?;
    Err(Fault::fenced())
}

/// The keys whose parked messages a settlement changes, each once.
async fn touched_keys<D: Dialect>(
    session: &mut Session<'_, D>,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Vec<String>, Fault> {
    let reparked = settlement.repark.iter().map(|report| report.seq);
    let known: Vec<Seq> = reparked.chain(settlement.delivered.iter().copied()).collect();
    let mut keys: Vec<String> = Vec::new();
    if !known.is_empty() {
        let known = params![route: &lease.route, seqs: known];
        for row in &session.rows(Statement::SettleKeys, &known).await? {
            keys.extend(row.text(0)?);
        }
    }
    keys.extend(settlement.park.iter().filter_map(|park| park.message.key.clone()));
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

fn park_params<'p>(route: &'p str, park: &'p Park) -> Vec<Param<'p>> {
    let Park { message, age, report } = park;
    let mut columns = report_params(route, report);
    columns.extend(params![
        bucket: bucket(message.key.as_deref(), report.seq),
        id: message.id,
        topic: &message.topic,
        key: &message.key,
        type: &message.event_type,
        headers: headers_to_json(&message.headers),
        content_type: &message.content_type,
        age: *age,
        payload: &message.payload[..],
        payload_bytes: message.payload.len(),
    ]);
    columns
}

fn report_params<'p>(route: &'p str, report: &'p Repark) -> Vec<Param<'p>> {
    let (state, blocks, delay) = match report.next {
        Next::Retry(delay) => (ParkState::Retrying, false, Some(delay)),
        Next::Dead => (ParkState::Dead, false, None),
        Next::DeadAndBlock => (ParkState::Dead, true, None),
    };
    // Shortened even where whoever made the failure did not.
    let kept = |failure: &Failure| Failure::new(failure.class, failure.detail.as_str());
    let failure = report.failure.as_ref().map(kept);
    let (class, detail) = failure.map(|failure| (failure.class, failure.detail)).unzip();
    params![
        route: route,
        seq: report.seq,
        state: state.as_str(),
        blocks: blocks,
        attempts: report.attempts,
        unknowns: report.unknowns,
        class: class,
        detail: detail,
        delay: delay,
    ]
    .into()
}
