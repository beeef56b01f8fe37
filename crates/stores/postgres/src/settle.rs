//! Writing progress and parked messages, all or nothing, under the lease's fence.

use std::collections::BTreeSet;

use posthaste_core::{
    Entry, Failure, Horizon, Lease, Message, Next, Park, ParkState, Position, Repark, Seq, Settled,
    Settlement, bucket,
};
use sqlx::{PgConnection, Row};

use crate::{
    enqueue::Columns,
    error::Fault,
    lease::last_position,
    rewind,
    row::seconds,
    snapshot,
    transaction::{query, scalar},
};

/// The settle port.
pub(crate) async fn settle(
    connection: &mut PgConnection,
    lease: Lease,
    settlement: Settlement,
) -> Result<Settled, Fault> {
    let is_repeated = match settlement.parks_up_to() {
        Some(position) => last_position(connection, &lease.route, lease.shard).await? == *position,
        None => false,
    };
    let (horizon, entry) = match &settlement.position {
        Some(position) => advance(connection, &lease, &settlement, position).await?,
        None => fence(connection, &lease, &settlement).await?,
    };
    let route = &lease.route;
    let mut keys = BTreeSet::new();
    if !settlement.delivered.is_empty() {
        keys.extend(forget(connection, route, &settlement.delivered).await?);
    }
    if !settlement.repark.is_empty() {
        keys.extend(repark(connection, route, &settlement.repark).await?);
    }
    if !settlement.park.is_empty() {
        if !is_repeated {
            park(connection, route, &settlement.park).await?;
        }
        keys.extend(settlement.park.iter().filter_map(|park| park.message.key.clone()));
    }
    let keys: Vec<String> = keys.into_iter().collect();
    if keys.is_empty() {
        return Ok(Settled { unblocked: Vec::new(), horizon, entry });
    }
    let parked = settlement.park.iter().map(|park| park.report.seq);
    let reparked = settlement.repark.iter().map(|report| report.seq);
    hold_followers(connection, route, parked.chain(reparked).collect()).await?;
    promote_heads(connection, &vec![route.as_str(); keys.len()], &keys).await?;
    Ok(Settled {
        unblocked: scalar(include_str!("../sql/unblocked_keys.sql"))
            .bind(route)
            .bind(&keys)
            .fetch_all(connection)
            .await?,
        horizon,
        entry,
    })
}

/// The id of this transaction, as a horizon: whoever drew a seq before the settlement began has a lower
/// one. And the journal's new entry.
async fn advance(
    connection: &mut PgConnection,
    lease: &Lease,
    settlement: &Settlement,
    position: &Position,
) -> Result<(Horizon, Entry), Fault> {
    let evidence = settlement.evidence.as_ref();
    let witness = evidence.and_then(|evidence| evidence.witness);
    let row = query(include_str!("../sql/settle_position.sql"))
        .bind(&lease.route)
        .bind(i32::from(lease.shard.index))
        .bind(lease.relay.0)
        .bind(lease.epoch)
        .bind(position.to_string())
        .bind(position.seq())
        .bind(evidence.map(|evidence| &*evidence.lineage.0))
        .bind(snapshot::xmax(position).to_string())
        .bind(evidence.map(|evidence| evidence.entry.epoch))
        .bind(evidence.map(|evidence| evidence.entry.n))
        .bind(witness.map(|witness| witness.seq))
        .bind(witness.map(|witness| witness.id.0))
        .fetch_optional(&mut *connection)
        .await?;
    match row {
        Some(row) => {
            let entry = Entry { epoch: row.try_get(1)?, n: row.try_get(2)? };
            Ok((row.try_get::<&str, _>(0)?.into(), entry))
        }
        None => Err(rewind::why_refused(connection, lease, settlement).await?),
    }
}

