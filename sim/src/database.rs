//! A consumer's database, in memory: effects, and the inbox beside them, with transactions and locks.
//! The shipping `Inbox` and `Consumer` run on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use posthaste::Database;
use posthaste_core::{
    Failure, InboxConnection, InboxPurged, InboxStatus, InboxStore, LaneKey, LanePage, Letter,
    Message, MessageId, PageRange, PagesWanted, ParkedFilter, ParkedView, Shard, StoreError,
    StoreErrorKind, Tally,
};
use tokio::{sync::Notify, time::timeout};
use uuid::Uuid;

use crate::{
    Fault, Planted,
    process::Process,
    world::{World, short},
};

/// How long a lock is waited for.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The committed data, and the locks.
#[derive(Default)]
struct State {
    /// Recorded ids, and when.
    ids: BTreeMap<(String, MessageId), Duration>,
    lanes: BTreeMap<LaneKey, String>,
    pages: BTreeMap<PageKey, String>,
    logs: BTreeMap<(String, String, String), Uuid>,
    /// Dead letters, and whether a person sent them again.
    letters: BTreeMap<(String, MessageId), (Letter, bool)>,
    locks: BTreeSet<Lock>,
}

/// Lane, shards, shard and number.
type PageKey = (LaneKey, u16, u16, i64);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lock {
    Id(String, MessageId),
    Lane(LaneKey),
    Letter(String, MessageId),
}

/// The database.
#[derive(Default)]
pub(crate) struct Tables {
    /// Held for moments, never across an await.
    state: Mutex<State>,
    /// Rung when locks are given up.
    unlocked: Notify,
}

impl Tables {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process's connections to it. `route` is the one whose messages its consumer handles.
#[derive(Clone)]
pub(crate) struct Pool {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) route: usize,
}

impl Pool {
    /// A statement on its way: the process must live, and the database answer.
    async fn statement(&self, operation: &'static str) -> Result<(), StoreError> {
        self.process.step().await;
        tokio::time::sleep(self.world.millis(0..3)).await;
        self.process.step().await;
        if self.world.strikes(Fault::InboxFailsBefore) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, operation, "simulated"));
        }
        Ok(())
    }
}

/// The connection of an open transaction: others see its writes once it commits.
pub(crate) struct Connection {
    pool: Pool,
    acts: Vec<(String, MessageId)>,
    ids: Vec<(String, MessageId)>,
    lanes: BTreeMap<LaneKey, String>,
    /// Pages written, and those removed as `None`.
    pages: BTreeMap<PageKey, Option<String>>,
    logs: BTreeMap<(String, String, String), Uuid>,
    buried: Vec<Letter>,
    unburied: Vec<(String, MessageId)>,
    locks: BTreeSet<Lock>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.pool.tables.state().locks.retain(|lock| !self.locks.contains(lock));
        self.pool.tables.unlocked.notify_waiters();
    }
}

impl Connection {
    /// The business effect of a message: what must happen once.
    pub(crate) fn act(&mut self, consumer: &str, id: MessageId) {
        if self.pool.world.has(Planted::InboxNotAtomic) {
            self.acted(consumer, id);
        } else {
            self.acts.push((consumer.to_owned(), id));
        }
    }

    fn acted(&self, consumer: &str, id: MessageId) {
        let world = &self.pool.world;
        world.route(self.pool.route, |route| route.history.acted(consumer, id));
        world.trace(format_args!("{} takes effect at {consumer}", short(id)));
    }

    async fn lock(&mut self, lock: Lock) -> Result<(), StoreError> {
        if self.locks.contains(&lock) || self.pool.world.has(Planted::InboxUnlocked) {
            return Ok(());
        }
        let tables = Arc::clone(&self.pool.tables);
        let locked = async {
            loop {
                let unlocked = tables.unlocked.notified();
                tokio::pin!(unlocked);
                unlocked.as_mut().enable();
                if tables.state().locks.insert(lock.clone()) {
                    return;
                }
                unlocked.await;
            }
        };
        timeout(LOCK_TIMEOUT, locked).await.map_err(|_| {
            StoreError::new(StoreErrorKind::Unavailable, "lock", "another holds it for too long")
        })?;
        self.locks.insert(lock);
        Ok(())
    }

    /// Who an id is recorded for.
    fn owner(&self, consumer: &str) -> String {
        let is_forgotten = self.pool.world.has(Planted::InboxWithoutConsumer);
        if is_forgotten { String::new() } else { consumer.to_owned() }
    }

    fn is_recorded(&self, consumer: &str, id: MessageId) -> bool {
        let entry = (self.owner(consumer), id);
        self.ids.contains(&entry) || self.pool.tables.state().ids.contains_key(&entry)
    }

