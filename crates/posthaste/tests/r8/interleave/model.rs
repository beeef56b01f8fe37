//! A database that two workers use, and the broker they receive from, one call at a time: a call waits
//! until it is told to go on, and how it ends.
//!
//! Transactions read what is committed and what they wrote themselves. A record, a lane, the log and
//! the counter are locked by who writes them, until the transaction ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fmt::Debug,
    future::poll_fn,
    hash::{DefaultHasher, Hash, Hasher},
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard},
    task::Poll,
};

use async_trait::async_trait;
use posthaste::{Database, InboxStore, Incoming, Message, MessageId, Provenance, StoreError};
use posthaste_core::{
    Failure, Floor, InboxConnection, LaneKey, LanePage, Letter, PageRange, PagesWanted, Seq, Shard,
    StoreErrorKind, Tally,
};
use uuid::Uuid;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Succeeds,
    FailsBefore,
    FailsAfter,
    /// It takes effect, and the worker is no more.
    Ends,
}

impl Fate {
    pub(super) const ALL: [Self; 4] =
        [Self::Succeeds, Self::FailsBefore, Self::FailsAfter, Self::Ends];
}

/// Who gets which messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Each message goes to one worker, until that gives it back.
    Competing,
    /// Each worker gets everything from the first that is not acknowledged, in order.
    Ordered,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Lock {
    Id(MessageId),
    Lane(LaneKey),
    Logs,
    Counter,
}

/// What a call waits for.
#[derive(Clone, Default)]
enum Need {
    #[default]
    Nothing,
    Locks(Vec<Lock>),
    Message,
}

/// Rows: those committed, or those of an open transaction.
#[derive(Clone, Debug, Default, Hash)]
struct Rows {
    ids: BTreeSet<MessageId>,
    lanes: BTreeMap<LaneKey, String>,
    has_log: bool,
    /// Every change of the counter: which message made it, and from what.
    changes: Vec<(MessageId, usize)>,
    /// Every output: of which message, and the count it tells.
    outputs: Vec<(String, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Ready,
    Given(usize),
    Acknowledged,
}

pub(super) struct World {
    sharing: Sharing,
    deliveries: Vec<u32>,
    places: Vec<Place>,
    /// Where each worker is, in an ordered lane.
    cursors: [usize; 2],
    committed: Rows,
    open: [Option<Rows>; 2],
    locks: BTreeMap<Lock, usize>,
    needs: [Need; 2],
    /// What each worker was answered since it received: all that its next steps depend on.
    answers: [Vec<String>; 2],
    /// Whose call goes on, and how it ends; taken by the call.
    pub(super) turn: Option<(usize, Fate)>,
}

impl World {
    pub(super) fn new(sharing: Sharing, deliveries: &[u32]) -> Self {
        Self {
            sharing,
            deliveries: deliveries.to_vec(),
            places: vec![Place::Ready; deliveries.len()],
            cursors: [0; 2],
            committed: Rows::default(),
            open: [None, None],
            locks: BTreeMap::new(),
            needs: [Need::Nothing, Need::Nothing],
            answers: [Vec::new(), Vec::new()],
            turn: None,
        }
    }

    /// Whether its call can go on.
    pub(super) fn is_able(&self, worker: usize) -> bool {
        match &self.needs[worker] {
            Need::Nothing => true,
            Need::Locks(locks) => {
                locks.iter().all(|lock| self.locks.get(lock).is_none_or(|holder| *holder == worker))
            }
            Need::Message => {
                let mut places = self.places.iter();
                !self.next(worker, 1).is_empty() || places.all(|it| *it == Place::Acknowledged)
            }
        }
    }

    /// Stands for everything that the future depends on. Two states with the same number are taken
    /// for one; of a hundred thousand, that happens to two with a chance of one in a billion.
    pub(super) fn state(&self, failures: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        let Self { places, cursors, committed, open, locks, answers, .. } = self;
        (places, cursors, committed, open, locks, answers, failures).hash(&mut hasher);
        hasher.finish()
    }

    /// What must never be.
    pub(super) fn wrong(&self) -> Option<String> {
        let Rows { changes, outputs, .. } = &self.committed;
        let of: BTreeSet<MessageId> = changes.iter().map(|(of, _)| *of).collect();
        if of.len() < changes.len() {
            return Some(format!("a message took effect twice: {changes:?}"));
        }
        let said: Vec<(String, usize)> =
            changes.iter().map(|(of, from)| (of.to_string(), from + 1)).collect();
        if said != *outputs {
            return Some(format!("outputs {outputs:?} are not of the committed {changes:?}"));
        }
        let is_counted = changes.iter().enumerate().all(|(index, (_, from))| index == *from);
        (!is_counted).then(|| format!("a change was made from an old count: {changes:?}"))
    }

    /// What must be at the end.
    pub(super) fn unfinished(&self) -> Option<String> {
        let messages: BTreeSet<u32> = self.deliveries.iter().copied().collect();
        let done = self.committed.changes.len();
        if done < messages.len() {
            return Some(format!("{} messages, {done} effects", messages.len()));
        }
        let is_empty = self.places.iter().all(|it| *it == Place::Acknowledged);
        (!is_empty || !self.locks.is_empty()).then(|| "something is left".to_owned())
    }

