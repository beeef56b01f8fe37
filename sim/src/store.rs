//! A store between a process and the database: calls are slow, fail before or after their effect,
//! or never return. Every effect is checked against the rules.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{FutureExt, future::BoxFuture};
use posthaste_core::{
    Batch, Claim, Due, Fetch, Finding, Grant, Horizon, Layout, Lease, Message, Next, ParkedFilter,
    ParkedView, Purged, RelayBeat, Retention, RouteSpec, Settled, Settlement, Snapshot, Status,
    Store, StoreCapabilities, StoreError, StoreErrorKind,
};

use crate::{
    Fault, Planted,
    leases::Granted,
    panics::OnPurpose,
    process::Process,
    schedule::{ROUTES, route_index},
    world::World,
};

/// How long a call is waited for.
const DEADLINE: Duration = Duration::from_secs(3);
/// How often a call that waits for a lock looks whether it is gone.
const LOCK_LOOK_EVERY: Duration = Duration::from_millis(20);

/// See the module documentation.
pub(crate) struct Wire {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    pub(crate) inner: Arc<dyn Store>,
}

type Effect<T> = BoxFuture<'static, Result<T, StoreError>>;

fn unavailable(operation: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, operation, "simulated")
}

impl Wire {
    /// One call. Once it has left the process, it takes effect even if the process dies.
    async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        effect: Effect<T>,
    ) -> Result<T, StoreError> {
        let (world, process) = (&self.world, &self.process);
        process.step().await;
        let result = self.attempt(operation, effect).await;
        let word = if result.is_ok() { "ok" } else { "failed" };
        process.step().await;
        world.trace(format_args!("{} {operation} {word}", process.name));
        result
    }

    /// Waits while a session keeps rows of the route locked. A real store would give up after a
    /// while; here the call hangs, so that calls which wait behind it show.
    async fn wait_for_rows(&self, route: &str) {
        let world = &self.world;
        let Some(index) = ROUTES.iter().position(|name| *name == route) else { return };
        let is_locked = || {
            let routes = world.plan.routes.len();
            index < routes && world.route(index, |route| route.locked_until) > world.now()
        };
        while is_locked() {
            tokio::time::sleep(LOCK_LOOK_EVERY).await;
        }
    }

    async fn attempt<T: Send + 'static>(
        &self,
        operation: &'static str,
        effect: Effect<T>,
    ) -> Result<T, StoreError> {
        let world = &self.world;
        let is_down = world.with(|state| state.store_down_until) > world.now();
        if is_down || world.strikes(Fault::StoreFailsBefore) {
            tokio::time::sleep(world.millis(0..20)).await;
            return Err(unavailable(operation));
        }
        let is_of_shard = matches!(operation, "fetch" | "settle" | "due" | "renew");
        if is_of_shard && world.strikes(Fault::ShardPanic) {
            assert!(!world.has(Planted::ShardPanics), "a bug of the shard");
            std::panic::panic_any(OnPurpose);
        }
        let mut delay = world.millis(0..3);
        if world.strikes(Fault::StoreSlow) {
            delay = world.millis(50..2_500);
        }
        let is_late = world.strikes(Fault::StoreLate);
        if is_late {
            delay = DEADLINE + world.millis(0..4_000);
        }
        let is_unanswered = world.strikes(Fault::StoreFailsAfter);
        let running = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            effect.await
        });
        if is_late {
            tokio::time::sleep(DEADLINE).await;
            return Err(unavailable(operation));
        }
        let result = running.await.unwrap_or_else(|_| Err(unavailable(operation)));
        if is_unanswered { Err(unavailable(operation)) } else { result }
    }
}

/// Runs `$effect` on clones of what it names.
macro_rules! call {
    ($self:ident, $operation:literal, |$inner:ident $(, $argument:ident)*| $effect:expr) => {{
        let $inner = Arc::clone(&$self.inner);
        $(let $argument = $argument.to_owned();)*
        $self.call($operation, async move { $effect }.boxed()).await
    }};
}

#[async_trait]
impl Store for Wire {
    fn capabilities(&self) -> StoreCapabilities {
        self.inner.capabilities()
    }

    async fn check(&self) -> Result<(), StoreError> {
        call!(self, "check", |inner| inner.check().await)
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.inner.examine().await
    }

    async fn append(&self, messages: &[Message]) -> Result<(), StoreError> {
        self.inner.append(messages).await
    }

    async fn register(&self, route: &RouteSpec) -> Result<Layout, StoreError> {
        self.wait_for_rows(&route.name).await;
        call!(self, "register", |inner, route| inner.register(&route).await)
    }

