//! What the tests share: messages, and redis-cli as the client that knows nothing of us.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{process::Command, sync::Arc, time::Duration};

use posthaste_broker_redis::{Config, RedisBroker};
use posthaste_core::{
    Broker, Delivery, Failure, Incoming, Message, MessageId, Outcome, Sharing, Start, Subscriber,
    Subscription,
};
use posthaste_fixtures::{Kind, Options, Server};

pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// The deadline of calls that will not be answered.
pub(crate) const SHORT: Duration = Duration::from_secs(2);
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server of our own with more settings.
pub(crate) fn private(settings: &[(&str, &str)]) -> Server {
    let settings = settings.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    Server::private(Kind::Redis, &Options { settings, ..Options::default() })
        .expect("a server of our own should start")
}

/// `host:port` of a URL.
pub(crate) fn address(url: &str) -> &str {
    url.rsplit(['/', '@']).next().expect("a URL has an end")
}

/// The URL with another user.
pub(crate) fn as_user(url: &str, user: &str, password: &str) -> String {
    format!("redis://{user}:{password}@{}", address(url))
}

pub(crate) fn broker(url: &str) -> RedisBroker {
    RedisBroker::open(Config::new(url)).expect("the configuration is right")
}

/// A name that nobody else uses.
pub(crate) fn fresh(stem: &str) -> String {
    format!("{stem}-{}", MessageId::fresh().0.simple())
}

pub(crate) fn delivery(seq: i64, message: Message) -> Arc<Delivery> {
    let enqueued_at = std::time::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    Arc::new(Delivery { seq, message, enqueued_at, attempt: 1, redriven: 0, floor: None })
}

pub(crate) fn message(topic: &str, key: Option<&str>, seq: i64) -> Arc<Delivery> {
    delivery(seq, Message::from_bytes(topic, key, seq.to_string()))
}

pub(crate) async fn publish_one(broker: &RedisBroker, topic: &str) -> Outcome {
    // Tests block their only thread; connections have to notice what happened meanwhile.
    tokio::task::yield_now().await;
    broker.publish(&[message(topic, None, 1)], DEADLINE).await.remove(0)
}

pub(crate) fn failure(outcome: &Outcome) -> &Failure {
    match outcome {
        Outcome::Acked => panic!("should not have been acknowledged"),
        Outcome::Rejected(failure) | Outcome::Unreachable(failure) | Outcome::Unknown(failure) => {
            failure
        }
    }
}

#[track_caller]
pub(crate) fn assert_unreachable(outcome: &Outcome, class: &str) {
    assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome:?}");
    assert_eq!(failure(outcome).class, class, "{outcome:?}");
}

#[track_caller]
pub(crate) fn assert_unknown(outcome: &Outcome, class: &str) {
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    assert_eq!(failure(outcome).class, class, "{outcome:?}");
}

#[track_caller]
pub(crate) fn assert_rejected(outcome: &Outcome, class: &str) {
    assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    assert_eq!(failure(outcome).class, class, "{outcome:?}");
}

/// What redis-cli prints, strings in quotes and escaped.
pub(crate) fn cli(url: &str, arguments: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .args(["-u", url, "--no-auth-warning", "--no-raw"])
        .args(arguments)
        .output()
        .expect("redis-cli should be there (Debian: apt install redis-tools)");
    assert!(output.status.success(), "redis-cli {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("redis-cli escapes what is not text")
}

/// As [`cli`], for a command that answers with OK.
pub(crate) fn order(url: &str, arguments: &[&str]) {
    assert_eq!(cli(url, arguments).trim(), "OK", "{arguments:?}");
}

/// Every string that redis-cli printed, its bytes as they were.
pub(crate) fn strings(printed: &str) -> Vec<Vec<u8>> {
    let quoted = |line: &str| {
        let start = line.find('"')?;
        let end = line.rfind('"').filter(|end| *end > start)?;
        Some(unescaped(&line.as_bytes()[start + 1..end]))
    };
    printed.lines().filter_map(quoted).collect()
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next().expect("something is escaped") {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => {
                    let digits = [rest.next(), rest.next()].map(|d| d.expect("two digits") as char);
                    let digits: String = digits.iter().collect();
                    u8::from_str_radix(&digits, 16).expect("hexadecimal")
                }
                itself => itself,
            },
            byte => byte,
        });
    }
    bytes
}

/// The payloads in a stream.
pub(crate) fn payloads(url: &str, stream: &str) -> Vec<i64> {
    let printed = strings(&cli(url, &["XRANGE", stream, "-", "+"]));
    let mut printed = printed.into_iter();
    let mut payloads = Vec::new();
    while let Some(text) = printed.next() {
        if text == b"data" {
            let payload = printed.next().expect("a field has a value");
            let payload = String::from_utf8(payload).expect("our payloads are numbers");
            payloads.push(payload.parse().expect("our payloads are numbers"));
        }
    }
    payloads
}

/// Asks until the answer is right.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = tokio::time::Instant::now() + PATIENCE;
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    while !is_so() {
        assert!(tokio::time::Instant::now() < limit, "{what} should have come true");
        pause.tick().await;
    }
}

/// The next message.
pub(crate) async fn receive(subscriber: &mut impl Subscriber) -> Incoming {
    let received = tokio::time::timeout(PATIENCE, subscriber.receive()).await;
    received.expect("a message should come").expect("the server should be usable")
}

pub(crate) fn subscription(name: Option<&str>, topics: &[&str], start: Start) -> Subscription {
    Subscription {
        name: name.map(str::to_owned),
        topics: topics.iter().map(|topic| topic.parse().expect("a pattern")).collect(),
        start,
        sharing: Sharing::Competing,
    }
}
