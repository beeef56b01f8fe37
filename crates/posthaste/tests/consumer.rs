//! The consumer runner on SQLite: order, retries, dead letters, stopping.

mod desk;
mod trouble;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use desk::{Desk, message, number, placed};
use posthaste::{
    Backoff, Consumer, ConsumerBuilder, ConsumerError, HandlerError, InboxError, InboxStore,
    Message, Relay, RetryPolicy, Running, Sharing, Start, Store, Subscription,
    sqlite::{Inbox, Outbox, SqliteStore},
};
use posthaste_broker_memory::{MemoryBroker, Script};
use posthaste_core::{Failure, Outcome, ParkedFilter};
use posthaste_fixtures::eventually;
use sqlx::{Sqlite, SqliteConnection, SqlitePool};
use tokio::sync::Notify;
use uuid::Uuid;

/// How long anything may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);
const AT_ONCE: Backoff =
    Backoff { initial: Duration::from_millis(1), max: Duration::from_millis(5) };

struct Bed {
    pool: SqlitePool,
    desk: Desk,
    _folder: tempfile::TempDir,
}

impl Bed {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("shop.db").display());
        let pool = posthaste::sqlite::connect(&url).await.expect("a database");
        posthaste::migrate(&pool).await.expect("tables");
        sqlx::raw_sql("CREATE TABLE effect (n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, value)")
            .execute(&pool)
            .await
            .expect("a table");
        Self { pool, desk: Desk::new(), _folder: folder }
    }

    fn builder(&self, inbox: Inbox) -> ConsumerBuilder<Sqlite> {
        Consumer::builder(self.pool.clone(), inbox, self.desk.subscribe())
            .retry(AT_ONCE, 3)
            .poll(Duration::from_millis(20))
    }

    /// Every committed effect, in order, as `key=value`.
    async fn effects(&self) -> Vec<String> {
        let select = "SELECT key || '=' || value FROM effect ORDER BY n";
        sqlx::query_scalar(select).fetch_all(&self.pool).await.expect("effects")
    }

    async fn wait_for(&self, count: usize) {
        let waited = tokio::time::timeout(LONG, self.desk.wait_for(count)).await;
        assert!(waited.is_ok(), "{count} acknowledged in time: {:?}", self.effects().await);
    }

    fn letters(&self) -> SqliteStore {
        SqliteStore::new(self.pool.clone())
    }
}

/// What handlers do here: one row.
async fn add(
    tx: &mut SqliteConnection,
    incoming: &posthaste::Incoming,
) -> Result<(), HandlerError> {
    sqlx::query("INSERT INTO effect (key, value) VALUES (?, ?)")
        .bind(incoming.message.key.as_deref())
        .bind(number(incoming))
        .execute(tx)
        .await?;
    Ok(())
}

#[tokio::test]
async fn r8_01_copies_take_effect_once_and_all_are_acknowledged() {
    for (inbox, batch) in [
        (Inbox::new("c"), 1),
        (Inbox::new("c"), 10),
        (Inbox::new("c").optimistic(), 1),
        (Inbox::new("c").optimistic(), 10),
    ] {
        let bed = Bed::new().await;
        let messages: Vec<_> =
            (0..40).map(|n| message("Add", &format!("key-{}", n % 5), n)).collect();
        for _ in 0..3 {
            bed.desk.put_all(messages.clone());
        }
        let consumer = bed.builder(inbox).batch(batch).on("Add", |tx, it| Box::pin(add(tx, it)));
        let running = consumer.build().unwrap().spawn();
        bed.wait_for(120).await;
        running.shutdown().await.unwrap();
        let effects = bed.effects().await;
        assert_eq!(effects.len(), 40);
        for key in 0..5 {
            let of_key = format!("key-{key}=");
            let order: Vec<i64> = effects
                .iter()
                .filter_map(|effect| effect.strip_prefix(&of_key)?.parse().ok())
                .collect();
            assert!(order.is_sorted(), "order of a key: {order:?}");
        }
    }
}

