//! Reading the log while transactions are open: a store hands out `seq` before commit, so messages
//! appear below what has been read. Nothing may be lost, come twice, wait, or overtake its key.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use futures::future::try_join_all;
use posthaste_core::{Fetched, Message, Position, Shard, StoreError};
use posthaste_history::History;
use tokio::sync::{Mutex as KeyLock, OwnedMutexGuard, watch};

use super::{
    Writer,
    case::cases,
    kit::{Kit, ROUTE, Reader, keyed, keyless, keyless_many, messages, texts},
};

cases! { "fetch";
    ConcurrentWriters: [
        late_commit_comes_first,
        late_commit_is_settled_progress_too,
        late_commit_keeps_its_keys_order,
        early_transaction_with_a_late_insert_is_not_lost,
        transaction_ids_do_not_decide_order,
        rolled_back_gap_holds_nobody_back,
        open_writer_holds_nobody_back,
        writers_that_end_in_reverse_are_all_read,
        until_leaves_out_late_commits,
        late_transaction_of_many_rows_is_paged,
        late_rows_may_come_while_late_rows_are_paged,
        hostile_writers_lose_nothing,
        hostile_writers_lose_nothing_over_shards,
    ],
}

/// A transaction that has enqueued and is still open.
async fn open(kit: &Kit, messages: &[Message]) -> Result<Box<dyn Writer>, StoreError> {
    let mut writer = kit.bed.begin().await;
    writer.enqueue(messages).await?;
    Ok(writer)
}

async fn late_commit_comes_first(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let late = open(&kit, &[keyless(1)]).await?;
    kit.commit(&[keyless(2)]).await?;
    let mut reader = Reader::paging(&kit, 100);
    assert_eq!(texts(&messages(reader.read_all().await?)), ["2"]);
    late.commit().await;
    kit.commit(&[keyless(3)]).await?;
    assert_eq!(texts(&messages(reader.read_all().await?)), ["1", "3"]);
    assert!(reader.read_all().await?.is_empty());
    Ok(())
}

/// The snapshot must survive where the position is kept, not only in the reader's memory.
async fn late_commit_is_settled_progress_too(kit: Kit) -> Result<(), StoreError> {
    let grant = kit.serving().await?;
    let late = open(&kit, &[keyless(1)]).await?;
    kit.commit(&[keyless(2)]).await?;
    let mut reader = Reader::new(&kit, ROUTE, Shard::WHOLE, grant.position);
    assert_eq!(texts(&messages(reader.read_all().await?)), ["2"]);
    kit.settle_at(&grant.lease, reader.position()).await?;
    kit.store.release(&grant.lease).await?;
    late.commit().await;
    let next = kit.granted(ROUTE, Shard::WHOLE).await?;
    let read = kit.read_from(ROUTE, Shard::WHOLE, &next.position).await?;
    assert_eq!(texts(&messages(read)), ["1"]);
    Ok(())
}

/// Two writers of a key, one after the other; the first one's messages lie below what was read.
async fn late_commit_keeps_its_keys_order(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let first = open(&kit, &[keyed("k", 1), keyed("k", 2)]).await?;
    kit.commit(&[keyed("other", 0)]).await?;
    let mut reader = Reader::paging(&kit, 1);
    assert_eq!(texts(&messages(reader.read_all().await?)), ["0"]);
    first.commit().await;
    kit.commit(&[keyed("k", 3)]).await?;
    assert_eq!(texts(&messages(reader.read_all().await?)), ["1", "2", "3"]);
    Ok(())
}

async fn early_transaction_with_a_late_insert_is_not_lost(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let mut early = kit.bed.begin().await;
    early.touch().await;
    kit.commit(&keyless_many(3)).await?;
    let mut reader = Reader::paging(&kit, 100);
    assert_eq!(reader.read_all().await?.len(), 3);
    early.enqueue(&[keyless(3)]).await?;
    assert!(reader.read_all().await?.is_empty(), "not committed yet");
    kit.commit(&[keyless(4)]).await?;
    assert_eq!(texts(&messages(reader.read_all().await?)), ["4"]);
    early.commit().await;
    assert_eq!(texts(&messages(reader.read_all().await?)), ["3"]);
    Ok(())
}

/// A lower transaction id with a higher seq: ordering by transaction would turn the key around.
async fn transaction_ids_do_not_decide_order(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let mut early = kit.bed.begin().await;
    early.touch().await;
    kit.commit(&[keyed("k", 1)]).await?;
    early.enqueue(&[keyed("k", 2)]).await?;
    early.commit().await;
    kit.commit(&[keyed("k", 3)]).await?;
    for rows_max in [1, 2, 100] {
        let read = Reader::paging(&kit, rows_max).read_all().await?;
        assert_eq!(texts(&messages(read)), ["1", "2", "3"], "{rows_max} rows");
    }
    Ok(())
}

async fn rolled_back_gap_holds_nobody_back(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let gap = open(&kit, &keyless_many(10)).await?;
    kit.commit(&[keyless(11)]).await?;
    let mut reader = Reader::paging(&kit, 3);
    assert_eq!(texts(&messages(reader.read_all().await?)), ["11"]);
    gap.rollback().await;
    kit.commit(&[keyless(12)]).await?;
    assert_eq!(texts(&messages(reader.read_all().await?)), ["12"]);
    Ok(())
}

