//! A service on MySQL and Kafka: orders on MySQL or MariaDB, messages to Kafka, as many
//! dispatchers as there are copies of this program.
//!
//! ```sh
//! export DATABASE_URL=mysql://root@127.0.0.1/shop KAFKA_URL=kafka://127.0.0.1:9092
//! cargo run -p posthaste --features mysql,kafka --example mysql_to_kafka -- place 42
//! cargo run -p posthaste --features mysql,kafka --example mysql_to_kafka  # until Ctrl-C
//! ```

use std::{env, error::Error, sync::Arc, time::Duration};

use posthaste::{
    Backoff, Message, OnDead, Relay, Retention, RetryPolicy, kafka::Config, kafka::KafkaBroker,
    mysql::Outbox,
};
use sqlx::MySqlPool;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = MySqlPool::connect(&env::var("DATABASE_URL")?).await?;
    posthaste::migrate(&pool).await?;
    let orders = "CREATE TABLE IF NOT EXISTS orders (id BIGINT PRIMARY KEY, cents BIGINT NOT NULL)";
    sqlx::query(orders).execute(&pool).await?;
    match env::args().nth(1).as_deref() {
        Some("place") => place(&pool, env::args().nth(2).ok_or("which order?")?.parse()?).await,
        Some(other) => Err(format!("no such command: {other}").into()),
        None => dispatch(pool).await,
    }
}

/// The publisher: the order and its message are committed together, or neither is.
async fn place(pool: &MySqlPool, order: i64) -> Result<(), Box<dyn Error>> {
    let mut tx = pool.begin().await?;
    sqlx::query("INSERT INTO orders VALUES (?, 1999)").bind(order).execute(&mut *tx).await?;
    let message = Message::new("orders", order, "placed")?.header("tenant", "north");
    let id = Outbox::new().enqueue(&mut tx, message).await?;
    tx.commit().await?;
    println!("{id}");
    Ok(())
}

/// The dispatcher: its workers stop together, after the answers to their messages.
async fn dispatch(pool: MySqlPool) -> Result<(), Box<dyn Error>> {
    let running = dispatcher(pool, &env::var("KAFKA_URL")?)?.spawn();
    tokio::signal::ctrl_c().await?;
    Ok(running.shutdown().await?)
}

/// The settings of `docs/reference/requirements-mysql-to-kafka.md`, each where it is here.
fn dispatcher(pool: MySqlPool, kafka: &str) -> Result<Relay, Box<dyn Error>> {
    let broker = Arc::new(KafkaBroker::open(Config::new(kafka))?);
    let relay = Relay::builder(pool)
        .route("kafka", "*", broker)
        // It locks messages, we lease shards: up to four dispatchers share the work, and a key is in
        // the hands of one at a time, which is what keeps its order.
        .shards(4)
        // RetrialPolicy{MaxSendAttemptsEnabled, MaxSendAttempts}: a number is always enabled, and what
        // reaches it is kept as a dead letter. It has no delay between attempts; ours grows.
        .retry(RetryPolicy {
            attempts_max: 3,
            backoff: Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(60) },
            age_max: None,
            on_dead: OnDead::Continue,
        })
        .settings(|settings| {
            // The machine id is for people only: leases go by an id that every start draws afresh, so
            // two copies of one configuration are two dispatchers.
            settings.name = format!("dispatcher-{}", std::process::id());
            // ProcessInterval, 20 s there, and every message waits for it. Here it is the longest pause
            // of an idle dispatcher, whose look at an empty outbox reads one index entry.
            settings.poll = Duration::from_millis(500);
            // MaxLockTimeDuration, 5 min there, must exceed the longest batch. A lease is renewed while
            // its holder lives and fenced when it is lost, so it may be short: a crash costs so much.
            // LockCheckerInterval, 600 min there, has no counterpart: leases run out by themselves.
            settings.lease = Duration::from_secs(10);
            // MessagesRetentionDuration, 1 min there since a message was made, delivered or not. Here
            // it counts from delivery, and what is not delivered stays.
            // CleanupWorkerInterval, 60 s there, follows from it: a tenth, at most a minute.
            settings.retention = Retention {
                delivered: Duration::from_secs(60),
                discarded: Duration::from_secs(7 * 24 * 3600),
            };
        })
        .build()?;
    Ok(relay)
}
