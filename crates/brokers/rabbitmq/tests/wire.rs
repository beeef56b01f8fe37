//! What another client reads: pika, which shares no code with the adapter.

mod support;

use std::{
    process::{Command, Stdio},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use posthaste_broker_rabbitmq::{AttributePrefix, Config, subscribe};
use posthaste_core::{
    Broker, Delivery, Message, Outcome, Sharing, Start, Subscriber, Subscription,
};
use posthaste_fixtures::{Kind, server};
use posthaste_wire::{Profile, Wire};
use serde_json::{Value, json};
use support::{PATIENCE, broker, delivery, routed};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The Python that has pika: Debian's package is for Debian's Python.
fn python() -> &'static str {
    let has_pika = |python: &&str| {
        let status =
            Command::new(python).args(["-c", "import pika"]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let python = ["python3", "/usr/bin/python3"].into_iter().find(has_pika);
    python.expect("a Python with pika is needed for this test (Debian: apt install python3-pika)")
}

/// Takes one message off a queue, as pika sees it.
fn read(url: &str, queue: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/read.py");
    let output = Command::new(python()).args([script, url, queue]).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

fn sent() -> Arc<Delivery> {
    let bytes: Vec<u8> = (0..=255).collect();
    let message = Message::from_bytes("orders.placed", Some("kündin-42"), bytes)
        .event_type("OrderPlaced")
        .content_type("application/octet-stream")
        .header("tenant", "acme é")
        .header("traceparent", TRACE);
    delivery(message)
}

/// Publishes in a profile; what pika reads, and the message that was sent.
async fn read_back(profile: Profile, sent: &Arc<Delivery>) -> Value {
    let url = server(Kind::RabbitMq).url();
    let (config, _admin, queue) = routed(url).await;
    let wire = Wire { profile, source: "/shop".to_owned(), ..Wire::default() };
    let broker = broker(Config { wire, ..config });
    assert_eq!(broker.publish(std::slice::from_ref(sent), PATIENCE).await, [Outcome::Acked]);
    let read = read(url, &queue);
    assert_eq!(read["routing_key"], "orders.placed");
    assert_eq!(read["delivery_mode"], 2);
    assert_eq!(read["message_id"], sent.message.id.to_string());
    assert_eq!(read["app_id"], "posthaste");
    assert_eq!(read["type"], "OrderPlaced");
    assert_eq!(read["timestamp"], 1_790_000_000);
    assert_eq!(read["headers"]["tenant"], "acme é");
    assert_eq!(read["headers"]["traceparent"], TRACE);
    read
}

fn body(read: &Value) -> Vec<u8> {
    STANDARD.decode(read["body"].as_str().expect("text")).expect("base64")
}

#[tokio::test]
async fn binary_mode_carries_everything_beside_the_exact_bytes() {
    let sent = sent();
    let read = read_back(Profile::Binary, &sent).await;
    assert_eq!(body(&read), sent.message.payload);
    assert_eq!(read["content_type"], "application/octet-stream");
    let headers = json!({
        "cloudEvents_specversion": "1.0",
        "cloudEvents_id": sent.message.id.to_string(),
        "cloudEvents_source": "/shop",
        "cloudEvents_type": "OrderPlaced",
        "cloudEvents_subject": "kündin-42",
        "cloudEvents_partitionkey": "kündin-42",
        "cloudEvents_time": "2026-09-21T14:13:20.000000Z",
        "cloudEvents_sequence": "00000000000000000007",
        "cloudEvents_traceparent": TRACE,
        "tenant": "acme é",
        "traceparent": TRACE,
    });
    assert_eq!(read["headers"], headers);
}

#[tokio::test]
async fn structured_mode_is_one_json_object() {
    let sent = sent();
    let read = read_back(Profile::Structured, &sent).await;
    assert_eq!(read["content_type"], "application/cloudevents+json; charset=UTF-8");
    let event: Value = serde_json::from_slice(&body(&read)).unwrap();
    assert_eq!(event["id"], sent.message.id.to_string());
    assert_eq!(event["type"], "OrderPlaced");
    assert_eq!(event["partitionkey"], "kündin-42");
    assert_eq!(event["datacontenttype"], "application/octet-stream");
    assert_eq!(event["traceparent"], TRACE);
    let data = STANDARD.decode(event["data_base64"].as_str().unwrap()).unwrap();
    assert_eq!(data, sent.message.payload);
}

#[tokio::test]
async fn the_raw_profile_is_the_payload_and_its_own_headers() {
    let sent = sent();
    let read = read_back(Profile::Raw, &sent).await;
    assert_eq!(body(&read), sent.message.payload);
    assert_eq!(read["content_type"], "application/octet-stream");
    assert_eq!(read["headers"], json!({ "tenant": "acme é", "traceparent": TRACE }));
}

#[tokio::test]
async fn the_debezium_profile_has_the_id_in_a_header() {
    let sent = sent();
    let read = read_back(Profile::Debezium, &sent).await;
    assert_eq!(body(&read), sent.message.payload);
    assert_eq!(read["headers"]["id"], sent.message.id.to_string());
    assert_eq!(read["headers"].as_object().unwrap().len(), 3);
}

#[tokio::test]
async fn every_profile_is_read_back_with_its_id_and_type() {
    let url = server(Kind::RabbitMq).url();
    for (name, profile) in Profile::ALL {
        let (config, _admin, _) = routed(url).await;
        let config = Config { wire: Wire { profile, ..Wire::default() }, ..config };
        let subscription = Subscription {
            name: None,
            topics: vec!["orders.*".parse().unwrap()],
            start: Start::New,
            sharing: Sharing::Competing,
        };
        let mut subscriber = subscribe(&config, &subscription).await.unwrap();
        let sent = sent();
        let publisher = broker(config);
        assert_eq!(
            publisher.publish(std::slice::from_ref(&sent), PATIENCE).await,
            [Outcome::Acked]
        );
        let received = subscriber.receive().await.unwrap().message;
        assert_eq!(received.id, sent.message.id, "{name}");
        assert_eq!(received.event_type, sent.message.event_type, "{name}");
        assert_eq!(received.payload, sent.message.payload, "{name}");
        assert_eq!(received.content_type, sent.message.content_type, "{name}");
        assert_eq!(received.topic, sent.message.topic, "{name}");
    }
}

/// A subscriber of the usual prefix takes them for headers of the message, so it sees what they are.
#[tokio::test]
async fn attributes_have_the_prefix_of_the_cloudevents_sdks_where_that_is_asked_for() {
    let url = server(Kind::RabbitMq).url();
    let (usual, _admin, _queue) = routed(url).await;
    let config = Config { attribute_prefix: AttributePrefix::Ce, ..usual.clone() };
    let subscription = Subscription {
        name: None,
        topics: vec!["orders.*".parse().expect("a pattern")],
        start: Start::New,
        sharing: Sharing::Competing,
    };
    let mut stranger = subscribe(&usual, &subscription).await.expect("subscribes");
    let mut friend = subscribe(&config, &subscription).await.expect("subscribes");
    let sent = sent();
    let outcomes = broker(config).publish(std::slice::from_ref(&sent), PATIENCE).await;
    assert_eq!(outcomes, [Outcome::Acked]);
    let seen = tokio::time::timeout(PATIENCE, stranger.receive()).await.expect("in time");
    let headers = seen.expect("a message").message.headers;
    let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    assert_eq!(header("ce-id"), Some(sent.message.id.to_string().as_str()));
    assert_eq!(header("ce-specversion"), Some("1.0"));
    assert_eq!(header("ce-type"), Some("OrderPlaced"));
    assert_eq!(header("ce-subject"), Some("kündin-42"));
    let incoming = tokio::time::timeout(PATIENCE, friend.receive()).await.expect("in time");
    let incoming = incoming.expect("a message");
    assert_eq!(incoming.message.id, sent.message.id);
    assert_eq!(incoming.message.key, sent.message.key);
    assert_eq!(incoming.message.headers, sent.message.headers);
    assert_eq!(incoming.provenance.seq, Some(sent.seq));
}