async fn open_writer_holds_nobody_back(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let mut idle = kit.bed.begin().await;
    idle.touch().await;
    let busy = open(&kit, &[keyless(1_000)]).await?;
    let mut reader = Reader::paging(&kit, 7);
    for round in 0..5 {
        kit.commit(&keyless_many(20)).await?;
        let read = reader.read_all().await?;
        assert_eq!(read.len(), 20, "round {round} while writers are open");
    }
    busy.commit().await;
    idle.rollback().await;
    assert_eq!(texts(&messages(reader.read_all().await?)), ["1000"]);
    Ok(())
}

async fn writers_that_end_in_reverse_are_all_read(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let mut writers = Vec::new();
    for number in 0..12 {
        writers.push(open(&kit, &[keyless(number)]).await?);
    }
    let mut reader = Reader::paging(&kit, 2);
    for number in (0..12).rev() {
        writers.pop().expect("twelve were opened").commit().await;
        let read = texts(&messages(reader.read_all().await?));
        assert_eq!(read, [number.to_string()]);
    }
    Ok(())
}

/// A barrier says which transactions it covers, not only which seqs.
async fn until_leaves_out_late_commits(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let late = open(&kit, &[keyless(1)]).await?;
    kit.commit(&[keyless(2), keyless(3)]).await?;
    let mut ahead = Reader::paging(&kit, 100);
    assert_eq!(ahead.read_all().await?.len(), 2);
    late.commit().await;
    kit.commit(&[keyless(4)]).await?;
    for rows_max in [1, 2, 100] {
        let mut reader = Reader::paging(&kit, rows_max);
        reader.fetch.until = Some(ahead.position().clone());
        let read = texts(&messages(reader.read_all().await?));
        assert_eq!(read, ["2", "3"], "{rows_max} rows up to the barrier");
        reader.fetch.until = None;
        let rest = texts(&messages(reader.read_all().await?));
        assert_eq!(rest, ["1", "4"], "{rows_max} rows beyond the barrier");
    }
    Ok(())
}

async fn late_transaction_of_many_rows_is_paged(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let sent = keyless_many(5_000);
    let mut history = History::default();
    history.committed(&sent);
    let late = open(&kit, &sent).await?;
    let after = [keyless(5_000)];
    kit.commit(&after).await?;
    history.committed(&after);
    let mut reader = Reader::paging(&kit, 300);
    record(&mut history, &reader.read_all().await?);
    late.commit().await;
    record(&mut history, &reader.read_all().await?);
    assert_exact(&history);
    Ok(())
}

/// Two open transactions with interleaved seqs; the second commits while the first one's late rows
/// are being paged, so that some of its rows lie below the page just read and some above.
async fn late_rows_may_come_while_late_rows_are_paged(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    for pages_between in [0, 1, 3, 6] {
        let parts: [Vec<Message>; 4] = [300, 100, 300, 100].map(keyless_many);
        let mut one = open(&kit, &parts[0]).await?;
        let mut two = open(&kit, &parts[1]).await?;
        one.enqueue(&parts[2]).await?;
        two.enqueue(&parts[3]).await?;
        let mut history = History::default();
        let mut reader = Reader::paging(&kit, 70);
        reader.read_all().await?;
        let fresh = keyless_many(5);
        kit.commit(&fresh).await?;
        record(&mut history, &reader.read_all().await?);
        one.commit().await;
        for _ in 0..pages_between {
            record(&mut history, &reader.page().await?.messages);
        }
        two.commit().await;
        record(&mut history, &reader.page().await?.messages);
        let more = keyless_many(5);
        kit.commit(&more).await?;
        record(&mut history, &reader.read_all().await?);
        history.committed(parts.iter().flatten().chain(&fresh).chain(&more));
        assert_exact(&history);
    }
    Ok(())
}

async fn hostile_writers_lose_nothing(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    hostile(&kit, &[Shard::WHOLE], 1).await
}

async fn hostile_writers_lose_nothing_over_shards(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["*"], 3).await?;
    let shards: Vec<Shard> = (0..3).map(|index| Shard { index, of: 3 }).collect();
    hostile(&kit, &shards, 2).await
}

/// Writers as applications have them, and one reader per shard that never waits for them.
async fn hostile(kit: &Kit, shards: &[Shard], seed: u64) -> Result<(), StoreError> {
    const WRITERS: u64 = 8;
    let world = Arc::new(World::default());
    world.activity.send_modify(|activity| activity.writing = WRITERS);
    let writers = (0..WRITERS).map(|index| {
        let application = Application {
            kit: kit.clone(),
            world: Arc::clone(&world),
            random: fastrand::Rng::with_seed(seed * 1_000 + index),
        };
        application.run(index == 0)
    });
    let readers = shards.iter().map(|shard| read_on(kit, &world, *shard, seed));
    let (wrote, read) = futures::join!(try_join_all(writers), try_join_all(readers));
    wrote?;
    read?;
    let history = world.history.lock().expect("no writer panicked");
    assert!(history.received_count() > 300, "the writers wrote");
    assert_exact(&history);
    Ok(())
}

