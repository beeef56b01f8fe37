//! What `mosquitto_sub`, which shares no code with us, makes of our messages.

mod support;

use std::{
    process::{Child, Command, Stdio},
    str::FromStr,
    time::Duration,
};

use posthaste_broker_mqtt::{Config, MqttBroker};
use posthaste_core::{Message, Outcome};
use posthaste_fixtures::{Kind, server};
use posthaste_wire::{Destination, Profile, Wire};
use support::{address, kind, publish, topic};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What `mosquitto_sub` printed.
#[derive(Debug)]
struct Seen {
    topic: String,
    qos: String,
    content_type: String,
    correlation: String,
    payload: Vec<u8>,
    properties: String,
}

fn mosquitto_sub(topic: &str) -> Child {
    let (host, port) =
        address(server(Kind::Mosquitto).url()).split_once(':').expect("host and port");
    Command::new("mosquitto_sub")
        .args(["-h", host, "-p", port, "-V", "5", "-q", "1", "-C", "1", "-W", "60", "-t", topic])
        .args(["-F", r"%t\n%q\n%C\n%D\n%x\n%P"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("mosquitto_sub (Debian: apt install mosquitto-clients)")
}

/// Publishes once somebody subscribes: until then the server has nobody to give it to.
async fn see(wire: Wire, message: Message, subscribe_to: &str) -> Seen {
    let subscriber = mosquitto_sub(subscribe_to);
    let config = Config { wire, ..Config::new(server(Kind::Mosquitto).url()) };
    let broker = MqttBroker::open(config).expect("a valid configuration");
    let sent = async {
        loop {
            match publish(&broker, message.clone()).await {
                Outcome::Acked => break,
                outcome => assert_eq!(kind(&outcome), ("rejected", "unroutable"), "{outcome:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), sent).await.expect("mosquitto_sub subscribes");
    let output = tokio::task::spawn_blocking(|| subscriber.wait_with_output());
    let output = output.await.expect("no panic").expect("mosquitto_sub ends");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    let [topic, qos, content_type, correlation, payload, properties] = lines[..] else {
        panic!("six lines: {text}")
    };
    let hex = |at: usize| u8::from_str_radix(&payload[at..at + 2], 16).expect("hexadecimal");
    Seen {
        topic: topic.to_owned(),
        qos: qos.to_owned(),
        content_type: content_type.to_owned(),
        correlation: correlation.to_owned(),
        payload: (0..payload.len()).step_by(2).map(hex).collect(),
        properties: properties.to_owned(),
    }
}

fn wire(profile: Profile) -> Wire {
    Wire { profile, source: "/shop/orders".to_owned(), destination: Destination::default() }
}

fn message(topic: &str) -> Message {
    let bytes: Vec<u8> = (0..=255).collect();
    Message::from_bytes(topic, Some("order-42"), bytes)
        .event_type("OrderPlaced")
        .content_type("application/x-thing")
        .header("tenant", "acme ü")
        .header("traceparent", TRACE)
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_mode_has_every_attribute_as_a_user_property() {
    let message = message(&topic());
    let seen = see(wire(Profile::Binary), message.clone(), &message.topic).await;
    assert_eq!(seen.topic, message.topic);
    assert_eq!(seen.qos, "1");
    assert_eq!(seen.content_type, "application/x-thing");
    assert_eq!(seen.correlation, format!("urn:uuid:{}", message.id));
    assert_eq!(seen.payload, message.payload);
    let expected = format!(
        "specversion:1.0 id:{} source:/shop/orders type:OrderPlaced subject:order-42 \
         partitionkey:order-42 time:2023-11-14T22:13:20.000000Z sequence:00000000000000000007 \
         tenant:acme ü traceparent:{TRACE}",
        message.id
    );
    assert_eq!(seen.properties.split_whitespace().collect::<Vec<_>>().join(" "), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn structured_mode_is_one_object() {
    let message = message(&topic());
    let seen = see(wire(Profile::Structured), message.clone(), &message.topic).await;
    assert_eq!(seen.content_type, "application/cloudevents+json; charset=UTF-8");
    assert_eq!(seen.correlation, format!("urn:uuid:{}", message.id));
    let event: serde_json::Value = serde_json::from_slice(&seen.payload).unwrap();
    assert_eq!(event["id"], message.id.to_string());
    assert_eq!(event["type"], "OrderPlaced");
    assert_eq!(event["subject"], "order-42");
    assert_eq!(event["datacontenttype"], "application/x-thing");
    assert!(event["data_base64"].as_str().unwrap().starts_with("AAECAwQF"));
    assert!(seen.properties.contains(&format!("traceparent:{TRACE}")), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_raw_profile_adds_no_property_of_its_own() {
    let message = message(&topic());
    let seen = see(wire(Profile::Raw), message.clone(), &message.topic).await;
    assert_eq!(seen.payload, message.payload);
    assert_eq!(seen.correlation, format!("urn:uuid:{}", message.id));
    let properties = seen.properties.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(properties, format!("tenant:acme ü traceparent:{TRACE}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_debezium_profile_has_the_id_as_a_header() {
    let message = message(&topic());
    let destination = Destination::from_str("outbox.event/{topic}").unwrap();
    let wire = Wire { destination, ..wire(Profile::Debezium) };
    let seen = see(wire, message.clone(), &format!("outbox.event/{}", message.topic)).await;
    assert_eq!(seen.topic, format!("outbox.event/{}", message.topic));
    assert_eq!(seen.payload, message.payload);
    assert_eq!(seen.correlation, format!("urn:uuid:{}", message.id));
    let properties = seen.properties.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(properties, format!("id:{} tenant:acme ü traceparent:{TRACE}", message.id));
}