    fn apply(&mut self) {
        let now = self.pool.world.now();
        for (consumer, id) in std::mem::take(&mut self.acts) {
            self.acted(&consumer, id);
        }
        let mut state = self.pool.tables.state();
        state.ids.extend(std::mem::take(&mut self.ids).into_iter().map(|id| (id, now)));
        state.lanes.append(&mut self.lanes);
        for (key, page) in std::mem::take(&mut self.pages) {
            match page {
                Some(seqs) => state.pages.insert(key, seqs),
                None => state.pages.remove(&key),
            };
        }
        state.logs.append(&mut self.logs);
        for id in &self.unburied {
            state.letters.remove(id);
        }
        for letter in std::mem::take(&mut self.buried) {
            let (consumer, id) = (letter.consumer.clone(), letter.message.id);
            state.letters.insert((consumer, id), (letter, false));
        }
    }
}

/// A transaction: its writes are lost unless it is committed.
pub(crate) struct Transaction(Connection);

impl Deref for Transaction {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.0
    }
}

/// The database's name among [`Database`]s.
pub(crate) struct Simulated;

impl Database for Simulated {
    type Connection = Connection;
    type Pool = Pool;
    type Transaction = Transaction;

    async fn insert(_: &mut Connection, _: &[Message]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn migrate(_: &Pool) -> Result<Vec<&'static str>, StoreError> {
        Ok(Vec::new())
    }

    async fn begin(pool: &Pool) -> Result<Transaction, StoreError> {
        pool.statement("begin").await?;
        Ok(Transaction(Connection {
            pool: pool.clone(),
            acts: Vec::new(),
            ids: Vec::new(),
            lanes: BTreeMap::new(),
            pages: BTreeMap::new(),
            logs: BTreeMap::new(),
            buried: Vec::new(),
            unburied: Vec::new(),
            locks: BTreeSet::new(),
        }))
    }

    async fn commit(mut transaction: Transaction) -> Result<(), StoreError> {
        let pool = transaction.pool.clone();
        pool.statement("commit").await?;
        transaction.0.apply();
        drop(transaction);
        pool.process.step().await;
        if pool.world.strikes(Fault::InboxFailsAfter) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "commit", "simulated"));
        }
        Ok(())
    }

    async fn rollback(transaction: Transaction) {
        drop(transaction);
    }

    fn inbox(connection: &mut Connection) -> Result<Box<dyn InboxConnection + '_>, StoreError> {
        Ok(Box::new(Inbox(connection)))
    }

    fn inbox_store(pool: Pool) -> Arc<dyn InboxStore> {
        Arc::new(pool)
    }

    fn handler_error(_: Box<dyn Error + Send + Sync>) -> Option<StoreError> {
        None
    }
}

struct Inbox<'c>(&'c mut Connection);

