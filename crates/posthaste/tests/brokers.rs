//! From an application's transaction to a consumer, by the library alone.

use std::{sync::Arc, time::Duration};

use posthaste::{
    Message, MessageId, Relay, Sharing, Start, Subscriber, Subscription, nats, rabbitmq,
    sqlite::Outbox,
};
use posthaste_fixtures::{Kind, server};

#[tokio::test]
async fn one_transaction_reaches_the_consumers_of_two_brokers_and_a_rolled_back_one_none() {
    let rabbit = rabbitmq::Config::new(server(Kind::RabbitMq).url());
    let topic = format!("orders.{}", MessageId::fresh());
    let subscription = Subscription {
        name: None,
        topics: vec![topic.parse().unwrap()],
        start: Start::New,
        sharing: Sharing::Competing,
    };
    let mut consumer = rabbitmq::subscribe(&rabbit, &subscription).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let pool = posthaste::sqlite::connect(&url).await.unwrap();
    posthaste::migrate(&pool).await.unwrap();
    for is_committed in [false, true] {
        let mut tx = pool.begin().await.unwrap();
        let message = Message::new(&topic, 42, &is_committed).unwrap();
        Outbox::new().enqueue(&mut tx, message).await.unwrap();
        if is_committed {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    let broker = Arc::new(rabbitmq::RabbitMqBroker::open(rabbit).unwrap());
    // A subject without a stream: this broker refuses the message, which must not concern the other.
    let other = nats::Config::new(server(Kind::Nats).url());
    let other = Arc::new(nats::NatsBroker::open(other).unwrap());
    let relay =
        Relay::builder(pool).route("bus", "*", broker).route("stream", "*", other).build().unwrap();
    relay.run_once().await.unwrap();

    let incoming = tokio::time::timeout(Duration::from_secs(30), consumer.receive());
    let incoming = incoming.await.expect("the message arrives").unwrap();
    assert_eq!(incoming.message.payload, "true");
    assert_eq!(incoming.message.key.as_deref(), Some("42"));
    assert_eq!(incoming.provenance.source.as_deref(), Some("/posthaste"));
    consumer.acknowledge(incoming.receipt).await.unwrap();
    let more = tokio::time::timeout(Duration::from_millis(300), consumer.receive()).await;
    assert!(more.is_err(), "what was rolled back never arrives");
}
