//! What a client that knows nothing of us reads: `kcat`.

mod common;

use std::process::{Command, Stdio};

use common::{DEADLINE, create, delivery, servers, url};
use posthaste_broker_kafka::{Compression, Config, KafkaBroker};
use posthaste_core::{Broker, Message, Outcome};
use posthaste_fixtures::eventually;
use posthaste_wire::{Profile, Wire};
use serde_json::Value;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What kcat prints of everything in a topic that has a message. A look can end before the message was
/// fetched, where the server is slow to tell the leader of a new partition.
async fn kcat(url: &str, topic: &str, format: &[&str]) -> Vec<u8> {
    eventually("message", async || {
        let printed = kcat_once(url, topic, format).await;
        (!printed.is_empty()).then_some(printed)
    })
    .await
}

async fn kcat_once(url: &str, topic: &str, format: &[&str]) -> Vec<u8> {
    let mut command = Command::new("kcat");
    command.args(["-C", "-q", "-e", "-o", "beginning", "-b", &servers(url), "-t", topic]);
    command.args(format).stdin(Stdio::null());
    let run = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    let output = run.expect("kcat can be run (Debian: apt install kcat)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

async fn read(url: &str, topic: &str) -> Value {
    let text = kcat(url, topic, &["-J"]).await;
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        panic!("one message in JSON ({error}), not {}", String::from_utf8_lossy(&text))
    })
}

fn header<'a>(message: &'a Value, name: &str) -> Option<&'a str> {
    let headers = message["headers"].as_array()?;
    let at = headers.iter().step_by(2).position(|found| found == name)?;
    headers[2 * at + 1].as_str()
}

fn message(topic: &str) -> Message {
    Message::from_bytes(topic, Some("order-42"), r#"{"total":1.50}"#)
        .event_type("OrderPlaced")
        .header("tenant", "größe 7")
        .header("traceparent", TRACE)
}

async fn publish(url: &str, profile: Profile, message: Message) {
    let wire = Wire { profile, source: "/shop".to_owned(), ..Wire::default() };
    let broker = KafkaBroker::open(Config { wire, ..Config::new(url) }).expect("a good one");
    let outcomes = broker.publish(&[delivery(message)], DEADLINE).await;
    assert_eq!(outcomes, [Outcome::Acked]);
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_event_in_binary_mode() {
    let url = url().await;
    let topic = create(&url, "binary", &[]).await;
    let message = message(&topic);
    let id = message.id.to_string();
    publish(&url, Profile::Binary, message).await;
    let read = read(&url, &topic).await;
    assert_eq!(read["key"], "order-42");
    assert_eq!(read["payload"], r#"{"total":1.50}"#);
    assert_eq!(read["tstype"], "create");
    assert_eq!(read["ts"], 1_700_000_000_123_i64);
    for (name, value) in [
        ("ce_specversion", "1.0"),
        ("ce_id", id.as_str()),
        ("ce_source", "/shop"),
        ("ce_type", "OrderPlaced"),
        ("ce_subject", "order-42"),
        ("ce_partitionkey", "order-42"),
        ("ce_time", "2023-11-14T22:13:20.123000Z"),
        ("ce_traceparent", TRACE),
        ("traceparent", TRACE),
        ("content-type", "application/json"),
        ("tenant", "größe 7"),
    ] {
        assert_eq!(header(&read, name), Some(value), "{name} in {read}");
    }
    assert_eq!(header(&read, "ce_sequence").map(str::len), Some(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_arrive_as_they_are() {
    let url = url().await;
    let payload: Vec<u8> = (0..=255).collect();
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4]
    {
        let topic = create(&url, "bytes", &[]).await;
        let config = Config { compression, ..Config::new(&url) };
        let broker = KafkaBroker::open(config).unwrap();
        let message = Message::from_bytes(&*topic, None, payload.clone())
            .content_type("application/octet-stream");
        assert_eq!(broker.publish(&[delivery(message)], DEADLINE).await, [Outcome::Acked]);
        assert_eq!(kcat(&url, &topic, &["-f", "%s"]).await, payload, "{compression:?}");
        let key = kcat(&url, &topic, &["-f", "%K"]).await;
        assert_eq!(key, b"-1", "no key, rather than an empty one");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_payload_is_not_a_tombstone() {
    let url = url().await;
    let topic = create(&url, "empty", &[]).await;
    publish(&url, Profile::Binary, Message::from_bytes(&*topic, Some("k"), "")).await;
    assert_eq!(kcat(&url, &topic, &["-f", "%S"]).await, b"0", "-1 would be null");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_event_in_structured_mode() {
    let url = url().await;
    let topic = create(&url, "structured", &[]).await;
    let message = message(&topic);
    let id = message.id.to_string();
    publish(&url, Profile::Structured, message).await;
    let read = read(&url, &topic).await;
    assert_eq!(header(&read, "content-type"), Some("application/cloudevents+json; charset=UTF-8"));
    assert_eq!(read["key"], "order-42");
    let event: Value = serde_json::from_str(read["payload"].as_str().unwrap()).unwrap();
    assert_eq!(event["id"], id.as_str());
    assert_eq!(event["type"], "OrderPlaced");
    assert_eq!(event["traceparent"], TRACE);
    assert_eq!(event["data"]["total"], 1.5);
    assert_eq!(header(&read, "ce_id"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_message() {
    let url = url().await;
    let topic = create(&url, "raw", &[]).await;
    let message = message(&topic);
    let id = message.id.to_string();
    publish(&url, Profile::Raw, message).await;
    let read = read(&url, &topic).await;
    assert_eq!(read["payload"], r#"{"total":1.50}"#);
    let own = ["tenant", "größe 7", "traceparent", TRACE];
    let all = [&["content-type", "application/json", "posthaste-id", &*id][..], &own].concat();
    assert_eq!(read["headers"], serde_json::json!(all), "nothing else");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_as_debezium_writes_it() {
    let url = url().await;
    let topic = create(&url, "debezium", &[]).await;
    let message = Message::from_bytes(&*topic, Some("order-42"), r#"{"total":1.50}"#);
    let id = message.id.to_string();
    publish(&url, Profile::Debezium, message).await;
    let read = read(&url, &topic).await;
    assert_eq!(read["key"], "order-42");
    assert_eq!(read["payload"], r#"{"total":1.50}"#);
    let own = ["content-type", "application/json", "id", &id];
    assert_eq!(read["headers"], serde_json::json!(own));
}
