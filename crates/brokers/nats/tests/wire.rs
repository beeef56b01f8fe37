//! Messages as an independent client sees them: one of the bare protocol, in Python.

mod common;

use std::{process::Stdio, sync::Arc};

use async_nats::jetstream::stream;
use base64::{Engine, engine::general_purpose::STANDARD};
use common::{LONG, add_stream, address, delivery, fresh};
use posthaste_broker_nats::{Config, NatsBroker, subscribe};
use posthaste_core::{Broker, Delivery, Message, Outcome, Sharing, Start, Subscription};
use posthaste_fixtures::{Kind, server};
use posthaste_wire::{Profile, Wire};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const BINARY: &str = "application/octet-stream";

/// The other client.
struct Listener {
    _process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Listener {
    async fn new(url: &str, subject: &str) -> Self {
        let (host, port) = address(url).rsplit_once(':').expect("host and port");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/listen.py");
        let mut process = Command::new("python3")
            .args([script, host, port, subject, "1000"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("python3, of Debian's package python3");
        let output = process.stdout.take().expect("its output");
        let mut listener = Self { _process: process, lines: BufReader::new(output).lines() };
        assert_eq!(listener.line().await, "ready");
        listener
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(LONG, self.lines.next_line()).await;
        line.expect("a line in time").expect("its output").expect("a line")
    }

    async fn message(&mut self) -> (Value, Vec<u8>) {
        let message: Value = serde_json::from_str(&self.line().await).expect("JSON");
        let payload = message["payload"].as_str().expect("a payload");
        let payload = STANDARD.decode(payload).expect("base64");
        (message, payload)
    }
}

/// Every byte there is.
fn all_bytes() -> Vec<u8> {
    (0..=255).collect()
}

fn full(topic: &str) -> Arc<Delivery> {
    let message = Message::from_bytes(topic, Some("käy 42"), all_bytes())
        .event_type("Order Placed")
        .content_type(BINARY)
        .header("tenant", "acme & söhne")
        .header("Empty", "")
        .header("traceparent", TRACE);
    delivery(message)
}

/// Publishes in a profile, and what the other client sees.
async fn through(
    profile: Profile,
    make: impl Fn(&str) -> Arc<Delivery>,
) -> (Arc<Delivery>, Value, Vec<u8>) {
    let url = server(Kind::Nats).url();
    let topic = fresh();
    add_stream(url, &topic, stream::Config::default()).await;
    let mut listener = Listener::new(url, &topic).await;
    let wire = Wire { profile, source: "/shop orders".to_owned(), ..Wire::default() };
    let broker = NatsBroker::open(Config { wire, ..Config::new(url) }).expect("a broker");
    let sent = make(&topic);
    assert_eq!(broker.publish(std::slice::from_ref(&sent), LONG).await, [Outcome::Acked]);
    let (message, payload) = listener.message().await;
    assert_eq!(message["subject"], topic);
    (sent, message["headers"].clone(), payload)
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_mode_has_everything_in_headers() {
    let (sent, headers, payload) = through(Profile::Binary, full).await;
    assert_eq!(payload, all_bytes());
    let id = sent.message.id.to_string();
    let expected = json!({
        "Nats-Msg-Id": id,
        "ce-specversion": "1.0",
        "ce-id": id,
        "ce-source": "/shop%20orders",
        "ce-type": "Order%20Placed",
        "ce-subject": "k%C3%A4y%2042",
        "ce-partitionkey": "k%C3%A4y%2042",
        "ce-time": "2023-11-14T22:13:20.123000Z",
        "ce-sequence": "00000000000000000042",
        "ce-datacontenttype": BINARY,
        "ce-traceparent": TRACE,
        "traceparent": TRACE,
        "tenant": "acme & söhne",
        "Empty": "",
    });
    assert_eq!(headers, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn structured_mode_is_one_object() {
    let (sent, headers, payload) = through(Profile::Structured, full).await;
    let id = sent.message.id.to_string();
    let expected = json!({
        "Nats-Msg-Id": id,
        "Content-Type": "application/cloudevents+json; charset=UTF-8",
        "traceparent": TRACE,
        "tenant": "acme & söhne",
        "Empty": "",
    });
    assert_eq!(headers, expected);
    let event: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(event["id"], id);
    assert_eq!(event["subject"], "käy 42");
    assert_eq!(event["type"], "Order Placed");
    assert_eq!(event["source"], "/shop orders");
    assert_eq!(event["traceparent"], TRACE);
    assert_eq!(event["datacontenttype"], BINARY);
    assert_eq!(STANDARD.decode(event["data_base64"].as_str().unwrap()).unwrap(), all_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_and_debezium_are_the_payload() {
    for profile in [Profile::Raw, Profile::Debezium] {
        let (sent, headers, payload) = through(profile, full).await;
        assert_eq!(payload, all_bytes());
        let id = sent.message.id.to_string();
        let mut expected = json!({
            "Nats-Msg-Id": id,
            "Content-Type": BINARY,
            "traceparent": TRACE,
            "tenant": "acme & söhne",
            "Empty": "",
        });
        if profile == Profile::Debezium {
            expected["id"] = json!(id);
        }
        assert_eq!(headers, expected, "{profile:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_and_nothing_travel_as_they_are() {
    let json = "{ \"a\": [1, 2.50, \"\\u00e9\"] }\r\n";
    let of = |payload: &'static str| {
        move |topic: &str| delivery(Message::from_bytes(topic, None, payload))
    };
    let (_, headers, payload) = through(Profile::Binary, of(json)).await;
    assert_eq!(payload, json.as_bytes());
    assert_eq!(headers["ce-datacontenttype"], "application/json");
    assert_eq!(headers.get("ce-subject"), None, "no key, no subject");
    let (_, _, payload) = through(Profile::Binary, of("")).await;
    assert_eq!(payload, b"");
}

#[tokio::test]
async fn a_consumer_that_gives_out_several_is_refused_to_an_ordered_subscription() {
    let url = server(Kind::Nats).url();
    let topic = fresh();
    add_stream(url, &topic, stream::Config::default()).await;
    let named = |name: &str, sharing| Subscription {
        name: Some(name.to_owned()),
        topics: vec![topic.parse().unwrap()],
        start: Start::New,
        sharing,
    };
    let config = Config::new(url);
    drop(subscribe(&config, &named("shared", Sharing::Competing)).await.unwrap());
    let error = subscribe(&config, &named("shared", Sharing::Ordered)).await.err();
    let error = error.expect("it is shared").to_string();
    assert!(error.contains("not in order; delete it, or give another name"), "{error}");
    drop(subscribe(&config, &named("single", Sharing::Ordered)).await.unwrap());
    subscribe(&config, &named("single", Sharing::Ordered)).await.unwrap();
}
