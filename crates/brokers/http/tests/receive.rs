//! The receiver of this crate: what is signed comes in, once it is acknowledged the sender knows.

mod support;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use posthaste_broker_http::{Config, HttpBroker, HttpSubscriber, Secret, subscribe};
use posthaste_core::{
    Broker, Delivery, Message, Outcome, PAYLOAD_BYTES_MAX, Sharing, Start, Subscriber, Subscription,
};
use posthaste_fixtures::Port;
use posthaste_wire::{Profile, Wire};
use support::{delivery, secret, shown};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const DEADLINE: Duration = Duration::from_secs(60);

fn config(url: &str) -> Config {
    Config { allow_private: true, ..Config::new(url, vec![secret()]) }
}

async fn pair(topics: &str) -> (HttpBroker, HttpSubscriber) {
    pair_at("127.0.0.1:0".parse().expect("an address"), topics).await
}

async fn pair_at(address: SocketAddr, topics: &str) -> (HttpBroker, HttpSubscriber) {
    let subscription = Subscription {
        name: None,
        topics: vec![topics.parse().expect("a pattern")],
        start: Start::New,
        sharing: Sharing::Competing,
    };
    let url = format!("http://{address}/hook");
    let subscriber = subscribe(&config(&url), &subscription).await.expect("it listens");
    let url = format!("http://{}/hook", subscriber.address());
    (HttpBroker::open(config(&url)).expect("it opens"), subscriber)
}

fn publish(
    broker: &Arc<HttpBroker>,
    messages: Vec<Arc<Delivery>>,
) -> tokio::task::JoinHandle<Vec<Outcome>> {
    let broker = Arc::clone(broker);
    tokio::spawn(async move { broker.publish(&messages, DEADLINE).await })
}

#[tokio::test]
async fn a_message_comes_as_it_was_and_its_sender_knows_once_it_is_acknowledged() {
    let (broker, mut subscriber) = pair("*").await;
    let message = Message::from_bytes("orders", Some("c 7\u{e9}"), vec![0, 255, 10])
        .event_type("Placed")
        .header("tenant", "acme");
    let sent = publish(&Arc::new(broker), vec![delivery(message.clone())]);
    let incoming = subscriber.receive().await.unwrap();
    assert_eq!(incoming.message, message);
    assert_eq!(incoming.provenance.seq, Some(42));
    assert!(!sent.is_finished(), "nobody has acknowledged it");
    subscriber.acknowledge(incoming.receipt).await.unwrap();
    assert_eq!(sent.await.unwrap(), [Outcome::Acked]);
    assert!(subscriber.acknowledge(incoming.receipt).await.is_err(), "it is over");
}

#[tokio::test]
async fn a_subscriber_that_goes_away_has_acknowledged_nothing() {
    let (broker, mut subscriber) = pair("*").await;
    let sent = publish(&Arc::new(broker), vec![delivery(Message::from_bytes("t", None, "x"))]);
    subscriber.receive().await.unwrap();
    drop(subscriber);
    let outcomes = sent.await.unwrap();
    assert_ne!(outcomes, [Outcome::Acked], "{outcomes:?}");
}

#[tokio::test]
async fn other_topics_are_skipped() {
    let (broker, mut subscriber) = pair("orders.*").await;
    let broker = Arc::new(broker);
    let skipped = publish(&broker, vec![delivery(Message::from_bytes("users", None, "x"))]);
    let wanted = publish(&broker, vec![delivery(Message::from_bytes("orders.eu", None, "y"))]);
    let incoming = subscriber.receive().await.unwrap();
    assert_eq!(incoming.message.topic, "orders.eu");
    subscriber.acknowledge(incoming.receipt).await.unwrap();
    assert_eq!(wanted.await.unwrap(), [Outcome::Acked]);
    tokio::select! {
        outcomes = skipped => assert_eq!(outcomes.unwrap(), [Outcome::Acked]),
        _ = subscriber.receive() => panic!("nobody wants it"),
    }
}

