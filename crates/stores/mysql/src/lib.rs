//! The outbox on MySQL 8 (8.0.16 or later) and MariaDB 10.6 or later.
//!
//! Applications call [`enqueue`] with the connection of their open transaction, or ``INSERT INTO
//! posthaste_outbox (topic, `key`, payload)`` from any language: both are the same message. A relay
//! uses [`MySqlStore`] through the port [`Store`]. [`migrate`] makes the tables.
//!
//! Ids are handed out before commit, and no row knows its transaction. So relays do not read the
//! table that applications write: a *sequencer* step, run by whoever reads, moves what has committed
//! to a log, one at a time. There the order of `seq` is the order of commits, and a position is a
//! plain seq. `docs/adr/0006-reading-mysql.md` has the argument.
//!
//! | file | what it holds |
//! |---|---|
//! | `connect.rs`, `transaction.rs` | sessions, and how every call runs: a task, a deadline |
//! | `error.rs` | the driver's errors to ours |
//! | `sequence.rs`, `fetch.rs` | writing and reading the log |
//! | `settle.rs`, `parked.rs` | progress, parked messages, dead letters |
//! | `lease.rs`, `route.rs` | who serves what |
//! | `rewind.rs` | noticing that the log went back in time |
//! | `inbox.rs`, `letters.rs` | what consumers have handled, and what they could not |
//! | `purge.rs`, `status.rs`, `examine.rs` | retention, the picture for people, doctor |
//! | `sql/*.sql` | every statement, with its purpose, concurrency and index |

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
mod sequence;
mod settle;
mod status;
mod transaction;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use journal::Place;
use posthaste_core::{
    Batch, Claim, Due, Fetch, Finding, Grant, Horizon, Layout, Lease, Message, ParkedFilter,
    ParkedView, Purged, RelayBeat, Retention, RouteSpec, Seq, Settled, Settlement, Snapshot,
    Status, Store, StoreCapabilities, StoreError, refused_url,
};
use sqlx::MySqlPool;
use transaction::{Call, Scope};

pub use crate::{
    connect::check_url,
    enqueue::enqueue,
    guarded::{Guarded, begin},
    inbox::{Inbox, handler_error},
    migrate::{MIGRATIONS, Migration, adopt, migrate, print_migrations},
};

/// Time a call may take, unless set otherwise: well below any sensible lease.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(10);

/// Connections of a store.
pub const CONNECTIONS_MAX: u32 = 6;

/// Steps of the sequencer before a resize sets its barrier: the more is in the log by then, the less
/// has to be read twice over; the rest lies beyond it, which is as good.
const REGISTER_STEPS_MAX: u32 = 2;

/// An outbox in a MySQL or MariaDB database. Clones share the pool.
#[derive(Clone)]
pub struct MySqlStore {
    pool: MySqlPool,
    deadline: Duration,
    sequencer: Arc<sequence::Sequencer>,
    /// How far [`Store::purge`] has looked, so that rows it must keep are not looked at every time.
    /// Lost with the process, which costs one sweep. A plain mutex: held for an assignment only.
    swept: Arc<Mutex<purge::Swept>>,
    /// How far journals have been thinned. Likewise.
    thinned: Arc<Mutex<journal::Thinned>>,
}

impl MySqlStore {
    /// A store on the database of the caller's pool. Its connections are its own, because their
    /// sessions need settings (strict, UTC, READ COMMITTED) that the caller's may not have.
    #[must_use]
    pub fn new(pool: MySqlPool) -> Self {
        Self::with(connect::pool((*pool.connect_options()).clone()))
    }

    fn with(pool: MySqlPool) -> Self {
        Self {
            pool,
            deadline: DEADLINE_DEFAULT,
            sequencer: Arc::default(),
            swept: Arc::default(),
            thinned: Arc::default(),
        }
    }

