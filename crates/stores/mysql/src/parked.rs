//! Parked messages: which are due, which are dead, and what people do with those.
//!
//! A message that is retrying, or dead and blocking, holds back the later ones of its key. Only the
//! first of a key has an attempt planned; [`order_keys`] restores that after every change.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use posthaste_core::{
    Due, FLOOR_MISSING_MAX, Lease, ParkState, Parked, ParkedFilter, ParkedView, Seq, Shard,
};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    error::Fault,
    route::{lock_leases, mark_leases},
    row::{self, CREATED, MORE, SEQ, hex_array, json_array},
};

/// Dead letters changed by one statement.
const CHANGE_ROWS: usize = 10_000;

/// Makes the messages of the keys wait for the first of their key, and plans that one's attempt.
pub(crate) async fn order_keys(
    connection: &mut MySqlConnection,
    route: &str,
    keys: &[String],
) -> Result<(), Fault> {
    if keys.is_empty() {
        return Ok(());
    }
    let keys = hex_array(keys.iter().map(String::as_str));
    sqlx::query(include_str!("../sql/hold_followers.sql"))
        .bind(&keys)
        .bind(route.as_bytes())
        .bind(route.as_bytes())
        .bind(route.as_bytes())
        .execute(&mut *connection)
        .await?;
    sqlx::query(include_str!("../sql/promote_heads.sql"))
        .bind(route.as_bytes())
        .bind(&keys)
        .bind(route.as_bytes())
        .execute(connection)
        .await?;
    Ok(())
}

/// A parked message and the size of its payload.
type Sized = (Seq, u32);

/// The due port.
pub(crate) async fn due(
    connection: &mut MySqlConnection,
    lease: &Lease,
    limit: u32,
    bytes_max: usize,
) -> Result<Due, Fault> {
    let heads = sqlx::query_as(include_str!("../sql/due_heads.sql"))
        .bind(lease.route.as_bytes())
        .bind(lease.shard.of)
        .bind(lease.shard.index)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await?;
    let next_in: Option<i64> = sqlx::query_scalar(include_str!("../sql/due_next.sql"))
        .bind(lease.route.as_bytes())
        .bind(lease.shard.of)
        .bind(lease.shard.index)
        .fetch_optional(&mut *connection)
        .await?;
    let queued = with_followers(connection, &lease.route, heads, limit).await?;
    let seqs = within(&queued, bytes_max);
    Ok(Due {
        messages: load(connection, &lease.route, &seqs).await?,
        next_in: next_in.map(row::duration),
        undelivered: undelivered(connection, &lease.route, lease.shard).await?,
    })
}

/// Seqs of the shard that may still come, as many as a grant tells.
pub(crate) async fn undelivered(
    connection: &mut MySqlConnection,
    route: &str,
    shard: Shard,
) -> Result<Vec<Seq>, Fault> {
    let seqs_max = i64::try_from(FLOOR_MISSING_MAX + 1).unwrap_or(i64::MAX);
    let mut query = sqlx::query_scalar(include_str!("../sql/undelivered.sql"));
    for _state in ["retrying", "dead"] {
        query = query.bind(route.as_bytes()).bind(shard.of).bind(shard.index).bind(seqs_max);
    }
    Ok(query.bind(seqs_max).fetch_all(connection).await?)
}

/// The heads and those queued behind them, key by key. Every head has its place before followers
/// take what is left, so that one long queue does not keep other keys waiting.
async fn with_followers(
    connection: &mut MySqlConnection,
    route: &str,
    heads: Vec<(Seq, u32, Option<Vec<u8>>)>,
    limit: u32,
) -> Result<Vec<Sized>, Fault> {
    let mut room = (limit as usize).saturating_sub(heads.len());
    let mut queued = Vec::new();
    for (head, bytes, key) in heads {
        queued.push((head, bytes));
        let Some(key) = key.filter(|_| room > 0) else {
            continue;
        };
        let followers: Vec<Sized> = sqlx::query_as(include_str!("../sql/due_followers.sql"))
            .bind(route.as_bytes())
            .bind(&key)
            .bind(head)
            .bind(route.as_bytes())
            .bind(&key)
            .bind(head)
            .bind(i64::try_from(room).unwrap_or(i64::MAX))
            .fetch_all(&mut *connection)
            .await?;
        room -= followers.len();
        queued.extend(followers);
    }
    Ok(queued)
}

