//! What the tests share: messages, brokers, and another hand on the same server.
#![allow(dead_code, reason = "every test binary uses its own part")]

use std::{
    process::Command,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use lapin::{
    Channel, Connection, ConnectionProperties, ExchangeKind,
    message::BasicGetMessage,
    options::{
        BasicGetOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions,
        QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
    },
    types::{AMQPValue, FieldTable},
};
use posthaste_broker_rabbitmq::{Config, RabbitMqBroker};
use posthaste_core::{Broker, Delivery, Failure, Message, MessageId, Outcome};
use posthaste_fixtures::Server;

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A name that no other test has.
pub(crate) fn unique(what: &str) -> String {
    format!("{what}-{}", MessageId::fresh())
}

pub(crate) fn delivery(message: Message) -> Arc<Delivery> {
    let enqueued_at = UNIX_EPOCH + Duration::from_secs(1_790_000_000);
    Arc::new(Delivery { seq: 7, message, enqueued_at, attempt: 1, redriven: 0, floor: None })
}

pub(crate) fn message(topic: &str) -> Arc<Delivery> {
    delivery(Message::from_bytes(topic, None, "{}"))
}

pub(crate) fn broker(config: Config) -> RabbitMqBroker {
    RabbitMqBroker::open(config).expect("the configuration is good")
}

/// Publishes one message with all the time it may take.
pub(crate) async fn publish_one(broker: &RabbitMqBroker, topic: &str) -> Outcome {
    publish_within(broker, topic, PATIENCE).await
}

pub(crate) async fn publish_within(
    broker: &RabbitMqBroker,
    topic: &str,
    deadline: Duration,
) -> Outcome {
    let mut outcomes = broker.publish(&[message(topic)], deadline).await;
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

/// The outcome's name and class.
pub(crate) fn told(outcome: &Outcome) -> (&'static str, &'static str) {
    let said = |failure: &Failure| {
        assert!(!failure.detail.is_empty() && !failure.detail.contains("guest:"), "{failure}");
        failure.class
    };
    match outcome {
        Outcome::Acked => ("acked", ""),
        Outcome::Rejected(failure) => ("rejected", said(failure)),
        Outcome::Unreachable(failure) => ("unreachable", said(failure)),
        Outcome::Unknown(failure) => ("unknown", said(failure)),
    }
}

/// Publishes until it is acknowledged.
pub(crate) async fn recovers(broker: &RabbitMqBroker, topic: &str) {
    let until_acked = async {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        while publish_one(broker, topic).await != Outcome::Acked {
            tick.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, until_acked).await.expect("works again");
}

/// The server's own `rabbitmqctl`.
pub(crate) fn control(server: &Server, arguments: &[&str]) {
    let folder = server.folder().expect("a private server");
    let mut command = Command::new("sh");
    let output = command.arg(folder.join("ctl")).args(arguments).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Another client of the same server, for what an adapter does not do.
pub(crate) struct Admin {
    connection: Connection,
    channel: Channel,
}

impl Admin {
    pub(crate) async fn new(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await;
        let connection = connection.expect("the server lets us in");
        let channel = connection.create_channel().await.expect("a channel");
        Self { connection, channel }
    }

    pub(crate) async fn exchange(&self, name: &str) {
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let arguments = FieldTable::default();
        let declared =
            self.channel.exchange_declare(name.into(), ExchangeKind::Topic, options, arguments);
        declared.await.expect("an exchange");
    }

    pub(crate) async fn other_exchange(&self, name: &str) {
        let options = ExchangeDeclareOptions::default();
        let arguments = FieldTable::default();
        let declared =
            self.channel.exchange_declare(name.into(), ExchangeKind::Fanout, options, arguments);
        declared.await.expect("an exchange");
    }

    pub(crate) async fn delete_exchange(&self, name: &str) {
        let deleted = self.channel.exchange_delete(name.into(), ExchangeDeleteOptions::default());
        deleted.await.expect("deletes");
    }

    pub(crate) async fn queue(&self, name: &str, arguments: &[(&str, AMQPValue)]) {
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        self.channel.queue_declare(name.into(), options, table).await.expect("a queue");
    }

    pub(crate) async fn bind(&self, queue: &str, exchange: &str, key: &str) {
        let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
        let bound =
            self.channel.queue_bind(queue.into(), exchange.into(), key.into(), options, arguments);
        bound.await.expect("binds");
    }

    pub(crate) async fn purge(&self, queue: &str) {
        self.channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await.expect("purges");
    }

    pub(crate) async fn delete_queue(&self, queue: &str) {
        let deleted = self.channel.queue_delete(queue.into(), QueueDeleteOptions::default());
        deleted.await.expect("deletes");
    }

    pub(crate) async fn count(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let table = FieldTable::default();
        self.channel
            .queue_declare(queue.into(), options, table)
            .await
            .expect("a queue")
            .message_count()
    }

    /// Takes the next message off a queue.
    pub(crate) async fn get(&self, queue: &str) -> Option<BasicGetMessage> {
        let options = BasicGetOptions { no_ack: true };
        self.channel.basic_get(queue.into(), options).await.expect("gets")
    }
}

/// An exchange of its own with one queue that gets everything.
pub(crate) async fn routed(url: &str) -> (Config, Admin, String) {
    let admin = Admin::new(url).await;
    let name = unique("x");
    admin.exchange(&name).await;
    admin.queue(&name, &[]).await;
    admin.bind(&name, &name, "#").await;
    (Config { exchange: name.clone(), ..Config::new(url) }, admin, name)
}