#[tokio::test]
async fn what_is_not_signed_does_not_come_in() {
    let (broker, mut subscriber) = pair("*").await;
    let url = format!("http://{}/hook", subscriber.address());
    let other = Secret::parse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
    let forger = Config { secrets: vec![other], ..config(&url) };
    let forger = Arc::new(HttpBroker::open(forger).unwrap());
    let forged = publish(&forger, vec![delivery(Message::from_bytes("t", None, "forged"))]);
    let outcomes = forged.await.unwrap();
    assert!(matches!(&outcomes[0], Outcome::Unreachable(failure) if failure.class == "auth"));
    let sent = publish(&Arc::new(broker), vec![delivery(Message::from_bytes("t", None, "ours"))]);
    let incoming = subscriber.receive().await.unwrap();
    assert_eq!(incoming.message.payload, "ours");
    subscriber.acknowledge(incoming.receipt).await.unwrap();
    assert_eq!(sent.await.unwrap(), [Outcome::Acked]);
}

#[tokio::test]
async fn a_dropped_receive_loses_nothing() {
    let (broker, mut subscriber) = pair("*").await;
    let messages: Vec<_> = (0..200)
        .map(|number| delivery(Message::from_bytes("t", None, number.to_string())))
        .collect();
    let sent = publish(&Arc::new(broker), messages.clone());
    let mut seen = 0;
    while seen < messages.len() {
        let received = tokio::time::timeout(Duration::from_micros(200), subscriber.receive()).await;
        if let Ok(incoming) = received {
            subscriber.acknowledge(incoming.unwrap().receipt).await.unwrap();
            seen += 1;
        }
    }
    assert!(sent.await.unwrap().iter().all(|outcome| *outcome == Outcome::Acked));
}

/// Sends bytes and gives the status of the answer, `None` if the connection is closed without one.
async fn talk(address: SocketAddr, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(bytes).await.expect("it reads");
    let mut answer = Vec::new();
    let mut chunk = [0; 1024];
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).and_then(|status| status.parse().ok())
}

