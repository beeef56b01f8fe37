//! The frames, byte by byte: what other programs rely on. That a program which shares no code with
//! the adapter reads them is what `conformance.rs` shows.

mod support;

use posthaste_broker_tcp::{Config, TcpBroker};
use posthaste_core::Message;
use posthaste_wire::{Profile, Wire};
use support::{Consumer, DEADLINE, all, delivery, native_ack, publish};

/// The frame of two messages.
async fn frame(profile: Profile) -> String {
    let consumer = Consumer::start().await;
    let wire = Wire { profile, source: "/shop".to_owned(), ..Wire::default() };
    let url = format!("tcp://{}", consumer.address());
    let broker =
        TcpBroker::open(Config { wire, ..Config::new(url) }).expect("a good configuration");
    let placed = Message::from_bytes("orders", Some("7"), "{\"total\": 42}")
        .event_type("OrderPlaced")
        .header("tenant", "acme");
    let note = Message::from_bytes("notes", None, "{\n}");
    let messages = [delivery(41, placed), delivery(42, note)];
    let taken = async {
        let mut peer = consumer.accept().await;
        let line = peer.line().await;
        peer.send(native_ack(&serde_json::from_str(&line).expect("a frame"), 42)).await;
        line
    };
    let (outcomes, line) = tokio::join!(publish(&broker, &messages, DEADLINE), taken);
    assert_eq!(outcomes, all("acked", 2));
    line
}

/// The hash is the head of a SHA-256 of each message's id, seq (8 bytes) and redriven (4 bytes),
/// reckoned by another program.
const HEAD: &str = concat!(
    "{\"batch\":\"41-42-3178388d0d4ddbd6\",\"source\":\"/shop\",",
    "\"first\":41,\"last\":42,\"events\":["
);

#[tokio::test]
async fn events_are_cloud_events_and_a_line_break_in_one_makes_it_base64() {
    let events = concat!(
        "{\"seq\":41,\"topic\":\"orders\",\"headers\":{\"tenant\":\"acme\"},\"event\":",
        "{\"specversion\":\"1.0\",\"id\":\"01900000-0000-7000-8000-000000000029\",",
        "\"source\":\"/shop\",\"type\":\"OrderPlaced\",\"subject\":\"7\",\"partitionkey\":\"7\",",
        "\"time\":\"2023-11-14T22:13:20.123456Z\",\"sequence\":\"00000000000000000041\",",
        "\"datacontenttype\":\"application/json\",\"data\":{\"total\": 42}}},",
        "{\"seq\":42,\"topic\":\"notes\",\"event\":",
        "{\"specversion\":\"1.0\",\"id\":\"01900000-0000-7000-8000-00000000002a\",",
        "\"source\":\"/shop\",\"type\":\"notes\",",
        "\"time\":\"2023-11-14T22:13:20.123456Z\",\"sequence\":\"00000000000000000042\",",
        "\"datacontenttype\":\"application/json\",\"data_base64\":\"ewp9\"}}]}\n",
    );
    assert_eq!(frame(Profile::Binary).await, HEAD.to_owned() + events);
    assert_eq!(frame(Profile::Structured).await, HEAD.to_owned() + events);
}

#[tokio::test]
async fn raw_has_the_payload_and_what_it_needs() {
    let events = concat!(
        "{\"seq\":41,\"topic\":\"orders\",\"headers\":{\"tenant\":\"acme\"},",
        "\"id\":\"01900000-0000-7000-8000-000000000029\",\"key\":\"7\",",
        "\"content_type\":\"application/json\",\"data\":{\"total\": 42}},",
        "{\"seq\":42,\"topic\":\"notes\",\"id\":\"01900000-0000-7000-8000-00000000002a\",",
        "\"content_type\":\"application/json\",\"data_base64\":\"ewp9\"}]}\n",
    );
    assert_eq!(frame(Profile::Raw).await, HEAD.to_owned() + events);
}

#[tokio::test]
async fn debezium_has_the_id_in_a_header() {
    let line = frame(Profile::Debezium).await;
    let id = "\"headers\":{\"id\":\"01900000-0000-7000-8000-000000000029\",\"tenant\":\"acme\"}";
    assert!(line.starts_with(HEAD) && line.contains(id), "{line}");
}