/// As many as fit, and at least one.
fn within(queued: &[Sized], bytes_max: usize) -> Vec<Seq> {
    let mut total = 0;
    let fitting = queued.iter().take_while(|(_, bytes)| {
        total += *bytes as usize;
        total <= bytes_max
    });
    let count = fitting.count().max(1);
    queued.iter().take(count).map(|(seq, _)| *seq).collect()
}

/// The messages of the seqs, in that order.
async fn load(
    connection: &mut MySqlConnection,
    route: &str,
    seqs: &[Seq],
) -> Result<Vec<Parked>, Fault> {
    if seqs.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(include_str!("../sql/due_messages.sql"))
        .bind(json_array(seqs.iter().copied()))
        .bind(route.as_bytes())
        .fetch_all(connection)
        .await?;
    let mut parked = HashMap::new();
    for row in &rows {
        let message = Parked {
            seq: row.try_get(SEQ)?,
            message: row::message(row)?,
            attempts: row.try_get(MORE)?,
            unknowns: row.try_get(MORE + 1)?,
            redriven: row.try_get(MORE + 2)?,
            enqueued_at: row::instant(row.try_get(CREATED)?),
            age: row::duration(row.try_get(MORE + 3)?),
        };
        parked.insert(message.seq, message);
    }
    Ok(seqs.iter().filter_map(|seq| parked.remove(seq)).collect())
}

/// The dead port.
pub(crate) async fn dead(
    connection: &mut MySqlConnection,
    filter: &ParkedFilter,
    limit: u32,
) -> Result<Vec<ParkedView>, Fault> {
    let filter = Filter::of(filter);
    let rows = sqlx::query(include_str!("../sql/dead.sql"))
        .bind(filter.state)
        .bind(filter.state)
        .bind(&filter.ids)
        .bind(&filter.route)
        .bind(&filter.route)
        .bind(&filter.ids)
        .bind(&filter.ids)
        .bind(&filter.topic)
        .bind(&filter.topic)
        .bind(&filter.class)
        .bind(&filter.class)
        .bind(limit)
        .fetch_all(connection)
        .await?;
    rows.iter().map(view).collect()
}

pub(crate) fn view(row: &MySqlRow) -> Result<ParkedView, Fault> {
    let text = |index| Ok::<_, Fault>(row::text(row, index)?.unwrap_or_default());
    let pair = |first: usize, second: usize| -> Result<Option<(String, String)>, Fault> {
        Ok(row::text(row, first)?.zip(row::text(row, second)?))
    };
    Ok(ParkedView {
        seq: row.try_get(SEQ)?,
        message: row::message(row)?,
        attempts: row.try_get(MORE)?,
        unknowns: row.try_get(MORE + 1)?,
        redriven: row.try_get(MORE + 2)?,
        next_attempt_in: row.try_get::<Option<i64>, _>(MORE + 3)?.map(row::duration),
        route: text(MORE + 4)?,
        state: state(&text(MORE + 5)?),
        first_error: pair(MORE + 6, MORE + 7)?,
        last_error: pair(MORE + 8, MORE + 9)?,
        created_at: text(MORE + 10)?,
        parked_at: text(MORE + 11)?,
        state_at: text(MORE + 12)?,
        acted: pair(MORE + 13, MORE + 14)?,
    })
}

/// The table has these three states and no other.
fn state(word: &str) -> ParkState {
    let states = [ParkState::Retrying, ParkState::Discarded];
    let state = states.into_iter().find(|state| state.as_str() == word);
    state.unwrap_or(ParkState::Dead)
}

/// The redrive port, in a transaction.
pub(crate) async fn redrive(
    connection: &mut MySqlConnection,
    filter: &ParkedFilter,
    by: &str,
) -> Result<u64, Fault> {
    if filter.is_retrying {
        return Ok(0);
    }
    let letters = Letters::lock(connection, filter).await?;
    for (route, seqs) in letters.chunks() {
        sqlx::query(include_str!("../sql/redrive.sql"))
            .bind(json_array(seqs.iter().copied()))
            .bind(route.as_bytes())
            .bind(by.as_bytes())
            .execute(&mut *connection)
            .await?;
    }
    letters.order_keys(connection).await
}

