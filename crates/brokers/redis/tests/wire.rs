//! What is in a stream, as redis-cli shows it: it knows nothing of us.

mod common;

use std::sync::Arc;

use common::{DEADLINE, cli, delivery, fresh, strings};
use posthaste_broker_redis::{Config, RedisBroker};
use posthaste_core::{Broker, Delivery, Message, Outcome};
use posthaste_fixtures::{Kind, server};
use posthaste_wire::{Profile, Wire};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn everything(topic: &str) -> Arc<Delivery> {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let message = Message::from_bytes(topic, Some("order 42 \"é\""), all_bytes)
        .event_type("OrderPlaced")
        .content_type("application/octet-stream")
        .header("tenant", "acme")
        .header("traceparent", TRACE);
    delivery(7, message)
}

/// The fields of the only entry that a message becomes.
async fn fields(profile: Profile, delivery: &Arc<Delivery>) -> Vec<(String, Vec<u8>)> {
    let url = server(Kind::Redis).url();
    let wire = Wire { profile, source: "/shop".to_owned(), ..Wire::default() };
    let config = Config { wire, ..Config::new(url) };
    let broker = RedisBroker::open(config).expect("the configuration is right");
    let outcomes = broker.publish(&[Arc::clone(delivery)], DEADLINE).await;
    assert_eq!(outcomes, [Outcome::Acked]);
    let printed = strings(&cli(url, &["XRANGE", &delivery.message.topic, "-", "+"]));
    let name = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("names are text");
    printed[1..].chunks(2).map(|pair| (name(&pair[0]), pair[1].clone())).collect()
}

fn shown(fields: &[(String, Vec<u8>)]) -> Vec<(&str, String)> {
    fields
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value).into_owned()))
        .collect()
}

fn expected<'a>(fields: &[(&'a str, &str)]) -> Vec<(&'a str, String)> {
    fields.iter().map(|&(name, value)| (name, value.to_owned())).collect()
}

#[tokio::test]
async fn binary_has_attributes_as_fields_and_the_exact_bytes() {
    let delivery = everything(&fresh("binary"));
    let mut found = fields(Profile::Binary, &delivery).await;
    let (name, body) = found.pop().unwrap();
    assert_eq!((name.as_str(), &body[..]), ("data", &delivery.message.payload[..]));
    assert_eq!(
        shown(&found),
        expected(&[
            ("ce_specversion", "1.0"),
            ("ce_id", &delivery.message.id.to_string()),
            ("ce_source", "/shop"),
            ("ce_type", "OrderPlaced"),
            ("ce_subject", "order 42 \"é\""),
            ("ce_partitionkey", "order 42 \"é\""),
            ("ce_time", "2023-11-14T22:13:20.123000Z"),
            ("ce_sequence", "00000000000000000007"),
            ("ce_traceparent", TRACE),
            ("tenant", "acme"),
            ("traceparent", TRACE),
            ("content-type", "application/octet-stream"),
        ])
    );
}

#[tokio::test]
async fn structured_is_one_json_object() {
    let delivery = everything(&fresh("structured"));
    let found = fields(Profile::Structured, &delivery).await;
    let (name, body) = found.last().unwrap();
    assert_eq!(name, "data");
    let event: serde_json::Value = serde_json::from_slice(body).unwrap();
    assert_eq!(event["id"], delivery.message.id.to_string());
    assert_eq!(event["partitionkey"], "order 42 \"é\"");
    assert_eq!(event["traceparent"], TRACE);
    assert!(event["data_base64"].as_str().unwrap().starts_with("AAECAwQF"));
    let content_type = &found[found.len() - 2];
    assert_eq!(content_type.0, "content-type");
    assert!(content_type.1.starts_with(b"application/cloudevents+json"));
    assert!(found.iter().all(|(name, _)| !name.starts_with("ce_")));
}

#[tokio::test]
async fn raw_and_debezium_have_the_key_in_a_field() {
    let delivery = everything(&fresh("raw"));
    let raw = [("tenant", "acme"), ("traceparent", TRACE), ("key", "order 42 \"é\"")];
    let content_type = ("content-type", "application/octet-stream");
    let mut found = fields(Profile::Raw, &delivery).await;
    assert_eq!(found.pop().unwrap().1, &delivery.message.payload[..]);
    let id = delivery.message.id.to_string();
    let id = [("posthaste-id", &*id)];
    assert_eq!(shown(&found), expected(&[&id[..], &raw[..], &[content_type]].concat()));

    let delivery = everything(&fresh("debezium"));
    let id = delivery.message.id.to_string();
    let mut found = fields(Profile::Debezium, &delivery).await;
    assert_eq!(found.pop().unwrap().1, &delivery.message.payload[..]);
    assert_eq!(shown(&found), expected(&[&[("id", &*id)], &raw[..], &[content_type]].concat()));
}

#[tokio::test]
async fn headers_that_are_fields_of_ours_are_refused() {
    let url = server(Kind::Redis).url();
    let broker = RedisBroker::open(Config::new(url)).unwrap();
    let topic = fresh("reserved");
    for name in ["data", "Content-Type", "key", "ce_id", "CE_anything"] {
        let message = Message::from_bytes(&*topic, None, "x").header(name, "secret");
        let outcome = broker.publish(&[delivery(1, message)], DEADLINE).await.remove(0);
        common::assert_rejected(&outcome, "header");
    }
}

#[tokio::test]
async fn length_is_kept_near_its_limit_and_databases_apart() {
    let url = format!("{}/3", server(Kind::Redis).url());
    let config = Config { max_length: Some(100), ..Config::new(&*url) };
    let broker = RedisBroker::open(config).unwrap();
    let topic = fresh("short");
    for _ in 0..4 {
        let calls: Vec<_> = (0..250).map(|seq| common::message(&topic, None, seq)).collect();
        let outcomes = broker.publish(&calls, DEADLINE).await;
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Acked));
    }
    let length = cli(&url, &["XLEN", &topic]);
    let length: u32 = length.trim().trim_start_matches("(integer) ").parse().unwrap();
    assert!((100..400).contains(&length), "{length} of 1000 are left");
    let elsewhere = cli(server(Kind::Redis).url(), &["EXISTS", &topic]);
    assert_eq!(elsewhere.trim(), "(integer) 0");
}
