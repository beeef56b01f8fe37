//! What happens at a receiver, and what the adapter makes of it.

mod support;

use std::{net::TcpListener, process::Command, time::Duration};

use posthaste_broker_http::{Config, HttpBroker};
use posthaste_core::{Broker, Message, Outcome};
use posthaste_fixtures::{Proxy, eventually};
use support::{Receiver, delivery, secret, shown, until};
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_secs(20);
/// The deadline of calls that will not be answered.
const SHORT: Duration = Duration::from_secs(2);

fn message() -> Message {
    Message::from_bytes("orders", Some("42"), "{}")
}

async fn publish_one(broker: &HttpBroker, deadline: Duration) -> Outcome {
    let mut outcomes = broker.publish(&[delivery(message())], deadline).await;
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

#[tokio::test]
async fn answers_decide() {
    let receiver = Receiver::start();
    let table = [
        ("/hook", "acked"),
        ("/status/201", "acked"),
        ("/status/302", "unreachable redirect"),
        ("/status/400", "rejected refused"),
        ("/status/401", "unreachable auth"),
        ("/status/404", "unreachable missing"),
        ("/status/410", "unreachable gone"),
        ("/status/413", "rejected too-large"),
        ("/status/422", "rejected refused"),
        ("/status/431", "rejected header"),
        ("/status/429", "unreachable throttled"),
        ("/status/500", "unknown server-error"),
        ("/status/503", "unreachable throttled"),
        ("/status/504", "unknown server-error"),
        ("/cut", "unknown connection"),
        ("/garbage", "unknown connection"),
    ];
    for (path, expected) in table {
        let broker = HttpBroker::open(receiver.config(path)).unwrap();
        let outcome = publish_one(&broker, DEADLINE).await;
        assert_eq!(shown(&outcome), expected, "{path}: {outcome:?}");
    }
    assert_eq!(receiver.read(0).0.len(), 1, "only what was answered with 204 was taken");
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_is_unknown_by_the_deadline() {
    let receiver = Receiver::start();
    let broker = HttpBroker::open(receiver.config("/hang")).unwrap();
    let outcome = publish_one(&broker, SHORT).await;
    assert_eq!(shown(&outcome), "unknown timeout");
}

#[tokio::test]
async fn a_receiver_that_asks_for_a_pause_is_left_alone() {
    let receiver = Receiver::start();
    let broker = HttpBroker::open(receiver.config("/status/429?after=3600")).unwrap();
    assert_eq!(shown(&publish_one(&broker, DEADLINE).await), "unreachable throttled");
    receiver.kill();
    let outcome = publish_one(&broker, DEADLINE).await;
    assert_eq!(shown(&outcome), "unreachable throttled", "nothing was sent: nobody is there");
}

#[tokio::test]
async fn a_stopped_receiver_is_unreachable_and_works_when_it_is_back() {
    let receiver = Receiver::start();
    let broker = HttpBroker::open(receiver.config("/hook")).unwrap();
    assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked);
    receiver.kill();
    let outcome = publish_one(&broker, DEADLINE).await;
    assert!(matches!(&outcome, Outcome::Unreachable(_) | Outcome::Unknown(_)), "{outcome:?}");
    assert_eq!(shown(&publish_one(&broker, DEADLINE).await), "unreachable connection");
    receiver.start_again();
    assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked);
    assert_eq!(receiver.read(0).0.len(), 2);
}

#[tokio::test]
async fn a_frozen_receiver_is_unknown_and_works_when_it_goes_on() {
    let receiver = Receiver::start();
    let broker = HttpBroker::open(receiver.config("/hook")).unwrap();
    assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked);
    receiver.signal("-STOP");
    let outcome = publish_one(&broker, SHORT).await;
    assert_eq!(shown(&outcome), "unknown timeout");
    receiver.signal("-CONT");
    assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked);
}

#[tokio::test]
async fn a_wrong_key_is_an_unreachable_receiver() {
    let receiver = Receiver::start();
    let other = posthaste_broker_http::Secret::parse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    let wrong = Config { secrets: vec![other.clone().unwrap()], ..receiver.config("/hook") };
    let broker = HttpBroker::open(wrong).unwrap();
    assert_eq!(shown(&publish_one(&broker, DEADLINE).await), "unreachable auth");
    let both = Config { secrets: vec![other.unwrap(), secret()], ..receiver.config("/hook") };
    let broker = HttpBroker::open(both).unwrap();
    assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked, "either key is enough");
}

