//! The program on real brokers: `doctor`, `verify` and `listen` with each of them.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use posthaste_fixtures::{Kind, Options, Port, Server, server};
use support::Bundle;

/// With a route for one topic: others of the same servers are for other tests.
fn bundle(broker: &str, topic: &str) -> Bundle {
    let config = format!(
        r#"
[store]
url = "sqlite:outbox.db"

[relay]
poll = "20ms"

[http]
listen = "off"

[[broker]]
name = "bus"
{broker}

[[route]]
name = "all"
topics = ["{topic}"]
"#
    );
    let bundle = Bundle::new(&config);
    bundle.run(&["migrate"]).expect(0);
    bundle
}

/// A topic of its own, alike for every broker.
fn topic() -> String {
    format!("probe{}", posthaste_core::MessageId::fresh().0.simple())
}

/// Every probe arrives, in order.
fn verifies(t: &Bundle, topic: &str) {
    let verify = ["verify", "all", "--topic", topic, "--count", "300", "--json", "--as-receiver"];
    let verified = t.run(&verify).expect(0);
    let report: serde_json::Value = serde_json::from_str(&verified).unwrap();
    assert_eq!(report["received"], 300, "{report}");
    assert_eq!(report["lost"], 0, "{report}");
    assert_eq!(report["reordered"], 0, "{report}");
}

/// The same without anything but the payload.
fn verifies_raw(broker: &str, topic: &str) {
    verifies(&bundle(&format!("{broker}\nprofile = \"raw\""), topic), topic);
}

/// What a listener is to a broker.
#[derive(Clone, Copy, PartialEq)]
enum Listener {
    /// It changes nothing: messages are delivered with or without it.
    Onlooker,
    /// A message that only the listener gets is delivered, so somebody has to want that.
    Receiver,
}

/// Probes arrive; what is sent by hand is what a listener prints.
fn works(broker: &str, topic: &str, listener: Listener) {
    let t = bundle(broker, topic);
    verifies(&t, topic);

    let mut listen = vec!["listen", "all", "--json", "--count", "1"];
    if listener == Listener::Receiver {
        let refused = t.run(&listen);
        assert!(refused.err.contains("--as-receiver"), "{refused:#?}");
        refused.expect(2);
        t.run(&["verify", "all", "--topic", topic]).expect(2);
        listen.push("--as-receiver");
    }
    let listener = t.start(&listen);
    listener.wait_err("listening");
    let sent = ["send", "--topic", topic, "--key", "42", "--type", "Placed", "--header", "a=b"];
    let id = t.run(&[&sent[..], &["--payload", "{\"n\":1}"]].concat()).expect(0);
    t.run(&["relay", "--once"]).expect(0);
    let line = listener.wait_out(id.trim());
    let message: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(message["topic"], topic);
    assert_eq!(message["key"], "42");
    assert_eq!(message["type"], "Placed");
    assert_eq!(message["headers"]["a"], "b");
    assert_eq!(message["payload"], "{\"n\":1}");
    assert_eq!(listener.end(), 0);
}

/// `doctor` reaches the broker; what it says about it.
fn doctor(broker: &str, topic: &str) -> String {
    let ended = bundle(broker, topic).run(&["doctor"]);
    assert!(ended.out.contains("ok   broker  bus: can be used"), "{ended:#?}");
    ended.out
}

#[test]
fn rabbitmq() {
    let broker = format!("url = {:?}", server(Kind::RabbitMq).url());
    let topic = topic();
    works(&broker, &topic, Listener::Receiver);
    verifies_raw(&broker, &topic);
    assert!(doctor(&broker, &topic).contains("durable"));
}

/// With no queue bound, a message waits for one, whoever would like to listen; the queue gets it.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_never_takes_a_message_from_a_queue_that_is_bound_later() {
    let url = server(Kind::RabbitMq).url();
    let topic = topic();
    let t = bundle(&format!("url = {url:?}"), &topic);
    tokio::task::block_in_place(|| t.run(&["listen", "all"]).expect(2));
    let send = ["send", "--topic", &topic, "--payload", "{}"];
    let id = tokio::task::block_in_place(|| t.run(&send).expect(0));
    let relay = t.start(&["relay"]);
    relay.wait_err("message refused, parked");
    let wanted = posthaste_core::Subscription {
        name: Some(topic.clone()),
        topics: vec![topic.parse().unwrap()],
        start: posthaste_core::Start::New,
        sharing: posthaste_core::Sharing::Competing,
    };
    let config = posthaste_broker_rabbitmq::Config::new(url);
    let mut queue = posthaste_broker_rabbitmq::subscribe(&config, &wanted).await.unwrap();
    let incoming = posthaste_core::Subscriber::receive(&mut queue);
    let incoming = tokio::time::timeout(support::PATIENCE, incoming).await.unwrap().unwrap();
    assert_eq!(incoming.message.id.to_string(), id.trim());
    relay.signal("TERM");
    assert_eq!(tokio::task::block_in_place(|| relay.end()), 0);
}

#[test]
fn mqtt_listeners_are_onlookers_where_unmatched_messages_are_accepted() {
    let url = server(Kind::Mosquitto).url();
    works(&format!("url = {url:?}\nunmatched = \"accept\""), &topic(), Listener::Onlooker);
}

