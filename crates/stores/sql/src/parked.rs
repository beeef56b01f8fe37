//! Parked messages: which are due, which are dead, and what people do with those.
//!
//! A message that is retrying, or dead and blocking, holds back the later ones of its key. Only the first of
//! a key has an attempt planned; [`order_keys`] restores that after every change.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use posthaste_core::{
    Due, FLOOR_MISSING_MAX, Lease, ParkState, Parked, ParkedFilter, ParkedView, Seq, Shard,
    StoreError,
};
use uuid::Uuid;

use crate::{
    Dialect, Fault, Optional, Param, Row, Session, SqlStore, Statement, call,
    dialect::Sized,
    message::{self, CREATED, MORE, SEQ},
    params,
    route::{lock_leases, mark_leases},
};

/// Messages that one call acts on: the leases of their routes are locked meanwhile.
const ACT_ROWS_MAX: usize = 2_000;

/// Makes the messages of the keys wait for the first of their key, and plans that one's attempt. `seqs` are
/// the messages of the keys that were changed.
pub(crate) async fn order_keys<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    keys: &[String],
    seqs: &[Seq],
) -> Result<(), Fault> {
    if keys.is_empty() {
        return Ok(());
    }
    let touched = params![route: route, keys: keys, seqs: seqs];
    session.execute(Statement::HoldFollowers, &touched).await?;
    session.execute(Statement::PromoteHeads, &touched).await?;
    Ok(())
}

/// The due port.
pub(crate) async fn due<D: Dialect>(
    session: &mut Session<'_, D>,
    lease: &Lease,
    limit: u32,
    bytes_max: usize,
) -> Result<Due, Fault> {
    let queued = D::due_seqs(session, lease, limit).await?;
    let seqs = fitting(&queued, bytes_max);
    let shard = params![route: &lease.route, of: lease.shard.of, index: lease.shard.index];
    let next = session.row(Statement::DueNext, &shard).await?;
    Ok(Due {
        messages: load(session, &lease.route, &seqs).await?,
        next_in: next.map(|row| row.duration(0)).transpose()?.flatten(),
        undelivered: undelivered(session, &lease.route, lease.shard).await?,
    })
}

/// Seqs of the shard that may still come, as many as a grant tells.
pub(crate) async fn undelivered<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    shard: Shard,
) -> Result<Vec<Seq>, Fault> {
    let shard = params![
        route: route,
        of: shard.of,
        index: shard.index,
        limit: FLOOR_MISSING_MAX + 1,
    ];
    let rows = session.rows(Statement::Undelivered, &shard).await?;
    rows.iter().map(|row| row.number(0)).collect()
}

/// The first messages of keys and those queued behind them, key by key.
pub(crate) async fn heads_and_followers<D: Dialect>(
    session: &mut Session<'_, D>,
    lease: &Lease,
    limit: u32,
) -> Result<Vec<Sized>, Fault> {
    let Lease { route, shard, .. } = lease;
    let look = params![route: route, of: shard.of, index: shard.index, limit: limit];
    let heads = session.optional(Optional::DueHeads, &look).await?.rows;
    let mut room = (limit as usize).saturating_sub(heads.len());
    let mut queued = Vec::new();
    for head in &heads {
        let (seq, key) = (head.number::<Seq>(0)?, head.text(2)?);
        queued.push((seq, head.count(1)?));
        let Some(key) = key.filter(|_| room > 0) else {
            continue;
        };
        let behind = params![route: route, key: key, head: seq, limit: room];
        let followers = session.optional(Optional::DueFollowers, &behind).await?.rows;
        room -= followers.len();
        for follower in &followers {
            queued.push((follower.number(0)?, follower.count(1)?));
        }
    }
    Ok(queued)
}

/// As many as fit, and at least one.
fn fitting(queued: &[Sized], bytes_max: usize) -> Vec<Seq> {
    let mut total = 0;
    let fitting = queued.iter().take_while(|(_, bytes)| {
        total += bytes;
        total <= bytes_max as u64
    });
    let count = fitting.count().max(1);
    queued.iter().take(count).map(|(seq, _)| *seq).collect()
}

/// The messages of the seqs, in that order.
async fn load<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    seqs: &[Seq],
) -> Result<Vec<Parked>, Fault> {
    if seqs.is_empty() {
        return Ok(Vec::new());
    }
    let rows = session.rows(Statement::DueMessages, &params![route: route, seqs: seqs]).await?;
    let mut parked = HashMap::new();
    for mut row in rows {
        let message = Parked {
            seq: row.number(SEQ)?,
            attempts: row.number(MORE)?,
            unknowns: row.number(MORE + 1)?,
            redriven: row.number(MORE + 2)?,
            enqueued_at: row.instant(CREATED)?,
            age: row.duration(MORE + 3)?.unwrap_or_default(),
            message: message::message(&mut row)?,
        };
        parked.insert(message.seq, message);
    }
    Ok(seqs.iter().filter_map(|seq| parked.remove(seq)).collect())
}

/// A filter as parameters; NULL for any.
pub(crate) fn filter_params(filter: &ParkedFilter) -> Vec<Param<'_>> {
    let ids: Vec<Uuid> = filter.ids.iter().map(|id| id.0).collect();
    params![
        state: wanted(filter).as_str(),
        route: &filter.route,
        ids: (!filter.ids.is_empty()).then_some(ids),
        topic: &filter.topic,
        class: &filter.class,
    ]
    .into()
}

/// The state of the messages that a filter means.
fn wanted(filter: &ParkedFilter) -> ParkState {
    if filter.is_retrying { ParkState::Retrying } else { ParkState::Dead }
}

