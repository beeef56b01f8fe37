//! Thinning the journal of progress, a bounded piece at a time: however long it has grown, a call looks
//! at so many entries and no more.

use std::{collections::HashMap, time::Duration};

use sqlx::{MySqlConnection, Row};

use crate::{
    error::Fault,
    row::{self, json_array, micros},
};

/// Entries one statement looks at.
const LOOK_ENTRIES: usize = 10_000;
/// Statements that one round spends on one shard.
pub(crate) const LOOKS_MAX: usize = 5;

/// One shard of a route.
pub(crate) type Shard = (String, u16);

/// Up to which entry each shard's journal has been thinned. Entries before it are looked at again only
/// from the start of the journal, where retention lets go of them.
pub(crate) type Thinned = HashMap<Shard, Place>;

/// An entry of a shard's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    epoch: i64,
    n: i64,
}

/// What one look at a journal found.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// Entries that may go.
    pub(crate) spare: Vec<Place>,
    /// The last entry looked at; the start where there was none.
    last: Place,
    looked: usize,
}

impl Look {
    /// Where to look next, given where the last round ended: on from here while everything goes, else
    /// from there. `None` at the end of the journal.
    pub(crate) fn next(&self, resumed: Place) -> Option<Place> {
        if self.looked < LOOK_ENTRIES {
            return None;
        }
        let is_emptied = self.spare.len() + 1 >= self.looked;
        Some(if is_emptied { self.last } else { self.last.max(resumed) })
    }

    /// Where the next round goes on.
    pub(crate) fn end(&self, resumed: Place) -> Place {
        self.next(resumed).map_or(self.last, |next| next.max(resumed))
    }
}

/// Every shard of every route.
pub(crate) async fn shards(connection: &mut MySqlConnection) -> Result<Vec<Shard>, Fault> {
    let rows = sqlx::query(include_str!("../sql/purge_shards.sql")).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row::text(row, 0)?.unwrap_or_default(), row.try_get(1)?))).collect()
}

/// Finds entries that may go, without a lock. Of a shard stay: the latest, the one that retention goes
/// by, and after that the last of every minute, which is what retention will go by later. The last
/// entry looked at stays, too: what follows it is not known.
pub(crate) async fn look(
    connection: &mut MySqlConnection,
    retention: Duration,
    shard: &Shard,
    from: Place,
) -> Result<Look, Fault> {
    let rows = sqlx::query(include_str!("../sql/purge_progress_scan.sql"))
        .bind(micros(retention))
        .bind(shard.0.as_bytes())
        .bind(shard.1)
        .bind(from.epoch)
        .bind(from.epoch)
        .bind(from.n)
        .bind(i64::try_from(LOOK_ENTRIES).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await?;
    let mut entries = Vec::with_capacity(rows.len());
    for row in &rows {
        let place = Place { epoch: row.try_get(0)?, n: row.try_get(1)? };
        entries.push((place, row.try_get::<bool, _>(2)?, row.try_get::<i64, _>(3)?));
    }
    let is_spare = |pair: &&[(Place, bool, i64)]| match pair {
        [(_, is_old, minute), (_, next_is_old, next_minute)] => {
            *next_is_old || (!is_old && minute == next_minute)
        }
        _ => false,
    };
    Ok(Look {
        spare: entries.windows(2).filter(is_spare).map(|pair| pair[0].0).collect(),
        last: entries.last().map_or_else(Place::default, |(place, ..)| *place),
        looked: entries.len(),
    })
}

/// Removes what a look found.
pub(crate) async fn remove(
    connection: &mut MySqlConnection,
    shard: &Shard,
    look: &Look,
) -> Result<u64, Fault> {
    let spare = look.spare.iter().map(|place| serde_json::json!([place.epoch, place.n]));
    let done = sqlx::query(include_str!("../sql/purge_progress.sql"))
        .bind(json_array(spare))
        .bind(shard.0.as_bytes())
        .bind(shard.1)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}
