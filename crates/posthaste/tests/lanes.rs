//! By position, over the ordered lanes of real brokers: a relay that lost everything it had written
//! down sends all of it again, a consumer comes back in the middle, and every effect happens once.

use std::{path::Path, sync::Arc, time::Duration};

use posthaste::{
    Broker, Consumer, HandlerError, Incoming, Message, MessageId, Relay, Sharing, Start,
    Subscriber, Subscription, mqtt, nats, rabbitmq,
    sqlite::{Inbox, Outbox, SqliteStore},
};
use posthaste_core::InboxStore;
use posthaste_fixtures::{Kind, eventually, server};
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

const MESSAGES: i64 = 60;

fn subscription(topic: &str) -> Subscription {
    Subscription {
        name: Some(format!("lanes-{}", MessageId::fresh())),
        topics: vec![topic.parse().expect("a topic")],
        start: Start::Beginning,
        sharing: Sharing::Ordered,
    }
}

async fn open(file: &Path) -> SqlitePool {
    let url = format!("sqlite:{}", file.display());
    let pool = posthaste::sqlite::connect(&url).await.expect("a database");
    posthaste::migrate(&pool).await.expect("tables");
    pool
}

async fn enqueue(pool: &SqlitePool, topic: &str, numbers: std::ops::RangeInclusive<i64>) {
    let mut tx = pool.begin().await.expect("a transaction");
    for number in numbers {
        let message = Message::new(topic, number % 5, &number).expect("a message");
        Outbox::new().enqueue(&mut tx, message.event_type("Add")).await.expect("enqueued");
    }
    tx.commit().await.expect("committed");
}

async fn drain(pool: &SqlitePool, broker: Arc<dyn Broker>) {
    let relay = Relay::builder(pool.clone()).route("all", "*", broker).build().expect("a relay");
    relay.run_once().await.expect("everything is sent");
}

async fn add(tx: &mut SqliteConnection, incoming: &Incoming) -> Result<(), HandlerError> {
    let number: i64 = serde_json::from_slice(&incoming.message.payload)?;
    sqlx::query("INSERT INTO effect (number) VALUES (?)").bind(number).execute(tx).await?;
    Ok(())
}

fn consumer(pool: &SqlitePool, subscriber: Box<dyn Subscriber>) -> Consumer<Sqlite> {
    Consumer::builder(pool.clone(), Inbox::new("c").watermark(), subscriber)
        .batch(7)
        .on("Add", |tx, incoming| Box::pin(add(tx, incoming)))
        .build()
        .expect("a consumer")
}

async fn effects(pool: &SqlitePool) -> Vec<i64> {
    let select = "SELECT number FROM effect ORDER BY rowid";
    sqlx::query_scalar(select).fetch_all(pool).await.expect("effects")
}

async fn until_effects(pool: &SqlitePool, count: i64) {
    let what = format!("{count} effects");
    eventually(&what, async || (effects(pool).await.len() as i64 >= count).then_some(())).await;
}

/// `subscribe` makes a subscriber of one name, `broker` what a relay sends to.
async fn each_takes_effect_once<S>(topic: &str, broker: impl Fn() -> Arc<dyn Broker>, subscribe: S)
where
    S: AsyncFn() -> Box<dyn Subscriber>,
{
    let folder = tempfile::tempdir().expect("a folder");
    let [shop, forgetful] = ["shop.db", "copy.db"].map(|name| folder.path().join(name));
    let producer = open(&shop).await;
    let store = open(&folder.path().join("effects.db")).await;
    let create = "CREATE TABLE effect (number INTEGER NOT NULL)";
    sqlx::raw_sql(create).execute(&store).await.expect("a table");

    let consuming = consumer(&store, subscribe().await).spawn();
    enqueue(&producer, topic, 1..=1).await;
    drain(&producer, broker()).await;
    until_effects(&store, 1).await;
    enqueue(&producer, topic, 2..=MESSAGES).await;
    let copy = format!("VACUUM INTO '{}'", forgetful.display());
    sqlx::raw_sql(sqlx::AssertSqlSafe(copy)).execute(&producer).await.expect("a copy");
    drain(&producer, broker()).await;
    until_effects(&store, MESSAGES / 2).await;
    consuming.kill();

    // Everything again, by a relay that knows of none of it; then something new, as the sign that
    // all copies have come.
    let producer = open(&forgetful).await;
    drain(&producer, broker()).await;
    let consuming = consumer(&store, subscribe().await).spawn();
    enqueue(&producer, topic, MESSAGES + 1..=MESSAGES + 5).await;
    drain(&producer, broker()).await;
    until_effects(&store, MESSAGES + 5).await;
    consuming.shutdown().await.expect("a clean end");

    let numbers = effects(&store).await;
    assert_eq!(numbers.len() as i64, MESSAGES + 5, "{numbers:?}");
    for key in 0..5 {
        let of_key = numbers.iter().copied().filter(|number| number % 5 == key);
        assert!(of_key.is_sorted_by(|a, b| a < b), "key {key}: {numbers:?}");
    }
    let status = SqliteStore::new(store).inbox_status().await.expect("a status");
    assert_eq!((status[0].lanes, status[0].tally.impossible), (1, 0));
}

#[tokio::test]
async fn r8_06_by_position_over_rabbitmq() {
    let config = rabbitmq::Config::new(server(Kind::RabbitMq).url());
    let topic = format!("lanes.{}", MessageId::fresh());
    let subscription = subscription(&topic);
    let broker = || Arc::new(rabbitmq::RabbitMqBroker::open(config.clone()).unwrap()) as _;
    each_takes_effect_once(&topic, broker, async || {
        Box::new(rabbitmq::subscribe(&config, &subscription).await.unwrap()) as _
    })
    .await;
}

#[tokio::test]
async fn r8_06_by_position_over_nats() {
    let url = server(Kind::Nats).url();
    let topic = format!("lanes-{}", MessageId::fresh());
    let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
    let stream = async_nats::jetstream::stream::Config {
        name: topic.clone(),
        subjects: vec![topic.clone()],
        // Else the stream itself would drop the copies.
        duplicate_window: Duration::from_millis(100),
        ..Default::default()
    };
    context.create_stream(stream).await.unwrap();
    let config = nats::Config::new(url);
    let subscription = subscription(&topic);
    let broker = || Arc::new(nats::NatsBroker::open(config.clone()).unwrap()) as _;
    each_takes_effect_once(&topic, broker, async || {
        Box::new(nats::subscribe(&config, &subscription).await.unwrap()) as _
    })
    .await;
}

#[tokio::test]
async fn r8_06_by_position_over_mqtt() {
    let config = mqtt::Config::new(server(Kind::Mosquitto).url());
    let topic = format!("lanes/{}", MessageId::fresh());
    let subscription = subscription(&topic);
    let broker = || Arc::new(mqtt::MqttBroker::open(config.clone()).unwrap()) as _;
    each_takes_effect_once(&topic, broker, async || {
        Box::new(mqtt::subscribe(&config, &subscription).await.unwrap()) as _
    })
    .await;
}