/// The discard port, in a transaction.
pub(crate) async fn discard(
    connection: &mut MySqlConnection,
    filter: &ParkedFilter,
    by: &str,
    why: &str,
) -> Result<u64, Fault> {
    let letters = Letters::lock(connection, filter).await?;
    for (route, seqs) in letters.chunks() {
        sqlx::query(include_str!("../sql/discard.sql"))
            .bind(json_array(seqs.iter().copied()))
            .bind(route.as_bytes())
            .bind(by.as_bytes())
            .bind(why.as_bytes())
            .execute(&mut *connection)
            .await?;
    }
    if filter.is_retrying {
        letters.fence(connection).await?;
    }
    letters.order_keys(connection).await
}

/// Parked messages that a person means, by route.
#[derive(Default)]
struct Letters {
    routes: BTreeMap<String, (Vec<Seq>, BTreeSet<String>)>,
}

impl Letters {
    /// Finds them, and keeps settlements of their routes out until the transaction ends. Of no other
    /// route: one whose lease somebody keeps locked does not stop the rest.
    async fn lock(connection: &mut MySqlConnection, filter: &ParkedFilter) -> Result<Self, Fault> {
        let filter = Filter::of(filter);
        let found = Self::find(connection, &filter).await?;
        for route in found.routes.keys() {
            lock_leases(connection, route).await?;
            mark_leases(connection, route).await?;
        }
        // Again: what was found may have been decided about by another.
        let mut letters = Self::find(connection, &filter).await?;
        letters.routes.retain(|route, _| found.routes.contains_key(route));
        Ok(letters)
    }

    async fn find(connection: &mut MySqlConnection, filter: &Filter) -> Result<Self, Fault> {
        let rows = sqlx::query(include_str!("../sql/dead_matching.sql"))
            .bind(filter.state)
            .bind(&filter.route)
            .bind(&filter.route)
            .bind(&filter.ids)
            .bind(&filter.ids)
            .bind(&filter.topic)
            .bind(&filter.topic)
            .bind(&filter.class)
            .bind(&filter.class)
            .fetch_all(connection)
            .await?;
        let mut letters = Self::default();
        for row in &rows {
            let route = row::text(row, 0)?.unwrap_or_default();
            let (seqs, keys) = letters.routes.entry(route).or_default();
            seqs.push(row.try_get(1)?);
            keys.extend(row::text(row, 2)?);
        }
        Ok(letters)
    }

    fn chunks(&self) -> impl Iterator<Item = (&str, &[Seq])> {
        self.routes.iter().flat_map(|(route, (seqs, _))| {
            seqs.chunks(CHANGE_ROWS).map(move |chunk| (route.as_str(), chunk))
        })
    }

    /// Ends the leases of their routes, whose holders may be trying them.
    async fn fence(&self, connection: &mut MySqlConnection) -> Result<(), Fault> {
        for route in self.routes.keys() {
            sqlx::query(include_str!("../sql/fence_leases.sql"))
                .bind(route.as_bytes())
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }

    /// Lets their keys go on; returns how many letters there are.
    async fn order_keys(&self, connection: &mut MySqlConnection) -> Result<u64, Fault> {
        let mut count = 0;
        for (route, (seqs, keys)) in &self.routes {
            let keys: Vec<String> = keys.iter().cloned().collect();
            order_keys(connection, route, &keys).await?;
            count += seqs.len() as u64;
        }
        Ok(count)
    }
}

/// A filter as parameters; `None` for any.
pub(crate) struct Filter {
    /// The state of the messages that are meant; never NULL.
    pub(crate) state: &'static str,
    pub(crate) route: Option<Vec<u8>>,
    pub(crate) ids: Option<String>,
    pub(crate) topic: Option<Vec<u8>>,
    pub(crate) class: Option<Vec<u8>>,
}

impl Filter {
    pub(crate) fn of(filter: &ParkedFilter) -> Self {
        let bytes = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
        let ids = filter.ids.iter().map(ToString::to_string);
        let state = if filter.is_retrying { ParkState::Retrying } else { ParkState::Dead };
        Self {
            state: state.as_str(),
            route: bytes(&filter.route),
            ids: (!filter.ids.is_empty()).then(|| json_array(ids)),
            topic: bytes(&filter.topic),
            class: bytes(&filter.class),
        }
    }
}
