//! Writing progress and parked messages, all or nothing, under the lease's fence.

use posthaste_core::{
    Entry, Failure, Lease, Next, Park, ParkState, Repark, Seq, Settled, Settlement, bucket,
};
use sqlx::MySqlConnection;

use crate::{
    error::Fault,
    lease::{last_position, mark},
    parked, rewind,
    row::{self, hex_array, json_array, micros},
};

/// Appends the settlement's position to the journal. One statement, which is a transaction by itself where
/// the settlement has nothing else. Returns an entry that the journal does not end before.
pub(crate) async fn advance(
    connection: &mut MySqlConnection,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Entry, Fault> {
    let Some(position) = &settlement.position else { return Ok(Entry::default()) };
    let evidence = settlement.evidence.as_ref();
    let known = evidence.map(|evidence| evidence.entry);
    let witness = evidence.and_then(|evidence| evidence.witness);
    let done = sqlx::query(include_str!("../sql/settle_position.sql"))
        .bind(position.to_string())
        .bind(position.seq())
        .bind(lease.route.as_bytes())
        .bind(lease.shard.index)
        .bind(lease.relay.to_string())
        .bind(lease.epoch)
        .bind(known.map(|known| known.n))
        .bind(position.seq())
        .bind(known.map(|known| known.epoch))
        .bind(known.map(|known| known.epoch))
        .bind(known.map(|known| known.n))
        .bind(known.map(|known| known.epoch))
        .bind(witness.map(|witness| witness.id.to_string()))
        .bind(witness.map(|witness| witness.seq))
        .bind(witness.map(|witness| witness.seq))
        .bind(witness.map(|witness| witness.seq))
        .execute(&mut *connection)
        .await?;
    if done.rows_affected() == 0 {
        rewind::refuse(connection, lease, settlement).await?;
        return Err(Fault::fenced());
    }
    let earlier = known.filter(|known| known.epoch == lease.epoch);
    Ok(Entry { epoch: lease.epoch, n: earlier.map_or(1, |known| known.n + 1) })
}

/// The settle port, in a transaction.
pub(crate) async fn settle(
    connection: &mut MySqlConnection,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Settled, Fault> {
    fence(connection, lease, settlement).await?;
    let is_repeated = match settlement.parks_up_to() {
        Some(position) => last_position(connection, &lease.route, lease.shard).await? == *position,
        None => false,
    };
    rewind::refuse(connection, lease, settlement).await?;
    let entry = advance(connection, lease, settlement).await?;
    if settlement.position.is_none() {
        mark(connection, &lease.route, lease.shard, lease.epoch).await?;
    }
    // Before rows go: a delivered one takes its key with it.
    let keys = touched_keys(connection, lease, settlement).await?;
    for park in settlement.park.iter().filter(|_| !is_repeated) {
        self::park(connection, &lease.route, park).await?;
    }
    for report in &settlement.repark {
        repark(connection, &lease.route, report).await?;
    }
    if !settlement.delivered.is_empty() {
        sqlx::query(include_str!("../sql/settle_delivered.sql"))
            .bind(json_array(settlement.delivered.iter().copied()))
            .bind(lease.route.as_bytes())
            .execute(&mut *connection)
            .await?;
    }
    if keys.is_empty() {
        return Ok(Settled { entry, ..Settled::default() });
    }
    parked::order_keys(connection, &lease.route, &keys).await?;
    let rows = sqlx::query(include_str!("../sql/settle_unblocked.sql"))
        .bind(hex_array(keys.iter().map(String::as_str)))
        .bind(lease.route.as_bytes())
        .fetch_all(connection)
        .await?;
    let unblocked: Result<Vec<Option<String>>, Fault> =
        rows.iter().map(|row| row::text(row, 0)).collect();
    let unblocked = unblocked?.into_iter().flatten().collect();
    Ok(Settled { unblocked, entry, ..Settled::default() })
}

async fn fence(
    connection: &mut MySqlConnection,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<(), Fault> {
    let row = sqlx::query(include_str!("../sql/fence.sql"))
        .bind(lease.route.as_bytes())
        .bind(lease.shard.index)
        .bind(lease.relay.to_string())
        .bind(lease.epoch)
        .fetch_optional(&mut *connection)
        .await?;
    if row.is_none() {
        rewind::refuse(connection, lease, settlement).await?;
        return Err(Fault::fenced());
    }
    Ok(())
}

/// The keys whose parked messages a settlement changes, each once.
async fn touched_keys(
    connection: &mut MySqlConnection,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Vec<String>, Fault> {
    let reparked = settlement.repark.iter().map(|report| report.seq);
    let known: Vec<Seq> = reparked.chain(settlement.delivered.iter().copied()).collect();
    let mut keys: Vec<String> = Vec::new();
    if !known.is_empty() {
        let rows = sqlx::query(include_str!("../sql/settle_keys.sql"))
            .bind(json_array(known))
            .bind(lease.route.as_bytes())
            .fetch_all(connection)
            .await?;
        for row in &rows {
            keys.extend(row::text(row, 0)?);
        }
    }
    let parked = settlement.park.iter();
    keys.extend(parked.filter_map(|park| park.message.key.clone()));
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// The columns that say what happens next.
struct Plan {
    state: &'static str,
    blocks: bool,
    delay: Option<i64>,
}

impl Plan {
    fn new(next: Next) -> Self {
        let (state, blocks, delay) = match next {
            Next::Retry(delay) => (ParkState::Retrying, false, Some(delay)),
            Next::Dead => (ParkState::Dead, false, None),
            Next::DeadAndBlock => (ParkState::Dead, true, None),
        };
        Self { state: state.as_str(), blocks, delay: delay.map(micros) }
    }
}

async fn park(connection: &mut MySqlConnection, route: &str, park: &Park) -> Result<(), Fault> {
    let Park { message, age, report } = park;
    let plan = Plan::new(report.next);
    let (class, detail) = error(report.failure.as_ref());
    sqlx::query(include_str!("../sql/settle_park.sql"))
        .bind(route.as_bytes())
        .bind(report.seq)
        .bind(bucket(message.key.as_deref(), report.seq))
        .bind(message.id.to_string())
        .bind(message.topic.as_bytes())
        .bind(message.key.as_deref().map(str::as_bytes))
        .bind(message.event_type.as_deref().map(str::as_bytes))
        .bind(row::headers_to_json(&message.headers).map(String::into_bytes))
        .bind(message.content_type.as_bytes())
        .bind(report.seq)
        .bind(micros(*age))
        .bind(plan.state)
        .bind(plan.blocks)
        .bind(report.attempts)
        .bind(report.unknowns)
        .bind(class)
        .bind(detail.as_deref())
        .bind(class)
        .bind(detail.as_deref())
        .bind(plan.delay)
        .bind(u32::try_from(message.payload.len()).unwrap_or(u32::MAX))
        .bind(message.payload.as_ref())
        .execute(connection)
        .await?;
    Ok(())
}

async fn repark(
    connection: &mut MySqlConnection,
    route: &str,
    report: &Repark,
) -> Result<(), Fault> {
    let plan = Plan::new(report.next);
    let (class, detail) = error(report.failure.as_ref());
    sqlx::query(include_str!("../sql/settle_repark.sql"))
        .bind(plan.state)
        .bind(plan.state)
        .bind(plan.blocks)
        .bind(report.attempts)
        .bind(report.unknowns)
        .bind(class)
        .bind(detail.as_deref())
        .bind(class)
        .bind(detail.as_deref())
        .bind(plan.delay)
        .bind(route.as_bytes())
        .bind(report.seq)
        .execute(connection)
        .await?;
    Ok(())
}

/// Class and detail, shortened, as bytes.
fn error(failure: Option<&Failure>) -> (Option<&'static [u8]>, Option<Vec<u8>>) {
    let kept = failure.map(|failure| Failure::new(failure.class, failure.detail.as_str()));
    kept.map(|failure| (failure.class.as_bytes(), failure.detail.into_bytes())).unzip()
}