#[tokio::test]
async fn a_name_that_stands_for_this_machine_is_refused_after_its_look_up() {
    // Whoever connects would be seen here.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for name in ["localhost", "localhost.", "LOCALHOST", "local%68ost"] {
        let url = format!("http://{name}:{port}/");
        let broker = HttpBroker::open(Config::new(url, vec![secret()])).unwrap();
        let outcome = publish_one(&broker, DEADLINE).await;
        let Outcome::Unreachable(failure) = outcome else { panic!("{name}: {outcome:?}") };
        if name == "localhost." && failure.class == "connection" {
            continue; // Not every system knows it by that name.
        }
        assert_eq!(failure.class, "forbidden", "{name}");
        assert!(failure.detail.contains("localhost") && failure.detail.contains("allow_private"));
        let error = broker.examine(&[]).await.unwrap_err().to_string();
        assert!(error.contains("allow_private"), "{error}");
    }
    assert!(listener.accept().is_err(), "no connection was made");
}

#[tokio::test]
async fn one_message_that_http_cannot_carry_fails_alone() {
    let receiver = Receiver::start();
    let broker = HttpBroker::open(receiver.config("/hook")).unwrap();
    let of = |key: &str| Message::from_bytes("orders", Some(key), "{}");
    let call = [
        delivery(of("a")),
        delivery(of("b").header("greeting", "Grüße")),
        delivery(of("c").header("host", "evil")),
        delivery(of("d").header("tenant id", "acme")),
        delivery(of("e").header("Tenant-Id", "acme")),
    ];
    let outcomes = broker.publish(&call, DEADLINE).await;
    let outcomes: Vec<String> = outcomes.iter().map(shown).collect();
    let expected = ["acked", "rejected header", "rejected header", "rejected header", "acked"];
    assert_eq!(outcomes, expected);
    assert_eq!(receiver.read(0).0.len(), 2);
}

#[tokio::test]
async fn doctor_sees_whether_the_receiver_is_there() {
    let receiver = Receiver::start();
    let broker = HttpBroker::open(receiver.config("/hook?token=hunter2")).unwrap();
    let findings = broker.examine(&[]).await.unwrap();
    assert!(findings.iter().all(|finding| finding.ok), "{findings:?}");
    receiver.kill();
    let error = broker.examine(&[]).await.unwrap_err().to_string();
    assert!(error.contains("cannot be reached") && !error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn doctor_says_what_an_answer_means_for_webhooks() {
    let receiver = Receiver::start();
    for (path, words) in [
        ("/status/410", "no more webhooks"),
        ("/status/308", "has moved"),
        ("/status/503", "what is behind it"),
    ] {
        let broker = HttpBroker::open(receiver.config(path)).unwrap();
        let findings = broker.examine(&[]).await.unwrap();
        assert!(!findings[0].ok && findings[0].what.contains(words), "{findings:?}");
    }
    assert_eq!(receiver.requests(), Vec::<String>::new(), "no message was sent");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (receiver, target) = (Receiver::start(), Receiver::start());
    for status in [301, 302, 303, 307, 308] {
        let path = format!("/status/{status}?to={}", target.url("/hook"));
        let broker = HttpBroker::open(receiver.config(&path)).unwrap();
        assert_eq!(shown(&publish_one(&broker, DEADLINE).await), "unreachable redirect");
    }
    assert_eq!(receiver.requests().len(), 5);
    assert_eq!(target.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_not_used() {
    const NAME: &str = "a_proxy_of_the_environment_is_not_used";
    const URL: &str = "POSTHASTE_TEST_HOOK";
    if let Ok(url) = std::env::var(URL) {
        let config = Config { allow_private: true, ..Config::new(url, vec![secret()]) };
        let broker = HttpBroker::open(config).unwrap();
        assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked);
        return;
    }
    let receiver = Receiver::start();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    // This test again, in a process whose environment names a proxy.
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", NAME]).env(URL, receiver.url("/hook"));
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        child.env(name, &address);
    }
    let output = child.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(proxy.accept().is_err(), "nobody came to the proxy");
    assert_eq!(receiver.read(0).0.len(), 1);
}

#[tokio::test]
async fn a_pause_ends_when_it_was_asked_to() {
    for (status, answered) in [
        (503, "unreachable throttled"),
        (502, "unknown server-error"),
        (504, "unknown server-error"),
    ] {
        let receiver = Receiver::start();
        let config = receiver.config(&format!("/once/{status}?after=1"));
        let broker = HttpBroker::open(config).unwrap();
        let one = [delivery(message())];
        let start = Instant::now();
        assert_eq!(shown(&broker.publish(&one, DEADLINE).await[0]), answered);
        let mut outcomes = Vec::new();
        eventually("acknowledgement", async || {
            outcomes.push(shown(&broker.publish(&one, DEADLINE).await[0]));
            outcomes.last().is_some_and(|outcome| outcome == "acked").then_some(())
        })
        .await;
        assert!(start.elapsed() >= Duration::from_secs(1), "{status}: left alone as long as asked");
        let (_, before) = outcomes.split_last().unwrap();
        assert!(before.iter().all(|outcome| outcome == "unreachable throttled"), "{before:?}");
        assert_eq!(receiver.requests().len(), 2, "{status}: nothing was sent meanwhile");
    }
}

#[tokio::test]
async fn a_pause_holds_for_what_waits_in_overlapping_calls() {
    let receiver = Receiver::start();
    let config = Config { connections: 1, ..receiver.config("/status/429?after=3600") };
    let broker = HttpBroker::open(config).unwrap();
    let call = |_| [0; 20].map(|_| delivery(Message::from_bytes("orders", None, "{}")));
    let calls: [_; 4] = std::array::from_fn(call);
    let answers = calls.iter().map(|call| broker.publish(call, DEADLINE));
    for outcomes in futures::future::join_all(answers).await {
        assert!(outcomes.iter().all(|outcome| shown(outcome) == "unreachable throttled"));
    }
    assert_eq!(receiver.requests().len(), 1, "one was enough to know");
}

#[tokio::test]
async fn a_connection_cut_in_mid_publish_is_unknown_and_replaced() {
    let receiver = Receiver::start();
    let proxy = Proxy::start(&format!("127.0.0.1:{}", receiver.port())).await.unwrap();
    let url = format!("http://{}/hook", proxy.address());
    let config = Config { allow_private: true, ..Config::new(url, vec![secret()]) };
    let broker = HttpBroker::open(config).unwrap();
    assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked);
    proxy.cut_after_bytes(1 << 20);
    let large = delivery(Message::from_bytes("orders", Some("42"), vec![7; 8 << 20]));
    let outcomes = broker.publish(std::slice::from_ref(&large), DEADLINE).await;
    assert_eq!(shown(&outcomes[0]), "unknown connection", "{outcomes:?}");
    proxy.heal();
    assert_eq!(broker.publish(&[large], DEADLINE).await, [Outcome::Acked]);
    assert_eq!(receiver.read(0).0.len(), 2);
}

#[tokio::test]
async fn a_half_open_connection_is_not_used_again() {
    let receiver = Receiver::start();
    let proxy = Proxy::start(&format!("127.0.0.1:{}", receiver.port())).await.unwrap();
    let url = format!("http://{}/hook", proxy.address());
    let config = Config { allow_private: true, ..Config::new(url, vec![secret()]) };
    let broker = HttpBroker::open(config).unwrap();
    assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked);
    proxy.black_hole();
    let outcome = publish_one(&broker, SHORT).await;
    assert_eq!(shown(&outcome), "unknown timeout");
    // The old connection stays a black hole for good.
    proxy.heal();
    assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked);
}

