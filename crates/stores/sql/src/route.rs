//! Routes, how they are split, and the relays that serve them. A resize stops every shard at a common
//! position first.

use std::{collections::BTreeSet, time::Duration};

use posthaste_core::{
    Layout, Pause, Position, RelayBeat, RelayId, RouteSpec, SHARDS_MAX, Seq, TopicPattern, bucket,
};

use crate::{
    Dialect, Fault, Optional, Row, Session, Statement,
    message::{is_matched, topics_from_json, topics_to_json},
    params, parked,
    value::json_array,
};

/// Rows that one statement parks when topics change.
const WAITING_ROWS: usize = 1_000;

/// A route as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) topics: Vec<TopicPattern>,
    pub(crate) shards: u16,
    /// Set together with `barrier` while the route is being resized.
    resizing_to: Option<u16>,
    /// Where every shard stops before the resize completes.
    pub(crate) barrier: Option<Position>,
}

impl Stored {
    fn of(row: &Row) -> Result<Self, Fault> {
        let resizing_to = row.int(2)?.map(|_| row.number(2)).transpose()?;
        let barrier = row.text(3)?.map(|_| row.position(3)).transpose()?;
        Ok(Self {
            topics: topics_from_json(&row.string(0)?)?,
            shards: row.number(1)?,
            resizing_to,
            barrier,
        })
    }

    fn layout(&self) -> Layout {
        Layout { shards: self.shards, resizing_to: self.resizing_to }
    }

    /// What this route is to become, but for the place to stop at.
    fn asked_for(&self, spec: &RouteSpec) -> Self {
        let resizing_to = (self.shards != spec.shards).then_some(spec.shards);
        Self {
            topics: spec.topics.clone(),
            shards: self.shards,
            resizing_to,
            // Shards may have been told where to stop: another target does not move that place.
            barrier: self.barrier.clone().filter(|_| resizing_to.is_some()),
        }
    }
}

/// A route as it is now.
pub(crate) async fn read<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
) -> Result<Option<Stored>, Fault> {
    let row = session.row(Statement::ReadRoute, &params![route: route]).await?;
    row.map(|row| Stored::of(&row)).transpose()
}

/// A route, which stays as it is until the transaction ends.
pub(crate) async fn lock<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
) -> Result<Option<Stored>, Fault> {
    let row = session.row(Statement::LockRoute, &params![route: route]).await?;
    row.map(|row| Stored::of(&row)).transpose()
}

/// The layout, where the route is known just as it is to be: most registrations change nothing.
pub(crate) async fn registered<D: Dialect>(
    session: &mut Session<'_, D>,
    spec: &RouteSpec,
) -> Result<Option<Layout>, Fault> {
    let stored = read(session, &spec.name).await?;
    let stored = stored.filter(|stored| stored.asked_for(spec) == *stored);
    Ok(stored.map(|stored| stored.layout()))
}

/// The register port, in a transaction.
pub(crate) async fn register<D: Dialect>(
    session: &mut Session<'_, D>,
    spec: &RouteSpec,
) -> Result<Layout, Fault> {
    let RouteSpec { name, topics, shards } = spec;
    if !(1..=SHARDS_MAX).contains(shards) {
        return Err(Fault::refused(format!(
            "route `{name}` asks for {shards} shards; must be 1 to {SHARDS_MAX}"
        )));
    }
    let insert = params![route: name, topics: topics_to_json(topics), shards: *shards];
    session.execute(Statement::RegisterRoute, &insert).await?;
    // Another relay may have been first, and with other topics.
    let stored = lock(session, name).await?;
    let stored = stored.ok_or_else(|| Fault::internal("a route vanished"))?;
    insert_leases(session, name, stored.shards, 0).await?;
    let mut wanted = stored.asked_for(spec);
    if wanted.topics != stored.topics {
        change_topics(session, spec).await?;
    }
    if wanted.resizing_to.is_some() && wanted.barrier.is_none() {
        wanted.barrier = Some(D::head(session, name).await?);
    }
    if wanted != stored {
        write(session, name, &wanted).await?;
    }
    // Last of all, so that whoever waits for it has the routes locked already.
    session.optional(Optional::MarkRoutes, &[]).await?;
    Ok(wanted.layout())
}

