//! The outbox on SQLite: one file, no server.
//!
//! SQLite has one writer at a time. So the order of `seq` is the order of commits, a position is a
//! plain seq, and nothing can commit late. What it needs in return: write-ahead logging, so that
//! readers and the writer do not wait for each other; `synchronous = FULL`, so that what was sent had
//! been committed for good; and write transactions that take the lock when they begin
//! (`BEGIN IMMEDIATE`). [`connect_options`] sets all of it.
//!
//! Each file here implements the operations of the port it is named after; the statements are in
//! `sql/`, the tables in `migrations/`. How a call runs (its task, deadline and transaction) is in
//! `task.rs`.

mod connect;
mod enqueue;
mod error;
mod examine;
mod fetch;
mod file;
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
mod status;
mod task;

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use journal::Place;
use posthaste_core::{
    Batch, Claim, Due, Fetch, Finding, Grant, Horizon, Layout, Lease, Message, ParkedFilter,
    ParkedView, Purged, RelayBeat, Retention, RouteSpec, Settled, Settlement, Snapshot, Status,
    Store, StoreCapabilities, StoreError,
};
use sqlx::SqlitePool;
use task::Tasks;

pub use connect::{check_url, connect_options};
pub use enqueue::enqueue;
pub use guarded::{Guarded, begin};
pub use inbox::{Inbox, handler_error};
pub use migrate::{MIGRATIONS, Migration, adopt, migrate, print_migrations};

/// An outbox in an SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    tasks: Tasks,
    /// How far [`Store::purge`] has looked, so that rows it must keep are not looked at every time.
    /// Lost with the process, which costs one sweep. A plain mutex: held for an assignment only.
    swept: Mutex<purge::Swept>,
    /// How far journals have been thinned. Likewise.
    thinned: Mutex<journal::Thinned>,
}

impl SqliteStore {
    /// A store on the caller's pool. Its connections should have the settings of
    /// [`connect_options`]; [`Store::examine`] tells whether they have.
    #[must_use]
    pub fn new(pool: SqlitePool) -> Self {
        Self { tasks: Tasks::new(pool), swept: Mutex::default(), thinned: Mutex::default() }
    }

    /// Opens the file, creating it where there is none, with a small pool of its own. The tables are
    /// [`migrate`]'s business.
    ///
    /// # Errors
    /// Kind `Refused` for a URL that is none, `Unavailable` or `ReadOnly` for a file that cannot be
    /// used.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let (pool, file) = connect::open(url).await?;
        let store = Self::new(pool);
        Ok(Self { tasks: Tasks { file, ..store.tasks }, ..store })
    }

    /// The pool this store uses.
    #[must_use]
    pub fn pool(&self) -> &SqlitePool {
        &self.tasks.pool
    }

    /// The same store with another deadline for each call (15 s otherwise). It should exceed the
    /// connections' busy timeout, which says more about what went wrong.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.tasks.deadline = deadline;
        self
    }
}

impl SqliteStore {
    /// Thins every shard's journal and says how many entries went. Each piece is a transaction of its
    /// own, which holds the write lock only to remove what was found before.
    async fn thin(&self, retention: Duration) -> Result<u64, StoreError> {
        let shards = self.tasks.run("purge", |conn| Box::pin(journal::shards(conn))).await?;
        let mut removed = 0;
        for shard in shards {
            removed += self.thin_shard(retention, shard).await?;
        }
        Ok(removed)
    }