    /// The next deliveries for a worker.
    fn next(&self, worker: usize, limit: usize) -> Vec<usize> {
        let all = 0..self.places.len();
        match self.sharing {
            Sharing::Competing => {
                all.filter(|it| self.places[*it] == Place::Ready).take(limit).collect()
            }
            Sharing::Ordered => all.skip(self.cursors[worker]).take(limit).collect(),
        }
    }

    fn take(&mut self, worker: usize, limit: usize) -> Vec<usize> {
        let next = self.next(worker, limit);
        for delivery in &next {
            match self.sharing {
                Sharing::Competing => self.places[*delivery] = Place::Given(worker),
                Sharing::Ordered => self.cursors[worker] = delivery + 1,
            }
        }
        self.answers[worker].clear();
        next
    }

    fn end(&mut self, worker: usize, is_commit: bool) {
        if let (Some(rows), true) = (self.open[worker].take(), is_commit) {
            self.committed.ids.extend(rows.ids);
            self.committed.lanes.extend(rows.lanes);
            self.committed.has_log |= rows.has_log;
            self.committed.changes.extend(rows.changes);
            self.committed.outputs.extend(rows.outputs);
        }
        self.locks.retain(|_, holder| *holder != worker);
    }

    fn own(&mut self, worker: usize) -> &mut Rows {
        self.open[worker].as_mut().expect("in a transaction")
    }
}

/// A worker's way to the database and to the broker.
#[derive(Clone)]
pub(super) struct Pool {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) worker: usize,
}

impl Pool {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("one thread")
    }

    async fn call<T: Debug>(
        &self,
        need: Need,
        mut effect: impl FnMut(&mut World, usize) -> T + Send,
    ) -> Result<T, StoreError> {
        let mut need = Some(need);
        poll_fn(|_| {
            let mut world = self.world();
            if let Some(need) = need.take() {
                world.needs[self.worker] = need;
                return Poll::Pending;
            }
            let Some((_, fate)) = world.turn.take_if(|(whose, _)| *whose == self.worker) else {
                return Poll::Pending;
            };
            if let (Need::Locks(locks), true) =
                (world.needs[self.worker].clone(), fate != Fate::FailsBefore)
            {
                world.locks.extend(locks.into_iter().map(|lock| (lock, self.worker)));
            }
            let value = (fate != Fate::FailsBefore).then(|| effect(&mut world, self.worker));
            let answer = match (fate, value) {
                (Fate::Succeeds, Some(value)) => Ok(value),
                (Fate::Ends, _) => return Poll::Pending,
                _ => Err(StoreError::new(StoreErrorKind::Unavailable, "call", "injected")),
            };
            let text = answer.as_ref().map_or("failed".to_owned(), |value| format!("{value:?}"));
            world.answers[self.worker].push(text);
            Poll::Ready(answer)
        })
        .await
    }

    /// Messages, or none where everything is acknowledged.
    pub(super) async fn receive(&self, limit: usize) -> Result<Vec<(usize, Incoming)>, StoreError> {
        let taken = self.call(Need::Message, |world, worker| world.take(worker, limit)).await?;
        let world = self.world();
        Ok(taken.into_iter().map(|it| (it, incoming(world.deliveries[it]))).collect())
    }

    pub(super) async fn acknowledge(&self, receipt: usize) -> Result<(), StoreError> {
        let acknowledge = |world: &mut World, _| world.places[receipt] = Place::Acknowledged;
        self.call(Need::Nothing, acknowledge).await
    }

    /// What it received and did not acknowledge comes again; its transaction is gone.
    pub(super) fn give_back(&self) {
        let mut world = self.world();
        world.end(self.worker, false);
        for place in &mut world.places {
            if *place == Place::Given(self.worker) {
                *place = Place::Ready;
            }
        }
        let first = world.places.iter().position(|it| *it != Place::Acknowledged);
        let cursor = &mut world.cursors[self.worker];
        *cursor = first.map_or(*cursor, |first| first.min(*cursor));
        world.answers[self.worker].clear();
    }
}

/// A message of that number, the one before it acknowledged when it was sent.
fn incoming(number: u32) -> Incoming {
    let seq = Seq::from(number);
    let mut message = Message::from_bytes("inputs", Some("k"), "");
    message.id = MessageId(Uuid::from_u128(number.into()));
    let floor = Floor { log: Uuid::nil(), shard: Shard::WHOLE, seq: seq - 1, missing: Vec::new() };
    let provenance = Provenance { seq: Some(seq), floor: Some(floor), ..Provenance::default() };
    Incoming { message, provenance, receipt: 0, lane: Some("lane".into()) }
}

pub(super) struct Connection(Pool);

impl Connection {
    /// Adds one to the counter for a message; what it is then.
    pub(super) async fn count(&mut self, of: MessageId) -> Result<usize, StoreError> {
        let count = |world: &mut World, worker| {
            let committed = world.committed.changes.len();
            let own = world.own(worker);
            let from = committed + own.changes.len();
            own.changes.push((of, from));
            from + 1
        };
        self.0.call(Need::Locks(vec![Lock::Counter]), count).await
    }
}

