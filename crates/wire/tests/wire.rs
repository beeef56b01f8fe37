//! The wire form as others see it, and back.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use futures::FutureExt;
use posthaste_core::{Delivery, Failure, Floor, Message, Outcome, Shard};
use posthaste_wire::{
    Call, Names, Outgoing, Part, PerKey, Profile, Received, STRUCTURED_CONTENT_TYPE, Sender, Style,
    Wire,
};
use proptest::prelude::*;

const STYLES: [Style; 4] = [Style::Underscore, Style::Dash, Style::Amqp, Style::Plain];
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn names(style: Style) -> Names {
    Names { style, reserved: &["content-type"], reserved_prefixes: &[] }
}

fn delivery(message: Message) -> Delivery {
    let enqueued_at = UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
    Delivery { seq: 42, message, enqueued_at, attempt: 1, redriven: 0, floor: None }
}

fn placed() -> Message {
    let mut message = Message::from_bytes("orders", Some("c-7"), r#"{"total": 1.50}"#)
        .event_type("OrderPlaced")
        .header("tenant", "acme")
        .header("traceparent", TRACE);
    message.id = "0190d8a4-7b1c-7000-8000-000000000001".parse().expect("an id");
    message
}

fn wire(profile: Profile) -> Wire {
    Wire { profile, source: "/shop".to_owned(), ..Wire::default() }
}

fn headers(outgoing: &Outgoing<'_>) -> Vec<String> {
    outgoing.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

/// What a broker that loses nothing hands to a consumer.
fn received(outgoing: &Outgoing<'_>) -> Received {
    let headers = outgoing.headers.iter();
    Received {
        destination: outgoing.destination.to_string(),
        headers: headers.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        content_type: Some(outgoing.content_type.to_owned()),
        body: outgoing.body.clone(),
        coordinates: "place/1".to_owned(),
        ..Received::default()
    }
}

#[test]
fn binary_mode_has_every_attribute_in_the_spelling_of_the_broker() {
    let (wire, delivery) = (wire(Profile::Binary), delivery(placed()));
    let outgoing = wire.encode(&delivery, &names(Style::Underscore)).unwrap();
    assert_eq!(
        headers(&outgoing),
        [
            "ce_specversion: 1.0",
            "ce_id: 0190d8a4-7b1c-7000-8000-000000000001",
            "ce_source: /shop",
            "ce_type: OrderPlaced",
            "ce_subject: c-7",
            "ce_partitionkey: c-7",
            "ce_time: 2023-11-14T22:13:20.123456Z",
            "ce_sequence: 00000000000000000042",
            &format!("ce_traceparent: {TRACE}"),
            "tenant: acme",
            &format!("traceparent: {TRACE}"),
        ]
    );
    assert_eq!(outgoing.body, delivery.message.payload);
    assert_eq!(outgoing.content_type, "application/json");
    let plain = wire.encode(&delivery, &names(Style::Plain)).unwrap();
    let traces = plain.headers.iter().filter(|(name, _)| name == "traceparent");
    assert_eq!(traces.count(), 1, "where attributes have no prefix, one name is enough");
}

#[test]
fn structured_mode_is_one_object_and_keeps_json_byte_by_byte() {
    let (wire, delivery) = (wire(Profile::Structured), delivery(placed()));
    let outgoing = wire.encode(&delivery, &names(Style::Dash)).unwrap();
    assert_eq!(outgoing.content_type, STRUCTURED_CONTENT_TYPE);
    let text = std::str::from_utf8(&outgoing.body).unwrap();
    assert!(
        text.ends_with(r#""datacontenttype":"application/json","data":{"total": 1.50}}"#),
        "{text}"
    );
    let object: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(object["id"], "0190d8a4-7b1c-7000-8000-000000000001");
    assert_eq!(object["sequence"], "00000000000000000042");
    assert_eq!(object["traceparent"], TRACE);
}

#[test]
fn structured_mode_carries_what_is_not_json_as_base64() {
    let wire = wire(Profile::Structured);
    for payload in [&b"\x00\xff"[..], b"{not json", b" {} ", b""] {
        let delivery = delivery(Message::from_bytes("t", None, payload.to_vec()));
        let outgoing = wire.encode(&delivery, &names(Style::Dash)).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&outgoing.body).unwrap();
        assert!(object.get("data").is_none() && object.get("data_base64").is_some(), "{object}");
        let (message, _) = wire.decode(received(&outgoing), &names(Style::Dash));
        assert_eq!(message.payload, payload);
    }
}

#[test]
fn raw_and_debezium_are_the_payload_and_little_else() {
    let delivery = delivery(placed());
    let raw = wire(Profile::Raw);
    let outgoing = raw.encode(&delivery, &names(Style::Underscore)).unwrap();
    let (id, trace) =
        (format!("posthaste-id: {}", delivery.message.id), format!("traceparent: {TRACE}"));
    assert_eq!(headers(&outgoing), [&*id, "tenant: acme", &*trace]);
    assert_eq!(outgoing.body, delivery.message.payload);
    let (message, _) = raw.decode(received(&outgoing), &names(Style::Underscore));
    assert_eq!((message.id, &message.headers), (delivery.message.id, &delivery.message.headers));
    for style in [Style::Dash, Style::Amqp, Style::Plain] {
        let outgoing = raw.encode(&delivery, &names(style)).unwrap();
        assert_eq!(
            headers(&outgoing),
            ["tenant: acme", &*trace],
            "{style:?} has a place for the id"
        );
    }
    let debezium = wire(Profile::Debezium);
    let outgoing = debezium.encode(&delivery, &names(Style::Underscore)).unwrap();
    assert_eq!(headers(&outgoing)[0], "id: 0190d8a4-7b1c-7000-8000-000000000001");
    let (message, _) = debezium.decode(received(&outgoing), &names(Style::Underscore));
    assert_eq!(message.id, delivery.message.id);
    assert_eq!(message.headers, delivery.message.headers);
}

#[test]
fn a_floor_travels_in_every_form_of_an_event() {
    let floor = |seq, missing| {
        let shard = Shard { index: 1, of: 3 };
        Some(Arc::new(Floor { log: uuid::Uuid::from_u128(7), shard, seq, missing }))
    };
    for floor in [floor(0, vec![]), floor(41, vec![]), floor(41, vec![3, 40]), None] {
        let sent = Delivery { floor: floor.clone(), ..delivery(placed()) };
        for (profile, style) in [Profile::Binary, Profile::Structured]
            .into_iter()
            .flat_map(|profile| STYLES.map(|style| (profile, style)))
        {
            let wire = wire(profile);
            // Twice: the second time its text is known.
            for _ in 0..2 {
                let outgoing = wire.encode(&sent, &names(style)).unwrap();
                let (_, provenance) = wire.decode(received(&outgoing), &names(style));
                assert_eq!(provenance.floor.as_ref(), floor.as_deref(), "{profile:?} {style:?}");
            }
        }
    }
    let sent = Delivery { floor: floor(41, vec![3, 40]), ..delivery(placed()) };
    let binary = wire(Profile::Binary);
    let outgoing = binary.encode(&sent, &names(Style::Dash)).unwrap();
    let expected = "ce-posthastefloor: 00000000000000000000000000000007/1of3/41/3,40";
    assert!(headers(&outgoing).contains(&expected.to_owned()), "{:?}", headers(&outgoing));
    for profile in [Profile::Raw, Profile::Debezium] {
        let wire = wire(profile);
        let outgoing = wire.encode(&sent, &names(Style::Dash)).unwrap();
        assert!(!headers(&outgoing).concat().contains("floor"), "{profile:?}");
    }
}

#[test]
fn a_floor_of_another_sender_that_makes_no_sense_is_none() {
    let (wire, sent) = (wire(Profile::Binary), delivery(placed()));
    for nonsense in ["", "yes", "7/0of1/5", "00000000000000000000000000000007/0of1/5/9"] {
        let outgoing = wire.encode(&sent, &names(Style::Amqp)).unwrap();
        let mut received = received(&outgoing);
        received.headers.push(("cloudEvents_posthastefloor".to_owned(), nonsense.to_owned()));
        let (message, provenance) = wire.decode(received, &names(Style::Amqp));
        assert_eq!((provenance.floor, provenance.seq), (None, Some(42)));
        assert_eq!(message, sent.message, "the rest is as ever");
    }
}

#[test]
fn a_redriven_message_says_so() {
    let wire = wire(Profile::Binary);
    let again = Delivery { redriven: 2, ..delivery(placed()) };
    let outgoing = wire.encode(&again, &names(Style::Amqp)).unwrap();
    assert!(headers(&outgoing).contains(&"cloudEvents_redriven: 2".to_owned()));
    let (_, provenance) = wire.decode(received(&outgoing), &names(Style::Amqp));
    assert_eq!(provenance.redriven, 2);
}

#[test]
fn a_header_that_would_lie_is_refused_by_name() {
    let wire = wire(Profile::Binary);
    for name in ["ce_id", "CE_Type", "Content-Type"] {
        let delivery = delivery(Message::from_bytes("t", None, "").header(name, "x"));
        let failure = wire.encode(&delivery, &names(Style::Underscore)).unwrap_err();
        assert_eq!(failure.class, "header");
        assert!(failure.detail.contains(name), "{failure}");
    }
}

#[test]
fn what_others_send_becomes_a_message_with_an_id_that_stays() {
    let wire = wire(Profile::Binary);
    let foreign = |id: Option<&str>, coordinates: &str| {
        let mut headers = vec![("x".to_owned(), "y".to_owned())];
        headers.extend(id.map(|id| ("ce_id".to_owned(), id.to_owned())));
        let received = Received {
            destination: "orders".to_owned(),
            headers,
            body: Bytes::from_static(b"hello"),
            coordinates: coordinates.to_owned(),
            ..Received::default()
        };
        wire.decode(received, &names(Style::Underscore)).0
    };
    assert_eq!(foreign(Some("A-17"), "1").id, foreign(Some("A-17"), "2").id, "the id decides");
    assert_eq!(foreign(None, "1").id, foreign(None, "1").id, "the same place is the same message");
    assert_ne!(foreign(None, "1").id, foreign(None, "2").id);
    let message = foreign(None, "1");
    assert_eq!(message.content_type, "application/octet-stream");
    assert_eq!((message.key, message.event_type), (None, None));
    assert_eq!(message.headers, [("x".to_owned(), "y".to_owned())]);
}

#[test]
fn a_payload_that_is_an_event_itself_is_not_unpacked() {
    let payload = r#"{"specversion":"1.0","id":"inner","source":"/x","type":"x","data":{"a":1}}"#;
    let message =
        Message::from_bytes("t", None, payload).content_type("application/cloudevents+json");
    let delivery = delivery(message);
    for profile in [Profile::Binary, Profile::Structured, Profile::Raw, Profile::Debezium] {
        let wire = wire(profile);
        let outgoing = wire.encode(&delivery, &names(Style::Dash)).unwrap();
        let (back, _) = wire.decode(received(&outgoing), &names(Style::Dash));
        assert_eq!(back.payload, payload, "{profile:?}");
        assert_eq!(back.content_type, "application/cloudevents+json", "{profile:?}");
    }
}

#[test]
fn events_of_others_are_understood() {
    let body = r#"{"specversion":"1.0","id":"7","source":"/x","type":"t","datacontenttype":"text/plain",
        "data":"hi","tenant":"acme","traceparent":"00-a-b-01"}"#;
    let received = Received {
        content_type: Some("application/cloudevents+json".to_owned()),
        headers: vec![("traceparent".to_owned(), "00-a-b-01".to_owned())],
        body: Bytes::from_static(body.as_bytes()),
        ..Received::default()
    };
    let (message, provenance) = wire(Profile::Binary).decode(received, &names(Style::Dash));
    assert_eq!(message.payload, "hi");
    assert_eq!(message.content_type, "text/plain");
    assert_eq!(provenance.source.as_deref(), Some("/x"));
    let headers = message.headers.iter().map(|(name, value)| format!("{name}={value}"));
    assert_eq!(headers.collect::<Vec<_>>(), ["tenant=acme", "traceparent=00-a-b-01"]);
}

#[test]
fn a_trace_in_two_spellings_is_one_attribute() {
    let message = placed().header("TraceParent", "another");
    let (wire, delivery) = (wire(Profile::Binary), delivery(message));
    let outgoing = wire.encode(&delivery, &names(Style::Dash)).unwrap();
    let traces = outgoing.headers.iter().filter(|(name, _)| name == "ce-traceparent");
    assert_eq!(traces.count(), 1);
}

#[test]
fn times_that_cannot_be_written_are_left_out() {
    let wire = wire(Profile::Binary);
    let ages = [UNIX_EPOCH - Duration::from_secs(1), UNIX_EPOCH + Duration::from_secs(1 << 40)];
    for enqueued_at in ages {
        let delivery = Delivery { enqueued_at, ..delivery(placed()) };
        let outgoing = wire.encode(&delivery, &names(Style::Dash)).unwrap();
        assert!(outgoing.headers.iter().all(|(name, _)| name != "ce-time"));
    }
}

#[test]
fn an_object_that_only_claims_to_be_an_event_is_left_as_it_is() {
    let wire = wire(Profile::Binary);
    for body in ["", "[]", "{\"a\":1}", "{\"specversion\":\"1.0\",\"data_base64\":\"%\"}"] {
        let received = Received {
            content_type: Some("application/cloudevents+json".to_owned()),
            body: Bytes::from_static(body.as_bytes()),
            ..Received::default()
        };
        assert_eq!(wire.decode(received, &names(Style::Dash)).0.payload, body);
    }
}

fn any_message() -> impl Strategy<Value = Message> {
    let header = ("x-[a-z]{1,8}", "[^\\x00-\\x1f\\x7f]{0,20}");
    (
        "[a-z.]{1,20}",
        proptest::option::of("[^\\x00-\\x1f\\x7f]{1,20}"),
        proptest::option::of("[A-Za-z.]{1,10}"),
        proptest::collection::vec(any::<u8>(), 0..200),
        proptest::collection::btree_map(header.0, header.1, 0..5),
        prop_oneof!["application/json", "text/plain", "application/x-protobuf"],
    )
        .prop_map(|(topic, key, event_type, payload, headers, content_type)| Message {
            key,
            event_type,
            headers: headers.into_iter().collect(),
            content_type,
            ..Message::from_bytes(topic, None, payload)
        })
}

proptest! {
    #[test]
    fn what_goes_out_comes_back(message in any_message(), style in 0..4_usize, structured: bool) {
        let names = names(STYLES[style]);
        let wire = wire(if structured { Profile::Structured } else { Profile::Binary });
        let delivery = delivery(message.clone());
        let outgoing = wire.encode(&delivery, &names).unwrap();
        let (back, provenance) = wire.decode(received(&outgoing), &names);
        let event_type = message.event_type.clone().or(Some(message.topic.clone()));
        prop_assert_eq!(back, Message { event_type, ..message });
        prop_assert_eq!(provenance.seq, Some(42));
        prop_assert_eq!(provenance.enqueued_at, Some(delivery.enqueued_at));
        prop_assert_eq!(provenance.source.as_deref(), Some("/shop"));
    }
}

fn call_of(messages: &[(&str, &str)]) -> Vec<Arc<Delivery>> {
    let message = |&(topic, key): &(&str, &str)| {
        Message::from_bytes(topic, Some(key).filter(|key| !key.is_empty()), "")
    };
    messages.iter().map(|pair| Arc::new(delivery(message(pair)))).collect()
}

/// The topics and keys of the parts, each answered by `answer`.
fn parts(
    per_key: PerKey,
    messages: &[Arc<Delivery>],
    answer: impl Fn(&Message) -> Outcome + Send,
) -> (Vec<Vec<String>>, Vec<Outcome>) {
    let wire = Wire::default();
    let check = |delivery: &Delivery, _: &Outgoing<'_>| match &*delivery.message.topic {
        "illegal" => Err(Failure::new("topic", "illegal")),
        _ => Ok(()),
    };
    let mut sent = Vec::new();
    let outcomes = Call::checked(&wire, &names(Style::Dash), per_key, messages, check)
        .run(Answering { answer, sent: &mut sent })
        .now_or_never()
        .expect("waits for nobody");
    (sent, outcomes)
}

