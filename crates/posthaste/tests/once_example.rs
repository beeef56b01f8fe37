//! The example from broker to inbox to outbox to broker is 20 lines, and does what it says.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use posthaste::{Broker, Message, Sharing, Start, Subscriber, Subscription, nats, rabbitmq};
use posthaste_core::{Delivery, Outcome};
use posthaste_fixtures::{Kind, Options, Server, fresh_database, postgres};
use sqlx::Executor;

fn subscription(name: &str, topic: &str) -> Subscription {
    Subscription {
        name: Some(name.to_owned()),
        topics: vec![topic.parse().expect("a topic")],
        start: Start::Beginning,
        sharing: Sharing::Competing,
    }
}

#[tokio::test]
async fn r8_01_twenty_lines_lead_from_rabbitmq_to_nats_with_one_effect() {
    let source = include_str!("../examples/once.rs");
    let body = source.split("// [once]").nth(1).expect("the example is marked");
    let lines = body.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 20, "{lines} lines");

    // Servers of its own: an example has the same names in every run.
    let own = |kind| Server::private(kind, &Options::default()).expect("a server of our own");
    let [rabbit, nats_server] = [Kind::RabbitMq, Kind::Nats].map(own);
    let (rabbit_url, nats_url) = (rabbit.url(), nats_server.url());
    let database = fresh_database(postgres()).await.unwrap();
    let pool = sqlx::PgPool::connect(&database).await.unwrap();
    posthaste::migrate(&pool).await.unwrap();
    pool.execute("CREATE TABLE invoice (order_id text)").await.unwrap();
    let context = async_nats::jetstream::new(async_nats::connect(nats_url).await.unwrap());
    let stream = async_nats::jetstream::stream::Config {
        name: "example".to_owned(),
        subjects: vec!["example.>".to_owned()],
        ..Default::default()
    };
    context.get_or_create_stream(stream).await.unwrap();
    let mut invoices =
        nats::subscribe(&nats::Config::new(nats_url), &subscription("test", "example.*"))
            .await
            .unwrap();

    // The queue first, then two orders, thrice each.
    let config = rabbitmq::Config::new(rabbit_url);
    let orders = subscription("example-billing", "example.orders");
    drop(rabbitmq::subscribe(&config, &orders).await.unwrap());
    let broker = rabbitmq::RabbitMqBroker::open(config).unwrap();
    let orders = ["41", "42"].map(|order| {
        Message::new("example.orders", order, "placed").unwrap().event_type("OrderPlaced")
    });
    for message in orders.iter().chain(&orders).chain(&orders) {
        let delivery = Delivery {
            seq: 1,
            message: message.clone(),
            enqueued_at: UNIX_EPOCH,
            attempt: 1,
            redriven: 0,
            floor: None,
        };
        let sent = broker.publish(&[Arc::new(delivery)], Duration::from_secs(30)).await;
        assert_eq!(sent, [Outcome::Acked]);
    }

    // Tests build the examples of their package: this one stands two folders up.
    let tests = std::env::current_exe().unwrap();
    let mut program = Command::new(tests.ancestors().nth(2).unwrap().join("examples/once"))
        .env("DATABASE_URL", &database)
        .env("RABBITMQ_URL", rabbit_url)
        .env("NATS_URL", nats_url)
        .stdin(Stdio::null())
        .spawn()
        .expect("the example: `cargo test` builds it, or `cargo build --example once`");
    let mut announced = Vec::new();
    while announced.len() < 2 {
        let incoming = tokio::time::timeout(Duration::from_secs(60), invoices.receive());
        let incoming = incoming.await.expect("an invoice is announced").unwrap();
        invoices.acknowledge(incoming.receipt).await.unwrap();
        announced.extend(incoming.message.key);
    }
    announced.sort();
    assert_eq!(announced, ["41", "42"]);
    let interrupted = Command::new("kill").args(["-INT", &program.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    assert!(program.wait().unwrap().success(), "it stops in order");
    let more = tokio::time::timeout(Duration::from_millis(300), invoices.receive()).await;
    assert!(more.is_err(), "nothing is announced twice");
    let sql = "SELECT order_id FROM invoice ORDER BY order_id";
    let stored: Vec<String> = sqlx::query_scalar(sql).fetch_all(&pool).await.unwrap();
    assert_eq!(stored, ["41", "42"]);
    // The copies have been acknowledged: none is left in the queue.
    let handled: i64 =
        sqlx::query_scalar("SELECT count(*) FROM posthaste.inbox").fetch_one(&pool).await.unwrap();
    assert_eq!(handled, 2);
}
