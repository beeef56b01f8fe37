//! The failure table, each row provoked on a real server.

mod support;

use std::{fs, os::unix::fs::PermissionsExt, time::Instant};

use posthaste_broker_mqtt::{Config, MqttBroker, Unmatched, subscribe};
use posthaste_core::{Broker, Outcome, Subscriber};
use posthaste_fixtures::{Kind, Options, Proxy, Server, server};
use support::{
    PATIENCE, SHORT, address, broker, delivery, kind, listen, message, named, private, publish,
    publish_within, receive, subscription, topic,
};
use tokio::time::timeout;

/// Mosquitto 2.0 closes the connection after a message that it refuses if this is 0 (no limit), as
/// our servers have it.
const QUEUED: (&str, &str) = ("max_queued_messages", "100000");

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_the_routes_trouble() {
    let options = Options { password: Some("s3cret@/%?".to_owned()), ..Options::default() };
    let server = Server::private(Kind::Mosquitto, &options).unwrap();
    let wrong = format!("mqtt://posthaste:hunter2@{}", address(server.url()));
    let topic = topic();
    for url in [wrong.clone(), format!("mqtt://{}", address(server.url()))] {
        let outcome = publish(&broker(&url), message(&topic, None, "x")).await;
        assert_eq!(kind(&outcome), ("unreachable", "auth"), "{outcome:?}");
        assert!(!format!("{outcome:?}").contains("hunter2"));
    }
    let error = subscribe(&Config::new(&wrong), &subscription(None, &[&topic])).await.err();
    assert!(error.unwrap().message.contains("auth"));
    let mut listener = listen(server.url(), &[&topic]).await;
    assert_eq!(publish(&broker(server.url()), message(&topic, None, "x")).await, Outcome::Acked);
    receive(&mut listener).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_topic_is_the_messages_trouble() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.path().join("acl");
    fs::write(&file, "topic readwrite allowed/#\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let server = private(&[("acl_file", file.to_str().unwrap()), QUEUED]);
    let mut listener = listen(server.url(), &["allowed/*"]).await;
    let broker = broker(server.url());
    let batch = [
        delivery(message("allowed/a", None, "1")),
        delivery(message("forbidden/a", None, "2")),
        delivery(message("allowed/b", None, "3")),
    ];
    let outcomes = broker.publish(&batch, PATIENCE).await;
    let kinds: Vec<_> = outcomes.iter().map(kind).collect();
    assert_eq!(kinds, [("acked", ""), ("rejected", "denied"), ("acked", "")], "{outcomes:?}");
    assert_eq!(receive(&mut listener).await.message.payload, "1");
    assert_eq!(receive(&mut listener).await.message.payload, "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_subscribes_to_is_rejected_unless_that_is_accepted() {
    // Of its own: somebody else may subscribe to everything on a shared one.
    let server = private(&[]);
    let url = server.url();
    let (strict, topic) = (broker(url), topic());
    let outcome = publish(&strict, message(&topic, None, "x")).await;
    assert_eq!(kind(&outcome), ("rejected", "unroutable"), "{outcome:?}");
    let config = Config { unmatched: Unmatched::Accept, ..Config::new(url) };
    let lax = MqttBroker::open(config).unwrap();
    assert_eq!(publish(&lax, message(&topic, None, "x")).await, Outcome::Acked);
    // Somebody who is away, and will come back, is somebody.
    drop(named(url, &topic.replace('/', "-"), &[&topic]).await);
    assert_eq!(publish(&strict, message(&topic, None, "x")).await, Outcome::Acked);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_says_is_too_large_is_never_sent() {
    let server = private(&[("max_packet_size", "20000")]);
    let topic = topic();
    let mut listener = listen(server.url(), &[&topic]).await;
    let broker = broker(server.url());
    let batch = [
        delivery(message(&topic, None, vec![1; 20_000])),
        delivery(message(&topic, None, vec![2; 100])),
        // Headers count as well.
        delivery(message(&topic, None, vec![3; 100]).header("long", "x".repeat(20_000))),
    ];
    let outcomes = broker.publish(&batch, PATIENCE).await;
    let kinds: Vec<_> = outcomes.iter().map(kind).collect();
    let too_large = ("rejected", "too-large");
    assert_eq!(kinds, [too_large, ("acked", ""), too_large], "{outcomes:?}");
    assert_eq!(receive(&mut listener).await.message.payload, vec![2; 100]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_refuses_without_having_said_so_is_rejected_alone() {
    let server = private(&[("message_size_limit", "1000"), QUEUED]);
    let topic = topic();
    let mut listener = listen(server.url(), &[&topic]).await;
    let broker = broker(server.url());
    let batch = [
        delivery(message(&topic, None, vec![1; 1001])),
        delivery(message(&topic, None, vec![2; 1000])),
    ];
    let outcomes = broker.publish(&batch, PATIENCE).await;
    let kinds: Vec<_> = outcomes.iter().map(kind).collect();
    assert_eq!(kinds, [("rejected", "too-large"), ("acked", "")], "{outcomes:?}");
    assert_eq!(receive(&mut listener).await.message.payload, vec![2; 1000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_that_makes_the_server_hang_up_is_rejected_and_the_others_unknown() {
    let server = private(&[("message_size_limit", "1000")]);
    let topic = topic();
    let _listener = listen(server.url(), &[&topic]).await;
    let broker = broker(server.url());
    let mut batch: Vec<_> = (0..9).map(|_| delivery(message(&topic, None, "small"))).collect();
    batch.insert(3, delivery(message(&topic, None, vec![1; 1001])));
    let outcomes = broker.publish(&batch, PATIENCE).await;
    let kinds: Vec<_> = outcomes.iter().map(kind).collect();
    assert_eq!(kinds[..3], [("acked", ""); 3], "{outcomes:?}");
    assert_eq!(kinds[3], ("rejected", "too-large"), "{outcomes:?}");
    assert_eq!(kinds[4..], [("unknown", "connection"); 6], "{outcomes:?}");
    batch.remove(3);
    // The server may hang up once more before it takes what was not sent.
    let mut outcomes = broker.publish(&batch, PATIENCE).await;
    for _ in 0..10 {
        if outcomes.iter().any(|outcome| kind(outcome).0 != "unreachable") {
            break;
        }
        outcomes = broker.publish(&batch, PATIENCE).await;
    }
    assert_eq!(outcomes, vec![Outcome::Acked; 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_out_of_memory_leaves_it_unknown_and_is_usable_again() {
    let server = private(&[("memory_limit", "6000000")]);
    let topic = topic();
    let mut listener = listen(server.url(), &[&topic]).await;
    let broker = broker(server.url());
    let outcome = publish(&broker, message(&topic, None, vec![1; 8_000_000])).await;
    assert_eq!(kind(&outcome), ("unknown", "connection"), "{outcome:?}");
    assert_eq!(publish(&broker, message(&topic, None, "small")).await, Outcome::Acked);
    assert_eq!(receive(&mut listener).await.message.payload, "small");
}

#[tokio::test(flavor = "multi_thread")]
async fn illegal_names_are_refused_before_sending() {
    let broker = broker(server(Kind::Mosquitto).url());
    for topic in ["a/+", "#", "$SYS/broker", "a\u{85}b", "a\u{ffff}"] {
        let outcome = publish(&broker, message(topic, None, "x")).await;
        assert_eq!(kind(&outcome), ("rejected", "topic"), "{outcome:?}");
    }
    let header = message("t", None, "x").header("odd", "a\u{9f}secretvalue");
    let outcome = publish(&broker, header).await;
    assert_eq!(kind(&outcome), ("rejected", "header"), "{outcome:?}");
    assert!(!format!("{outcome:?}").contains("secretvalue"));
    let key = message("t", Some("key\u{fffe}"), "x");
    assert_eq!(kind(&publish(&broker, key).await), ("rejected", "header"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_is_unreachable_and_a_restarted_one_is_used_at_once() {
    let server = private(&[]);
    let topic = topic();
    let mut subscriber = named(server.url(), "stop", &[&topic]).await;
    let broker = broker(server.url());
    assert_eq!(publish(&broker, message(&topic, None, "before")).await, Outcome::Acked);
    server.stop().unwrap();
    let mut outcome = publish(&broker, message(&topic, None, "while down")).await;
    if kind(&outcome) == ("unknown", "connection") {
        // It was sent before anybody here had heard that the connection was closed.
        outcome = publish(&broker, message(&topic, None, "while down")).await;
    }
    assert_eq!(kind(&outcome), ("unreachable", "connection"), "{outcome:?}");
    server.start_again().unwrap();
    assert_eq!(publish(&broker, message(&topic, None, "after")).await, Outcome::Acked);
    // Restarted between two calls: the second does not trip over the old connection.
    server.stop().unwrap();
    server.start_again().unwrap();
    assert_eq!(publish(&broker, message(&topic, None, "again")).await, Outcome::Acked);
    for expected in ["before", "after", "again"] {
        assert_eq!(receive(&mut subscriber).await.message.payload, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_leaves_nothing_that_was_unanswered_acknowledged() {
    let server = private(&[]);
    let topic = topic();
    let mut subscriber = named(server.url(), "kill", &[&topic]).await;
    let broker = broker(server.url());
    assert_eq!(publish(&broker, message(&topic, None, "before")).await, Outcome::Acked);
    receive(&mut subscriber).await;
    server.freeze().unwrap();
    let batch: Vec<_> = (0..50).map(|n| delivery(message(&topic, None, n.to_string()))).collect();
    let (outcomes, ()) = tokio::join!(broker.publish(&batch, PATIENCE), async {
        tokio::task::block_in_place(|| server.kill()).unwrap();
    });
    assert_eq!(outcomes.len(), 50);
    for outcome in &outcomes {
        // The join starts with writing, which the kernel takes in whole.
        assert_eq!(kind(outcome), ("unknown", "connection"), "{outcome:?}");
    }
    server.start_again().unwrap();
    // Whether the subscription survived is up to what the server had written by then.
    let mut subscriber = named(server.url(), "kill", &[&topic]).await;
    assert_eq!(publish(&broker, message(&topic, None, "after")).await, Outcome::Acked);
    while receive(&mut subscriber).await.message.payload != "after" {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_cut_in_the_middle_leaves_what_was_sent_unknown() {
    let url = server(Kind::Mosquitto).url();
    let proxy = Proxy::start(address(url)).await.unwrap();
    let broker = broker(&format!("mqtt://{}", proxy.address()));
    let topic = topic();
    let mut listener = listen(url, &[&topic]).await;
    assert_eq!(publish(&broker, message(&topic, None, "first")).await, Outcome::Acked);
    proxy.cut_after_bytes(100_000);
    let batch: Vec<_> =
        (0..100).map(|n| delivery(message(&topic, None, vec![n; 10_000]))).collect();
    let outcomes = broker.publish(&batch, PATIENCE).await;
    let count = |wanted| outcomes.iter().filter(|outcome| kind(outcome) == wanted).count();
    let (acked, unknown) = (count(("acked", "")), count(("unknown", "connection")));
    let unsent = count(("unreachable", "connection"));
    assert_eq!(acked + unknown + unsent, 100, "{outcomes:?}");
    assert!(unknown > 0 && acked < 10, "{outcomes:?}");
    // What was acknowledged is there, in order; then the connection is replaced.
    assert_eq!(receive(&mut listener).await.message.payload, "first");
    for n in 0..acked {
        let payload = receive(&mut listener).await.message.payload;
        assert_eq!(usize::from(payload[0]), n);
    }
    proxy.heal();
    assert_eq!(publish(&broker, message(&topic, None, "last")).await, Outcome::Acked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_leaves_it_unknown_at_the_deadline() {
    let server = private(&[]);
    let topic = topic();
    let mut listener = listen(server.url(), &[&topic]).await;
    let broker = broker(server.url());
    assert_eq!(publish(&broker, message(&topic, None, "first")).await, Outcome::Acked);
    server.freeze().unwrap();
    let begun = Instant::now();
    let outcome = publish_within(&broker, message(&topic, None, "frozen"), SHORT).await;
    assert_eq!(kind(&outcome), ("unknown", "timeout"), "{outcome:?}");
    // A new connection is accepted by the kernel, and answered by nobody.
    let outcome = publish_within(&broker, message(&topic, None, "no connack"), SHORT).await;
    assert_eq!(kind(&outcome), ("unreachable", "timeout"), "{outcome:?}");
    assert!(begun.elapsed() < PATIENCE, "deadlines are kept");
    server.thaw().unwrap();
    assert_eq!(publish(&broker, message(&topic, None, "thawed")).await, Outcome::Acked);
    let mut payloads = Vec::new();
    while payloads.last().is_none_or(|payload| payload != "thawed") {
        payloads.push(receive(&mut listener).await.message.payload);
    }
    assert_eq!(payloads.first().unwrap(), "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_frozen_server_was_never_given_is_surely_not_there() {
    let server = private(&[]);
    let topic = topic();
    let mut listener = listen(server.url(), &[&topic]).await;
    let broker = broker(server.url());
    assert_eq!(publish(&broker, message(&topic, None, "first")).await, Outcome::Acked);
    server.freeze().unwrap();
    let batch: Vec<_> =
        (0..40).map(|n| delivery(message(&topic, None, vec![n; 1_000_000]))).collect();
    let begun = Instant::now();
    let outcomes = broker.publish(&batch, SHORT).await;
    assert!(begun.elapsed() < PATIENCE, "the deadline is kept");
    assert_eq!(kind(&outcomes[0]), ("unknown", "timeout"), "{:?}", outcomes[0]);
    assert_eq!(kind(&outcomes[39]), ("unreachable", "timeout"), "{:?}", outcomes[39]);
    server.thaw().unwrap();
    assert_eq!(publish(&broker, message(&topic, None, "thawed")).await, Outcome::Acked);
    let unsent = outcomes.iter().position(|outcome| kind(outcome).0 == "unreachable").unwrap();
    loop {
        let payload = receive(&mut listener).await.message.payload;
        assert!(payload.len() < 100 || usize::from(payload[0]) < unsent);
        if payload == "thawed" {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_leaves_it_unknown_though_it_arrived() {
    let url = server(Kind::Mosquitto).url();
    let proxy = Proxy::start(address(url)).await.unwrap();
    let broker = broker(&format!("mqtt://{}", proxy.address()));
    let topic = topic();
    let mut listener = listen(url, &[&topic]).await;
    assert_eq!(publish(&broker, message(&topic, None, "first")).await, Outcome::Acked);
    proxy.black_hole_answers();
    let outcome = publish_within(&broker, message(&topic, None, "lost answer"), SHORT).await;
    assert_eq!(kind(&outcome), ("unknown", "timeout"), "{outcome:?}");
    proxy.heal();
    assert_eq!(publish(&broker, message(&topic, None, "healed")).await, Outcome::Acked);
    for expected in ["first", "lost answer", "healed"] {
        assert_eq!(receive(&mut listener).await.message.payload, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_id_used_twice_costs_connections_and_no_messages() {
    let url = server(Kind::Mosquitto).url();
    let topic = topic();
    let client_id = Some(format!("twice-{}", topic.replace('/', "-")));
    let mut listener = listen(url, &[&topic]).await;
    let config = Config { client_id, ..Config::new(url) };
    let one = MqttBroker::open(config.clone()).unwrap();
    let other = MqttBroker::open(config).unwrap();
    for n in 0..10 {
        let broker = if n % 2 == 0 { &one } else { &other };
        // Thrown out in the middle it may be unknown; the relay sends it again.
        let sent = async {
            while publish(broker, message(&topic, None, n.to_string())).await != Outcome::Acked {}
        };
        timeout(PATIENCE, sent).await.unwrap();
        while receive(&mut listener).await.message.payload != n.to_string() {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_used_twice_is_taken_over() {
    let url = server(Kind::Mosquitto).url();
    let topic = topic();
    let name = topic.replace('/', "-");
    let mut first = named(url, &name, &[&topic]).await;
    let mut second = named(url, &name, &[&topic]).await;
    // Mosquitto 2.0 hangs up without a word; others say why.
    assert!(timeout(PATIENCE, first.receive()).await.unwrap().is_err());
    assert_eq!(publish(&broker(url), message(&topic, None, "x")).await, Outcome::Acked);
    assert_eq!(receive(&mut second).await.message.payload, "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_quota_is_kept_however_much_there_is_to_send() {
    let server = private(&[("max_inflight_messages", "3")]);
    let topic = topic();
    let mut listener = listen(server.url(), &[&topic]).await;
    let broker = broker(server.url());
    let batch: Vec<_> = (0..200).map(|n| delivery(message(&topic, None, n.to_string()))).collect();
    let (left, right) = batch.split_at(100);
    let (left, right) =
        tokio::join!(broker.publish(left, PATIENCE), broker.publish(right, PATIENCE));
    for outcome in left.iter().chain(&right) {
        assert_eq!(*outcome, Outcome::Acked);
    }
    for _ in 0..200 {
        let receipt = receive(&mut listener).await.receipt;
        listener.acknowledge(receipt).await.unwrap();
    }
    // A quota that is used up, by a server that does not answer, is waited for in vain.
    server.freeze().unwrap();
    let outcomes = broker.publish(&batch[..10], SHORT).await;
    assert_eq!(kind(&outcomes[0]), ("unknown", "timeout"));
    assert_eq!(kind(&outcomes[3]), ("unreachable", "throttled"));
    server.thaw().unwrap();
}