    /// A store on a small pool of its own. To another machine the connection is encrypted unless the
    /// URL names another `ssl-mode`.
    ///
    /// # Errors
    /// Kind `Refused` for a URL that [`check_url`] refuses or a database that does not exist,
    /// `Denied` for credentials that are wrong, `Unavailable` where the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options = connect::options(url).map_err(|invalid| refused_url(&invalid))?;
        connect::probe(&options).await?;
        Ok(Self::with(connect::pool(options)))
    }

    /// Sets the time a call may take; after it the call fails and its connection is closed.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The connections this store uses.
    #[must_use]
    pub fn pool(&self) -> &MySqlPool {
        &self.pool
    }

    /// Runs a call whose statements are transactions of their own; see the module `transaction`.
    async fn statements<A, T>(
        &self,
        operation: &'static str,
        argument: A,
        work: Call<A, T>,
    ) -> Result<T, StoreError>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (pool, deadline) = (&self.pool, self.deadline);
        transaction::run(pool, operation, deadline, Scope::Statements, argument, work).await
    }

    /// Runs a call that is one transaction.
    async fn transaction<A, T>(
        &self,
        operation: &'static str,
        argument: A,
        work: Call<A, T>,
    ) -> Result<T, StoreError>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (pool, deadline) = (&self.pool, self.deadline);
        transaction::run(pool, operation, deadline, Scope::Transaction, argument, work).await
    }

    async fn read(&self, fetch: &Fetch) -> Result<fetch::Read, StoreError> {
        let argument = (fetch.clone(), self.sequencer.is_backlog());
        self.statements("fetch", argument, |connection, argument| {
            Box::pin(async move { fetch::fetch(connection, &argument.0, argument.1).await })
        })
        .await
    }
}

/// The pool's options hold the password.
impl fmt::Debug for MySqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlStore").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl MySqlStore {
    /// Thins every shard's journal, a piece at a time, and says how many entries went.
    async fn thin(&self, retention: Duration) -> Result<u64, StoreError> {
        let shards =
            self.statements("purge", (), |connection, _| Box::pin(journal::shards(connection)));
        let mut removed = 0;
        for shard in shards.await? {
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
            let argument = (retention, shard.clone(), place);
            let look = self.statements("purge", argument, |connection, argument| {
                Box::pin(async move {
                    let (retention, shard, place) = &*argument;
                    let look = journal::look(connection, *retention, shard, *place).await?;
                    let removed = journal::remove(connection, shard, &look).await?;
                    Ok((look, removed))
                })
            });
            let (look, gone) = look.await?;
            removed += gone;
            thinned().insert(shard.clone(), look.end(resumed));
            match look.next(resumed) {
                Some(next) => place = next,
                None => break,
            }
        }
        Ok(removed)
    }
}

