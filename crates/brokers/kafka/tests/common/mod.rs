//! What the tests of this adapter share.
#![allow(dead_code, reason = "every test binary uses its part")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use posthaste_broker_kafka::{Config, KafkaBroker};
use posthaste_core::{Broker, Delivery, Message, Outcome};
use posthaste_fixtures::{Kind, server};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
};

/// Long enough for anything that should happen at all, on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// A deadline like a relay's, on a machine that is busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// This run's server.
pub(crate) async fn url() -> String {
    let url = tokio::task::spawn_blocking(|| server(Kind::Kafka).url().to_owned()).await;
    url.expect("the server starts")
}

/// `host:port` of a URL, for other clients.
pub(crate) fn servers(url: &str) -> String {
    let rest = url.strip_prefix("kafka://").expect("a kafka:// URL");
    rest.rsplit_once('@').map_or(rest, |(_, servers)| servers).trim_end_matches('/').to_owned()
}

/// A name that no other test uses.
pub(crate) fn topic(what: &str) -> String {
    format!("{what}-{}", posthaste_core::MessageId::fresh())
}

/// A new topic with three partitions.
pub(crate) async fn create(url: &str, what: &str, settings: &[(&str, &str)]) -> String {
    let name = topic(what);
    create_named(&client(url), &name, settings).await;
    name
}

pub(crate) fn client(url: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers(url));
    config
}

pub(crate) async fn create_named(client: &ClientConfig, name: &str, settings: &[(&str, &str)]) {
    let admin: AdminClient<DefaultClientContext> = client.create().expect("an admin client");
    let mut topic = NewTopic::new(name, 3, TopicReplication::Fixed(1));
    for (key, value) in settings {
        topic = topic.set(key, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let created = admin.create_topics([&topic], &options).await.expect("the server answers");
    created.into_iter().for_each(|one| _ = one.expect("the topic is created"));
}

pub(crate) fn broker(url: &str) -> KafkaBroker {
    KafkaBroker::open(Config::new(url)).expect("a good configuration")
}

pub(crate) fn delivery(message: Message) -> Arc<Delivery> {
    static SEQ: AtomicI64 = AtomicI64::new(1);
    Arc::new(Delivery {
        seq: SEQ.fetch_add(1, Ordering::Relaxed),
        message,
        enqueued_at: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
        attempt: 1,
        redriven: 0,
        floor: None,
    })
}

pub(crate) fn keyed(topic: &str, key: &str, payload: impl Into<bytes::Bytes>) -> Arc<Delivery> {
    delivery(Message::from_bytes(topic, Some(key), payload))
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

/// Publishes one message and says what became of it.
pub(crate) async fn publish_one(broker: &KafkaBroker, topic: &str, deadline: Duration) -> Outcome {
    let started = std::time::Instant::now();
    let outcomes = broker.publish(&[keyed(topic, "key", "payload")], deadline).await;
    assert!(started.elapsed() < deadline + DEADLINE, "keeps its deadline");
    let [outcome] = &outcomes[..] else { panic!("one outcome, not {outcomes:?}") };
    outcome.clone()
}

/// Publishes until it works, as a relay would.
pub(crate) async fn works_again(broker: &KafkaBroker, topic: &str) {
    let recovery = async {
        while publish_one(broker, topic, DEADLINE).await != Outcome::Acked {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, recovery).await.expect("the adapter works again");
}

/// How often messages were given to the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Once,
    /// It took longer to find the server again than the adapter waits for.
    Again,
}

/// Publishes messages of one key until all are acknowledged, as a relay would: what a lost connection
/// leaves unsure, again, with all behind it.
pub(crate) async fn publish_all(broker: &KafkaBroker, call: &[Arc<Delivery>]) -> Sent {
    let mut outcomes = broker.publish(call, PATIENCE).await;
    if outcomes.iter().all(|outcome| *outcome == Outcome::Acked) {
        return Sent::Once;
    }
    let mut left = call;
    let recovery = async {
        loop {
            let acked = outcomes.iter().take_while(|outcome| **outcome == Outcome::Acked).count();
            left = &left[acked..];
            let Some(first) = outcomes.get(acked) else { return Sent::Again };
            assert!(matches!(kind(first), ("unknown" | "unreachable", "connection")), "{first:?}");
            assert!(!outcomes[acked..].contains(&Outcome::Acked), "acknowledged behind a failure");
            outcomes = broker.publish(left, PATIENCE).await;
        }
    };
    tokio::time::timeout(PATIENCE, recovery).await.expect("the adapter works again")
}

/// Everything in a topic, partition by partition: key and payload.
pub(crate) async fn contents(client: &ClientConfig, topic: &str) -> Vec<(String, String)> {
    let mut client = client.clone();
    client.set("group.id", "test");
    let topic = topic.to_owned();
    let read = move || {
        let consumer: BaseConsumer = client.create().expect("a consumer");
        let metadata = consumer.fetch_metadata(Some(&topic), PATIENCE).expect("metadata");
        let partitions = metadata.topics()[0].partitions().iter();
        partitions.flat_map(|partition| of_partition(&client, &topic, partition.id())).collect()
    };
    tokio::task::spawn_blocking(read).await.expect("the topic can be read")
}

/// Everything in a partition, by a consumer of its own: what one still holds of another is not mixed in.
fn of_partition(client: &ClientConfig, topic: &str, partition: i32) -> Vec<(String, String)> {
    let started = std::time::Instant::now();
    let mut found = Vec::new();
    let mut next = None;
    loop {
        let consumer: BaseConsumer = client.create().expect("a consumer");
        let ends = consumer.fetch_watermarks(topic, partition, PATIENCE);
        let (low, high) = ends.expect("the partition's ends");
        let next = next.get_or_insert(low);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(*next)).expect("an offset");
        consumer.assign(&list).expect("an assignment");
        // An address of the name at which nobody listens is an error on the way, and a consumer that
        // met it may wait long: after some silence another one goes on.
        let mut silence = 0;
        while *next < high && silence < 10 {
            let Some(Ok(message)) = consumer.poll(Duration::from_secs(1)) else {
                silence += 1;
                continue;
            };
            assert_eq!((message.topic(), message.partition()), (topic, partition));
            *next = message.offset() + 1;
            let text = |bytes: Option<&[u8]>| {
                String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
            };
            found.push((text(message.key()), text(message.payload())));
        }
        if *next >= high {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{next} of {high} messages read in time");
    }
}

/// What of a key is in a topic, each payload once, in the order of its first arrival.
pub(crate) fn of_key(contents: &[(String, String)], key: &str) -> Vec<String> {
    let mut first = Vec::new();
    for (_, payload) in contents.iter().filter(|(other, _)| other == key) {
        if !first.contains(payload) {
            first.push(payload.clone());
        }
    }
    first
}