/// No horizon and no entry: nothing that was read is written down.
async fn fence(
    connection: &mut PgConnection,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<(Horizon, Entry), Fault> {
    let row = query(include_str!("../sql/settle_fence.sql"))
        .bind(&lease.route)
        .bind(i32::from(lease.shard.index))
        .bind(lease.relay.0)
        .bind(lease.epoch)
        .fetch_optional(&mut *connection)
        .await?;
    if row.is_none() {
        return Err(rewind::why_refused(connection, lease, settlement).await?);
    }
    if let Some(evidence) = &settlement.evidence {
        let shard = lease.shard.index;
        let (_, present) = rewind::read(connection, &lease.route, shard, evidence.witness).await?;
        present.check(evidence, &Position::default())?;
    }
    Ok((Horizon::default(), Entry::default()))
}

async fn forget(
    connection: &mut PgConnection,
    route: &str,
    delivered: &[Seq],
) -> Result<Vec<String>, Fault> {
    let keys: Vec<Option<String>> = scalar(include_str!("../sql/forget_delivered.sql"))
        .bind(route)
        .bind(delivered)
        .fetch_all(connection)
        .await?;
    Ok(keys.into_iter().flatten().collect())
}

async fn repark(
    connection: &mut PgConnection,
    route: &str,
    reports: &[Repark],
) -> Result<Vec<String>, Fault> {
    let columns = Reports::of(reports);
    let keys: Vec<Option<String>> = scalar(include_str!("../sql/repark.sql"))
        .bind(route)
        .bind(columns.seqs)
        .bind(columns.states)
        .bind(columns.blocks)
        .bind(columns.attempts)
        .bind(columns.unknowns)
        .bind(columns.classes)
        .bind(columns.details)
        .bind(columns.delays)
        .fetch_all(connection)
        .await?;
    Ok(keys.into_iter().flatten().collect())
}

async fn park(connection: &mut PgConnection, route: &str, parks: &[Park]) -> Result<(), Fault> {
    let messages = Columns::of(parks.iter().map(|park| &park.message));
    let reports = Reports::of(parks.iter().map(|park| &park.report));
    let bucket_of = |message: &Message, seq| i32::try_from(bucket(message.key.as_deref(), seq));
    let buckets =
        parks.iter().map(|park| bucket_of(&park.message, park.report.seq).unwrap_or_default());
    query(include_str!("../sql/park.sql"))
        .bind(route)
        .bind(reports.seqs)
        .bind(buckets.collect::<Vec<_>>())
        .bind(messages.ids)
        .bind(messages.topics)
        .bind(messages.keys)
        .bind(messages.event_types)
        .bind(messages.payloads)
        .bind(messages.headers)
        .bind(messages.content_types)
        .bind(parks.iter().map(|park| seconds(park.age)).collect::<Vec<_>>())
        .bind(reports.states)
        .bind(reports.blocks)
        .bind(reports.attempts)
        .bind(reports.unknowns)
        .bind(reports.classes)
        .bind(reports.details)
        .bind(reports.delays)
        .execute(connection)
        .await?;
    Ok(())
}

async fn hold_followers(
    connection: &mut PgConnection,
    route: &str,
    seqs: Vec<Seq>,
) -> Result<(), Fault> {
    if seqs.is_empty() {
        return Ok(());
    }
    query(include_str!("../sql/hold_followers.sql"))
        .bind(route)
        .bind(seqs)
        .execute(connection)
        .await?;
    Ok(())
}

/// Lets the first message of each key be tried, where nothing blocks it.
pub(crate) async fn promote_heads(
    connection: &mut PgConnection,
    routes: &[&str],
    keys: &[String],
) -> Result<(), Fault> {
    query(include_str!("../sql/promote_heads.sql"))
        .bind(routes)
        .bind(keys)
        .execute(connection)
        .await?;
    Ok(())
}

/// Reports as arrays, one per column, for `unnest`.
struct Reports<'r> {
    seqs: Vec<Seq>,
    states: Vec<&'static str>,
    blocks: Vec<bool>,
    attempts: Vec<i32>,
    unknowns: Vec<i32>,
    classes: Vec<Option<&'r str>>,
    details: Vec<Option<String>>,
    delays: Vec<Option<f64>>,
}

impl<'r> Reports<'r> {
    fn of(reports: impl IntoIterator<Item = &'r Repark> + Clone) -> Self {
        let all = || reports.clone().into_iter();
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        Self {
            seqs: all().map(|report| report.seq).collect(),
            states: all().map(|report| state(report.next).as_str()).collect(),
            blocks: all().map(|report| report.next == Next::DeadAndBlock).collect(),
            attempts: all().map(|report| number(report.attempts)).collect(),
            unknowns: all().map(|report| number(report.unknowns)).collect(),
            classes: all()
                .map(|report| report.failure.as_ref().map(|failure| failure.class))
                .collect(),
            details: all().map(|report| report.failure.as_ref().map(detail)).collect(),
            delays: all().map(|report| delay(report.next)).collect(),
        }
    }
}

fn state(next: Next) -> ParkState {
    match next {
        Next::Retry(_) => ParkState::Retrying,
        Next::Dead | Next::DeadAndBlock => ParkState::Dead,
    }
}

/// What the broker said, shortened even where whoever made the failure did not.
fn detail(failure: &Failure) -> String {
    Failure::new(failure.class, failure.detail.as_str()).detail
}

fn delay(next: Next) -> Option<f64> {
    match next {
        Next::Retry(delay) => Some(seconds(delay)),
        Next::Dead | Next::DeadAndBlock => None,
    }
}
