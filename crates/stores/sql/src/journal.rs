//! Thinning the journal of progress, a bounded piece at a time: however long it has grown, a call looks at
//! so many entries and no more.

use std::{collections::HashMap, sync::PoisonError, time::Duration};

use posthaste_core::StoreError;

use crate::{Dialect, Fault, Session, SqlStore, Statement, call, params};

/// Entries that one statement looks at.
const LOOK_ENTRIES: usize = 10_000;
/// Statements that one round spends on one shard.
const LOOKS_MAX: usize = 5;

/// One shard of a route.
type ShardName = (String, i64);

/// Up to which entry each shard's journal has been thinned. Entries before it are looked at again only from
/// the start of the journal, where retention lets go of them.
pub(crate) type Thinned = HashMap<ShardName, Place>;

/// An entry of a shard's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    epoch: i64,
    n: i64,
}

/// What one look at a journal found.
#[derive(Clone, Debug)]
struct Look {
    /// Entries that may go.
    spare: Vec<(i64, i64)>,
    /// The last entry looked at; the start where there was none.
    last: Place,
    looked: usize,
}

impl Look {
    /// Where to look next, given where the last round ended: on from here while everything goes, else from
    /// there. `None` at the end of the journal.
    fn next(&self, resumed: Place) -> Option<Place> {
        if self.looked < LOOK_ENTRIES {
            return None;
        }
        let is_emptied = self.spare.len() + 1 >= self.looked;
        Some(if is_emptied { self.last } else { self.last.max(resumed) })
    }

    /// Where the next round goes on.
    fn end(&self, resumed: Place) -> Place {
        self.next(resumed).map_or(self.last, |next| next.max(resumed))
    }
}

/// Thins every shard's journal and says how many entries went.
pub(crate) async fn thin<D: Dialect>(
    store: &SqlStore<D>,
    retention: Duration,
) -> Result<u64, StoreError> {
    let shards = call!(store, "purge", Statements, (), |session, ()| shards(session));
    let mut removed = 0;
    for shard in shards.await? {
        removed += thin_shard(store, retention, shard).await?;
    }
    Ok(removed)
}

async fn thin_shard<D: Dialect>(
    store: &SqlStore<D>,
    retention: Duration,
    shard: ShardName,
) -> Result<u64, StoreError> {
    let thinned = || store.memory.thinned.lock().unwrap_or_else(PoisonError::into_inner);
    let resumed = thinned().get(&shard).copied().unwrap_or_default();
    let (mut place, mut removed) = (Place::default(), 0);
    for _ in 0..LOOKS_MAX {
        let argument = (retention, shard.clone(), place);
        let look =
            call!(store, "purge", Statements, argument, |session, (retention, shard, place)| {
                look(session, *retention, shard, *place)
            });
        let look = look.await?;
        let (next, end) = (look.next(resumed), look.end(resumed));
        if !look.spare.is_empty() {
            let argument = (shard.clone(), look.spare);
            let remove = call!(store, "purge", Statements, argument, |session, (shard, spare)| {
                remove(session, shard, spare)
            });
            removed += remove.await?;
        }
        thinned().insert(shard.clone(), end);
        match next {
            Some(next) => place = next,
            None => break,
        }
    }
    Ok(removed)
}

/// Every shard of every route.
async fn shards<D: Dialect>(session: &mut Session<'_, D>) -> Result<Vec<ShardName>, Fault> {
    let rows = session.rows(Statement::PurgeShards, &[]).await?;
    rows.iter().map(|row| Ok((row.string(0)?, row.number(1)?))).collect()
}

/// Finds entries that may go, without a lock. Of a shard stay: the latest, the one that retention goes by,
/// and after that the last of every minute, which is what retention will go by later. The last entry looked
/// at stays, too: what follows it is not known.
async fn look<D: Dialect>(
    session: &mut Session<'_, D>,
    retention: Duration,
    (route, shard): &ShardName,
    from: Place,
) -> Result<Look, Fault> {
    let scan = params![
        route: route,
        shard: *shard,
        epoch: from.epoch,
        n: from.n,
        retention: retention,
        limit: LOOK_ENTRIES,
    ];
    let rows = session.rows(Statement::PurgeProgressScan, &scan).await?;
    let mut entries = Vec::with_capacity(rows.len());
    for row in &rows {
        let place = Place { epoch: row.number(0)?, n: row.number(1)? };
        entries.push((place, row.bool(2)?, row.number::<i64>(3)?));
    }
    let is_spare = |pair: &&[(Place, bool, i64)]| match pair {
        [(_, is_old, minute), (_, next_is_old, next_minute)] => {
            *next_is_old || (!is_old && minute == next_minute)
        }
        _ => false,
    };
    let spare = entries.windows(2).filter(is_spare).map(|pair| (pair[0].0.epoch, pair[0].0.n));
    Ok(Look {
        spare: spare.collect(),
        last: entries.last().map_or_else(Place::default, |(place, ..)| *place),
        looked: entries.len(),
    })
}

/// Removes what a look found.
async fn remove<D: Dialect>(
    session: &mut Session<'_, D>,
    (route, shard): &ShardName,
    spare: &[(i64, i64)],
) -> Result<u64, Fault> {
    let entries = params![route: route, shard: *shard, entries: spare];
    session.execute(Statement::PurgeProgress, &entries).await
}
