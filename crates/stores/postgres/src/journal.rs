//! Thinning the journal of progress, a bounded piece at a time: however long it has grown, a call looks
//! at so many entries and no more.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use posthaste_core::StoreError;
use sqlx::{PgConnection, Row};

use crate::{PostgresStore, error::Fault, row::count, transaction::query};

/// Entries one statement looks at.
const LOOK_ENTRIES: i64 = 10_000;
/// Statements that one round spends on one shard.
const LOOKS_MAX: usize = 5;

/// Up to which entry each shard's journal has been thinned. Entries before it are looked at again only
/// from the start of the journal, where retention lets go of them.
#[derive(Debug, Default)]
pub(crate) struct Thinned(Mutex<HashMap<(String, i32), Place>>);

/// An entry of a shard's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    epoch: i64,
    n: i64,
}

/// What one statement did.
struct Chunk {
    looked: i64,
    /// The last entry looked at; `None` where there was none.
    last: Option<Place>,
    removed: i64,
}

impl Chunk {
    /// Whether there may be more to remove behind it.
    fn is_full(&self) -> bool {
        self.looked >= LOOK_ENTRIES
    }

    /// Whether it left nothing but its last entry.
    fn is_emptied(&self) -> bool {
        self.is_full() && self.removed + 1 >= self.looked
    }
}

/// Thins every shard's journal, each chunk in a transaction of its own, and says how many entries
/// went. `retention_seconds` is for how long the log keeps what is delivered.
pub(crate) async fn thin(store: &PostgresStore, retention_seconds: f64) -> Result<u64, StoreError> {
    let shards = store.call("purge", |connection| Box::pin(shards(connection))).await?;
    let mut removed = 0;
    for shard in shards {
        removed += thin_shard(store, retention_seconds, shard).await?;
    }
    Ok(count(removed))
}

/// From the start of the journal while everything goes, then from where the last round ended.
async fn thin_shard(
    store: &PostgresStore,
    retention_seconds: f64,
    shard: (String, i32),
) -> Result<i64, StoreError> {
    let known = || store.thinned.0.lock().unwrap_or_else(PoisonError::into_inner);
    let resumed = known().get(&shard).copied().unwrap_or_default();
    let (mut place, mut removed) = (Place::default(), 0);
    for _ in 0..LOOKS_MAX {
        let (route, index) = shard.clone();
        let chunk = store.call("purge", move |connection| {
            Box::pin(chunk(connection, retention_seconds, route, index, place))
        });
        let chunk = chunk.await?;
        removed += chunk.removed;
        place = chunk.last.unwrap_or_default();
        if !chunk.is_full() {
            known().insert(shard, place);
            return Ok(removed);
        }
        if !chunk.is_emptied() {
            place = place.max(resumed);
        }
    }
    known().insert(shard, place.max(resumed));
    Ok(removed)
}

async fn shards(connection: &mut PgConnection) -> Result<Vec<(String, i32)>, Fault> {
    let rows = query(include_str!("../sql/purge_shards.sql")).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

async fn chunk(
    connection: &mut PgConnection,
    retention_seconds: f64,
    route: String,
    shard: i32,
    from: Place,
) -> Result<Chunk, Fault> {
    let row = query(include_str!("../sql/purge_progress.sql"))
        .bind(retention_seconds)
        .bind(route)
        .bind(shard)
        .bind(from.epoch)
        .bind(from.n)
        .bind(LOOK_ENTRIES)
        .fetch_one(connection)
        .await?;
    let last: Option<Vec<i64>> = row.try_get(1)?;
    let last = match last.as_deref() {
        Some(&[epoch, n]) => Some(Place { epoch, n }),
        _ => None,
    };
    Ok(Chunk { looked: row.try_get(0)?, last, removed: row.try_get(2)? })
}
