//! A receiver that shares no code with the adapter sees every part of a message.

mod support;

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use posthaste_broker_http::{Config, HttpBroker};
use posthaste_core::{Broker, Message, Outcome};
use posthaste_wire::{Profile, Wire};
use serde_json::Value;
use support::{Receiver, delivery};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn message() -> Message {
    Message::from_bytes("orders", Some("c 7\u{e9}"), (0..=255).collect::<Vec<u8>>())
        .event_type("OrderPlaced")
        .content_type("application/x-thing")
        .header("tenant", "acme & sons")
        .header("traceparent", TRACE)
}

async fn sent(profile: Profile, message: &Message) -> (impl Fn(&str) -> Option<String>, Vec<u8>) {
    let receiver = Receiver::start();
    let wire = Wire { profile, source: "/shop".to_owned(), ..Wire::default() };
    let broker = HttpBroker::open(Config { wire, ..receiver.config("/hook") })
        .expect("a good configuration");
    let outcomes = broker.publish(&[delivery(message.clone())], Duration::from_secs(60)).await;
    assert_eq!(outcomes, [Outcome::Acked]);
    let entry = receiver.read(0).0.remove(0);
    let body = STANDARD.decode(entry["body"].as_str().expect("text")).expect("base64");
    let header = move |name: &str| {
        let headers = entry["headers"].as_array().expect("a list").iter();
        let mut found = headers.filter(|header| {
            header[0].as_str().is_some_and(|header| header.eq_ignore_ascii_case(name))
        });
        let value = found.next().and_then(|header| header[1].as_str()).map(str::to_owned);
        assert!(found.next().is_none(), "{name} is there twice");
        value
    };
    (header, body)
}

#[tokio::test]
async fn binary_mode() {
    let message = message();
    let (header, body) = sent(Profile::Binary, &message).await;
    let id = message.id.to_string();
    let expected = [
        ("content-type", "application/x-thing"),
        ("ce-specversion", "1.0"),
        ("ce-id", id.as_str()),
        ("ce-source", "/shop"),
        ("ce-type", "OrderPlaced"),
        ("ce-subject", "c%207%C3%A9"),
        ("ce-time", "2023-11-14T22:13:20.123456Z"),
        ("ce-sequence", "00000000000000000042"),
        ("ce-traceparent", TRACE),
        ("traceparent", TRACE),
        ("tenant", "acme & sons"),
        ("posthaste-topic", "orders"),
        ("webhook-id", id.as_str()),
        ("idempotency-key", id.as_str()),
    ];
    for (name, value) in expected {
        assert_eq!(header(name).as_deref(), Some(value), "{name}");
    }
    assert!(header("user-agent").unwrap().starts_with("posthaste/"));
    assert_eq!(header("ce-datacontenttype"), None);
    assert_eq!(body, message.payload);
}

#[tokio::test]
async fn structured_mode() {
    let message = Message { content_type: "application/json".to_owned(), ..message() };
    let (header, body) = sent(Profile::Structured, &message).await;
    let content_type = header("content-type").unwrap();
    assert_eq!(content_type, "application/cloudevents+json; charset=UTF-8");
    let event: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(event["id"], message.id.to_string());
    assert_eq!(event["subject"], "c 7\u{e9}");
    assert_eq!(event["data_base64"], STANDARD.encode(&message.payload));
    assert_eq!(header("tenant").as_deref(), Some("acme & sons"));
}

#[tokio::test]
async fn raw_and_debezium_send_the_payload() {
    let message = message();
    let (header, body) = sent(Profile::Raw, &message).await;
    assert_eq!((header("ce-id"), header("id")), (None, None));
    assert_eq!(body, message.payload);
    let (header, body) = sent(Profile::Debezium, &message).await;
    assert_eq!((header("ce-id"), header("id")), (None, Some(message.id.to_string())));
    assert_eq!(body, message.payload);
}