#[async_trait]
impl InboxConnection for Inbox<'_> {
    async fn recorded(
        &mut self,
        consumer: &str,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError> {
        self.0.pool.statement("recorded").await?;
        Ok(ids.iter().copied().filter(|id| self.0.is_recorded(consumer, *id)).collect())
    }

    async fn record(&mut self, consumer: &str, ids: &[MessageId]) -> Result<u64, StoreError> {
        self.0.pool.statement("record").await?;
        let owner = self.0.owner(consumer);
        let mut recorded = 0;
        for id in ids {
            self.0.lock(Lock::Id(owner.clone(), *id)).await?;
            if !self.0.is_recorded(consumer, *id) {
                self.0.ids.push((owner.clone(), *id));
                recorded += 1;
            }
        }
        Ok(recorded)
    }

    async fn lock_lane(&mut self, lane: &LaneKey) -> Result<String, StoreError> {
        self.0.pool.statement("lock_lane").await?;
        self.0.lock(Lock::Lane(lane.clone())).await?;
        Ok(self.0.pool.tables.state().lanes.get(lane).cloned().unwrap_or_default())
    }

    async fn write_lane(
        &mut self,
        lane: &LaneKey,
        watermark: &str,
        _: Tally,
    ) -> Result<(), StoreError> {
        self.0.pool.statement("write_lane").await?;
        self.0.lanes.insert(lane.clone(), watermark.to_owned());
        Ok(())
    }

    async fn read_pages(
        &mut self,
        lane: &LaneKey,
        wanted: &PagesWanted,
    ) -> Result<Vec<LanePage>, StoreError> {
        self.0.pool.statement("read_pages").await?;
        let state = self.0.pool.tables.state();
        let page = |number: &i64| {
            let key = (lane.clone(), wanted.shard.of, wanted.shard.index, *number);
            Some(LanePage { number: *number, seqs: state.pages.get(&key)?.clone() })
        };
        Ok(wanted.numbers.iter().filter_map(page).collect())
    }

    async fn write_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        pages: &[LanePage],
    ) -> Result<(), StoreError> {
        self.0.pool.statement("write_pages").await?;
        for page in pages {
            let key = (lane.clone(), shard.of, shard.index, page.number);
            self.0.pages.insert(key, Some(page.seqs.clone()));
        }
        Ok(())
    }

    async fn remove_pages(
        &mut self,
        lane: &LaneKey,
        shard: Shard,
        range: PageRange,
        limit: u32,
    ) -> Result<i64, StoreError> {
        self.0.pool.statement("remove_pages").await?;
        let key = |number| (lane.clone(), shard.of, shard.index, number);
        let state = self.0.pool.tables.state();
        let there = state.pages.range(key(range.first)..=key(range.last));
        let mut there = there.map(|(key, _)| key.clone()).collect::<Vec<_>>();
        drop(state);
        let kept = there.split_off(there.len().min(limit as usize));
        self.0.pages.extend(there.into_iter().map(|key| (key, None)));
        Ok(kept.first().map_or(range.last + 1, |key| key.3))
    }

    async fn accept_log(&mut self, lane: &LaneKey, source: &str) -> Result<bool, StoreError> {
        self.0.pool.statement("accept_log").await?;
        let key = (lane.consumer.clone(), source.to_owned(), lane.topic.clone());
        let known = self.0.pool.tables.state().logs.get(&key).copied();
        self.0.logs.insert(key, lane.log);
        // A person accepts another log once the database has gone back in time.
        let has_rewound = self.0.pool.world.with(|state| state.has_rewound);
        Ok(has_rewound || known.is_none_or(|known| known == lane.log))
    }

    async fn bury(&mut self, letter: &Letter, _: &Failure) -> Result<(), StoreError> {
        self.0.pool.statement("bury").await?;
        let pool = &self.0.pool;
        let (consumer, id) = (letter.consumer.clone(), letter.message.id);
        pool.world.route(pool.route, |it| it.history.consumer_set_aside(&consumer, id));
        self.0.buried.push(letter.clone());
        Ok(())
    }

    async fn rebury(&mut self, letter: &Letter, failure: &Failure) -> Result<bool, StoreError> {
        self.0.lock(Lock::Letter(letter.consumer.clone(), letter.message.id)).await?;
        let key = (letter.consumer.clone(), letter.message.id);
        let is_there = self.0.pool.tables.state().letters.get(&key).is_some_and(|it| it.1);
        if is_there {
            self.bury(letter, failure).await?;
        }
        Ok(is_there)
    }

    async fn unbury(&mut self, consumer: &str, id: MessageId) -> Result<bool, StoreError> {
        self.0.pool.statement("unbury").await?;
        let key = (consumer.to_owned(), id);
        self.0.lock(Lock::Letter(key.0.clone(), id)).await?;
        let letters = self.0.pool.tables.state().letters.get(&key).map(|(_, redriven)| *redriven);
        let is_there = letters == Some(true);
        if is_there {
            self.0.unburied.push(key);
        }
        Ok(is_there)
    }
}

#[async_trait]
impl InboxStore for Pool {
    async fn letters(&self, _: &ParkedFilter, _: u32) -> Result<Vec<ParkedView>, StoreError> {
        Ok(Vec::new())
    }

    /// All of them, whatever the filter.
    async fn redrive_letters(&self, _: &ParkedFilter, _: &str) -> Result<u64, StoreError> {
        let mut state = self.tables.state();
        state.letters.values_mut().for_each(|(_, is_redriven)| *is_redriven = true);
        Ok(state.letters.len() as u64)
    }

    async fn discard_letters(&self, _: &ParkedFilter, _: &str, _: &str) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn due_letters(&self, consumer: &str, limit: u32) -> Result<Vec<Letter>, StoreError> {
        self.statement("due_letters").await?;
        let state = self.tables.state();
        let due = state
            .letters
            .values()
            .filter(|(letter, is_redriven)| *is_redriven && letter.consumer == consumer);
        Ok(due.map(|(letter, _)| letter.clone()).take(limit as usize).collect())
    }

    async fn purge_inbox(
        &self,
        consumer: &str,
        window: Duration,
        _: u32,
    ) -> Result<InboxPurged, StoreError> {
        self.statement("purge_inbox").await?;
        let now = self.world.now();
        let mut state = self.tables.state();
        let before = state.ids.len();
        state.ids.retain(|(owner, _), at| owner != consumer || now.saturating_sub(*at) < window);
        Ok(InboxPurged { ids: (before - state.ids.len()) as u64, discarded: 0 })
    }

    async fn adopt_log(&self, _: &str, _: &str, _: Uuid, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn forget_log(&self, _: &str, _: Uuid) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn inbox_status(&self) -> Result<Vec<InboxStatus>, StoreError> {
        Ok(Vec::new())
    }
}
