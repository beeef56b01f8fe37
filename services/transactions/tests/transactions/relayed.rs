//! From a request to a consumer, by way of the outbox and RabbitMQ.

use std::{sync::Arc, time::Duration};

use posthaste::{Relay, Sharing, Start, Subscriber, Subscription, rabbitmq};
use posthaste_fixtures::{Kind, server};
use services_web::testing::{Bed, Pool};

use crate::bed::{Api, transfer};

/// D3-22: `aggregate_id` is the transfer's. D3-41: the routing key is the event type's.
#[tokio::test]
async fn r2_05_an_event_reaches_the_exchange() {
    let api = Api::on(Bed::postgres().await).await;
    let mut config = rabbitmq::Config::new(server(Kind::RabbitMq).url());
    config.exchange = "transaction.events".to_owned();
    let topics = vec!["transaction.created".parse().unwrap()];
    let subscription =
        Subscription { name: None, topics, start: Start::New, sharing: Sharing::Competing };
    let mut consumer = rabbitmq::subscribe(&config, &subscription).await.unwrap();
    let id = api.create(&transfer("user-a", "user-b", 5)).await;
    let Pool::Postgres(pool) = &api.bed.pool else { panic!("PostgreSQL was asked for") };
    let broker = Arc::new(rabbitmq::RabbitMqBroker::open(config).unwrap());
    let relay = Relay::builder(pool.clone()).route("transactions", "transaction.*", broker);
    relay.build().unwrap().run_once().await.unwrap();
    let sql = "SELECT id::text FROM posthaste.outbox";
    let message_id = api.bed.texts(sql).await.remove(0);
    // Others may use the exchange of a shared server.
    let incoming = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let incoming = consumer.receive().await.unwrap();
            if incoming.message.id.to_string() == message_id {
                return incoming;
            }
            consumer.acknowledge(incoming.receipt).await.unwrap();
        }
    })
    .await
    .expect("the event arrives");
    let message = incoming.message;
    assert_eq!(message.topic, "transaction.created");
    assert_eq!(message.event_type.as_deref(), Some("TransactionCreated"));
    assert_eq!(message.content_type, "application/json");
    let header = |name: &str| {
        message.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(header("event_type"), Some("TransactionCreated"));
    assert_eq!(header("aggregate_id"), Some(id.as_str()));
    let payload: serde_json::Value = serde_json::from_slice(&message.payload).unwrap();
    assert_eq!(payload["transactionId"], id.as_str());
}
