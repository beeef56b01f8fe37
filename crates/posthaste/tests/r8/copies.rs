//! R8.04, and R8.07 and R8.09 as far as they are a library's: copies at once, to handlers that are
//! never the same twice, in all modes. Copies that come late are in `tests/inbox.rs`.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use posthaste::{
    Backoff, Begun, Broker, Consumer, ConsumerBuilder, Handled, HandlerError, Inbox, Incoming,
    Message, MessageId, Relay, Subscriber,
};
use posthaste_broker_memory::MemoryBroker;
use tokio::{sync::Barrier, task::JoinSet, time::timeout};
use uuid::Uuid;

use crate::{
    bed::{Base, Bed, LONG, bump, emit, on_each_database, tell},
    desk::{Desk, message, placed},
};

const AT_ONCE: Backoff =
    Backoff { initial: Duration::from_millis(1), max: Duration::from_millis(5) };

fn inboxes<DB: Base>() -> [Inbox<DB>; 3] {
    [Inbox::new("c"), Inbox::new("c").optimistic(), Inbox::new("c").watermark()]
}

fn consumer<DB: Base>(
    bed: &Bed<DB>,
    inbox: Inbox<DB>,
    subscriber: Box<dyn Subscriber>,
) -> ConsumerBuilder<DB> {
    Consumer::builder(bed.pool.clone(), inbox, subscriber)
        .retry(AT_ONCE, 1_000)
        .poll(Duration::from_millis(100))
}

async fn wait_for(desk: &Desk, count: usize) {
    timeout(LONG, desk.wait_for(count)).await.expect("acknowledged in time");
}

/// Has everything in the outbox sent.
async fn relay<DB: Base>(bed: &Bed<DB>, route: &str, broker: &MemoryBroker) {
    let broker: Arc<dyn Broker> = Arc::new(broker.clone());
    let relay = Relay::builder(bed.pool.clone()).route(route, "*", broker).build();
    relay.expect("a relay").run_once().await.expect("everything is sent");
}

/// Handles a message as a program without the runner does, until it knows that it is handled;
/// whether this was the one that did it. `value` is what this attempt, and no other, writes.
async fn take<DB: Base>(
    pool: &DB::Pool,
    inbox: &Inbox<DB>,
    incoming: &Incoming,
) -> (Handled, String) {
    let mut tries = 0;
    loop {
        let value = Uuid::new_v4().to_string();
        let attempt = async {
            let Begun::New(mut tx) = inbox.begin(pool, incoming).await? else {
                return Ok(Handled::Duplicate);
            };
            bump::<DB>(&mut tx, "counter").await?;
            tell::<DB>(&mut tx, &value).await?;
            emit::<DB>(&mut tx, Message::new("outputs", "k", &value)?).await?;
            Ok::<_, HandlerError>(tx.commit().await?)
        };
        tries += 1;
        match attempt.await {
            Ok(handled) => return (handled, value),
            // Two were in each other's way: the broker gives it out again.
            Err(error) => assert!(tries < 100, "{error:?}"),
        }
    }
}

async fn r8_04_a_hundred_copies_on_sixteen_threads_have_one_effect<DB: Base>() {
    for inbox in inboxes::<DB>() {
        let bed = Bed::<DB>::new().await;
        let incoming = placed(Uuid::now_v7(), 1, 0, "k");
        let mut tasks = JoinSet::new();
        for _ in 0..100 {
            let (pool, inbox, incoming) = (bed.pool.clone(), inbox.clone(), incoming.clone());
            tasks.spawn(async move { take::<DB>(&pool, &inbox, &incoming).await });
        }
        let taken = timeout(LONG, tasks.join_all()).await.expect("in time");
        let done: Vec<&String> =
            taken.iter().filter(|it| it.0 == Handled::Done(())).map(|it| &it.1).collect();
        assert_eq!(done.len(), 1, "{inbox:?}");
        assert_eq!(bed.count().await, 1, "{inbox:?}");
        assert_eq!(bed.told().await, [done[0].clone()], "{inbox:?}: nothing of the losers is left");
        // Whatever is dispatched, and however often, is of the attempt that was committed.
        let broker = MemoryBroker::new();
        relay(&bed, "first", &broker).await;
        relay(&bed, "again", &broker).await;
        let sent = broker.received();
        assert_eq!(sent.len(), 2, "{inbox:?}");
        assert!(sent[0] == sent[1], "{inbox:?}: the same message, byte by byte");
        let value: String = serde_json::from_slice(&sent[0].payload).expect("a value");
        assert_eq!(&value, done[0], "{inbox:?}");
    }
}

