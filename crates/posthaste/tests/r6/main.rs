//! An outbox on MariaDB and Kafka: its service is the example `mysql_to_kafka`, run here as the
//! processes that a user would run. A requirement that no test here has the name of is shown elsewhere:
//! `docs/reference/requirements-mysql-to-kafka.md` says where.

mod pointers;
mod stage;

use std::time::{Duration, Instant};

use posthaste::{Backoff, Message, OnDead, Relay, RetryPolicy};
use sqlx::{Executor, MySqlPool};
use stage::{Stage, arrivals, assert_once, assert_order_of_keys, numbered, topic};

const DEAD: &str = "SELECT COUNT(*) FROM posthaste_parked WHERE state = 'dead' AND attempts = 1 AND next_attempt_at IS NULL";

/// A message that Kafka refuses for its topic, which no other attempt can change.
fn refused() -> Message {
    Message::from_bytes("no topic of Kafka!", Some("refused"), "0")
}

#[tokio::test]
async fn r6_01_an_order_and_its_message_are_there_together_or_neither_is() {
    let stage = Stage::new().await;
    let placed = stage.place("42");
    assert!(placed.status.success(), "{placed:?}");
    let again = stage.place("42");
    assert!(!again.status.success(), "the order exists: {again:?}");
    let id = String::from_utf8(placed.stdout).unwrap();
    let ids: Vec<String> =
        sqlx::query_scalar("SELECT id FROM posthaste_outbox").fetch_all(&stage.pool).await.unwrap();
    assert_eq!(ids, [id.trim()], "told to the caller");
    assert_eq!(stage.number("SELECT COUNT(*) FROM orders").await, 1);
    stage.remove().await;
}

#[tokio::test]
async fn r6_03_id_key_headers_and_body_reach_kafka() {
    let stage = Stage::new().await;
    let began = Instant::now();
    let id = String::from_utf8(stage.place("42").stdout).unwrap();
    let dispatcher = stage.dispatcher();
    let arrived = arrivals("orders", 1).await;
    assert_once(&arrived, 1, began);
    let message = &arrived[0].message;
    assert_eq!(message.id.to_string(), id.trim());
    assert_eq!(message.key.as_deref(), Some("42"));
    assert_eq!(message.payload, "\"placed\"");
    assert!(message.headers.contains(&("tenant".to_owned(), "north".to_owned())));
    assert!(dispatcher.stop().success());
    stage.remove().await;
}

#[tokio::test]
async fn r6_05_settings_of_zero_are_refused_by_name() {
    let pool = MySqlPool::connect_lazy("mysql://root@127.0.0.1/shop").unwrap();
    let built = Relay::builder(pool)
        .route("kafka", "*", posthaste::stdout())
        .shards(0)
        .retry(RetryPolicy {
            attempts_max: 0,
            backoff: Backoff { initial: Duration::ZERO, max: Duration::ZERO },
            age_max: None,
            on_dead: OnDead::Continue,
        })
        .settings(|settings| {
            settings.poll = Duration::ZERO;
            settings.lease = Duration::ZERO;
            settings.batch = 0;
        })
        .build();
    let problems = built.err().expect("nothing of this can work").problems;
    let fields: Vec<&str> = problems.iter().map(|problem| problem.field).collect();
    // A lease of zero is shorter than the wait for an answer.
    assert_eq!(fields, ["shards", "poll", "batch", "publish_timeout", "attempts_max"]);
}

#[tokio::test]
async fn r6_06_a_dispatcher_that_stops_gives_its_leases_back_and_sends_no_more() {
    let stage = Stage::new().await;
    for dispatcher in stage.dispatchers(2).await {
        assert!(dispatcher.stop().success());
    }
    let held = "SELECT COUNT(*) FROM posthaste_lease WHERE relay IS NOT NULL";
    assert_eq!(stage.number(held).await, 0);
    assert_eq!(stage.number("SELECT COUNT(*) FROM posthaste_relay").await, 0);
    let topic = topic();
    let began = Instant::now();
    stage.enqueue(&numbered(&topic, 0..10)).await;
    assert_eq!(stage.number("SELECT COUNT(*) FROM posthaste_outbox").await, 10);
    // The next one waits for no lease of theirs to run out.
    let next = stage.dispatcher();
    assert_once(&arrivals(&topic, 10).await, 10, began);
    assert!(next.stop().success());
    stage.remove().await;
}