#[tokio::test]
async fn a_connection_that_the_receiver_closed_costs_nothing() {
    let receiver = Receiver::start();
    let broker = HttpBroker::open(receiver.config("/close")).unwrap();
    for count in 1..=20 {
        assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked);
        let closed = || receiver.requests().iter().filter(|line| *line == "closed").count();
        until("it closes the connection", || closed() == count).await;
        // The end is in this machine's hands now; each turn lets the runtime hear of it and the
        // connection's task act on it.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut_short() {
    let receiver = Receiver::start();
    for path in ["/endless", "/drip"] {
        let broker = HttpBroker::open(receiver.config(path)).unwrap();
        for _ in 0..2 {
            assert_eq!(publish_one(&broker, DEADLINE).await, Outcome::Acked, "{path}");
        }
    }
}

#[tokio::test]
async fn a_receiver_that_refuses_a_large_body_unread_does_not_count_as_reached() {
    let receiver = Receiver::start();
    let broker = HttpBroker::open(receiver.config("/early/413")).unwrap();
    let large = delivery(Message::from_bytes("orders", None, vec![7; 8 << 20]));
    let outcome = shown(&broker.publish(&[large], DEADLINE).await[0]);
    // It may close the connection before its answer can be read.
    assert!(["rejected too-large", "unknown connection"].contains(&&*outcome), "{outcome}");
}

#[tokio::test]
async fn what_finds_no_free_connection_was_not_sent() {
    let receiver = Receiver::start();
    let broker = HttpBroker::open(Config { connections: 1, ..receiver.config("/hang") }).unwrap();
    let call = [0; 3].map(|_| delivery(Message::from_bytes("orders", None, "{}")));
    let outcomes = broker.publish(&call, SHORT).await;
    let mut outcomes: Vec<String> = outcomes.iter().map(shown).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["unknown timeout", "unreachable busy", "unreachable busy"]);
    assert_eq!(receiver.requests().len(), 1);
}