/// Ends the route's leases, whose holders may have read on by the old topics. Parks the messages that no
/// route took until now, that this one takes from now on, and that it has passed. The new topics are
/// written after this.
async fn change_topics<D: Dialect>(
    session: &mut Session<'_, D>,
    spec: &RouteSpec,
) -> Result<(), Fault> {
    lock_leases(session, &spec.name).await?;
    mark_leases(session, &spec.name).await?;
    let shards = read_shards(session, &spec.name).await?;
    session.execute(Statement::FenceLeases, &params![route: &spec.name]).await?;
    session.execute(Statement::ForgetLog, &params![route: &spec.name]).await?;
    let end = shards.iter().map(|shard| shard.position.seq()).max().unwrap_or(0);
    let topics = waiting_topics(session, spec, end).await?;
    if topics.is_empty() {
        return Ok(());
    }
    let mut after: Seq = 0;
    loop {
        let scan = params![after: after, end: end, topics: topics.as_slice(), limit: WAITING_ROWS];
        let rows = session.rows(Statement::WaitingScan, &scan).await?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        after = last.number(0)?;
        park_waiting(session, &spec.name, &shards, &rows).await?;
    }
}

/// Parks those of the rows (seq, key, version) that the shard they belong to has passed.
async fn park_waiting<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    shards: &[ShardPosition],
    rows: &[Row],
) -> Result<(), Fault> {
    let (mut waiting, mut waiting_keys) = (Vec::new(), Vec::new());
    for row in rows {
        let (seq, key, version) = (row.number(0)?, row.text(1)?, row.text(2)?);
        let bucket = bucket(key.as_deref(), seq);
        let shard = &shards[bucket as usize % shards.len()];
        if session.dialect.covers(&shard.position, seq, version.as_deref()) {
            waiting.push((seq, i64::from(bucket)));
            waiting_keys.push(key);
        }
    }
    if waiting.is_empty() {
        return Ok(());
    }
    let keys = json_array(waiting_keys.iter().cloned());
    let park = params![route: route, rows: waiting.as_slice(), keys: keys];
    session.execute(Statement::ParkWaiting, &park).await?;
    let keys: BTreeSet<String> = waiting_keys.into_iter().flatten().collect();
    let keys: Vec<String> = keys.into_iter().collect();
    let seqs: Vec<Seq> = waiting.iter().map(|(seq, _)| *seq).collect();
    parked::order_keys(session, route, &keys, &seqs).await
}

/// The topics in the log, up to a seq, that the route takes from now on and that no route took until now, as
/// `waiting_scan` takes them.
async fn waiting_topics<D: Dialect>(
    session: &mut Session<'_, D>,
    spec: &RouteSpec,
    end: Seq,
) -> Result<Vec<String>, Fault> {
    let taken = topics(session).await?;
    let rows = session.rows(Statement::WaitingTopics, &params![end: end]).await?;
    let mut waiting = Vec::new();
    for row in &rows {
        let topic = row.string(0)?;
        if is_matched(&spec.topics, &topic) && !is_matched(&taken, &topic) {
            waiting.push(row.string(1)?);
        }
    }
    Ok(waiting)
}

/// The patterns of all routes.
pub(crate) async fn topics<D: Dialect>(
    session: &mut Session<'_, D>,
) -> Result<Vec<TopicPattern>, Fault> {
    patterns(&session.rows(Statement::ReadTopics, &[]).await?)
}

/// The patterns in rows whose first column is a route's topics.
pub(crate) fn patterns(rows: &[Row]) -> Result<Vec<TopicPattern>, Fault> {
    let mut topics = Vec::new();
    for row in rows {
        topics.extend(topics_from_json(&row.string(0)?)?);
    }
    Ok(topics)
}

