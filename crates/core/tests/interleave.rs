//! R8.10: two workers with copies of one message, in every interleaving of their store calls, with a
//! failure injected at every call: before it took effect, or after.
//!
//! The rule under test is the real one; the database is a model with the locks that matter.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

use async_trait::async_trait;
use posthaste_core::{
    Failure, Floor, InboxConnection, InboxError, InboxMode, InboxRule, Incoming, Input, LaneKey,
    Letter, Message, MessageId, Provenance, Shard, StoreError, StoreErrorKind, Tally,
};
use uuid::Uuid;

/// What is committed, or what a transaction would add.
#[derive(Clone, Debug, Default)]
struct Tables {
    ids: BTreeSet<MessageId>,
    lanes: BTreeMap<LaneKey, String>,
    logs: BTreeSet<Uuid>,
    counter: u32,
    /// Which attempt wrote it, and the counter it was made from.
    outputs: Vec<(u32, u32)>,
}

/// What a transaction holds until it ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lock {
    Id(MessageId),
    Lane(LaneKey),
    Logs,
    Counter,
}

#[derive(Default)]
struct Database {
    committed: Tables,
    /// By worker: what its open transaction adds.
    open: [Option<Tables>; 2],
    locks: BTreeMap<Lock, usize>,
}

impl Database {
    /// Takes a lock; `None` while the other has it.
    fn lock(&mut self, worker: usize, lock: Lock) -> Option<()> {
        (*self.locks.entry(lock).or_insert(worker) == worker).then_some(())
    }

    fn own(&mut self, worker: usize) -> &mut Tables {
        self.open[worker].as_mut().expect("in a transaction")
    }

    fn end(&mut self, worker: usize, is_commit: bool) {
        if let (Some(own), true) = (self.open[worker].take(), is_commit) {
            self.committed.ids.extend(own.ids);
            self.committed.lanes.extend(own.lanes);
            self.committed.logs.extend(own.logs);
            self.committed.counter += own.counter;
            self.committed.outputs.extend(own.outputs);
        }
        self.locks.retain(|_, holder| *holder != worker);
    }
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Succeeds,
    FailsBefore,
    FailsAfter,
}

#[derive(Default)]
struct World {
    database: Database,
    /// Whose turn it is, and what happens to its call; taken by the call.
    turn: Option<(usize, Fate)>,
    /// Workers that wait for a lock.
    is_waiting: [bool; 2],
    /// Attempts of handlers so far, so that each writes another output.
    attempts: u32,
}

#[derive(Clone)]
struct Connection {
    world: Arc<Mutex<World>>,
    worker: usize,
}

impl Connection {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("one thread")
    }

    /// One call: waits for its turn, and for locks. `call` returns `None` while it has to wait.
    async fn call<T>(
        &self,
        mut call: impl FnMut(&mut Database, usize) -> Option<T> + Send,
    ) -> Result<T, StoreError> {
        let down = || StoreError::new(StoreErrorKind::Unavailable, "model", "injected");
        poll_fn(|_| {
            let mut world = self.world();
            let Some((_, fate)) = world.turn.take_if(|(whose, _)| *whose == self.worker) else {
                return Poll::Pending;
            };
            if fate == Fate::FailsBefore {
                return Poll::Ready(Err(down()));
            }
            match call(&mut world.database, self.worker) {
                None => {
                    world.is_waiting[self.worker] = true;
                    Poll::Pending
                }
                Some(_) if fate == Fate::FailsAfter => Poll::Ready(Err(down())),
                Some(value) => Poll::Ready(Ok(value)),
            }
        })
        .await
    }

    fn end(&self, is_commit: bool) {
        let mut world = self.world();
        world.database.end(self.worker, is_commit);
        world.is_waiting = [false; 2];
    }
}

#[async_trait]
impl InboxConnection for Connection {
    async fn recorded(&mut self, _: &str, ids: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
        self.call(|database, _| {
            let is_known = |id: &&MessageId| database.committed.ids.contains(id);
            Some(ids.iter().filter(is_known).copied().collect())
        })
        .await
    }