/// Writes down what it is to send, and answers.
struct Answering<'a, F> {
    answer: F,
    sent: &'a mut Vec<Vec<String>>,
}

impl<A, F> Sender for Answering<'_, F>
where
    A: Into<Option<Outcome>> + Send,
    F: Fn(&Message) -> A + Send,
{
    type Answer = A;

    async fn send(&mut self, round: &mut [&mut Part<'_>]) -> Vec<A> {
        let name = |message: &Message| {
            format!("{}{}", message.key.as_deref().unwrap_or("-"), message.topic)
        };
        self.sent.push(round.iter().map(|part| name(&part.delivery.message)).collect());
        round.iter().map(|part| (self.answer)(&part.delivery.message)).collect()
    }
}

#[test]
fn a_key_goes_to_one_destination_at_a_time() {
    let messages =
        call_of(&[("1", "a"), ("1", "a"), ("2", "a"), ("1", "a"), ("1", "b"), ("1", "")]);
    let (sent, outcomes) = parts(PerKey::SameDestination, &messages, |_| Outcome::Acked);
    assert_eq!(sent, [vec!["a1", "a1", "b1", "-1"], vec!["a2"], vec!["a1"]]);
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Acked));
    let (sent, _) = parts(PerKey::One, &messages, |_| Outcome::Acked);
    assert_eq!(sent, [vec!["a1", "b1", "-1"], vec!["a1"], vec!["a2"], vec!["a1"]]);
}