/// Messages of a type that follow each other are one call; where one of them fails, each is tried alone.
#[tokio::test]
async fn messages_of_a_transaction_can_be_handled_together() {
    let bed = Bed::new().await;
    let is_open = Arc::new(AtomicBool::new(false));
    let (desk, opened) = (bed.desk.clone(), Arc::clone(&is_open));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&calls);
    let consumer = bed.builder(Inbox::new("c")).concurrency(1).batch(10);
    let consumer = consumer
        .on("Gate", move |_, _| {
            let (desk, opened) = (desk.clone(), Arc::clone(&opened));
            Box::pin(async move {
                opened.store(true, SeqCst);
                // All of the others are there when this ends.
                while desk.given() < 8 {
                    tokio::task::yield_now().await;
                }
                Ok(())
            })
        })
        .on("Other", |tx, incoming| Box::pin(add(tx, incoming)))
        .on_all("Add", move |tx, incoming| {
            log.lock().unwrap().push(incoming.iter().map(|it| number(it)).collect::<Vec<_>>());
            Box::pin(async move {
                for it in incoming {
                    add(tx, it).await?;
                }
                let is_poison = incoming.iter().any(|it| number(it) == 6);
                if is_poison { Err(HandlerError::dead_letter("6")) } else { Ok(()) }
            })
        });
    let running = consumer.build().unwrap().spawn();
    bed.desk.put(message("Gate", "k", 0));
    while !is_open.load(SeqCst) {
        tokio::task::yield_now().await;
    }
    let kind = |n| if n == 4 { "Other" } else { "Add" };
    bed.desk.put_all((1..=7).map(|n| message(kind(n), "k", n)));
    bed.wait_for(8).await;
    running.shutdown().await.unwrap();
    let expected: [&[i64]; 8] = [&[1, 2, 3], &[5, 6, 7], &[1], &[2], &[3], &[5], &[6], &[7]];
    assert_eq!(*calls.lock().unwrap(), expected);
    assert_eq!(bed.effects().await, ["k=1", "k=2", "k=3", "k=4", "k=5", "k=7"]);
    assert_eq!(bed.letters().inbox_status().await.unwrap()[0].dead, 1);
}