/// The reshard port, in a transaction.
pub(crate) async fn reshard<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
) -> Result<Layout, Fault> {
    let stored = lock(session, route).await?.ok_or_else(|| Fault::unknown_route(route))?;
    let (Some(shards), Some(barrier)) = (stored.resizing_to, &stored.barrier) else {
        return Ok(stored.layout());
    };
    lock_leases(session, route).await?;
    let present = read_shards(session, route).await?;
    let has_arrived = |shard: &ShardPosition| {
        session.dialect.is_within(&shard.position, barrier)
            && session.dialect.is_within(barrier, &shard.position)
    };
    if !present.iter().all(has_arrived) {
        return Ok(stored.layout());
    }
    mark_leases(session, route).await?;
    let epoch = present.iter().map(|shard| shard.epoch + 1).max().unwrap_or(1);
    session.execute(Statement::DeleteLeases, &params![route: route]).await?;
    session.execute(Statement::DeleteProgress, &params![route: route]).await?;
    insert_leases(session, route, shards, epoch).await?;
    let insert = params![route: route, position: barrier, seq: barrier.seq()];
    session.execute(Statement::InsertProgress, &insert).await?;
    let resized = Stored { shards, resizing_to: None, barrier: None, ..stored };
    write(session, route, &resized).await?;
    Ok(resized.layout())
}

/// Makes the shards of a route that is being resized stop further on, at the present end of the log.
pub(crate) async fn move_barrier<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    stored: Stored,
) -> Result<Position, Fault> {
    let barrier = D::head(session, route).await?;
    write(session, route, &Stored { barrier: Some(barrier.clone()), ..stored }).await?;
    Ok(barrier)
}

async fn write<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    stored: &Stored,
) -> Result<(), Fault> {
    let update = params![
        route: route,
        topics: topics_to_json(&stored.topics),
        shards: stored.shards,
        resizing_to: stored.resizing_to,
        barrier: stored.barrier.as_ref().map(ToString::to_string),
    ];
    session.execute(Statement::WriteRoute, &update).await?;
    Ok(())
}

async fn insert_leases<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
    shards: u16,
    epoch: i64,
) -> Result<(), Fault> {
    let indexes: Vec<i64> = (0..shards).map(i64::from).collect();
    let insert = params![route: route, indexes: indexes, epoch: epoch];
    session.execute(Statement::InsertLeases, &insert).await?;
    Ok(())
}

/// How far a shard is.
pub(crate) struct ShardPosition {
    pub(crate) epoch: i64,
    pub(crate) position: Position,
}

/// The positions of a route's shards, in their order.
async fn read_shards<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
) -> Result<Vec<ShardPosition>, Fault> {
    let rows = session.rows(Statement::ReadShards, &params![route: route]).await?;
    let shard = |row: &Row| Ok(ShardPosition { epoch: row.number(1)?, position: row.position(2)? });
    rows.iter().map(shard).collect()
}

/// Keeps settlements of a route out until the transaction ends.
pub(crate) async fn lock_leases<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
) -> Result<(), Fault> {
    session.run(Statement::LockLeases, &params![route: route]).await?;
    Ok(())
}

/// Keeps settlements of a route out that another node of a cluster has committed and that are not here
/// yet. The leases are locked.
pub(crate) async fn mark_leases<D: Dialect>(
    session: &mut Session<'_, D>,
    route: &str,
) -> Result<(), Fault> {
    session.optional(Optional::MarkLeases, &params![route: route]).await?;
    Ok(())
}

/// The beat port.
pub(crate) async fn beat<D: Dialect>(
    session: &mut Session<'_, D>,
    relay: &RelayBeat,
    ttl: Duration,
) -> Result<Vec<u32>, Fault> {
    let insert = params![
        relay: relay.id,
        name: &relay.name,
        version: &relay.version,
        routes: json_array(relay.routes.iter().map(String::as_str)),
        paused: Pause::to_text(&relay.paused),
        ttl: ttl,
    ];
    session.execute(Statement::Beat, &insert).await?;
    let mut counts = vec![0; relay.routes.len()];
    for row in &session.rows(Statement::BeatRoutes, &[]).await? {
        let served: Vec<String> = serde_json::from_str(&row.string(0)?).map_err(Fault::internal)?;
        for (count, route) in counts.iter_mut().zip(&relay.routes) {
            *count += u32::from(served.contains(route));
        }
    }
    Ok(counts)
}

/// The retire port.
pub(crate) async fn retire<D: Dialect>(
    session: &mut Session<'_, D>,
    relay: RelayId,
) -> Result<(), Fault> {
    session.execute(Statement::Retire, &params![relay: relay]).await?;
    Ok(())
}