/// The dead port.
pub(crate) async fn dead<D: Dialect>(
    session: &mut Session<'_, D>,
    filter: &ParkedFilter,
    limit: u32,
) -> Result<Vec<ParkedView>, Fault> {
    let mut matching = filter_params(filter);
    matching.extend(params![limit: limit]);
    session.rows(Statement::Dead, &matching).await?.into_iter().map(view).collect()
}

/// A parked message as people see it.
pub(crate) fn view(mut row: Row) -> Result<ParkedView, Fault> {
    let pair = |first: usize| -> Result<Option<(String, String)>, Fault> {
        Ok(row.text(MORE + first)?.zip(row.text(MORE + first + 1)?))
    };
    let (first_error, last_error, acted) = (pair(6)?, pair(8)?, pair(13)?);
    Ok(ParkedView {
        seq: row.number(SEQ)?,
        attempts: row.number(MORE)?,
        unknowns: row.number(MORE + 1)?,
        redriven: row.number(MORE + 2)?,
        next_attempt_in: row.duration(MORE + 3)?,
        route: row.string(MORE + 4)?,
        state: state(&row.string(MORE + 5)?),
        first_error,
        last_error,
        created_at: row.string(MORE + 10)?,
        parked_at: row.string(MORE + 11)?,
        state_at: row.string(MORE + 12)?,
        acted,
        message: message::message(&mut row)?,
    })
}

/// The table has these three states and no other.
fn state(word: &str) -> ParkState {
    let states = [ParkState::Retrying, ParkState::Discarded];
    let state = states.into_iter().find(|state| state.as_str() == word);
    state.unwrap_or(ParkState::Dead)
}

/// What a person does with parked messages.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Redrive { by: String },
    Discard { by: String, why: String },
}

/// The redrive and discard ports: in pieces, each a transaction of its own, so that no call holds the leases
/// for longer the more messages there are. Returns how many messages it acted on.
pub(crate) async fn act<D: Dialect>(
    store: &SqlStore<D>,
    operation: &'static str,
    filter: &ParkedFilter,
    act: Act,
) -> Result<u64, StoreError> {
    let (mut letters, mut from) = (0, Some(0));
    while let Some(seq) = from {
        let argument = (filter.clone(), act.clone(), seq);
        let piece =
            call!(store, operation, Transaction, argument, |session, (filter, act, seq)| {
                piece(session, filter, act, *seq)
            });
        let piece = piece.await?;
        letters += piece.letters;
        from = piece.more;
    }
    Ok(letters)
}

/// What one call did.
struct Piece {
    letters: u64,
    /// From where on there may be more. A message that dies again meanwhile lies before it.
    more: Option<Seq>,
}

async fn piece<D: Dialect>(
    session: &mut Session<'_, D>,
    filter: &ParkedFilter,
    act: &Act,
    from: Seq,
) -> Result<Piece, Fault> {
    let letters = Letters::lock(session, filter, from).await?;
    for (route, (seqs, keys)) in &letters.routes {
        let whom = params![route: route, seqs: seqs.as_slice()];
        match act {
            Act::Redrive { by } => {
                let redrive = [&whom[..], &params![by: by]].concat();
                session.execute(Statement::Redrive, &redrive).await?;
            }
            Act::Discard { by, why } => {
                let discard = [&whom[..], &params![by: by, why: why]].concat();
                session.execute(Statement::Discard, &discard).await?;
            }
        }
        if filter.is_retrying {
            // The holders of the route's leases may be trying them.
            session.execute(Statement::FenceLeases, &params![route: route]).await?;
        }
        let keys: Vec<String> = keys.iter().cloned().collect();
        order_keys(session, route, &keys, seqs).await?;
    }
    let seqs = letters.routes.values().map(|(seqs, _)| seqs.len() as u64);
    Ok(Piece { letters: seqs.sum(), more: letters.more })
}

/// Parked messages that a person means, by route.
#[derive(Default)]
struct Letters {
    routes: BTreeMap<String, (Vec<Seq>, BTreeSet<String>)>,
    more: Option<Seq>,
}

impl Letters {
    /// Finds them, and keeps settlements of their routes out until the transaction ends. Of no other
    /// route: one whose lease somebody keeps locked does not stop the rest.
    async fn lock<D: Dialect>(
        session: &mut Session<'_, D>,
        filter: &ParkedFilter,
        from: Seq,
    ) -> Result<Self, Fault> {
        let found = Self::find(session, filter, from).await?;
        for route in found.routes.keys() {
            lock_leases(session, route).await?;
            mark_leases(session, route).await?;
        }
        // Again: another may have decided about what was found.
        let mut letters = Self::find(session, filter, from).await?;
        letters.routes.retain(|route, _| found.routes.contains_key(route));
        Ok(letters)
    }

    async fn find<D: Dialect>(
        session: &mut Session<'_, D>,
        filter: &ParkedFilter,
        from: Seq,
    ) -> Result<Self, Fault> {
        let mut matching = filter_params(filter);
        matching.extend(params![from: from, limit: ACT_ROWS_MAX]);
        let rows = session.rows(Statement::DeadMatching, &matching).await?;
        let mut letters = Self::default();
        for row in &rows {
            let (seqs, keys) = letters.routes.entry(row.string(0)?).or_default();
            seqs.push(row.number(1)?);
            keys.extend(row.text(2)?);
        }
        if rows.len() >= ACT_ROWS_MAX {
            letters.more = rows.last().map(|row| row.number(1)).transpose()?;
        }
        Ok(letters)
    }
}