/// A request as another sender would make it, signed by the reference implementation.
fn signed(id: &str, shift: i64, body: &str) -> String {
    let now = UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let timestamp = i64::try_from(now).expect("before the end of time") + shift;
    let key = standardwebhooks::Webhook::new(support::SECRET).expect("a good secret");
    let signature = key.sign(id, timestamp, body.as_bytes()).expect("a signature");
    format!(
        "POST /hook HTTP/1.1\r\nhost: here\r\nwebhook-id: {id}\r\nwebhook-timestamp: {timestamp}\
         \r\nwebhook-signature: v1a,later {signature}\r\ncontent-type: text/plain\
         \r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn webhooks_of_other_senders_come_in_again_and_again_with_one_id() {
    let (_, mut subscriber) = pair("*").await;
    let address = subscriber.address();
    let mut ids = Vec::new();
    for _ in 0..2 {
        // The same bytes: whoever listens in can send them again, and the inbox knows the id.
        let request = signed("msg_1", 0, "hello");
        let sent = tokio::spawn(async move { talk(address, request.as_bytes()).await });
        let incoming = subscriber.receive().await.unwrap();
        assert_eq!(incoming.message.payload, "hello");
        assert_eq!(incoming.message.content_type, "text/plain");
        subscriber.acknowledge(incoming.receipt).await.unwrap();
        assert_eq!(sent.await.unwrap(), Some(204));
        ids.push(incoming.message.id);
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn requests_that_are_no_webhooks_of_ours_are_told_why() {
    let (_broker, subscriber) = pair("*").await;
    let good = signed("msg_1", 0, "hello");
    let table = [
        (good.replace("POST /hook", "POST /other"), 404),
        (good.replace("POST /hook", "HEAD /hook"), 204),
        (good.replace("POST /hook", "GET /hook"), 405),
        (good.replace("POST /hook", "DELETE /hook"), 405),
        (good.replace("hello", "hullo"), 401),
        (good.replace("msg_1", "msg_2"), 401),
        (good.replace("webhook-id", "webhook-other"), 401),
        (good.replace("webhook-timestamp", "webhook-other"), 401),
        (good.replace("webhook-signature", "webhook-other"), 401),
        (good.replace("v1,", "v2,"), 401),
        (signed("msg_1", -301, "hello"), 401),
        (signed("msg_1", 302, "hello"), 401),
        (good.replace("content-length: 5", "content-length: 99999999"), 413),
        (good.replace("HTTP/1.1", "SIP/2.0"), 400),
        (good.replace("host: here", &"x: y\r\n".repeat(2000)), 431),
    ];
    for (request, status) in table {
        let head = request.lines().take(2).collect::<String>();
        assert_eq!(talk(subscriber.address(), request.as_bytes()).await, Some(status), "{head}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_dawdles_loses_its_connection() {
    let (_broker, subscriber) = pair("*").await;
    let head = b"POST /hook HTTP/1.1\r\nhost: here\r\n";
    assert_eq!(talk(subscriber.address(), head).await, None, "the head never ends");
    assert_eq!(talk(subscriber.address(), b"").await, None, "nothing comes");
    let body = signed("msg_1", 0, "hello").replace("content-length: 5", "content-length: 6");
    assert_eq!(talk(subscriber.address(), body.as_bytes()).await, Some(408));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_never_acknowledged_may_or_may_not_have_been_handled() {
    let (_broker, mut subscriber) = pair("*").await;
    let address = subscriber.address();
    let request = signed("msg_1", 0, "hello");
    let sent = tokio::spawn(async move { talk(address, request.as_bytes()).await });
    let incoming = subscriber.receive().await.unwrap();
    assert_eq!(sent.await.unwrap(), Some(504), "for which the adapter's outcome is unknown");
    assert!(subscriber.acknowledge(incoming.receipt).await.is_err(), "the sender has given up");
}

#[tokio::test]
async fn connections_end_with_the_subscriber() {
    let held = Port::hold();
    let (_broker, subscriber) = pair_at(held.address(), "*").await;
    let mut stream = TcpStream::connect(subscriber.address()).await.unwrap();
    stream.write_all(b"HEAD /hook HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let mut chunk = [0; 1024];
    assert!(stream.read(&mut chunk).await.unwrap() > 0);
    let address = subscriber.address();
    drop(subscriber);
    let read = tokio::time::timeout(DEADLINE, stream.read(&mut chunk)).await;
    assert!(matches!(read.expect("it is closed"), Ok(0) | Err(_)));
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn what_is_too_much_at_once_is_asked_to_come_later() {
    let (_broker, mut subscriber) = pair("*").await;
    let url = format!("http://{}/hook", subscriber.address());
    let many = HttpBroker::open(Config { connections: 300, ..config(&url) }).unwrap();
    let messages: Vec<_> =
        (0..300).map(|_| delivery(Message::from_bytes("t", None, "x"))).collect();
    let outcomes = many.publish(&messages, Duration::from_secs(6)).await;
    let count = |what: &str| outcomes.iter().filter(|outcome| shown(outcome) == what).count();
    assert_eq!((count("unknown timeout"), count("unreachable throttled")), (256, 44));
    // They have given up, so there is room again.
    let wanted = publish(
        &Arc::new(HttpBroker::open(config(&url)).unwrap()),
        vec![delivery(Message::from_bytes("later", None, "x"))],
    );
    loop {
        let incoming = subscriber.receive().await.unwrap();
        let is_told = subscriber.acknowledge(incoming.receipt).await.is_ok();
        if incoming.message.topic == "later" {
            assert!(is_told);
            break;
        }
    }
    assert_eq!(wanted.await.unwrap(), [Outcome::Acked]);
}

#[tokio::test]
async fn bodies_of_any_size_an_outbox_takes_come_in() {
    let payload: Vec<u8> = (0..=255).cycle().take(PAYLOAD_BYTES_MAX).collect();
    for profile in [Profile::Binary, Profile::Structured] {
        let (_, mut subscriber) = pair("*").await;
        let url = format!("http://{}/hook", subscriber.address());
        let wire = Wire { profile, ..Wire::default() };
        let broker = HttpBroker::open(Config { wire, ..config(&url) }).unwrap();
        let message = Message::from_bytes("t", None, payload.clone());
        let sent = publish(&Arc::new(broker), vec![delivery(message)]);
        let incoming = subscriber.receive().await.unwrap();
        assert!(incoming.message.payload == payload, "{profile:?}");
        subscriber.acknowledge(incoming.receipt).await.unwrap();
        assert_eq!(sent.await.unwrap(), [Outcome::Acked]);
    }
}