#[test]
fn nothing_follows_a_failure_of_its_key() {
    let messages = call_of(&[("1", "a"), ("2", "a"), ("1", "a"), ("1", "b"), ("2", "b")]);
    let refuse = |message: &Message| match &*message.topic {
        "2" => Outcome::Rejected(Failure::new("no", "no")),
        _ => Outcome::Acked,
    };
    let (sent, outcomes) = parts(PerKey::SameDestination, &messages, refuse);
    assert_eq!(sent, [vec!["a1", "b1"], vec!["a2", "b2"]]);
    assert!(matches!(&outcomes[1], Outcome::Rejected(_)));
    assert!(matches!(&outcomes[2], Outcome::Unreachable(held) if held.class == "held"));
    assert_eq!((&outcomes[0], &outcomes[3]), (&Outcome::Acked, &Outcome::Acked));
}

#[test]
fn what_cannot_be_sent_is_rejected_alone_and_holds_back_its_key() {
    let messages =
        call_of(&[("1", "a"), ("illegal", "a"), ("1", "a"), ("1", "b"), ("illegal", "")]);
    let (sent, outcomes) = parts(PerKey::SameDestination, &messages, |_| Outcome::Acked);
    assert_eq!(sent, [vec!["a1", "b1"]]);
    assert!(matches!(&outcomes[1], Outcome::Rejected(refused) if refused.class == "topic"));
    assert!(matches!(&outcomes[2], Outcome::Unreachable(held) if held.class == "held"));
    assert!(matches!(&outcomes[4], Outcome::Rejected(_)));
    assert_eq!((&outcomes[0], &outcomes[3]), (&Outcome::Acked, &Outcome::Acked));
}