    async fn record(&mut self, _: &str, ids: &[MessageId]) -> Result<u64, StoreError> {
        self.call(|database, worker| {
            for id in ids {
                database.lock(worker, Lock::Id(*id))?;
            }
            let committed = database.committed.ids.clone();
            let new = ids.iter().filter(|id| !committed.contains(id));
            database.own(worker).ids.extend(new.clone());
            Some(new.count() as u64)
        })
        .await
    }

    async fn lock_lane(&mut self, lane: &LaneKey) -> Result<String, StoreError> {
        self.call(|database, worker| {
            database.lock(worker, Lock::Lane(lane.clone()))?;
            Some(database.committed.lanes.get(lane).cloned().unwrap_or_default())
        })
        .await
    }

    async fn write_lane(
        &mut self,
        lane: &LaneKey,
        watermark: &str,
        _: Tally,
    ) -> Result<(), StoreError> {
        self.call(|database, worker| {
            database.own(worker).lanes.insert(lane.clone(), watermark.to_owned());
            Some(())
        })
        .await
    }

    async fn accept_log(&mut self, lane: &LaneKey, _: &str) -> Result<bool, StoreError> {
        let log = lane.log;
        self.call(|database, worker| {
            database.lock(worker, Lock::Logs)?;
            if database.committed.logs.is_empty() {
                database.own(worker).logs.insert(log);
                return Some(true);
            }
            Some(database.committed.logs.contains(&log))
        })
        .await
    }

    async fn bury(&mut self, _: &Letter, _: &Failure) -> Result<(), StoreError> {
        panic!("no dead letters here")
    }

    async fn unbury(&mut self, _: &str, _: MessageId) -> Result<bool, StoreError> {
        panic!("no dead letters here")
    }
}

/// Handles the message until it can be acknowledged, as the library does.
async fn work(mut connection: Connection, rule: InboxRule, incoming: Incoming) {
    loop {
        let outcome = attempt(&mut connection, &rule, &incoming).await;
        if outcome.is_err() {
            connection.end(false);
            continue;
        }
        // Acknowledging may fail as well: then it comes again.
        if connection.call(|_, _| Some(())).await.is_ok() {
            return;
        }
    }
}

async fn attempt(
    connection: &mut Connection,
    rule: &InboxRule,
    incoming: &Incoming,
) -> Result<(), InboxError> {
    connection
        .call(|database, worker| {
            database.open[worker] = Some(Tables::default());
            Some(())
        })
        .await?;
    let admitted = rule.admit(connection, &[Input::from(incoming)]).await?;
    if admitted.count() == 0 {
        connection.end(false);
        return Ok(());
    }
    let attempt = {
        let mut world = connection.world();
        world.attempts += 1;
        world.attempts
    };
    connection
        .call(|database, worker| {
            database.lock(worker, Lock::Counter)?;
            let counter = database.committed.counter;
            let own = database.own(worker);
            own.counter = 1;
            own.outputs = vec![(attempt, counter + 1)];
            Some(())
        })
        .await?;
    if !rule.conclude(connection, &admitted).await? {
        connection.end(false);
        return Ok(());
    }
    // Committed, and locks gone, even where the answer is lost.
    let committed = connection
        .call(|database, worker| {
            database.end(worker, true);
            Some(())
        })
        .await;
    connection.world().is_waiting = [false; 2];
    Ok(committed?)
}

/// Choices made so far, and how many there were at each point: one path through all runs.
#[derive(Default)]
struct Path {
    choices: Vec<(usize, usize)>,
    at: usize,
}

impl Path {
    fn choose(&mut self, of: usize) -> usize {
        if self.at == self.choices.len() {
            self.choices.push((0, of));
        }
        let (choice, expected) = self.choices[self.at];
        assert_eq!(expected, of, "a run is repeated exactly");
        self.at += 1;
        choice
    }