    async fn reshard(&self, route: &str) -> Result<Layout, StoreError> {
        self.wait_for_rows(route).await;
        let world = Arc::clone(&self.world);
        call!(self, "reshard", |inner, route| {
            let before = inner.status().await?;
            let layout = inner.reshard(&route).await?;
            let before = before.routes.iter().find(|it| it.name == route);
            if before.is_some_and(|it| it.leases.len() != usize::from(layout.shards)) {
                world.with(|state| state.leases.ended(&route));
            }
            Ok(layout)
        })
    }

    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError> {
        call!(self, "beat", |inner, relay| inner.beat(&relay, ttl).await)
    }

    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError> {
        call!(self, "retire", |inner, relay| inner.retire(&relay).await)
    }

    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError> {
        self.wait_for_rows(&claim.route).await;
        let (world, process) = (Arc::clone(&self.world), Arc::clone(&self.process));
        let route = route_index(&claim.route);
        // A call that began in trouble may be answered too late.
        let is_told = world.with(|state| state.is_calm);
        call!(self, "acquire", |inner, claim| {
            let grant = inner.acquire(&claim).await?;
            if claim.rewound.is_some() {
                world.with(|state| state.leases.ended(&claim.route));
            }
            if let Some(grant) = &grant {
                process.granted(route, grant.lease.shard);
                let now = world.database_now();
                let lease = &grant.lease;
                let wrong = world.with(|state| {
                    let granted = Granted { lease, process: process.id, is_told, ttl: claim.ttl };
                    state.leases.granted(&granted, now)
                });
                let (name, epoch) = (&process.name, lease.epoch);
                world.trace(format_args!("{name} holds {} of {route}, {epoch}", lease.shard));
                wrong.into_iter().for_each(|wrong| world.problem(wrong));
            }
            Ok(grant)
        })
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError> {
        self.wait_for_rows(&lease.route).await;
        let world = Arc::clone(&self.world);
        call!(self, "renew", |inner, lease| {
            inner.renew(&lease, ttl).await?;
            let now = world.database_now();
            world.with(|state| state.leases.renewed(&lease, now, ttl));
            Ok(())
        })
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let world = Arc::clone(&self.world);
        call!(self, "release", |inner, lease| {
            inner.release(&lease).await?;
            world.with(|state| state.leases.released(&lease));
            Ok(())
        })
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        let world = Arc::clone(&self.world);
        call!(self, "fetch", |inner, fetch| {
            let batch = inner.fetch(&fetch).await?;
            world.with(|state| {
                let seqs = batch.messages.iter().map(|it| (it.seq, it.message.id));
                state.seqs.extend(seqs);
            });
            Ok(batch)
        })
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError> {
        self.wait_for_rows(&lease.route).await;
        let (world, process) = (Arc::clone(&self.world), Arc::clone(&self.process));
        // One that was given up does not land behind a later one: its connection is closed.
        let number = process.settlement(route_index(&lease.route), lease.shard);
        call!(self, "settle", |inner, lease, settlement| {
            if !process.settles(route_index(&lease.route), lease.shard, number) {
                return Err(unavailable("settle"));
            }
            let settled = inner.settle(&lease, &settlement).await?;
            world.settled(&lease, &settlement);
            Ok(settled)
        })
    }

    fn is_past(&self, horizon: &Horizon, snapshot: &Snapshot) -> bool {
        self.inner.is_past(horizon, snapshot)
    }

    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError> {
        call!(self, "due", |inner, lease| inner.due(&lease, limit, bytes_max).await)
    }

    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError> {
        call!(self, "dead", |inner, filter| inner.dead(&filter, limit).await)
    }

    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        call!(self, "redrive", |inner, filter, by| inner.redrive(&filter, &by).await)
    }

    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError> {
        call!(self, "discard", |inner, filter, by, why| inner.discard(&filter, &by, &why).await)
    }

    async fn status(&self) -> Result<Status, StoreError> {
        self.inner.status().await
    }

    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError> {
        call!(self, "purge", |inner| inner.purge(retention, rows_max).await)
    }
}

impl World {
    /// Records a settlement: its dead letters, and whether it was allowed.
    fn settled(&self, lease: &Lease, settlement: &Settlement) {
        let wrong = self.with(|state| {
            let parked = settlement.park.iter().map(|park| &park.report);
            for report in parked.chain(&settlement.repark) {
                let id = settlement
                    .park
                    .iter()
                    .find(|park| park.report.seq == report.seq)
                    .map(|park| park.message.id)
                    .or_else(|| state.seqs.get(&report.seq).copied());
                let is_dead = matches!(report.next, Next::Dead | Next::DeadAndBlock);
                if let (Some(id), true) = (id, is_dead) {
                    let history = &mut state.routes[route_index(&lease.route)].history;
                    history.dead(id, report.attempts);
                }
            }
            state.leases.settled(lease)
        });
        wrong.into_iter().for_each(|wrong| self.problem(wrong));
    }
}
