//! The failure table, each line of it provoked on a real server.

mod common;

use std::{sync::Arc, time::Duration};

use async_nats::jetstream::stream::{self, DiscardPolicy};
use common::{
    LONG, add_stream, address, as_user, context, delivery, fresh, kind, kinds, message, open,
    private, publish_one, stored,
};
use futures::StreamExt as _;
use posthaste_broker_nats::{Config, NatsBroker};
use posthaste_core::{Broker, Delivery, Message, Outcome};
use posthaste_fixtures::{Kind, Options, Port, Proxy, Server, eventually, server};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

const ACKED: (&str, &str) = ("acked", "");
const SHORT: Duration = Duration::from_secs(2);

/// The outcome after at most one that finds the connection lost.
async fn once_noticed(broker: &NatsBroker, topic: &str) -> Outcome {
    let first = publish_one(broker, topic).await;
    if kind(&first) == ("unknown", "connection") {
        return publish_one(broker, topic).await;
    }
    first
}

fn sized(topic: &str, key: &str, bytes: usize) -> Arc<Delivery> {
    delivery(Message::from_bytes(topic, Some(key), vec![b'x'; bytes]))
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_password_is_unreachable() {
    let password = Some("right/pass word".to_owned());
    let own = Server::private(Kind::Nats, &Options { password, ..Options::default() }).unwrap();
    let topic = fresh();
    for wrong in ["posthaste:wrong", "token", "other:right"] {
        let outcome = publish_one(&open(&as_user(own.url(), wrong)), &topic).await;
        assert_eq!(kind(&outcome), ("unreachable", "auth"), "{wrong}: {outcome:?}");
    }
    let right = open(own.url());
    assert_eq!(kind(&publish_one(&right, &topic).await), ("rejected", "unroutable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn account_without_jetstream_is_unreachable() {
    let own = private(&[("accounts", "{ A: { users: [ { user: a, password: a } ] } }")]);
    let outcome = publish_one(&open(&as_user(own.url(), "a:a")), "orders").await;
    assert_eq!(kind(&outcome), ("unreachable", "missing"), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_jetstream_is_unreachable() {
    let held = Port::hold();
    let port = held.address().port();
    let mut plain = tokio::process::Command::new("nats-server")
        .args(["-a", "127.0.0.1", "-p", &port.to_string()])
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("nats-server, of Debian's package nats-server");
    let mut log = BufReader::new(plain.stderr.take().unwrap()).lines();
    while !log.next_line().await.unwrap().expect("it starts").contains("Server is ready") {}
    let broker = open(&format!("nats://127.0.0.1:{port}"));
    let outcome = publish_one(&broker, "orders").await;
    assert_eq!(kind(&outcome), ("unreachable", "missing"), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn subject_without_a_stream_is_rejected_alone() {
    let url = server(Kind::Nats).url();
    let (good, bad) = (fresh(), fresh());
    add_stream(url, &good, stream::Config::default()).await;
    let broker = open(url);
    let call = [
        message(&good, "a"),
        message(&bad, "b"),
        message(&bad, "b"),
        message(&good, "b"),
        message(&good, "c"),
    ];
    let outcomes = broker.publish(&call, LONG).await;
    let held = ("unreachable", "held");
    let expected = [ACKED, ("rejected", "unroutable"), held, held, ACKED];
    assert_eq!(kinds(&outcomes), expected, "{outcomes:?}");
    add_stream(url, &bad, stream::Config::default()).await;
    assert_eq!(kind(&publish_one(&broker, &bad).await), ACKED);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_stream_than_the_configured_one_is_rejected() {
    let url = server(Kind::Nats).url();
    let topic = fresh();
    add_stream(url, &topic, stream::Config::default()).await;
    let config = |stream: &str| Config { stream: Some(stream.to_owned()), ..Config::new(url) };
    let outcome = publish_one(&NatsBroker::open(config("OTHER")).unwrap(), &topic).await;
    assert_eq!(kind(&outcome), ("rejected", "unroutable"), "{outcome:?}");
    let outcome = publish_one(&NatsBroker::open(config(&topic)).unwrap(), &topic).await;
    assert_eq!(kind(&outcome), ACKED, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_for_the_server_is_rejected_before_it_is_sent() {
    let url = server(Kind::Nats).url();
    let topic = fresh();
    add_stream(url, &topic, stream::Config::default()).await;
    let broker = open(url);
    let call = [sized(&topic, "a", 1 << 20), message(&topic, "a"), message(&topic, "b")];
    let outcomes = broker.publish(&call, LONG).await;
    let expected = [("rejected", "too-large"), ("unreachable", "held"), ACKED];
    assert_eq!(kinds(&outcomes), expected, "{outcomes:?}");
    assert_eq!(stored(url, &topic).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_for_the_stream_is_rejected_and_holds_its_key() {
    let url = server(Kind::Nats).url();
    let topic = fresh();
    add_stream(url, &topic, stream::Config { max_message_size: 4096, ..Default::default() }).await;
    let broker = open(url);
    let call = [
        message(&topic, "a"),
        sized(&topic, "a", 5000),
        message(&topic, "a"),
        message(&topic, "b"),
        message(&topic, "b"),
    ];
    let outcomes = broker.publish(&call, LONG).await;
    let expected = [ACKED, ("rejected", "too-large"), ("unreachable", "held"), ACKED, ACKED];
    assert_eq!(kinds(&outcomes), expected, "{outcomes:?}");
    assert_eq!(stored(url, &topic).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_stream_is_unreachable_and_keeps_order() {
    let url = server(Kind::Nats).url();
    let topic = fresh();
    let discard = DiscardPolicy::New;
    add_stream(url, &topic, stream::Config { max_messages: 2, discard, ..Default::default() })
        .await;
    let broker = open(url);
    let call: Vec<_> = (0..4).map(|_| message(&topic, "key")).collect();
    let outcomes = broker.publish(&call, LONG).await;
    let expected = [ACKED, ACKED, ("unreachable", "full"), ("unreachable", "held")];
    assert_eq!(kinds(&outcomes), expected, "{outcomes:?}");
    context(url).await.get_stream(&topic).await.unwrap().purge().await.unwrap();
    let outcomes = broker.publish(&call[2..], LONG).await;
    assert_eq!(kinds(&outcomes), [ACKED, ACKED], "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_account_is_unreachable() {
    let account = "{ A: { jetstream: { max_mem: 64K, max_file: 64K }, \
                   users: [ { user: a, password: a } ] } }";
    let own = private(&[("accounts", account)]);
    let url = as_user(own.url(), "a:a");
    let topic = fresh();
    add_stream(&url, &topic, stream::Config::default()).await;
    let broker = open(&url);
    let call: Vec<_> = (0..12).map(|_| sized(&topic, "key", 10_000)).collect();
    let outcomes = broker.publish(&call, LONG).await;
    let full = outcomes.iter().position(|outcome| kind(outcome) == ("unreachable", "full"));
    let full = full.unwrap_or_else(|| panic!("{outcomes:?}"));
    assert!(outcomes[..full].iter().all(|outcome| *outcome == Outcome::Acked), "{outcomes:?}");
    assert!(outcomes[full + 1..].iter().all(|outcome| kind(outcome) == ("unreachable", "held")));
    context(&url).await.get_stream(&topic).await.unwrap().purge().await.unwrap();
    assert_eq!(kind(&publish_one(&broker, &topic).await), ACKED);
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_within_the_window_is_acknowledged_and_stored_once() {
    let url = server(Kind::Nats).url();
    let topic = fresh();
    add_stream(url, &topic, stream::Config::default()).await;
    let broker = open(url);
    let call = [message(&topic, "key")];
    for _ in 0..3 {
        assert_eq!(kinds(&broker.publish(&call, LONG).await), [ACKED]);
    }
    assert_eq!(stored(url, &topic).await, 1);
    let redriven = Delivery { redriven: 1, ..(*call[0]).clone() };
    assert_eq!(kinds(&broker.publish(&[Arc::new(redriven)], LONG).await), [ACKED]);
    assert_eq!(stored(url, &topic).await, 2, "a person wants it sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_subject_is_denied_and_others_are_not() {
    let users = "{ users: [ { user: root, password: root }, { user: a, password: a, permissions: { \
                 publish: [ \"$JS.API.>\", \"good.>\" ], subscribe: \"_INBOX.>\" } } ] }";
    let own = private(&[("authorization", users)]);
    let root = as_user(own.url(), "root:root");
    add_stream(&root, "good", stream::Config::default()).await;
    add_stream(&root, "bad", stream::Config::default()).await;
    let broker = open(&as_user(own.url(), "a:a"));
    let call = [message("good.a", "a"), message("bad.b", "b"), message("good.c", "c")];
    for _ in 0..2 {
        let outcomes = broker.publish(&call, LONG).await;
        assert_eq!(kinds(&outcomes), [ACKED, ("rejected", "denied"), ACKED], "{outcomes:?}");
    }
    // However many there are of however many subjects.
    let subject = |n: usize| format!("bad.{}", n % 3);
    let call: Vec<_> = (0..100).map(|n| message(&subject(n), &n.to_string())).collect();
    let outcomes = broker.publish(&call, LONG).await;
    let denied = outcomes.iter().filter(|outcome| kind(outcome) == ("rejected", "denied")).count();
    assert_eq!(denied, 100, "{outcomes:?}");
}

/// A user who may publish to `lost`, which no stream stores.
async fn who_finds_nobody(more: &str, settings: &[(&str, &str)]) -> (Server, NatsBroker) {
    let users = format!(
        "{{ users: [ {{ user: root, password: root }}, {{ user: a, password: a, permissions: {{ \
         publish: [ \"lost\", \"good\"{more} ], subscribe: \"_INBOX.>\" }} }} ] }}"
    );
    let own = private(&[&[("authorization", users.as_str())], settings].concat());
    add_stream(&as_user(own.url(), "root:root"), "good", stream::Config::default()).await;
    let broker = open(&as_user(own.url(), "a:a"));
    (own, broker)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_look_for_the_stream_is_not_told_that_there_is_none() {
    let (_own, broker) = who_finds_nobody("", &[]).await;
    let outcomes = broker.publish(&[message("lost", "a"), message("good", "b")], LONG).await;
    assert_eq!(kinds(&outcomes), [("unknown", "unroutable"), ACKED], "{outcomes:?}");
    let (_own, broker) = who_finds_nobody(", \"$JS.API.STREAM.NAMES\"", &[]).await;
    let outcomes = broker.publish(&[message("lost", "a"), message("good", "b")], LONG).await;
    assert_eq!(kinds(&outcomes), [("rejected", "unroutable"), ACKED], "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_not_found_in_time_is_unreachable() {
    // Whoever looks for a stream is sent to someone who listens and says nothing.
    let elsewhere = [("mappings", "{ \"$JS.API.STREAM.NAMES\": \"elsewhere\" }")];
    let rights = ", \"$JS.API.STREAM.NAMES\", \"elsewhere\"";
    let (own, broker) = who_finds_nobody(rights, &elsewhere).await;
    let silent = context(&as_user(own.url(), "root:root")).await.client();
    let mut asked = silent.subscribe("elsewhere").await.unwrap();
    silent.flush().await.unwrap();
    let outcomes = broker.publish(&[message("lost", "a")], SHORT).await;
    assert_eq!(kinds(&outcomes), [("unreachable", "timeout")], "{outcomes:?}");
    let asked = tokio::time::timeout(LONG, asked.next()).await;
    assert!(asked.is_ok_and(|asked| asked.is_some()), "it was looked for: {outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_publish_can_publish() {
    let users = "{ users: [ { user: root, password: root }, { user: a, password: a, permissions: { \
                 publish: \"good.>\", subscribe: \"_INBOX.>\" } } ] }";
    let own = private(&[("authorization", users)]);
    add_stream(&as_user(own.url(), "root:root"), "good", stream::Config::default()).await;
    let broker = open(&as_user(own.url(), "a:a"));
    let call: Vec<_> = (0..20).map(|_| message("good.a", "key")).collect();
    let outcomes = broker.publish(&call, LONG).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Acked), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_server_is_unreachable_until_it_is_back() {
    let own = private(&[]);
    let topic = fresh();
    add_stream(own.url(), &topic, stream::Config::default()).await;
    let broker = open(own.url());
    assert_eq!(kind(&publish_one(&broker, &topic).await), ACKED);
    own.stop().unwrap();
    let outcome = once_noticed(&broker, &topic).await;
    assert_eq!(kind(&outcome), ("unreachable", "connection"), "{outcome:?}");
    own.start_again().unwrap();
    assert_eq!(kind(&publish_one(&broker, &topic).await), ACKED);
    own.stop().unwrap();
    own.start_again().unwrap();
    assert_eq!(kind(&once_noticed(&broker, &topic).await), ACKED);
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_has_what_it_acknowledged() {
    let own = private(&[]);
    let topic = fresh();
    add_stream(own.url(), &topic, stream::Config::default()).await;
    let broker = Arc::new(open(own.url()));
    let calls = tokio::spawn({
        let (broker, topic) = (broker.clone(), topic.clone());
        async move {
            let mut acked = 0;
            loop {
                let call: Vec<_> = (0..256).map(|n| message(&topic, &n.to_string())).collect();
                let outcomes = broker.publish(&call, LONG).await;
                acked += outcomes.iter().filter(|outcome| **outcome == Outcome::Acked).count();
                if let Some(first) = outcomes.iter().find(|outcome| **outcome != Outcome::Acked) {
                    return (acked, kind(first));
                }
            }
        }
    });
    let context = context(own.url()).await;
    while context.get_stream(&topic).await.unwrap().cached_info().state.messages < 1000 {}
    own.kill().unwrap();
    let (acked, failed) = calls.await.unwrap();
    assert!(["connection", "timeout"].contains(&failed.1), "{failed:?}");
    own.start_again().unwrap();
    let kept = stored(own.url(), &topic).await;
    assert!(kept >= acked as u64, "{acked} were acknowledged, {kept} are there");
    assert_eq!(kind(&publish_one(&broker, &topic).await), ACKED);
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_in_mid_publish_is_unknown_and_ends_there() {
    let url = server(Kind::Nats).url();
    let topic = fresh();
    add_stream(url, &topic, stream::Config::default()).await;
    let proxy = Proxy::start(address(url)).await.unwrap();
    let broker = open(&format!("nats://{}", proxy.address()));
    assert_eq!(kind(&publish_one(&broker, &topic).await), ACKED);
    proxy.cut_after_bytes(300_000);
    let call: Vec<_> = (0..100).map(|n| sized(&topic, &n.to_string(), 10_000)).collect();
    let outcomes = broker.publish(&call, LONG).await;
    let mut seen: Vec<_> = kinds(&outcomes);
    seen.dedup();
    let unknown = ("unknown", "connection");
    let is_known = |kind: &_| [ACKED, unknown, ("unreachable", "connection")].contains(kind);
    assert!(seen.contains(&unknown) && seen.iter().all(is_known), "{seen:?}");
    let before = stored(url, &topic).await;
    assert!(before < 40, "what was not sent is not there: {before}");
    let again = broker.publish(&call, LONG).await;
    assert!(again.iter().all(|outcome| *outcome == Outcome::Acked), "{again:?}");
    assert_eq!(stored(url, &topic).await, 101, "each is there once");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_get_lost_leave_it_unknown() {
    let url = server(Kind::Nats).url();
    let topic = fresh();
    add_stream(url, &topic, stream::Config::default()).await;
    let proxy = Proxy::start(address(url)).await.unwrap();
    let broker = open(&format!("nats://{}", proxy.address()));
    assert_eq!(kind(&publish_one(&broker, &topic).await), ACKED);
    proxy.black_hole_answers();
    let call = [message(&topic, "key")];
    assert_eq!(kinds(&broker.publish(&call, SHORT).await), [("unknown", "timeout")]);
    let outcome = broker.publish(&call, SHORT).await;
    assert_eq!(kinds(&outcome), [("unreachable", "timeout")], "no greeting, no connection");
    proxy.heal();
    assert_eq!(kinds(&broker.publish(&call, LONG).await), [ACKED]);
    assert_eq!(stored(url, &topic).await, 2, "the copy was known");
}

/// How many connections of this adapter the server has.
async fn connections(port: u16) -> usize {
    let mut http = TcpStream::connect(("127.0.0.1", port)).await.expect("the monitoring port");
    let request = b"GET /connz HTTP/1.0\r\n\r\n";
    http.write_all(request).await.expect("a request");
    let mut text = String::new();
    http.read_to_string(&mut text).await.expect("an answer");
    text.matches("\"name\": \"posthaste\"").count()
}

/// Waits until the server has only so many of them.
async fn until_connections(port: u16, count: usize) {
    let look = async || (connections(port).await <= count).then_some(());
    eventually("end of the other connections", look).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_server_is_unknown_and_the_given_up_connection_never_speaks_again() {
    let held = Port::hold();
    let port = held.address().port();
    let own = private(&[("http", &format!("\"127.0.0.1:{port}\""))]);
    let topic = fresh();
    add_stream(own.url(), &topic, stream::Config::default()).await;
    let broker = open(own.url());
    assert_eq!(kind(&publish_one(&broker, &topic).await), ACKED);
    own.freeze().unwrap();
    // More than the sockets hold, so that the driver is left with the rest.
    let call: Vec<_> = (0..256).map(|n| sized(&topic, &n.to_string(), 500_000)).collect();
    let outcomes = broker.publish(&call, SHORT).await;
    assert!(outcomes.iter().all(|outcome| kind(outcome).1 == "timeout"), "{:?}", kinds(&outcomes));
    assert_eq!(kind(&outcomes[0]), ("unknown", "timeout"));
    own.thaw().unwrap();
    assert_eq!(kind(&publish_one(&broker, &topic).await), ACKED);
    until_connections(port, 1).await;
    let late = stored(own.url(), &topic).await - 2;
    assert!(late < 200, "the driver's own part of 256 has died with it: {late} arrived");
    let again = broker.publish(&call, LONG).await;
    assert!(again.iter().all(|outcome| *outcome == Outcome::Acked), "{:?}", kinds(&again));
    assert_eq!(stored(own.url(), &topic).await, 258, "each is there once");
    broker.close().await;
    until_connections(port, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_are_none_are_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("me.creds");
    std::fs::write(&path, "nothing").unwrap();
    let url = server(Kind::Nats).url();
    let config = Config { credentials_file: Some(path.clone()), ..Config::new(url) };
    let outcome = publish_one(&NatsBroker::open(config.clone()).unwrap(), "orders").await;
    assert_eq!(kind(&outcome), ("unreachable", "auth"), "{outcome:?}");
    std::fs::remove_file(path).unwrap();
    assert_eq!(NatsBroker::open(config).err().unwrap().field, "credentials_file");
}

#[tokio::test(flavor = "multi_thread")]
async fn next_server_of_the_list_is_used_when_one_is_down() {
    let url = server(Kind::Nats).url();
    let topic = fresh();
    add_stream(url, &topic, stream::Config::default()).await;
    let free = Port::hold();
    let list = format!("nats://{},{}", free.address(), address(url));
    assert_eq!(kind(&publish_one(&open(&list), &topic).await), ACKED);
}