    async fn thin_shard(
        &self,
        retention: Duration,
        shard: journal::Shard,
    ) -> Result<u64, StoreError> {
        let thinned = || self.thinned.lock().unwrap_or_else(PoisonError::into_inner);
        let resumed = thinned().get(&shard).copied().unwrap_or_default();
        let (mut place, mut removed) = (Place::default(), 0);
        for _ in 0..journal::LOOKS_MAX {
            let at = shard.clone();
            let look = self.tasks.run("purge", move |conn| {
                Box::pin(async move { journal::look(conn, retention, &at, place).await })
            });
            let look = look.await?;
            let (next, end) = (look.next(resumed), look.end(resumed));
            if !look.spare.is_empty() {
                let at = shard.clone();
                let remove = self.tasks.write("purge", move |conn| {
                    Box::pin(async move { journal::remove(conn, &at, &look).await })
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
}

#[async_trait]
impl Store for SqliteStore {
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities { concurrent_writers: false }
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.tasks
            .run("check", move |conn| Box::pin(async move { examine::check(conn).await }))
            .await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.tasks
            .run("examine", move |conn| Box::pin(async move { examine::examine(conn).await }))
            .await
    }

    async fn append(&self, messages: &[Message]) -> Result<(), StoreError> {
        let messages = messages.to_vec();
        self.tasks
            .write("append", move |conn| {
                Box::pin(async move { enqueue::append(conn, &messages).await })
            })
            .await
    }

    async fn register(&self, route: &RouteSpec) -> Result<Layout, StoreError> {
        let spec = route.clone();
        let registered = self.tasks.run("register", move |conn| {
            Box::pin(async move { route::registered(conn, &spec).await })
        });
        if let Some(layout) = registered.await? {
            return Ok(layout);
        }
        let spec = route.clone();
        self.tasks
            .write("register", move |conn| {
                Box::pin(async move { route::register(conn, &spec).await })
            })
            .await
    }

    async fn reshard(&self, route: &str) -> Result<Layout, StoreError> {
        let route = route.to_owned();
        self.tasks
            .write("reshard", move |conn| {
                Box::pin(async move { route::reshard(conn, &route).await })
            })
            .await
    }

    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError> {
        let relay = relay.clone();
        self.tasks
            .write("beat", move |conn| {
                Box::pin(async move { lease::beat(conn, &relay, ttl).await })
            })
            .await
    }

    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError> {
        let relay = relay.clone();
        self.tasks
            .write("retire", move |conn| Box::pin(async move { lease::retire(conn, &relay).await }))
            .await
    }

    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError> {
        let wanted = claim.clone();
        let is_free = self.tasks.run("acquire", move |conn| {
            Box::pin(async move { lease::is_free(conn, &wanted).await })
        });
        if claim.rewound.is_none() && !is_free.await? {
            return Ok(None);
        }
        let (wanted, lineage) = (claim.clone(), self.tasks.file.lineage());
        self.tasks
            .write("acquire", move |conn| {
                Box::pin(async move { lease::acquire(conn, &wanted, lineage).await })
            })
            .await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError> {
        let lease = lease.clone();
        self.tasks
            .write("renew", move |conn| {
                Box::pin(async move { lease::renew(conn, &lease, ttl).await })
            })
            .await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let lease = lease.clone();
        self.tasks
            .write("release", move |conn| {
                Box::pin(async move { lease::release(conn, &lease).await })
            })
            .await
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        let (fetch, lineage) = (fetch.clone(), self.tasks.file.lineage());
        self.tasks
            .run("fetch", move |conn| {
                Box::pin(async move { fetch::fetch(conn, &fetch, lineage).await })
            })
            .await
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError> {
        let (lease, settlement) = (lease.clone(), settlement.clone());
        let lineage = self.tasks.file.lineage();
        self.tasks
            .write("settle", move |conn| {
                Box::pin(async move { settle::settle(conn, &lease, &settlement, lineage).await })
            })
            .await
    }

    /// The log is written in the order of its seqs, by one writer at a time: whoever has read one has
    /// read every lower one that will ever be there.
    fn is_past(&self, _: &Horizon, _: &Snapshot) -> bool {
        true
    }

    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError> {
        let lease = lease.clone();
        self.tasks
            .run("due", move |conn| {
                Box::pin(async move { parked::due(conn, &lease, limit, bytes_max).await })
            })
            .await
    }

    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError> {
        let filter = filter.clone();
        self.tasks
            .run("dead", move |conn| {
                Box::pin(async move { parked::dead(conn, &filter, limit).await })
            })
            .await
    }

    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        let (filter, by) = (filter.clone(), by.to_owned());
        self.tasks
            .write("redrive", move |conn| {
                Box::pin(async move { parked::redrive(conn, &filter, &by).await })
            })
            .await
    }

    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError> {
        let (filter, by, why) = (filter.clone(), by.to_owned(), why.to_owned());
        self.tasks
            .write("discard", move |conn| {
                Box::pin(async move { parked::discard(conn, &filter, &by, &why).await })
            })
            .await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        self.tasks
            .run("status", move |conn| Box::pin(async move { status::status(conn).await }))
            .await
    }

    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError> {
        // First, so that a long journal, which makes what follows slow, gets shorter in every round.
        let progress = self.thin(retention.delivered).await?;
        let swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sweep = self.tasks.run("purge", move |conn| {
            Box::pin(async move { purge::sweep(conn, swept, retention, rows_max).await })
        });
        let sweep = sweep.await?;
        let purge = self.tasks.write("purge", move |conn| {
            Box::pin(async move { purge::purge(conn, sweep, retention, rows_max).await })
        });
        let (mut purged, swept) = purge.await?;
        *self.swept.lock().unwrap_or_else(PoisonError::into_inner) = swept;
        purged.progress = progress;
        Ok(purged)
    }
}
