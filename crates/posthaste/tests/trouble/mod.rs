//! What goes wrong in and around a consumer, and what it tells.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use metrics_exporter_prometheus::PrometheusBuilder;
use posthaste::{Database, HandlerError, InboxStore, Message, sqlite::Inbox};
use posthaste_core::ParkedFilter;
use posthaste_fixtures::{PATIENCE, eventually};
use sqlx::Sqlite;

use crate::{
    Bed, LONG, add,
    desk::{message, number},
    wait_for_effects,
};

/// Two replicas take a redriven letter. Here the other one handles it after this one's handler failed
/// and before this one gives it up.
#[tokio::test]
async fn r8_04_a_letter_that_another_replica_handled_does_not_come_back() {
    let bed = Bed::new().await;
    let calls = Arc::new(AtomicU32::new(0));
    let (count, pool) = (Arc::clone(&calls), bed.pool.clone());
    let consumer = bed.builder(Inbox::new("c")).on("Add", move |tx, incoming| {
        let (count, pool) = (Arc::clone(&count), pool.clone());
        Box::pin(async move {
            if count.fetch_add(1, SeqCst) == 1 {
                // Rolls this transaction back, so that another can write.
                let fail =
                    "INSERT OR ROLLBACK INTO posthaste_outbox (topic, payload) VALUES ('', '')";
                sqlx::query(fail).execute(tx).await.expect_err("a topic is not empty");
                let mut theirs = Sqlite::begin(&pool).await?;
                add(&mut theirs, incoming).await?;
                assert!(Sqlite::inbox(&mut theirs)?.unbury("c", incoming.message.id).await?);
                Sqlite::commit(theirs).await?;
            }
            Err(HandlerError::dead_letter("no"))
        })
    });
    let running = consumer.build().unwrap().spawn();
    bed.desk.put(message("Add", "k", 1));
    bed.wait_for(1).await;
    let store = bed.letters();
    assert_eq!(store.redrive_letters(&ParkedFilter::default(), "ann").await.unwrap(), 1);
    wait_for_effects(&bed, 1).await;
    // It has ended with the letter when it has ended.
    running.shutdown().await.unwrap();
    assert_eq!(store.inbox_status().await.unwrap()[0].dead, 0, "it took effect");
    assert_eq!(calls.load(SeqCst), 2);
}

/// An error that cannot say what it is.
#[derive(Debug)]
struct Unspeakable;

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("not even this works")
    }
}

impl std::error::Error for Unspeakable {}

#[tokio::test]
async fn an_error_that_panics_is_a_panic_of_its_handler() {
    let bed = Bed::new().await;
    let consumer = bed.builder(Inbox::new("c")).on("Add", |tx, incoming| {
        Box::pin(async move {
            add(tx, incoming).await?;
            if number(incoming) == 1 { Err(Unspeakable.into()) } else { Ok(()) }
        })
    });
    let running = consumer.build().unwrap().spawn();
    bed.desk.put_all((1..=2).map(|n| message("Add", "k", n)));
    bed.wait_for(2).await;
    running.shutdown().await.unwrap();
    assert_eq!(bed.effects().await, ["k=2"]);
    let dead = bed.letters().letters(&ParkedFilter::default(), 10).await.unwrap();
    let error = dead[0].last_error.clone().unwrap();
    assert_eq!(error, ("panic".to_owned(), "not even this works".to_owned()));
}

/// What a panic carries, whose end is a panic that no handler is there to answer for.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the slot is gone");
    }
}

/// One slot of four: what comes for the others would go on, and what comes for it would be lost to it.
#[tokio::test]
async fn a_slot_that_panics_ends_the_consumer() {
    let bed = Bed::new().await;
    let consumer = bed
        .builder(Inbox::new("c"))
        .on("Add", |_, _| Box::pin(async move { std::panic::panic_any(Bomb) }));
    bed.desk.put(message("Add", "k", 1));
    let running = consumer.build().unwrap().spawn();
    let ended = tokio::spawn(tokio::time::timeout(LONG, running.finished())).await;
    let panic = ended.expect_err("it ends as its slot did").into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the slot is gone"));
    assert_eq!(bed.desk.acknowledged(), []);
}

/// No more is received than memory is set aside for, and all of it is handled.
#[tokio::test]
async fn large_messages_are_received_as_there_is_room() {
    let bed = Bed::new().await;
    let (desk, most) = (bed.desk.clone(), Arc::new(AtomicU32::new(0)));
    let seen = Arc::clone(&most);
    let consumer = bed.builder(Inbox::new("c")).concurrency(1).on("Large", move |_, _| {
        let (desk, seen) = (desk.clone(), Arc::clone(&seen));
        Box::pin(async move {
            // It receives what it will.
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            let waiting = desk.given() - desk.acknowledged().len();
            seen.fetch_max(u32::try_from(waiting).unwrap(), SeqCst);
            Ok(())
        })
    });
    let payload = Message::from_bytes("", None, vec![b'0'; 8 << 20]).payload;
    bed.desk.put_all((0..24).map(|_| {
        let mut large = message("Large", "k", 0);
        large.message.payload = payload.clone();
        large
    }));
    let running = consumer.build().unwrap().spawn();
    bed.wait_for(24).await;
    running.shutdown().await.unwrap();
    assert_eq!(most.load(SeqCst), 8, "64 MiB");
}

/// What a scrape finds: the age of the oldest id, which the window has to exceed.
#[test]
fn the_age_of_the_oldest_id_is_told() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let scrape = recorder.handle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = async {
        let bed = Bed::new().await;
        let start = || {
            let consumer = bed.builder(Inbox::new("c")).on("Add", |tx, it| Box::pin(add(tx, it)));
            consumer.build().unwrap().spawn()
        };
        let first = start();
        bed.desk.put(message("Add", "k", 1));
        bed.wait_for(1).await;
        first.shutdown().await.unwrap();
        let age = "UPDATE posthaste_inbox SET at = at - 3600";
        sqlx::query(age).execute(&bed.pool).await.unwrap();
        // It looks when it starts.
        let second = start();
        let name = "posthaste_inbox_oldest_id_age_seconds{consumer=\"c\"} ";
        let told = eventually("age of the oldest id", async || {
            let text = scrape.render();
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|text| text.parse::<f64>().ok()).filter(|value| *value >= 3600.0)
        })
        .await;
        assert!(told < 3600.0 + PATIENCE.as_secs_f64() * 2.0, "{told}");
        second.shutdown().await.unwrap();
    };
    metrics::with_local_recorder(&recorder, || runtime.block_on(run));
}