/// Makes the entity as most programs do: looks, and inserts where there is none. Two that look at the
/// same time both find none; `meet` makes that sure.
async fn create<DB: Base>(
    tx: &mut DB::Connection,
    meet: Option<Arc<Barrier>>,
) -> Result<(), HandlerError> {
    let found = DB::texts(tx, "SELECT name FROM entity", &[]).await?;
    if let Some(barrier) = meet {
        barrier.wait().await;
    }
    let sql = match found.len() {
        0 => "INSERT INTO entity (name, n) VALUES ('new', 1)",
        _ => "UPDATE entity SET n = n + 1",
    };
    DB::execute(tx, sql, &[]).await?;
    Ok(())
}

async fn r8_04_of_two_who_make_an_entity_one_waits_or_is_tried_again<DB: Base>() {
    let (one, other) = (message("Add", "k", 1), message("Add", "k", 2));
    for (inbox, messages, expected) in [
        (Inbox::new("c"), [one.clone(), other], 2),
        (Inbox::new("c").optimistic(), [one.clone(), one], 1),
    ] {
        let bed = Bed::<DB>::new().await;
        let barrier = Arc::new(Barrier::new(2));
        let mut replicas = Vec::new();
        for incoming in messages {
            let desk = Desk::new();
            desk.put(incoming);
            let (barrier, has_met) = (Arc::clone(&barrier), AtomicBool::new(false));
            let replica =
                consumer(&bed, inbox.clone(), desk.subscribe()).on("Add", move |tx, _| {
                    let is_first = DB::HAS_CONCURRENT_WRITERS && !has_met.swap(true, SeqCst);
                    let meet = is_first.then(|| Arc::clone(&barrier));
                    Box::pin(create::<DB>(tx, meet))
                });
            replicas.push((desk, replica.build().expect("a consumer").spawn()));
        }
        for (desk, replica) in replicas {
            wait_for(&desk, 1).await;
            replica.shutdown().await.expect("it stops");
        }
        assert_eq!(bed.count().await, expected, "{inbox:?}");
        assert_eq!(DB::number::<u32>(&bed.pool, DB::LETTERS).await, 0, "{inbox:?}");
    }
}

async fn r8_04_a_failed_attempt_leaves_nothing_and_a_committed_input_never_dies<DB: Base>() {
    for inbox in inboxes::<DB>() {
        let (bed, desk) = (Bed::<DB>::new().await, Desk::new());
        let calls = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&calls);
        let incoming = placed(Uuid::now_v7(), 1, 0, "k");
        desk.put(incoming.clone());
        let consumer = consumer(&bed, inbox.clone(), desk.subscribe()).retry(AT_ONCE, 3);
        // Works the third time only: were a copy handled, it would become a dead letter.
        let consumer = consumer.on("Add", move |tx, _| {
            let is_good = count.fetch_add(1, SeqCst) == 2;
            Box::pin(async move {
                bump::<DB>(tx, "counter").await?;
                emit::<DB>(tx, Message::new("outputs", "k", "out")?).await?;
                if is_good { Ok(()) } else { Err(HandlerError::retry("not now")) }
            })
        });
        let running = consumer.build().expect("a consumer").spawn();
        wait_for(&desk, 1).await;
        desk.put_all([incoming.clone(), incoming]);
        wait_for(&desk, 3).await;
        running.shutdown().await.expect("it stops");
        assert_eq!(calls.load(SeqCst), 3, "{inbox:?}");
        assert_eq!(bed.count().await, 1, "{inbox:?}");
        assert_eq!(DB::number::<u32>(&bed.pool, DB::LETTERS).await, 0, "{inbox:?}");
        let broker = MemoryBroker::new();
        relay(&bed, "all", &broker).await;
        assert_eq!(broker.received().len(), 1, "{inbox:?}");
    }
}