    /// The next path; `false` when there is none left.
    fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, of)) = self.choices.pop() {
            if choice + 1 < of {
                self.choices.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}

type Worker = Pin<Box<dyn Future<Output = ()>>>;

/// One run of two workers along a path, with at most so many failures.
fn run(path: &mut Path, mut failures: usize, worker: impl Fn(Connection) -> Worker) -> Tables {
    let world = Arc::new(Mutex::new(World::default()));
    let connection = |worker| Connection { world: Arc::clone(&world), worker };
    let mut workers = [0, 1].map(|index| Some(worker(connection(index))));
    let mut context = Context::from_waker(Waker::noop());
    let mut poll = |worker: &mut Option<Worker>| {
        if worker.as_mut().is_some_and(|it| it.as_mut().poll(&mut context).is_ready()) {
            *worker = None;
        }
    };
    workers.iter_mut().for_each(&mut poll);
    loop {
        let is_waiting = world.lock().expect("one thread").is_waiting;
        let able = |worker: &usize| workers[*worker].is_some() && !is_waiting[*worker];
        let able: Vec<usize> = [0, 1].into_iter().filter(able).collect();
        if able.is_empty() {
            assert!(workers.iter().all(Option::is_none), "two wait for each other");
            return world.lock().expect("one thread").database.committed.clone();
        }
        let fates = if failures > 0 { 3 } else { 1 };
        let choice = path.choose(able.len() * fates);
        let fate = [Fate::Succeeds, Fate::FailsBefore, Fate::FailsAfter][choice % fates];
        failures -= usize::from(fate != Fate::Succeeds);
        let worker = able[choice / fates];
        world.lock().expect("one thread").turn = Some((worker, fate));
        poll(&mut workers[worker]);
    }
}

fn incoming() -> Incoming {
    let floor = Floor { log: Uuid::nil(), shard: Shard::WHOLE, seq: 3, missing: Vec::new() };
    Incoming {
        message: Message::from_bytes("orders", Some("k"), "{}"),
        provenance: Provenance { seq: Some(4), floor: Some(floor), ..Provenance::default() },
        receipt: 1,
        lane: Some("lane".into()),
    }
}

#[test]
fn r8_10_every_interleaving_with_a_failure_at_every_call_has_one_effect() {
    let incoming = incoming();
    for (mode, expected) in
        [(InboxMode::IdsFirst, 1_000), (InboxMode::IdsLast, 10_000), (InboxMode::Watermark, 10_000)]
    {
        let rule = InboxRule { consumer: "c".to_owned(), mode };
        let (mut path, mut runs) = (Path::default(), 0);
        loop {
            let tables = run(&mut path, 1, |connection| {
                Box::pin(work(connection, rule.clone(), incoming.clone()))
            });
            let choices = &path.choices;
            assert_eq!(tables.counter, 1, "{mode:?}: one state change: {choices:?}");
            assert_eq!(tables.outputs.len(), 1, "{mode:?}: one output: {choices:?}");
            assert_eq!(tables.outputs[0].1, 1, "{mode:?}: of the committed state: {choices:?}");
            runs += 1;
            if !path.advance() {
                break;
            }
        }
        assert!(runs > expected, "{mode:?}: all of them: {runs}");
    }
}

/// A check before the transaction, as people write it, instead of the record: the model finds it.
#[test]
fn r8_10_a_check_without_a_record_is_found() {
    let incoming = incoming();
    let rule = InboxRule { consumer: "c".to_owned(), mode: InboxMode::IdsLast };
    let mut path = Path::default();
    let is_found = loop {
        let finished = run(&mut path, 0, |connection| {
            let (rule, incoming) = (rule.clone(), incoming.clone());
            Box::pin(async move { check_then_act(connection, &rule, &incoming).await })
        });
        if finished.counter > 1 {
            break true;
        }
        if !path.advance() {
            break false;
        }
    };
    assert!(is_found);
}

async fn check_then_act(mut connection: Connection, rule: &InboxRule, incoming: &Incoming) {
    let known = connection.recorded(&rule.consumer, &[incoming.message.id]).await;
    if known.is_ok_and(|known| known.is_empty()) {
        let write = connection.call(|database, worker| {
            let own = Tables { counter: 1, ids: [incoming.message.id].into(), ..Tables::default() };
            database.open[worker] = Some(own);
            database.end(worker, true);
            Some(())
        });
        write.await.expect("no failure injected");
    }
}