#[tokio::test]
async fn r6_07_a_refused_message_stops_no_other() {
    let stage = Stage::new().await;
    let topic = topic();
    let mut messages = numbered(&topic, 0..4);
    messages.insert(1, refused());
    let began = Instant::now();
    stage.enqueue(&messages).await;
    let dispatcher = stage.dispatcher();
    assert_once(&arrivals(&topic, 4).await, 4, began);
    stage.until(DEAD, 1).await;
    assert!(dispatcher.stop().success());
    stage.remove().await;
}

#[tokio::test]
async fn r6_08_four_dispatchers_send_every_message_once() {
    let stage = Stage::new().await;
    let dispatchers = stage.dispatchers(4).await;
    let topic = topic();
    let began = Instant::now();
    for start in (0..5000).step_by(100) {
        stage.enqueue(&numbered(&topic, start..start + 100)).await;
    }
    let arrived = arrivals(&topic, 5000).await;
    assert_once(&arrived, 5000, began);
    assert_order_of_keys(&arrived);
    for dispatcher in dispatchers {
        assert!(dispatcher.stop().success());
    }
    stage.remove().await;
}

#[tokio::test]
async fn r6_09_what_a_killed_dispatcher_held_is_sent_by_the_other() {
    let stage = Stage::new().await;
    let mut dispatchers = stage.dispatchers(2).await;
    let topic = topic();
    stage.enqueue(&numbered(&topic, 0..1000)).await;
    // Some of it may have gone out, and some may be under way.
    stage.until("SELECT COUNT(*) > 0 FROM posthaste_log", 1).await;
    dispatchers.truncate(1);
    stage.enqueue(&numbered(&topic, 1000..2000)).await;
    assert_order_of_keys(&arrivals(&topic, 2000).await);
    let holders = "SELECT COUNT(DISTINCT relay) FROM posthaste_lease WHERE relay IS NOT NULL";
    stage.until(holders, 1).await;
    assert!(dispatchers.remove(0).stop().success());
    stage.remove().await;
}

#[tokio::test]
async fn r6_10_a_message_that_was_given_up_is_kept_and_not_sent_again() {
    let stage = Stage::new().await;
    stage.enqueue(&[refused()]).await;
    let dispatcher = stage.dispatcher();
    stage.until(DEAD, 1).await;
    assert!(dispatcher.stop().success());
    let error = "SELECT COUNT(*) FROM posthaste_parked WHERE last_error_class = 'topic'";
    assert_eq!(stage.number(error).await, 1);
    // What comes later of its key is not held up, and the dead letter is not tried by anybody.
    let topic = topic();
    let follower = Message::from_bytes(&topic, Some("refused"), "1");
    let began = Instant::now();
    stage.enqueue(&[follower]).await;
    let next = stage.dispatcher();
    assert_once(&arrivals(&topic, 1).await, 1, began);
    assert!(next.stop().success());
    assert_eq!(stage.number(DEAD).await, 1);
    stage.remove().await;
}

#[tokio::test]
async fn r6_11_four_dispatchers_of_which_some_are_killed_keep_the_order_of_keys() {
    let stage = Stage::new().await;
    let mut dispatchers = stage.dispatchers(4).await;
    let topic = topic();
    for start in (0..8000).step_by(100) {
        stage.enqueue(&numbered(&topic, start..start + 100)).await;
        if start % 2000 == 1000 {
            // Killed in the middle of it, and another one comes.
            dispatchers.remove(0);
            dispatchers.push(stage.dispatcher());
        }
    }
    assert_order_of_keys(&arrivals(&topic, 8000).await);
    drop(dispatchers);
    stage.remove().await;
}

#[tokio::test]
async fn r6_14_what_was_delivered_goes_after_its_time_and_a_dead_letter_stays() {
    let stage = Stage::new().await;
    let dispatcher = stage.dispatcher();
    let topic = topic();
    let began = Instant::now();
    stage.enqueue(&numbered(&topic, 0..100)).await;
    stage.enqueue(&[refused()]).await;
    assert_once(&arrivals(&topic, 100).await, 100, began);
    stage.until(DEAD, 1).await;
    let past = "UPDATE posthaste_progress SET at = at - INTERVAL 1 HOUR";
    stage.pool.execute(past).await.unwrap();
    stage.until("SELECT COUNT(*) FROM posthaste_log", 0).await;
    assert_eq!(stage.number(DEAD).await, 1);
    assert!(dispatcher.stop().success());
    stage.remove().await;
}