/// What writers and readers share.
#[derive(Default)]
struct World {
    /// Serialise the writers of a key, as the row lock on an aggregate does.
    keys: [Arc<KeyLock<()>>; 6],
    history: Mutex<History>,
    activity: watch::Sender<Activity>,
}

/// What the writers have done so far.
#[derive(Default)]
struct Activity {
    /// Writers that have not ended.
    writing: u64,
    /// Transactions that have committed.
    commits: u64,
}

/// One writer: a program that runs transactions of all kinds.
struct Application {
    kit: Kit,
    world: Arc<World>,
    random: fastrand::Rng,
}

impl Application {
    async fn run(mut self, is_slow: bool) -> Result<(), StoreError> {
        let mut result = Ok(());
        for _ in 0..if is_slow { 5 } else { 40 } {
            let done = if is_slow { self.stay_open().await } else { self.transact().await };
            result = result.and(done);
        }
        // Whatever happened, so that readers and the slow one end.
        self.world.activity.send_modify(|activity| activity.writing -= 1);
        result
    }

    /// A transaction over some keys: sometimes it gets its id long before it enqueues, sometimes it
    /// enqueues in several calls, sometimes it is rolled back.
    async fn transact(&mut self) -> Result<(), StoreError> {
        let mut writer = self.kit.bed.begin().await;
        if self.random.bool() {
            writer.touch().await;
            self.dawdle().await;
        }
        let (keys, _locks) = self.lock_keys().await;
        let mut sent = Vec::new();
        for _ in 0..self.random.usize(1..4) {
            let mut call: Vec<Message> = keys.iter().map(|key| keyed(key, 0)).collect();
            call.extend(self.random.bool().then(|| keyless(0)));
            writer.enqueue(&call).await?;
            sent.extend(call);
            self.dawdle().await;
        }
        if self.random.u8(..100) < 5 {
            writer.rollback().await;
            self.world.record(|history| history.rolled_back(&sent));
        } else {
            writer.commit().await;
            // Before the keys are unlocked, so that records of a key are in its commit order.
            self.world.record(|history| history.committed(&sent));
            self.world.activity.send_modify(|activity| activity.commits += 1);
        }
        Ok(())
    }

    /// A transaction of a key nobody else writes, which stays open while others commit.
    async fn stay_open(&mut self) -> Result<(), StoreError> {
        let mut writer = self.kit.bed.begin().await;
        let mut sent = Vec::new();
        for number in 0..3 {
            let call = [keyed("slow", number), keyless(number)];
            writer.enqueue(&call).await?;
            sent.extend(call);
            self.wait_for_commits(15).await;
        }
        writer.commit().await;
        self.world.record(|history| history.committed(&sent));
        Ok(())
    }

    /// Returns once so many more transactions have committed, or nobody else is writing.
    async fn wait_for_commits(&mut self, count: u64) {
        let mut activity = self.world.activity.subscribe();
        let goal = activity.borrow().commits + count;
        let reached = activity.wait_for(|now| now.commits >= goal || now.writing == 1);
        reached.await.expect("the world outlives its writers");
    }

    /// Some keys, locked in one order so that nobody waits in a circle.
    async fn lock_keys(&mut self) -> (Vec<String>, Vec<OwnedMutexGuard<()>>) {
        let count = self.random.usize(1..3);
        let keys = self.world.keys.len();
        let chosen: BTreeSet<usize> = (0..count).map(|_| self.random.usize(..keys)).collect();
        let mut locks = Vec::new();
        for index in &chosen {
            locks.push(Arc::clone(&self.world.keys[*index]).lock_owned().await);
        }
        let names = chosen.iter().map(|index| format!("key-{index}"));
        (names.collect(), locks)
    }

    /// Lets others go on for a while.
    async fn dawdle(&mut self) {
        for _ in 0..self.random.usize(..20) {
            tokio::task::yield_now().await;
        }
    }
}

impl World {
    fn record(&self, write: impl FnOnce(&mut History)) {
        write(&mut self.history.lock().expect("no writer panicked"));
    }
}

/// Reads a shard until every writer has ended and nothing is left.
async fn read_on(kit: &Kit, world: &World, shard: Shard, seed: u64) -> Result<(), StoreError> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut reader = Reader::new(kit, ROUTE, shard, Position::default());
    loop {
        reader.fetch.rows_max = random.u32(1..40);
        let all_ended = world.activity.borrow().writing == 0;
        let batch = reader.page().await?;
        let was_empty = batch.messages.is_empty();
        world.record(|history| record(history, &batch.messages));
        if all_ended && !batch.more {
            return Ok(());
        }
        if was_empty {
            tokio::task::yield_now().await;
        }
    }
}

fn record(history: &mut History, fetched: &[Fetched]) {
    for fetched in fetched {
        history.received(fetched.message.id);
    }
}

fn assert_exact(history: &History) {
    let report = history.check();
    assert!(report.is_exact(), "{report}");
}
