//! By id, with the inbox on MariaDB, over brokers that share messages out: the broker has every message
//! twice, a consumer is killed in the middle, and every effect happens once.

use std::{sync::Arc, time::UNIX_EPOCH};

use posthaste::{
    Broker, Consumer, HandlerError, Incoming, Message, MessageId, RunningConsumer, Sharing, Start,
    Subscriber, Subscription, kafka, mysql::Inbox, redis,
};
use posthaste_core::{Delivery, Outcome};
use posthaste_fixtures::{Kind, Options, PATIENCE, Server, eventually, server};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, MySqlPool};
use tokio::sync::Semaphore;

const MESSAGES: i64 = 300;

fn subscription(topic: &str) -> Subscription {
    Subscription {
        name: Some(format!("competing-{}", MessageId::fresh())),
        topics: vec![topic.parse().expect("a topic")],
        start: Start::Beginning,
        sharing: Sharing::Competing,
    }
}

/// A database of a test's own.
async fn database() -> MySqlPool {
    let server = server(Kind::MariaDb).url();
    let name = format!("competing_{}", MessageId::fresh().0.simple());
    let mut connection = MySqlConnection::connect(server).await.expect("a server");
    // Not user input: the only variable part is a name made here.
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    connection.execute(create).await.expect("a database can be created");
    let url = format!("{}/{name}", server.trim_end_matches('/'));
    let pool = MySqlPool::connect(&url).await.expect("the new database");
    posthaste::migrate(&pool).await.expect("an empty database migrates");
    pool.execute("CREATE TABLE effect (id CHAR(36))").await.expect("a table");
    pool
}

async fn send(broker: &dyn Broker, topic: &str) {
    let delivery = |number: i64| {
        let message = Message::new(topic, number % 7, &number).expect("a message");
        Arc::new(Delivery {
            seq: number,
            message: message.event_type("Add"),
            enqueued_at: UNIX_EPOCH,
            attempt: 1,
            redriven: 0,
            floor: None,
        })
    };
    let all: Vec<_> = (1..=MESSAGES).map(delivery).collect();
    for _ in 0..2 {
        let outcomes = broker.publish(&all, PATIENCE).await;
        assert!(outcomes.iter().all(|it| *it == Outcome::Acked), "{:?}", outcomes[0]);
    }
}

async fn add(tx: &mut MySqlConnection, incoming: &Incoming) -> Result<(), HandlerError> {
    let insert = sqlx::query("INSERT INTO effect (id) VALUES (?)");
    insert.bind(incoming.message.id.to_string()).execute(tx).await?;
    Ok(())
}

/// A consumer whose handlers stand still after so many messages.
fn consume(pool: &MySqlPool, subscriber: Box<dyn Subscriber>, most: usize) -> RunningConsumer {
    let left = Arc::new(Semaphore::new(most));
    Consumer::builder(pool.clone(), Inbox::new("c"), subscriber)
        .batch(5)
        .on("Add", move |tx, incoming| {
            let left = Arc::clone(&left);
            Box::pin(async move {
                left.acquire().await?.forget();
                add(tx, incoming).await
            })
        })
        .build()
        .expect("a consumer")
        .spawn()
}

async fn effects(pool: &MySqlPool, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(pool).await.expect("a count")
}

const ALL: &str = "SELECT COUNT(*) FROM effect";
const DIFFERENT: &str = "SELECT COUNT(DISTINCT id) FROM effect";

async fn each_takes_effect_once(
    topic: &str,
    broker: &dyn Broker,
    subscribe: impl AsyncFn() -> Box<dyn Subscriber>,
) {
    send(broker, topic).await;
    let pool = database().await;
    let running = consume(&pool, subscribe().await, 100);
    let some = async || (effects(&pool, ALL).await > 50).then_some(());
    eventually("effect", some).await;
    running.kill();
    let running = consume(&pool, subscribe().await, Semaphore::MAX_PERMITS);
    let all = async || (effects(&pool, DIFFERENT).await == MESSAGES).then_some(());
    eventually("effect of every message", all).await;
    running.shutdown().await.expect("it stops in order");
    assert_eq!(effects(&pool, ALL).await, MESSAGES, "each once");
    let name = sqlx::query_scalar("SELECT DATABASE()").fetch_one(&pool).await;
    let name: String = name.expect("a name");
    pool.execute(AssertSqlSafe(format!("DROP DATABASE {name}"))).await.expect("it can be dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn r8_01_kafka() {
    // It makes topics when asked for them.
    let setting = ("auto.create.topics.enable".to_owned(), "true".to_owned());
    let options = Options { settings: vec![setting], ..Options::default() };
    let server = Server::private(Kind::Kafka, &options).expect("a Kafka of our own");
    let config = kafka::Config::new(server.url());
    let (broker, from) =
        (kafka::KafkaBroker::open(config.clone()).unwrap(), subscription("orders"));
    let subscribe = async || {
        let subscriber = kafka::subscribe(&config, &from).await.expect("a subscription");
        Box::new(subscriber) as Box<dyn Subscriber>
    };
    each_takes_effect_once("orders", &broker, subscribe).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r8_01_redis() {
    let topic = format!("orders-{}", MessageId::fresh());
    let config = redis::Config::new(server(Kind::Redis).url());
    let (broker, from) = (redis::RedisBroker::open(config.clone()).unwrap(), subscription(&topic));
    let subscribe = async || {
        let subscriber = redis::subscribe(&config, &from).await.expect("a subscription");
        Box::new(subscriber) as Box<dyn Subscriber>
    };
    each_takes_effect_once(&topic, &broker, subscribe).await;
}
