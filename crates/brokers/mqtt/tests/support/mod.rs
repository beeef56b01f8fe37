//! What the tests of this adapter share.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use posthaste_broker_mqtt::{Config, MqttBroker, MqttSubscriber, subscribe};
use posthaste_core::{
    Broker, Delivery, Incoming, Message, MessageId, Outcome, Sharing, Start, Subscriber,
    Subscription,
};
use posthaste_fixtures::{Kind, Options, Server, eventually};

/// For whatever should happen at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// For calls that are meant to run into it.
pub(crate) const SHORT: Duration = Duration::from_secs(2);

/// A server of the test's own, with these lines in its configuration.
pub(crate) fn private(settings: &[(&str, &str)]) -> Server {
    let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let options = Options { settings, ..Options::default() };
    Server::private(Kind::Mosquitto, &options).expect("Mosquitto starts")
}

/// A topic that nobody else has.
pub(crate) fn topic() -> String {
    format!("t/{}", MessageId::fresh())
}

pub(crate) fn broker(url: &str) -> MqttBroker {
    MqttBroker::open(Config::new(url)).expect("a valid configuration")
}

pub(crate) fn message(topic: &str, key: Option<&str>, payload: impl Into<Vec<u8>>) -> Message {
    Message::from_bytes(topic, key, payload.into())
}

pub(crate) fn delivery(message: Message) -> Arc<Delivery> {
    let enqueued_at = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    Arc::new(Delivery { seq: 7, message, enqueued_at, attempt: 1, redriven: 0, floor: None })
}

pub(crate) async fn publish(broker: &MqttBroker, message: Message) -> Outcome {
    publish_within(broker, message, PATIENCE).await
}

pub(crate) async fn publish_within(
    broker: &MqttBroker,
    message: Message,
    limit: Duration,
) -> Outcome {
    let mut outcomes = broker.publish(&[delivery(message)], limit).await;
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

/// The variant and the class of an outcome.
pub(crate) fn kind(outcome: &Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Acked => ("acked", ""),
        Outcome::Rejected(failure) => ("rejected", failure.class),
        Outcome::Unreachable(failure) => ("unreachable", failure.class),
        Outcome::Unknown(failure) => ("unknown", failure.class),
    }
}

pub(crate) fn subscription(name: Option<&str>, topics: &[&str]) -> Subscription {
    Subscription {
        name: name.map(str::to_owned),
        topics: topics.iter().map(|topic| topic.parse().expect("a valid pattern")).collect(),
        start: Start::New,
        sharing: Sharing::Competing,
    }
}

pub(crate) async fn listen(url: &str, topics: &[&str]) -> MqttSubscriber {
    subscribe(&Config::new(url), &subscription(None, topics)).await.expect("subscribes")
}

pub(crate) async fn named(url: &str, name: &str, topics: &[&str]) -> MqttSubscriber {
    subscribe(&Config::new(url), &subscription(Some(name), topics)).await.expect("subscribes")
}

/// The next message, whatever becomes of the connection.
pub(crate) async fn receive(subscriber: &mut MqttSubscriber) -> Incoming {
    eventually("message", async || subscriber.receive().await.ok()).await
}

/// The host and port of a URL.
pub(crate) fn address(url: &str) -> &str {
    url.rsplit(['/', '@']).next().expect("a split has a part")
}