/// Blobs that no transaction takes back, each under the name of its attempt.
type Blobs = Arc<Mutex<HashSet<String>>>;

/// Says that there will be a blob, writes it, and handles the message: then it is no longer only said.
async fn store_blob<DB: Base>(
    pool: &DB::Pool,
    incoming: &Incoming,
    blobs: &Blobs,
) -> Result<(), HandlerError> {
    let name = Uuid::new_v4().to_string();
    let mut intent = DB::begin(pool).await?;
    tell::<DB>(&mut intent, &name).await?;
    DB::commit(intent).await?;
    blobs.lock().expect("a lock").insert(name.clone());
    let inbox = Inbox::<DB>::new("c").optimistic();
    let Begun::New(mut tx) = inbox.begin(pool, incoming).await? else { return Ok(()) };
    emit::<DB>(&mut tx, Message::new("blobs", "k", &name)?).await?;
    DB::execute(&mut tx, "DELETE FROM told WHERE what = $1", &[&name]).await?;
    // Of a loser nothing is committed: it is still only said that there will be a blob.
    let _ = tx.commit().await?;
    Ok(())
}

async fn r8_07_what_is_published_is_of_the_attempt_that_won<DB: Base>() {
    let bed = Bed::<DB>::new().await;
    let (incoming, blobs) = (message("Add", "k", 1), Blobs::default());
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (pool, incoming, blobs) = (bed.pool.clone(), incoming.clone(), Arc::clone(&blobs));
        tasks.spawn(async move { store_blob::<DB>(&pool, &incoming, &blobs).await });
    }
    let attempts = timeout(LONG, tasks.join_all()).await.expect("in time");
    assert!(attempts.iter().any(Result::is_ok), "{attempts:?}");
    // What was only said is of attempts that came to nothing: those that lost, failed or crashed.
    for name in bed.told().await {
        assert!(blobs.lock().expect("a lock").remove(&name));
    }
    let broker = MemoryBroker::new();
    relay(&bed, "all", &broker).await;
    let sent = broker.received();
    assert_eq!(sent.len(), 1);
    let name: String = serde_json::from_slice(&sent[0].payload).expect("a name");
    assert_eq!(*blobs.lock().expect("a lock"), HashSet::from([name]));
}

async fn r8_09_at_the_edge_an_id_that_the_client_chose_is_enough<DB: Base>() {
    let bed = Bed::<DB>::new().await;
    // What a client sends as its idempotency key, and sends again after a timeout.
    let key: MessageId = "7f3f2a52-6c9b-4f0e-9d0c-3f2f0f5b9a11".parse().expect("a UUID");
    for is_first in [true, false] {
        let begun = Inbox::<DB>::new("POST /transfers").begin(&bed.pool, key).await;
        match begun.expect("an answer") {
            Begun::New(mut tx) => {
                assert!(is_first);
                bump::<DB>(&mut tx, "transfers").await.expect("a row");
                assert_eq!(tx.commit().await.expect("a commit"), Handled::Done(()));
            }
            Begun::Duplicate => assert!(!is_first),
        }
    }
    assert_eq!(bed.count().await, 1);
}

on_each_database!(
    r8_04_a_hundred_copies_on_sixteen_threads_have_one_effect,
    r8_04_of_two_who_make_an_entity_one_waits_or_is_tried_again,
    r8_04_a_failed_attempt_leaves_nothing_and_a_committed_input_never_dies,
    r8_07_what_is_published_is_of_the_attempt_that_won,
    r8_09_at_the_edge_an_id_that_the_client_chose_is_enough,
);