/// Sends so many of each round, and leaves the others.
struct Few(usize);

impl Sender for Few {
    type Answer = Option<Outcome>;

    async fn send(&mut self, round: &mut [&mut Part<'_>]) -> Vec<Option<Outcome>> {
        let answer = |part: &Part<'_>| match &*part.delivery.message.topic {
            "2" => Outcome::Rejected(Failure::new("no", "no")),
            _ => Outcome::Acked,
        };
        let sent = round.iter().take(self.0).map(|part| Some(answer(part)));
        let left = round.iter().skip(self.0).map(|_| None);
        sent.chain(left).collect()
    }
}

fn classes(sender: impl Sender, messages: &[Arc<Delivery>]) -> Vec<String> {
    let wire = Wire::default();
    let call = Call::new(&wire, &names(Style::Dash), PerKey::SameDestination, messages);
    let outcomes = call.run(sender).now_or_never().expect("waits for nobody");
    let class = |outcome: &Outcome| match outcome {
        Outcome::Acked => "acked".to_owned(),
        Outcome::Rejected(failure) => format!("rejected {}", failure.class),
        Outcome::Unreachable(failure) => format!("unreachable {}", failure.class),
        Outcome::Unknown(failure) => format!("unknown {}", failure.class),
    };
    outcomes.iter().map(class).collect()
}

#[test]
fn a_message_that_was_left_comes_again_unless_its_key_failed() {
    let messages = call_of(&[("1", "a"), ("1", ""), ("2", "b"), ("2", "b"), ("1", "a")]);
    for few in [1, 3] {
        let found = classes(Few(few), &messages);
        let expected = ["acked", "acked", "rejected no", "unreachable held", "acked"];
        assert_eq!(found, expected, "{few} at a time");
    }
}

#[test]
fn an_adapter_that_never_sends_is_not_asked_for_ever() {
    let messages = call_of(&[("1", "a"), ("1", "a"), ("1", "")]);
    assert_eq!(classes(Few(0), &messages), ["unreachable adapter"; 3]);
}

/// Answers for nothing.
struct Silent;

impl Sender for Silent {
    type Answer = Outcome;

    async fn send(&mut self, _: &mut [&mut Part<'_>]) -> Vec<Outcome> {
        Vec::new()
    }
}

#[test]
fn a_message_without_an_answer_is_unknown() {
    let messages = call_of(&[("1", "a"), ("1", "")]);
    assert_eq!(classes(Silent, &messages), ["unknown adapter"; 2]);
}