/// Acknowledging a message of a work queue removes it, so a listener would take it from its consumer.
#[tokio::test(flavor = "multi_thread")]
async fn nats_work_queues_are_not_listened_to() {
    // Of its own: those who listen to everything on a shared one would be refused.
    let private = tokio::task::block_in_place(|| Server::private(Kind::Nats, &Options::default()));
    let private = private.unwrap();
    let url = private.url();
    let topic = topic();
    let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
    let stream = async_nats::jetstream::stream::Config {
        name: topic.clone(),
        subjects: vec![topic.clone()],
        retention: async_nats::jetstream::stream::RetentionPolicy::WorkQueue,
        ..Default::default()
    };
    let mut stream = context.create_stream(stream).await.unwrap();
    let t = bundle(&format!("url = {url:?}"), &topic);
    tokio::task::block_in_place(|| {
        let refused = t.run(&["listen", "all", "--as-receiver"]);
        assert!(refused.err.contains("work queue"), "{refused:#?}");
        refused.expect(69);
        t.run(&["send", "--topic", &topic, "--payload", "{}"]).expect(0);
        t.run(&["relay", "--once"]).expect(0);
    });
    assert_eq!(stream.info().await.unwrap().state.messages, 1, "it waits for its consumer");
    assert_eq!(stream.info().await.unwrap().state.consumer_count, 0);
}

#[test]
fn redis() {
    let broker = format!("url = {:?}", server(Kind::Redis).url());
    let topic = topic();
    works(&broker, &topic, Listener::Onlooker);
    verifies_raw(&broker, &topic);
    assert!(doctor(&broker, &topic).contains("noeviction"));
}

#[test]
fn mqtt() {
    let broker = format!("url = {:?}", server(Kind::Mosquitto).url());
    let topic = topic();
    works(&broker, &topic, Listener::Receiver);
    verifies_raw(&broker, &topic);
    doctor(&broker, &topic);
}

#[tokio::test(flavor = "multi_thread")]
async fn nats() {
    let url = server(Kind::Nats).url();
    let topic = topic();
    let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
    let stream = async_nats::jetstream::stream::Config {
        name: topic.clone(),
        subjects: vec![topic.clone()],
        ..Default::default()
    };
    context.create_stream(stream).await.unwrap();
    let broker = format!("url = {url:?}\nstream = {topic:?}");
    tokio::task::block_in_place(|| {
        works(&broker, &topic, Listener::Onlooker);
        verifies_raw(&broker, &topic);
        doctor(&broker, &topic);
    });
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread")]
async fn kafka() {
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    let url = server(Kind::Kafka).url();
    let topic = topic();
    let servers = url.trim_start_matches("kafka://").trim_end_matches('/');
    let mut config = rdkafka::ClientConfig::new();
    let admin: AdminClient<_> = config.set("bootstrap.servers", servers).create().unwrap();
    let new = NewTopic::new(&topic, 3, TopicReplication::Fixed(1));
    admin.create_topics([&new], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
    let broker = format!("url = {url:?}");
    tokio::task::block_in_place(|| {
        works(&broker, &topic, Listener::Onlooker);
        verifies_raw(&broker, &topic);
        doctor(&broker, &topic);
    });
}

#[test]
fn webhooks_are_listened_to_at_their_own_address() {
    let held = Port::hold();
    let port = held.address().port();
    let broker = format!(
        "url = \"http://127.0.0.1:{port}/hook\"\nallow_private = true\n\
         secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]"
    );
    works(&broker, &topic(), Listener::Receiver);
}

#[test]
fn batches_over_tcp_are_listened_to_at_their_own_address() {
    let held = Port::hold();
    let port = held.address().port();
    let broker = format!("url = \"tcp://127.0.0.1:{port}\"\nframe_bytes_max = \"1MiB\"");
    let topic = topic();
    works(&broker, &topic, Listener::Receiver);
    let there = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    assert!(doctor(&broker, &topic).contains("accepts connections"));
    drop(there);
}

#[test]
fn a_broker_that_is_wrong_is_named_with_what_would_be_right() {
    let cases = [
        ("url = \"mqtt://localhost/?qos=0\"", "PH-2015", "url"),
        (
            "url = \"http://10.0.0.1/\"\nsecrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]",
            "PH-2015",
            "private",
        ),
        ("url = \"https://example.com/\"", "PH-2015", "secrets"),
        ("url = \"https://example.com/\"\nsecrets = [\"hunter2\"]", "PH-2004", "whsec_"),
        ("url = \"amqp://localhost\"\nexchagne = \"x\"", "PH-2002", "exchange"),
        ("url = \"amqp://localhost\"\nordering = \"loose\"", "PH-2004", "pipelined"),
        ("url = \"redis://localhost\"\nprofile = \"avro\"", "PH-2004", "debezium"),
        ("url = \"nats://localhost\"\ndestination = \"{id}\"", "PH-2004", "{topic}"),
        ("url = \"kafak://localhost\"", "PH-2010", "kafka"),
        ("url = \"tcp://localhost\"", "PH-2015", "port"),
        ("url = \"tcp://u:hunter2@localhost:1\"", "PH-2015", "nothing else"),
        ("url = \"tcp://localhost:1\"\nframes = \"gob\"", "PH-2004", "original"),
        ("url = \"tcp://localhost:1\"\nframe_bytes_max = \"1KiB\"", "PH-2005", "64KiB"),
        ("url = \"tcp://localhost:1\"\nca_file = \"ca.pem\"", "PH-2002", "ca_file"),
        ("url = \"tcp://localhost:1\"\ndestination = \"x\"", "PH-2002", "destination"),
    ];
    for (broker, code, word) in cases {
        let config = format!("[[broker]]\nname = \"bus\"\n{broker}\n");
        let t = Bundle::new(&config);
        let ended = t.run(&["config", "check"]);
        assert_eq!(ended.code, 78, "{broker}: {ended:#?}");
        let said = format!("{}{}", ended.out, ended.err);
        assert!(said.contains(code) && said.contains(word), "{broker}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}
