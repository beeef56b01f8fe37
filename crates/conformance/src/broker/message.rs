//! Messages: every part of one arrives as it was sent.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use posthaste_core::{BrokerError, Delivery, Incoming, Message};
use posthaste_wire::Wire;

use super::{
    case::cases,
    driver::deliver,
    kit::{Kit, subscription},
};

cases! { "message";
    []: [
        payloads_arrive_byte_by_byte,
        payload_of_a_megabyte_arrives,
    ],
    [WireForm]: [
        every_part_arrives,
        missing_parts_stay_missing,
        odd_keys_and_types_arrive_as_they_are,
        content_types_arrive_as_they_are,
        hundreds_of_random_ones_arrive_as_they_are,
    ],
}

pub(super) const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A message with all its parts.
pub(super) fn full(topic: &str, key: &str) -> Message {
    Message::from_bytes(topic, Some(key), "{\"total\":42}")
        .event_type("OrderPlaced")
        .header("x-tenant", "acme")
        .header("traceparent", TRACEPARENT)
        .header("tracestate", "vendor=a:b,other=1")
        .header("x-about", "two words; and = some, marks")
        .content_type("application/vnd.acme.order+json; charset=utf-8")
}

/// Headers in an order of their own: brokers need not keep any.
pub(super) fn headers_of(message: &Message) -> Vec<(String, String)> {
    let mut headers = message.headers.clone();
    headers.sort_unstable();
    headers
}

/// Checks what every wire form carries: payload, content type and headers.
pub(super) fn check_body(incoming: &Incoming, delivery: &Delivery) {
    let (arrived, sent) = (&incoming.message, &delivery.message);
    assert_eq!(arrived.topic, sent.topic, "topic of {}", sent.id);
    assert_eq!(arrived.content_type, sent.content_type, "content type of {}", sent.id);
    assert_eq!(headers_of(arrived), headers_of(sent), "headers of {}", sent.id);
    let first_other = arrived.payload.iter().zip(&sent.payload).position(|(a, b)| a != b);
    assert!(
        arrived.payload == sent.payload,
        "payload of {}: {} bytes sent, {} arrived, the first other at {first_other:?}",
        sent.id,
        sent.payload.len(),
        arrived.payload.len(),
    );
}

/// Checks that everything arrived as CloudEvents carry it.
pub(super) fn check_event(incoming: &Incoming, delivery: &Delivery, source: &str) {
    check_body(incoming, delivery);
    let (arrived, sent) = (&incoming.message, &delivery.message);
    assert_eq!(arrived.id, sent.id, "the id is that of the outbox");
    assert_eq!(arrived.key, sent.key, "key of {}", sent.id);
    // Every event has a type; that of a message without one is its topic.
    let event_type = sent.event_type.as_deref().unwrap_or(&sent.topic);
    assert_eq!(arrived.event_type.as_deref(), Some(event_type), "type of {}", sent.id);
    let provenance = &incoming.provenance;
    assert_eq!(provenance.source.as_deref(), Some(source), "source of {}", sent.id);
    assert_eq!(provenance.seq, Some(delivery.seq), "seq of {}", sent.id);
    assert_eq!(provenance.enqueued_at, Some(delivery.enqueued_at), "time of {}", sent.id);
    assert_eq!(provenance.redriven, delivery.redriven, "times {} was redriven", sent.id);
    assert_eq!(provenance.floor.as_ref(), delivery.floor.as_deref(), "floor of {}", sent.id);
}

/// Publishes them as a relay does and checks that each arrives once, by `check`.
async fn round_trip(
    kit: &Kit,
    wire: Wire,
    messages: impl FnOnce(&str) -> Vec<Delivery>,
    check: impl Fn(&Incoming, &Delivery),
) {
    let topic = kit.topic().await;
    let broker = kit.bed.broker(wire.clone()).await;
    let inbox = kit.inbox_of(wire, subscription(None, &[&topic])).await;
    let messages: Vec<_> = messages(&topic).into_iter().map(Arc::new).collect();
    deliver(&broker, &messages).await;
    inbox.until_has("every message", &messages).await;
    let mut arrived = inbox.all();
    assert_eq!(arrived.len(), messages.len(), "each arrives once");
    for delivery in &messages {
        let is_it = |incoming: &Incoming| incoming.message.id == delivery.message.id;
        let at = arrived.iter().position(is_it).expect("each has arrived");
        check(&arrived.swap_remove(at), delivery);
    }
}

fn plain(kit: &Kit, message: Message) -> Delivery {
    Delivery::clone(&kit.delivery(message))
}

async fn payloads_arrive_byte_by_byte(kit: Kit) -> Result<(), BrokerError> {
    let payloads: [&[u8]; 9] = [
        b"",
        b"\0",
        b"text, then \0 and more",
        b"\xff\xfe\x80 not UTF-8 \xc3",
        b"\r\n.\r\n",
        b" {\"white\": \"space\"} \n",
        b"null",
        b"{\"id\":1e400,\"n\":1.10,\"n\":2}",
        "\u{feff}Gr\u{fc}\u{df}e".as_bytes(),
    ];
    let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    let payloads = payloads.iter().map(|payload| payload.to_vec()).chain([bytes]);
    let messages = |topic: &str| {
        let of = |(n, payload)| Message::from_bytes(topic, Some(&format!("key-{n}")), payload);
        payloads.enumerate().map(|it| plain(&kit, of(it))).collect()
    };
    round_trip(&kit, Wire::default(), messages, check_body).await;
    Ok(())
}