/// Rolls back when it is dropped.
pub(super) struct Transaction(Connection);

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

impl Drop for Transaction {
    fn drop(&mut self) {
        let Pool { worker, .. } = self.0.0;
        self.0.0.world().end(worker, false);
    }
}

pub(super) struct Model;

impl Database for Model {
    type Connection = Connection;
    type Pool = Pool;
    type Transaction = Transaction;

    async fn insert(connection: &mut Connection, messages: &[Message]) -> Result<(), StoreError> {
        let insert = |world: &mut World, worker| {
            for message in messages {
                let count = serde_json::from_slice(&message.payload).expect("a count");
                let of = message.key.clone().expect("a key");
                world.own(worker).outputs.push((of, count));
            }
        };
        connection.0.call(Need::Nothing, insert).await
    }

    async fn migrate(_: &Pool) -> Result<Vec<&'static str>, StoreError> {
        Ok(Vec::new())
    }

    async fn begin(pool: &Pool) -> Result<Transaction, StoreError> {
        // Made first, so that a transaction that began unheard is rolled back too.
        let transaction = Transaction(Connection(pool.clone()));
        let begin = |world: &mut World, worker: usize| world.open[worker] = Some(Rows::default());
        pool.call(Need::Nothing, begin).await?;
        Ok(transaction)
    }

    async fn commit(transaction: Transaction) -> Result<(), StoreError> {
        let commit = |world: &mut World, worker| world.end(worker, true);
        transaction.0.0.call(Need::Nothing, commit).await
    }

    async fn rollback(transaction: Transaction) {
        drop(transaction);
    }

    fn inbox(connection: &mut Connection) -> Result<Box<dyn InboxConnection + '_>, StoreError> {
        Ok(Box::new(Port(&connection.0)))
    }

    fn inbox_store(_: Pool) -> Arc<dyn InboxStore> {
        panic!("only the runner asks for it")
    }

    fn handler_error(_: Box<dyn Error + Send + Sync>) -> Option<StoreError> {
        None
    }
}

struct Port<'c>(&'c Pool);

#[async_trait]
impl InboxConnection for Port<'_> {
    async fn recorded(&mut self, _: &str, ids: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
        let recorded = |world: &mut World, _| {
            let is_known = |id: &&MessageId| world.committed.ids.contains(id);
            ids.iter().filter(is_known).copied().collect()
        };
        self.0.call(Need::Nothing, recorded).await
    }

    async fn record(&mut self, _: &str, ids: &[MessageId]) -> Result<u64, StoreError> {
        let locks = ids.iter().map(|id| Lock::Id(*id)).collect();
        let record = |world: &mut World, worker| {
            let committed = world.committed.ids.clone();
            let new: Vec<MessageId> =
                ids.iter().filter(|id| !committed.contains(id)).copied().collect();
            world.own(worker).ids.extend(&new);
            new.len() as u64
        };
        self.0.call(Need::Locks(locks), record).await
    }

    async fn lock_lane(&mut self, lane: &LaneKey) -> Result<String, StoreError> {
        let read =
            |world: &mut World, _| world.committed.lanes.get(lane).cloned().unwrap_or_default();
        self.0.call(Need::Locks(vec![Lock::Lane(lane.clone())]), read).await
    }

    async fn write_lane(
        &mut self,
        lane: &LaneKey,
        watermark: &str,
        _: Tally,
    ) -> Result<(), StoreError> {
        let write = |world: &mut World, worker| {
            world.own(worker).lanes.insert(lane.clone(), watermark.to_owned());
        };
        self.0.call(Need::Nothing, write).await
    }

    async fn read_pages(
        &mut self,
        _: &LaneKey,
        _: &PagesWanted,
    ) -> Result<Vec<LanePage>, StoreError> {
        panic!("a few messages need no pages")
    }

    async fn write_pages(
        &mut self,
        _: &LaneKey,
        _: Shard,
        _: &[LanePage],
    ) -> Result<(), StoreError> {
        panic!("a few messages need no pages")
    }

    async fn remove_pages(
        &mut self,
        _: &LaneKey,
        _: Shard,
        _: PageRange,
        _: u32,
    ) -> Result<i64, StoreError> {
        panic!("a few messages need no pages")
    }

    async fn accept_log(&mut self, _: &LaneKey, _: &str) -> Result<bool, StoreError> {
        let accept = |world: &mut World, worker| {
            world.own(worker).has_log = true;
            true
        };
        self.0.call(Need::Locks(vec![Lock::Logs]), accept).await
    }

    async fn bury(&mut self, _: &Letter, _: &Failure) -> Result<(), StoreError> {
        panic!("no dead letters here")
    }

    async fn rebury(&mut self, _: &Letter, _: &Failure) -> Result<bool, StoreError> {
        panic!("no dead letters here")
    }

    async fn unbury(&mut self, _: &str, _: MessageId) -> Result<bool, StoreError> {
        panic!("no dead letters here")
    }
}
