//! The outbox on PostgreSQL 13 or later: a log in schema `posthaste`, read by position and
//! snapshot.
//!
//! Applications call [`enqueue`] with the connection of their open transaction, or `SELECT
//! posthaste.enqueue(topic, key, payload)` from any language: both are the same message. A relay
//! uses [`PostgresStore`] through the port [`Store`]. [`migrate`] makes the tables.
//!
//! | file | what it holds |
//! |---|---|
//! | `connect.rs` | URLs, and the sessions they lead to |
//! | `transaction.rs` | how every call runs: one transaction, a deadline, no session state |
//! | `error.rs` | the driver's errors to ours |
//! | `fetch.rs` | reading the log |
//! | `settle.rs`, `parked.rs` | progress, parked messages, dead letters |
//! | `lease.rs`, `route.rs` | who serves what |
//! | `rewind.rs` | noticing that the log went back in time |
//! | `inbox.rs`, `letters.rs` | what consumers have handled, and what they could not |
//! | `purge.rs`, `journal.rs`, `status.rs`, `examine.rs` | retention, the picture for people, doctor |
//! | `sql/*.sql` | every statement, with its purpose, concurrency and index |
//!
//! It works behind a pooler in transaction mode: no session state, no named statements, no
//! `LISTEN`.

mod connect;
mod enqueue;
mod error;
mod examine;
mod fetch;
mod guarded;
mod inbox;
mod journal;
mod lease;
mod letters;
mod migrate;
mod pages;
mod parked;
mod purge;
mod rewind;
mod route;
mod row;
mod settle;
mod snapshot;
mod status;
mod transaction;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_core::{
    Batch, Claim, Due, Fetch, Finding, Grant, Horizon, Layout, Lease, Message, ParkedFilter,
    ParkedView, Purged, RelayBeat, Retention, RouteSpec, Seq, Settled, Settlement, Snapshot,
    Status, Store, StoreCapabilities, StoreError, refused_url,
};
use sqlx::{PgConnection, PgPool, postgres::PgPoolOptions};

pub use crate::{
    connect::check_url,
    enqueue::{enqueue, enqueue_unnamed},
    guarded::{Guarded, begin},
    inbox::{Inbox, handler_error},
    migrate::{MIGRATIONS, Migration, adopt, migrate, print_migrations},
};

/// Time a call may take, unless set otherwise: well below any sensible lease.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(10);

/// Time a registration may take, at least: where a route gets other topics, the log is read once in
/// search of messages that waited for them.
const REGISTER_DEADLINE: Duration = Duration::from_secs(600);

/// Connections of a pool made by [`PostgresStore::connect`].
pub const CONNECTIONS_MAX: u32 = 6;

/// An outbox in a PostgreSQL database. Clones share the pool.
#[derive(Clone)]
pub struct PostgresStore {
    pool: PgPool,
    deadline: Duration,
    /// Where cleaning goes on, so that rows it must keep are not looked at in every round. Lost
    /// with the process: the next one starts from the beginning.
    sweep: Arc<purge::Sweep>,
    /// How far journals have been thinned. Likewise.
    thinned: Arc<journal::Thinned>,
    /// Which statement reads a route best.
    whole_routes: Arc<fetch::WholeRoutes>,
}

impl PostgresStore {
    /// A store on a pool of the caller's making.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            deadline: DEADLINE_DEFAULT,
            sweep: Arc::default(),
            thinned: Arc::default(),
            whole_routes: Arc::default(),
        }
    }

    /// A store on a small pool of its own.
    ///
    /// # Errors
    /// Kind `Refused` for a URL that [`check_url`] refuses or a database that does not exist,
    /// `Denied` for credentials that are wrong, `Unavailable` where the server cannot be reached,
    /// `ReadOnly` for a server that refuses writes where the URL has
    /// `target_session_attrs=read-write`.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let target = connect::target(url).map_err(|invalid| refused_url(&invalid))?;
        Ok(Self::new(connect::pool(target).await?))
    }

    /// Sets the time a call may take; after it the call fails and its connection is closed.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The connections this store uses.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Runs one call of the port; see the module `transaction`.
    async fn call<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> transaction::Work<'c, T> + Send + 'static,
    {
        let patience = transaction::Patience::Call(self.deadline);
        transaction::run(&self.pool, operation, self.deadline, patience, work).await
    }

    /// Keys that something parked holds back, a bounded number of parked messages in each call.
    async fn blocked(&self, lease: &Lease) -> Result<Vec<String>, StoreError> {
        let mut keys = Vec::new();
        let mut after = Some(String::new());
        while let Some(key) = after {
            let lease = lease.clone();
            let page = self.call("acquire", move |connection| {
                Box::pin(lease::blocked(connection, lease, key))
            });
            let page = page.await?;
            keys.extend(page.keys);
            after = page.more;
        }
        Ok(keys)
    }

    /// Runs an act on dead letters in pieces, each in a transaction of its own, so that no call holds
    /// the leases for longer the more letters there are. Returns how many it acted on.
    async fn act<F>(&self, operation: &'static str, work: F) -> Result<u64, StoreError>
    where
        F: for<'c> Fn(&'c mut PgConnection, Seq) -> transaction::Work<'c, parked::Acted>
            + Clone
            + Send
            + 'static,
    {
        let (mut letters, mut from) = (0, Some(0));
        while let Some(seq) = from {
            let work = work.clone();
            let acted = self.call(operation, move |connection| work(connection, seq)).await?;
            letters += acted.letters;
            from = acted.more;
        }
        Ok(letters)
    }
}