#[tokio::test]
async fn r8_02_nothing_is_acknowledged_before_it_is_committed() {
    let bed = Bed::new().await;
    let gate = Arc::new(Notify::new());
    let (is_handled, theirs) = (Arc::new(AtomicBool::new(false)), Arc::clone(&gate));
    let handled = Arc::clone(&is_handled);
    let consumer = bed.builder(Inbox::new("c")).on("Add", move |tx, incoming| {
        let (gate, handled) = (Arc::clone(&theirs), Arc::clone(&handled));
        Box::pin(async move {
            add(tx, incoming).await?;
            handled.store(true, SeqCst);
            gate.notified().await;
            Ok(())
        })
    });
    let running = consumer.build().unwrap().spawn();
    bed.desk.put(message("Add", "k", 1));
    while !is_handled.load(SeqCst) {
        tokio::task::yield_now().await;
    }
    assert_eq!(bed.desk.acknowledged(), []);
    assert_eq!(bed.effects().await, [""; 0], "nobody sees it yet");
    gate.notify_one();
    bed.wait_for(1).await;
    assert_eq!(bed.effects().await, ["k=1"]);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_failing_message_holds_back_its_key_and_no_other() {
    let bed = Bed::new().await;
    let failures = Arc::new(AtomicU32::new(0));
    let gate = Arc::new(AtomicBool::new(false));
    let (count, open) = (Arc::clone(&failures), Arc::clone(&gate));
    let consumer = bed.builder(Inbox::new("c")).retry(AT_ONCE, u32::MAX).concurrency(1);
    let consumer = consumer.on("Add", move |tx, incoming| {
        let (count, open) = (Arc::clone(&count), Arc::clone(&open));
        Box::pin(async move {
            add(tx, incoming).await?;
            let is_first = incoming.message.key.as_deref() == Some("a") && number(incoming) == 1;
            if is_first && !open.load(SeqCst) {
                count.fetch_add(1, SeqCst);
                return Err(HandlerError::retry("not yet"));
            }
            Ok(())
        })
    });
    for n in 1..=3 {
        bed.desk.put(message("Add", "a", n));
        bed.desk.put(message("Add", "b", n));
    }
    let running = consumer.build().unwrap().spawn();
    bed.wait_for(3).await;
    assert_eq!(bed.effects().await, ["b=1", "b=2", "b=3"]);
    while failures.load(SeqCst) < 5 {
        tokio::task::yield_now().await;
    }
    gate.store(true, SeqCst);
    bed.wait_for(6).await;
    assert_eq!(bed.effects().await[3..], ["a=1", "a=2", "a=3"]);
    running.shutdown().await.unwrap();
}

/// Fails, and says so in every way there is.
fn poisonous(bed: &Bed, inbox: Inbox, is_cured: &Arc<AtomicBool>) -> ConsumerBuilder<Sqlite> {
    let is_cured = Arc::clone(is_cured);
    bed.builder(inbox).batch(4).on("Add", move |tx, incoming| {
        let is_cured = Arc::clone(&is_cured);
        Box::pin(async move {
            add(tx, incoming).await?;
            match number(incoming) {
                _ if is_cured.load(SeqCst) => Ok(()),
                2 => Err(HandlerError::retry("it never works")),
                3 => panic!("a bug"),
                4 => Err(HandlerError::dead_letter("this order does not exist")),
                5 => {
                    Ok(sqlx::query("INSERT INTO nothing VALUES (1)").execute(tx).await.map(drop)?)
                }
                _ => Ok(()),
            }
        })
    })
}

#[tokio::test]
async fn r8_04_poison_becomes_dead_letters_and_a_redriven_one_takes_effect_once() {
    let bed = Bed::new().await;
    let is_cured = Arc::new(AtomicBool::new(false));
    let running = poisonous(&bed, Inbox::new("c"), &is_cured).build().unwrap().spawn();
    bed.desk.put_all((1..=6).map(|n| message("Add", "k", n)));
    bed.desk.put(message("Unknown", "k", 7));
    bed.wait_for(7).await;
    assert_eq!(bed.effects().await, ["k=1", "k=6"], "nothing of what failed is left");
    let store = bed.letters();
    let dead = store.letters(&ParkedFilter::default(), 10).await.unwrap();
    let errors: Vec<(u32, String)> = dead
        .iter()
        .map(|it| (it.attempts, it.last_error.clone().map(|(class, _)| class).unwrap_or_default()))
        .collect();
    let class = |attempts, class: &str| (attempts, class.to_owned());
    assert_eq!(
        errors,
        [
            class(3, "handler"),
            class(3, "panic"),
            class(1, "handler"),
            class(3, "handler"),
            class(1, "unhandled-type")
        ]
    );
    // A copy of a dead letter is a copy.
    let ids: Vec<_> = dead.iter().map(|it| it.message.id).collect();
    let again = desk::message("Add", "k", 2);
    bed.desk.put(posthaste::Incoming { message: dead[0].message.clone(), ..again });
    bed.wait_for(8).await;
    assert_eq!(bed.effects().await.len(), 2);

    // Redriven without a cure it is dead again; with one it takes effect, once.
    let first = ParkedFilter { ids: vec![ids[0]], ..ParkedFilter::default() };
    for cured in [false, true] {
        is_cured.store(cured, SeqCst);
        assert_eq!(store.redrive_letters(&first, "ann").await.unwrap(), 1);
        eventually("handling of the redriven letter", async || {
            let dead = store.letters(&first, 1).await.unwrap();
            let due = store.due_letters("c", 1).await.unwrap();
            (due.is_empty() && dead.is_empty() == cured).then_some(())
        })
        .await;
    }
    assert_eq!(bed.effects().await, ["k=1", "k=6", "k=2"]);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn stopping_finishes_what_began_and_leaves_the_rest_to_the_broker() {
    let bed = Bed::new().await;
    let (began, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (their_began, their_gate) = (Arc::clone(&began), Arc::clone(&gate));
    let consumer = bed.builder(Inbox::new("c")).on("Add", move |tx, incoming| {
        let (began, gate) = (Arc::clone(&their_began), Arc::clone(&their_gate));
        Box::pin(async move {
            add(tx, incoming).await?;
            began.notify_one();
            gate.notified().await;
            Ok(())
        })
    });
    let running = consumer.build().unwrap().spawn();
    bed.desk.put_all((1..=3).map(|n| message("Add", "k", n)));
    began.notified().await;
    let stopping = tokio::spawn(running.shutdown());
    tokio::task::yield_now().await;
    gate.notify_one();
    tokio::time::timeout(LONG, stopping).await.expect("it stops").unwrap().unwrap();
    assert_eq!(bed.effects().await, ["k=1"]);
    assert_eq!(bed.desk.acknowledged().len(), 1);
    let next = bed.builder(Inbox::new("c")).on("Add", |tx, it| Box::pin(add(tx, it)));
    let next = next.build().unwrap().spawn();
    bed.wait_for(3).await;
    next.shutdown().await.unwrap();
    assert_eq!(bed.effects().await, ["k=1", "k=2", "k=3"]);
}

#[tokio::test]
async fn r8_06_watermark_mode_handles_a_lane_in_order_and_drops_every_copy() {
    let bed = Bed::new().await;
    let log = Uuid::now_v7();
    let failures = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&failures);
    let messages: Vec<_> = (1..=60)
        .map(|seq| placed(log, seq, (seq - 1) / 7 * 7, &format!("key-{}", seq % 3)))
        .collect();
    let consumer = bed.builder(Inbox::new("c").watermark()).batch(8).on("Add", move |tx, it| {
        let count = Arc::clone(&count);
        Box::pin(async move {
            add(tx, it).await?;
            // A message that fails at first keeps the whole lane waiting: a later floor passes it.
            if number(it) == 20 && count.fetch_add(1, SeqCst) < 2 {
                return Err(HandlerError::retry("not yet"));
            }
            Ok(())
        })
    });
    bed.desk.put_all(messages.clone());
    bed.desk.put_all(messages[..30].to_vec());
    let running = consumer.build().unwrap().spawn();
    bed.wait_for(90).await;
    running.shutdown().await.unwrap();
    let expected: Vec<String> = (1..=60).map(|seq| format!("key-{}={seq}", seq % 3)).collect();
    assert_eq!(bed.effects().await, expected);
    let status = bed.letters().inbox_status().await.unwrap();
    assert_eq!((status[0].lanes, status[0].tally.handled, status[0].dead), (1, 60, 0));
    assert_eq!(status[0].oldest_id_age, None);
}

#[tokio::test]
async fn r8_06_what_a_watermark_cannot_judge_stops_the_consumer_and_loses_nothing() {
    let bed = Bed::new().await;
    let log = Uuid::now_v7();
    let start = || {
        let consumer = bed.builder(Inbox::new("c").watermark());
        consumer.on("Add", |tx, it| Box::pin(add(tx, it))).build().unwrap().spawn()
    };
    bed.desk.put(placed(log, 1, 0, "k"));
    let running = start();
    bed.wait_for(1).await;
    // Restored from a backup: the same seq, another log.
    let restored = Uuid::now_v7();
    bed.desk.put(placed(restored, 1, 0, "k"));
    let error = tokio::time::timeout(LONG, running.finished()).await.unwrap().unwrap_err();
    let ConsumerError::Inbox(InboxError::OtherLog { log, .. }) = error else {
        panic!("{error}");
    };
    assert_eq!(log, restored);
    assert_eq!(bed.desk.acknowledged().len(), 1, "not acknowledged, so not lost");
    assert!(bed.letters().adopt_log("c", "/shop", restored, "ann").await.unwrap());
    let running = start();
    bed.wait_for(2).await;
    assert_eq!(bed.effects().await, ["k=1", "k=1"]);
    // A message of a competing subscription.
    bed.desk.put(message("Add", "k", 9));
    let error = tokio::time::timeout(LONG, running.finished()).await.unwrap().unwrap_err();
    assert!(matches!(error, ConsumerError::Inbox(InboxError::NoPosition { .. })), "{error}");
}

#[tokio::test]
async fn r8_06_a_window_that_is_too_short_is_refused_at_the_start() {
    let bed = Bed::new().await;
    let day = Duration::from_secs(86_400);
    let build = |inbox: Inbox, window| {
        let consumer = bed.builder(inbox).on("Add", |tx, it| Box::pin(add(tx, it)));
        consumer.window(window).redelivery_horizon(day * 7).build().map(drop)
    };
    let error = build(Inbox::new("c"), day * 7).unwrap_err().to_string();
    assert!(error.contains("redelivery horizon"), "{error}");
    build(Inbox::new("c"), day * 8).unwrap();
    build(Inbox::new("c").watermark(), Duration::ZERO).unwrap();
    let nothing = bed.builder(Inbox::new("")).concurrency(0).batch(0).build().map(drop);
    assert_eq!(nothing.unwrap_err().problems.len(), 4);
}

/// A broker that loses answers and messages, and refuses number 13 until someone sends it again.
fn troubled_broker() -> MemoryBroker {
    let broker = MemoryBroker::new();
    let calls = AtomicU32::new(0);
    broker.set_rule(move |delivery| {
        let lost = || Outcome::Unknown(Failure::new("lost", "the answer was lost"));
        match (number_in(&delivery.message), calls.fetch_add(1, SeqCst) % 7) {
            (13, _) if delivery.redriven == 0 => {
                Script::Refuse(Outcome::Rejected(Failure::new("no", "refused")))
            }
            (_, 3) => Script::TakeAndAnswer(lost()),
            (_, 5) => Script::Refuse(lost()),
            _ => Script::Take,
        }
    });
    broker
}

/// A relay whose lease runs out soon after it is killed.
fn impatient_relay(producer: &Bed, broker: &MemoryBroker) -> Running {
    let retry = RetryPolicy { backoff: AT_ONCE, attempts_max: 2, ..RetryPolicy::default() };
    Relay::builder(producer.pool.clone())
        .route("all", "*", Arc::new(broker.clone()))
        .retry(retry)
        .publish_timeout(Duration::from_millis(100))
        .settings(|settings| {
            settings.lease = Duration::from_millis(300);
            settings.poll = Duration::from_millis(20);
        })
        .build()
        .expect("a relay")
        .spawn()
}

/// From an outbox through relays that are killed, a broker that loses answers and refuses, and a
/// consumer that is killed, to effects that happen once, by position alone.
#[tokio::test]
async fn r8_06_by_position_from_outbox_to_effects_through_crashes() {
    let producer = Bed::new().await;
    let bed = Bed::new().await;
    let broker = troubled_broker();
    let subscription = Subscription {
        name: Some("c".to_owned()),
        topics: vec!["orders".parse().unwrap()],
        start: Start::Beginning,
        sharing: Sharing::Ordered,
    };
    let relay = || impatient_relay(&producer, &broker);
    let consumer = || {
        let subscriber = Box::new(broker.subscribe_to(&subscription));
        let inbox = Inbox::new("c").watermark();
        Consumer::builder(bed.pool.clone(), inbox, subscriber)
            .batch(5)
            .on("Add", |tx, it| Box::pin(add(tx, it)))
            .build()
            .unwrap()
            .spawn()
    };
    let mut enqueued = 0;
    for _ in 0..5 {
        let mut tx = producer.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        for _ in 0..40 {
            enqueued += 1;
            let key = enqueued % 6;
            let message = Message::new("orders", key, &enqueued).unwrap().event_type("Add");
            Outbox::new().enqueue(&mut tx, message).await.unwrap();
        }
        tx.commit().await.unwrap();
        let (running, consuming) = (relay(), consumer());
        let some = usize::try_from(enqueued).unwrap() - 20;
        let sent = tokio::time::timeout(LONG, broker.wait_for(some)).await;
        assert!(sent.is_ok(), "the relay sends");
        running.kill();
        consuming.kill();
    }
    let (running, consuming) = (relay(), consumer());
    let all = usize::try_from(enqueued).unwrap();
    wait_for_effects(&bed, all - 1).await;
    let store = SqliteStore::new(producer.pool.clone());
    assert_eq!(Store::redrive(&store, &ParkedFilter::default(), "ann").await.unwrap(), 1);
    wait_for_effects(&bed, all).await;
    running.shutdown().await.unwrap();
    consuming.shutdown().await.unwrap();
    let mut numbers: Vec<i64> = bed
        .effects()
        .await
        .iter()
        .map(|effect| effect.rsplit('=').next().unwrap().parse().unwrap())
        .collect();
    assert!(broker.received().len() > all, "the broker had copies");
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=enqueued).collect::<Vec<i64>>());
    let status = bed.letters().inbox_status().await.unwrap();
    let tally = status[0].tally;
    assert_eq!((status[0].lanes, tally.handled, tally.impossible), (1, all as u64, 0));
    assert!(tally.reordered > 0, "the redriven one came late");
}

fn number_in(message: &Message) -> i64 {
    serde_json::from_slice(&message.payload).expect("a number")
}

async fn wait_for_effects(bed: &Bed, count: usize) {
    let what = format!("{count} effects");
    eventually(&what, async || (bed.effects().await.len() >= count).then_some(())).await;
}