async fn payload_of_a_megabyte_arrives(kit: Kit) -> Result<(), BrokerError> {
    let mut random = fastrand::Rng::with_seed(1);
    let payload: Bytes = std::iter::repeat_with(|| random.u8(..)).take(1_000_000).collect();
    let messages = |topic: &str| {
        let of = |n: usize| Message::from_bytes(topic, Some(&format!("{n}")), payload.clone());
        (0..3).map(|n| plain(&kit, of(n).content_type("application/octet-stream"))).collect()
    };
    round_trip(&kit, Wire::default(), messages, check_body).await;
    Ok(())
}

async fn every_part_arrives(kit: Kit) -> Result<(), BrokerError> {
    let wire = Wire { source: "/shop/orders?a=b".to_owned(), ..Wire::default() };
    let messages = |topic: &str| {
        let first = Delivery { redriven: 3, ..plain(&kit, full(topic, "order-1")) };
        let mut turned = full(topic, "order-2");
        turned.headers.reverse();
        let later = first.enqueued_at + Duration::from_micros(86_400_000_001);
        let seq = 9_007_199_254_740_993;
        vec![first, Delivery { seq, enqueued_at: later, ..plain(&kit, turned) }]
    };
    let check = |incoming: &Incoming, delivery: &Delivery| {
        check_event(incoming, delivery, "/shop/orders?a=b");
    };
    round_trip(&kit, wire, messages, check).await;
    Ok(())
}

fn check_default(incoming: &Incoming, delivery: &Delivery) {
    check_event(incoming, delivery, &Wire::default().source);
}

async fn missing_parts_stay_missing(kit: Kit) -> Result<(), BrokerError> {
    let messages = |topic: &str| {
        let bare = || Message::from_bytes(topic, None, "");
        vec![plain(&kit, bare()), plain(&kit, bare().event_type("Only"))]
    };
    round_trip(&kit, Wire::default(), messages, check_default).await;
    Ok(())
}

async fn odd_keys_and_types_arrive_as_they_are(kit: Kit) -> Result<(), BrokerError> {
    let long = "k".repeat(1024);
    let odd = ["Grüße/世界 🚚", "a b", "100%25", "#/+*>.", "\"quoted\\\"", "a:b, c;d=e", &long];
    let messages = |topic: &str| {
        let mut all = Vec::new();
        for text in odd {
            let short = &text[..text.len().min(255)];
            let keyed = Message::from_bytes(topic, Some(text), "1").event_type(short);
            all.push(plain(&kit, keyed));
        }
        all
    };
    round_trip(&kit, Wire::default(), messages, check_default).await;
    Ok(())
}

async fn content_types_arrive_as_they_are(kit: Kit) -> Result<(), BrokerError> {
    let types = [
        "application/octet-stream",
        "text/plain; charset=\"utf-8\"",
        "application/vnd.acme.order+json;version=2",
        "Application/JSON",
        "application/cloudevents-batch+json",
        "avro/binary",
    ];
    let messages = |topic: &str| {
        let of = |t: &str| Message::from_bytes(topic, Some(t), "{}").content_type(t);
        types.iter().map(|content_type| plain(&kit, of(content_type))).collect()
    };
    round_trip(&kit, Wire::default(), messages, check_default).await;
    Ok(())
}

async fn hundreds_of_random_ones_arrive_as_they_are(kit: Kit) -> Result<(), BrokerError> {
    let mut random = fastrand::Rng::with_seed(0x0905_7a57);
    let messages = |topic: &str| (0..300).map(|_| random_delivery(&mut random, topic)).collect();
    round_trip(&kit, Wire::default(), messages, check_default).await;
    Ok(())
}

/// Any message that every broker must take.
fn random_delivery(random: &mut fastrand::Rng, topic: &str) -> Delivery {
    let key = random.bool().then(|| random_text(random, 1..40));
    let size = [0, 1, 100, 10_000][random.usize(..4)];
    let payload: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(size).collect();
    let mut message = Message::from_bytes(topic, key.as_deref(), payload);
    if random.bool() {
        message.event_type = Some(random_text(random, 1..20));
    }
    for n in 0..random.usize(..6) {
        let name: String = (0..random.usize(1..12)).map(|_| random.lowercase()).collect();
        let value: String = (0..random.usize(1..50)).map(|_| random.char('!'..='~')).collect();
        message = message.header(format!("x-{name}-{n}"), value);
    }
    if random.bool() {
        message = message.content_type("application/octet-stream");
    }
    Delivery {
        seq: random.i64(1..),
        message,
        enqueued_at: std::time::UNIX_EPOCH
            + Duration::from_micros(random.u64(..4_000_000_000_000_000)),
        attempt: random.u32(1..5),
        redriven: random.u32(..3),
        floor: None,
    }
}

/// Text of letters from everywhere, with spaces inside.
fn random_text(random: &mut fastrand::Rng, length: std::ops::Range<usize>) -> String {
    const LETTERS: &[char] = &['a', 'Z', '0', '-', '.', '_', '%', '"', '\\', 'é', 'ß', '世', '🚚'];
    let mut text: String = (0..random.usize(length))
        .map(|_| random.choice(LETTERS))
        .map(|letter| *letter.expect("there are letters"))
        .collect();
    if random.bool() {
        text.push_str(" x");
    }
    text
}
