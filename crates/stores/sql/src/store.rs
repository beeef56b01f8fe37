//! The port [`Store`], for every dialect.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::{
    Batch, Claim, Due, Fetch, Finding, Grant, Horizon, Layout, Lease, Message, ParkedFilter,
    ParkedView, Purged, RelayBeat, Retention, RouteSpec, Settled, Settlement, Snapshot, Status,
    Store, StoreCapabilities, StoreError,
};

use crate::{
    Dialect, Fault, Scope, Session, SqlStore, call, lease, migrate,
    parked::{self, Act},
    purge, route, settle, status,
};

/// Time that a registration may take, at least: where a route gets other topics, the log is read once in
/// search of messages that waited for them.
const REGISTER_DEADLINE: Duration = Duration::from_secs(600);

#[async_trait]
impl<D: Dialect> Store for SqlStore<D> {
    fn capabilities(&self) -> StoreCapabilities {
        D::CAPABILITIES
    }

    async fn check(&self) -> Result<(), StoreError> {
        call!(self, "check", Statements, (), |session, ()| check(session)).await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        call!(self, "examine", Statements, (), |session, ()| D::examine(session)).await
    }

    async fn append(&self, messages: &[Message]) -> Result<(), StoreError> {
        let messages = messages.to_vec();
        call!(self, "append", Transaction, messages, |session, messages| {
            insert(session, messages)
        })
        .await
    }

    async fn register(&self, route: &RouteSpec) -> Result<Layout, StoreError> {
        let registered = call!(self, "register", Statements, route.clone(), |session, spec| {
            route::registered(session, spec)
        });
        if let Some(layout) = registered.await? {
            return Ok(layout);
        }
        D::before_register(self).await?;
        let deadline = self.call_deadline().max(REGISTER_DEADLINE);
        self.call_within(
            deadline,
            "register",
            Scope::Transaction,
            route.clone(),
            |session, spec| Box::pin(async move { route::register(session, &spec).await }),
        )
        .await
    }

    async fn reshard(&self, route: &str) -> Result<Layout, StoreError> {
        call!(self, "reshard", Transaction, route.to_owned(), |session, route| {
            route::reshard(session, route)
        })
        .await
    }

    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError> {
        let argument = (relay.clone(), ttl);
        call!(self, "beat", Statements, argument, |session, (relay, ttl)| {
            route::beat(session, relay, *ttl)
        })
        .await
    }

    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError> {
        call!(self, "retire", Statements, relay.id, |session, id| route::retire(session, *id)).await
    }

    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError> {
        lease::acquire(self, claim).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError> {
        let argument = (lease.clone(), ttl);
        call!(self, "renew", Statements, argument, |session, (lease, ttl)| {
            lease::renew(session, lease, *ttl)
        })
        .await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        call!(self, "release", Statements, lease.clone(), |session, lease| {
            lease::release(session, lease)
        })
        .await
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        D::fetch(self, fetch).await
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError> {
        settle::settle(self, lease, settlement).await
    }

    fn is_past(&self, horizon: &Horizon, snapshot: &Snapshot) -> bool {
        self.dialect().is_past(horizon, snapshot)
    }

    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError> {
        let argument = (lease.clone(), limit, bytes_max);
        call!(self, "due", Statements, argument, |session, (lease, limit, bytes_max)| {
            parked::due(session, lease, *limit, *bytes_max)
        })
        .await
    }

    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError> {
        let argument = (filter.clone(), limit);
        call!(self, "dead", Statements, argument, |session, (filter, limit)| {
            parked::dead(session, filter, *limit)
        })
        .await
    }

    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        if filter.is_retrying {
            return Ok(0);
        }
        let act = Act::Redrive { by: by.to_owned() };
        parked::act(self, "redrive", filter, act).await
    }

    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError> {
        let act = Act::Discard { by: by.to_owned(), why: why.to_owned() };
        parked::act(self, "discard", filter, act).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        call!(self, "status", Statements, (), |session, ()| status::status(session)).await
    }

    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError> {
        purge::purge(self, retention, rows_max).await
    }
}

async fn check<D: Dialect>(session: &mut Session<'_, D>) -> Result<(), Fault> {
    migrate::check(session).await?;
    D::check(session).await
}

/// Inserts messages that are valid, or none.
///
/// # Errors
/// Kind `Refused` for a message that breaks a limit.
pub async fn insert<D: Dialect>(
    session: &mut Session<'_, D>,
    messages: &[Message],
) -> Result<(), Fault> {
    for message in messages {
        message.validate().map_err(|invalid| Fault::refused(invalid.to_string()))?;
    }
    D::insert(session, messages).await
}