/// No hook looks at connections that come back: every call runs in a task that nothing cancels, and
/// a connection that misses its deadline is closed, so none comes back inside a transaction.
fn pool_options() -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(DEADLINE_DEFAULT)
        .test_before_acquire(false)
}

/// The pool's options hold the password.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities { concurrent_writers: true }
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.call("check", |connection| Box::pin(examine::check(connection))).await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.call("examine", |connection| Box::pin(examine::examine(connection))).await
    }

    async fn append(&self, messages: &[Message]) -> Result<(), StoreError> {
        let messages = messages.to_vec();
        self.call("append", move |connection| {
            Box::pin(async move {
                enqueue::insert(connection, &messages, enqueue::Statements::Unnamed).await
            })
        })
        .await
    }

    async fn register(&self, route: &RouteSpec) -> Result<Layout, StoreError> {
        let route = route.clone();
        let deadline = self.deadline.max(REGISTER_DEADLINE);
        let patience = transaction::Patience::Call(self.deadline);
        transaction::run(&self.pool, "register", deadline, patience, move |connection| {
            Box::pin(route::register(connection, route))
        })
        .await
    }

    async fn reshard(&self, route: &str) -> Result<Layout, StoreError> {
        let route = route.to_owned();
        self.call("reshard", move |connection| Box::pin(route::reshard(connection, route))).await
    }

    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError> {
        let relay = relay.clone();
        self.call("beat", move |connection| Box::pin(route::beat(connection, relay, ttl))).await
    }

    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError> {
        let id = relay.id;
        self.call("retire", move |connection| Box::pin(route::retire(connection, id))).await
    }

    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError> {
        let claim = claim.clone();
        let grant =
            self.call("acquire", move |connection| Box::pin(lease::acquire(connection, claim)));
        let Some(mut grant) = grant.await? else {
            return Ok(None);
        };
        match self.blocked(&grant.lease).await {
            Ok(blocked) => grant.blocked = blocked,
            Err(error) => {
                // Nobody else has to wait for a lease that is of no use. Where this fails, it expires.
                let _ = self.release(&grant.lease).await;
                return Err(error);
            }
        }
        Ok(Some(grant))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError> {
        let lease = lease.clone();
        self.call("renew", move |connection| Box::pin(lease::renew(connection, lease, ttl))).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let lease = lease.clone();
        self.call("release", move |connection| Box::pin(lease::release(connection, lease))).await
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        let mut is_whole = self.whole_routes.suits(fetch);
        let mut may_draw = true;
        loop {
            let request = fetch.clone();
            let read = self.call("fetch", move |connection| {
                Box::pin(fetch::fetch(connection, request, is_whole))
            });
            let read = read.await?;
            self.whole_routes.learn(&fetch.route, read.takes_all);
            match read.batch {
                None => is_whole = false,
                Some(_) if !read.is_listed && may_draw => {
                    may_draw = false;
                    self.call("fetch", |connection| Box::pin(fetch::draw_xid(connection))).await?;
                }
                Some(batch) => return Ok(batch),
            }
        }
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError> {
        let (lease, settlement) = (lease.clone(), settlement.clone());
        self.call("settle", move |connection| {
            Box::pin(settle::settle(connection, lease, settlement))
        })
        .await
    }

    fn is_past(&self, horizon: &Horizon, snapshot: &Snapshot) -> bool {
        snapshot::is_past(horizon, snapshot)
    }

    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError> {
        let lease = lease.clone();
        self.call("due", move |connection| {
            Box::pin(parked::due(connection, lease, limit, bytes_max))
        })
        .await
    }

    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError> {
        let filter = filter.clone();
        self.call("dead", move |connection| Box::pin(parked::dead(connection, filter, limit))).await
    }

    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        let (filter, by) = (filter.clone(), by.to_owned());
        self.act("redrive", move |connection, from| {
            Box::pin(parked::redrive(connection, filter.clone(), by.clone(), from))
        })
        .await
    }

    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError> {
        let (filter, by, why) = (filter.clone(), by.to_owned(), why.to_owned());
        self.act("discard", move |connection, from| {
            Box::pin(parked::discard(connection, filter.clone(), by.clone(), why.clone(), from))
        })
        .await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        self.call("status", |connection| Box::pin(status::status(connection))).await
    }

    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError> {
        purge::purge(self, retention, rows_max).await
    }
}
