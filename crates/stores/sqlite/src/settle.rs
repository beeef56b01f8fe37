//! Writing progress and parked messages, all or nothing, behind the lease's fence.

use posthaste_core::{
    Entry, Failure, Lease, Lineage, Next, Park, ParkState, Position, Repark, Settled, Settlement,
    Shard, StoreErrorKind, bucket,
};
use sqlx::SqliteConnection;

use crate::{error::Fault, lease::last_position, parked, rewind::Holder, row};

/// In a transaction that holds the write lock.
pub(crate) async fn settle(
    conn: &mut SqliteConnection,
    lease: &Lease,
    settlement: &Settlement,
    lineage: Lineage,
) -> Result<Settled, Fault> {
    let holder = Holder {
        route: &lease.route,
        shard: lease.shard,
        epoch: Some(lease.epoch),
        evidence: settlement.evidence.as_ref(),
        lineage,
    };
    holder.check(conn, settlement.position.as_ref().unwrap_or(&Position::default())).await?;
    let now = fence(conn, lease).await?;
    let is_repeated = match settlement.parks_up_to() {
        Some(position) => last_position(conn, &lease.route, lease.shard).await? == *position,
        None => false,
    };
    let entry = match &settlement.position {
        Some(position) => progress(conn, lease, position, now).await?,
        None => Entry::default(),
    };
    // Before rows go: a delivered one takes its key with it.
    let keys = touched_keys(conn, lease, settlement).await?;
    for park in settlement.park.iter().filter(|_| !is_repeated) {
        self::park(conn, &lease.route, park, now).await?;
    }
    for report in &settlement.repark {
        repark(conn, &lease.route, report, now).await?;
    }
    if !settlement.delivered.is_empty() {
        sqlx::query(include_str!("../sql/settle_delivered.sql"))
            .bind(&lease.route)
            .bind(row::json_array(settlement.delivered.iter().copied()))
            .execute(&mut *conn)
            .await?;
    }
    if keys.is_empty() {
        return Ok(Settled { entry, ..Settled::default() });
    }
    parked::order_keys(conn, &lease.route, &keys, now).await?;
    let unblocked = sqlx::query_scalar(include_str!("../sql/settle_unblocked.sql"))
        .bind(&lease.route)
        .bind(row::json_array(keys))
        .fetch_all(conn)
        .await?;
    Ok(Settled { unblocked, entry, ..Settled::default() })
}

/// The error of a holder that holds nothing any more.
pub(crate) fn fenced(route: &str, shard: Shard, epoch: i64) -> Fault {
    let message = format!("shard {shard} of route `{route}` is not held in epoch {epoch} any more");
    Fault::Store(StoreErrorKind::Fenced, message)
}

/// The database's time, if the lease is still the holder's.
async fn fence(conn: &mut SqliteConnection, lease: &Lease) -> Result<f64, Fault> {
    let now: Option<f64> = sqlx::query_scalar(include_str!("../sql/fence.sql"))
        .bind(&lease.route)
        .bind(lease.shard.index)
        .bind(lease.relay.to_string())
        .bind(lease.epoch)
        .fetch_optional(conn)
        .await?;
    now.ok_or_else(|| fenced(&lease.route, lease.shard, lease.epoch))
}

/// Appends to the shard's journal, and names the entry.
pub(crate) async fn progress(
    conn: &mut SqliteConnection,
    lease: &Lease,
    position: &Position,
    now: f64,
) -> Result<Entry, Fault> {
    let n = sqlx::query_scalar(include_str!("../sql/settle_progress.sql"))
        .bind(&lease.route)
        .bind(lease.shard.index)
        .bind(lease.epoch)
        .bind(position.to_string())
        .bind(position.seq())
        .bind(now)
        .fetch_one(conn)
        .await?;
    Ok(Entry { epoch: lease.epoch, n })
}

/// The keys whose parked messages a settlement changes, each once.
async fn touched_keys(
    conn: &mut SqliteConnection,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Vec<String>, Fault> {
    let reparked = settlement.repark.iter().map(|report| report.seq);
    let known: Vec<i64> = reparked.chain(settlement.delivered.iter().copied()).collect();
    let mut keys: Vec<String> = if known.is_empty() {
        Vec::new()
    } else {
        sqlx::query_scalar(include_str!("../sql/settle_keys.sql"))
            .bind(&lease.route)
            .bind(row::json_array(known))
            .fetch_all(conn)
            .await?
    };
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
    next_attempt_at: Option<f64>,
}

impl Plan {
    fn new(next: Next, now: f64) -> Self {
        let (state, blocks, delay) = match next {
            Next::Retry(delay) => (ParkState::Retrying, false, Some(delay)),
            Next::Dead => (ParkState::Dead, false, None),
            Next::DeadAndBlock => (ParkState::Dead, true, None),
        };
        Self {
            state: state.as_str(),
            blocks,
            next_attempt_at: delay.map(|delay| now + delay.as_secs_f64()),
        }
    }
}

async fn park(
    conn: &mut SqliteConnection,
    route: &str,
    park: &Park,
    now: f64,
) -> Result<(), Fault> {
    let Park { message, age, report } = park;
    let plan = Plan::new(report.next, now);
    let (class, detail) = error(report.failure.as_ref());
    sqlx::query(include_str!("../sql/settle_park.sql"))
        .bind(route)
        .bind(report.seq)
        .bind(bucket(message.key.as_deref(), report.seq))
        .bind(message.id.to_string())
        .bind(&message.topic)
        .bind(&message.key)
        .bind(&message.event_type)
        .bind(row::headers_to(&message.headers))
        .bind(&message.content_type)
        .bind((now - age.as_secs_f64()).max(0.0))
        .bind(plan.state)
        .bind(plan.blocks)
        .bind(report.attempts)
        .bind(report.unknowns)
        .bind(class)
        .bind(detail)
        .bind(now)
        .bind(plan.next_attempt_at)
        .bind(message.payload.as_ref())
        .execute(conn)
        .await?;
    Ok(())
}

async fn repark(
    conn: &mut SqliteConnection,
    route: &str,
    report: &Repark,
    now: f64,
) -> Result<(), Fault> {
    let plan = Plan::new(report.next, now);
    let (class, detail) = error(report.failure.as_ref());
    sqlx::query(include_str!("../sql/settle_repark.sql"))
        .bind(route)
        .bind(report.seq)
        .bind(plan.state)
        .bind(plan.blocks)
        .bind(report.attempts)
        .bind(report.unknowns)
        .bind(class)
        .bind(detail)
        .bind(now)
        .bind(plan.next_attempt_at)
        .execute(conn)
        .await?;
    Ok(())
}

/// Class and detail, shortened, as columns.
fn error(failure: Option<&Failure>) -> (Option<&'static str>, Option<String>) {
    let kept = failure.map(|failure| Failure::new(failure.class, failure.detail.as_str()));
    kept.map(|failure| (failure.class, failure.detail)).unzip()
}