#[async_trait]
impl Store for MySqlStore {
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities { concurrent_writers: true }
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.statements("check", (), |connection, _| Box::pin(examine::check(connection))).await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.statements("examine", (), |connection, _| Box::pin(examine::examine(connection))).await
    }

    async fn append(&self, messages: &[Message]) -> Result<(), StoreError> {
        self.transaction("append", messages.to_vec(), |connection, messages| {
            Box::pin(async move { enqueue::insert(connection, &messages).await })
        })
        .await
    }

    async fn register(&self, route: &RouteSpec) -> Result<Layout, StoreError> {
        let registered = self.statements("register", route.clone(), |connection, spec| {
            Box::pin(async move { route::registered(connection, &spec).await })
        });
        if let Some(layout) = registered.await? {
            return Ok(layout);
        }
        for _ in 0..REGISTER_STEPS_MAX {
            if !sequence::step(self, Seq::MAX).await? {
                break;
            }
        }
        self.transaction("register", route.clone(), |connection, spec| {
            Box::pin(async move { route::register(connection, &spec).await })
        })
        .await
    }

    async fn reshard(&self, route: &str) -> Result<Layout, StoreError> {
        self.transaction("reshard", route.to_owned(), |connection, route| {
            Box::pin(async move { route::reshard(connection, &route).await })
        })
        .await
    }

    async fn beat(&self, relay: &RelayBeat, ttl: Duration) -> Result<Vec<u32>, StoreError> {
        self.statements("beat", (relay.clone(), ttl), |connection, argument| {
            Box::pin(async move { route::beat(connection, &argument.0, argument.1).await })
        })
        .await
    }

    async fn retire(&self, relay: &RelayBeat) -> Result<(), StoreError> {
        self.statements("retire", relay.id, |connection, id| {
            Box::pin(async move { route::retire(connection, *id).await })
        })
        .await
    }

    async fn acquire(&self, claim: &Claim) -> Result<Option<Grant>, StoreError> {
        let is_free = self.statements("acquire", claim.clone(), |connection, claim| {
            Box::pin(async move { lease::is_free(connection, &claim).await })
        });
        if claim.rewound.is_none() && !is_free.await? {
            return Ok(None);
        }
        let grant = self.transaction("acquire", claim.clone(), |connection, claim| {
            Box::pin(async move { lease::acquire(connection, &claim).await })
        });
        let grant = grant.await?;
        // What this process knew of the log may be from another history.
        self.sequencer.forget().await;
        Ok(grant)
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StoreError> {
        self.statements("renew", (lease.clone(), ttl), |connection, argument| {
            Box::pin(async move { lease::renew(connection, &argument.0, argument.1).await })
        })
        .await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.statements("release", lease.clone(), |connection, lease| {
            Box::pin(async move { lease::release(connection, &lease).await })
        })
        .await
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Batch, StoreError> {
        let read = self.read(fetch).await?;
        if !read.is_behind {
            sequence::run_ahead(self, read.log_end - read.batch.end);
            return Ok(read.batch);
        }
        let is_more = sequence::step(self, read.log_end).await?;
        // The next step runs while this one's messages are read.
        sequence::run_ahead(self, 0);
        let mut batch = self.read(fetch).await?.batch;
        batch.more |= is_more;
        Ok(batch)
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, StoreError> {
        let argument = (lease.clone(), settlement.clone());
        let Settlement { position, park, repark, delivered, .. } = settlement;
        if position.is_some() && park.is_empty() && repark.is_empty() && delivered.is_empty() {
            let advance = self.statements("settle", argument, |connection, argument| {
                Box::pin(async move { settle::advance(connection, &argument.0, &argument.1).await })
            });
            let entry = advance.await?;
            return Ok(Settled { entry, ..Settled::default() });
        }
        self.transaction("settle", argument, |connection, argument| {
            Box::pin(async move { settle::settle(connection, &argument.0, &argument.1).await })
        })
        .await
    }

    /// The log is written in the order of its seqs, by one sequencer at a time (ADR 6): whoever has
    /// read one has read every lower one that will ever be there.
    fn is_past(&self, _: &Horizon, _: &Snapshot) -> bool {
        true
    }

    async fn due(&self, lease: &Lease, limit: u32, bytes_max: usize) -> Result<Due, StoreError> {
        self.statements("due", (lease.clone(), limit, bytes_max), |connection, argument| {
            Box::pin(async move {
                let (lease, limit, bytes_max) = &*argument;
                parked::due(connection, lease, *limit, *bytes_max).await
            })
        })
        .await
    }

    async fn dead(&self, filter: &ParkedFilter, limit: u32) -> Result<Vec<ParkedView>, StoreError> {
        self.statements("dead", (filter.clone(), limit), |connection, argument| {
            Box::pin(async move { parked::dead(connection, &argument.0, argument.1).await })
        })
        .await
    }

    async fn redrive(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        self.transaction("redrive", (filter.clone(), by.to_owned()), |connection, argument| {
            Box::pin(async move { parked::redrive(connection, &argument.0, &argument.1).await })
        })
        .await
    }

    async fn discard(&self, filter: &ParkedFilter, by: &str, why: &str) -> Result<u64, StoreError> {
        let argument = (filter.clone(), by.to_owned(), why.to_owned());
        self.transaction("discard", argument, |connection, argument| {
            Box::pin(async move {
                let (filter, by, why) = &*argument;
                parked::discard(connection, filter, by, why).await
            })
        })
        .await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        self.statements("status", (), |connection, _| Box::pin(status::status(connection))).await
    }

    async fn purge(&self, retention: Retention, rows_max: u32) -> Result<Purged, StoreError> {
        // First, so that a long journal, which makes what follows slow, gets shorter in every round.
        let progress = self.thin(retention.delivered).await?;
        let swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sweep =
            self.statements("purge", (swept, retention, rows_max), |connection, argument| {
                Box::pin(async move {
                    let (swept, retention, rows_max) = &*argument;
                    purge::sweep(connection, swept, *retention, *rows_max).await
                })
            });
        let remove = self.statements("purge", (sweep.await?, retention), |connection, argument| {
            Box::pin(async move { purge::remove(connection, &argument.0, argument.1).await })
        });
        // Where a lock keeps the log from being cleaned, the rest is cleaned first.
        let removed = remove.await;
        let tidy = self.statements("purge", (retention, rows_max), |connection, argument| {
            Box::pin(async move { purge::tidy(connection, argument.0, argument.1).await })
        });
        let discarded = tidy.await?;
        let (messages, swept) = removed?;
        *self.swept.lock().unwrap_or_else(PoisonError::into_inner) = swept;
        Ok(Purged { messages, discarded, progress })
    }
}
