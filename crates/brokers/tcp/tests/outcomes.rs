//! The failure table with native frames, each line provoked, and that the adapter recovers.

mod support;

use std::sync::Arc;

use posthaste_broker_tcp::{Config, Frames, TcpBroker};
use posthaste_core::{Broker, Delivery, Message};
use posthaste_fixtures::Port;
use support::{
    Consumer, DEADLINE, Peer, SHORT, all, delivery, event, events, native_ack, noticed, publish,
    within,
};

/// Takes a frame on the next connection and acknowledges all of it.
async fn take(consumer: &Consumer) -> Peer {
    let mut peer = consumer.accept().await;
    take_from(&mut peer).await;
    peer
}

async fn take_from(peer: &mut Peer) {
    let frame = peer.json().await;
    peer.send(native_ack(&frame, frame["last"].as_i64().expect("a number"))).await;
}

/// Publishes one message while the consumer takes a frame on a new connection.
async fn recovers(consumer: &Consumer, broker: &TcpBroker) -> Peer {
    let messages = events([99]);
    let (outcomes, peer) = tokio::join!(publish(broker, &messages, DEADLINE), take(consumer));
    assert_eq!(outcomes, ["acked"]);
    peer
}

#[tokio::test]
async fn nobody_listens_is_unreachable() {
    let port = Port::hold();
    let address = port.address();
    let broker = TcpBroker::open(Config::new(format!("tcp://{address}"))).unwrap();
    assert_eq!(publish(&broker, &events(1..=2), DEADLINE).await, all("unreachable connection", 2));
    let error = broker.examine(&[]).await.unwrap_err();
    assert!(error.message.contains(&format!("the consumer at {address}: connection")), "{error}");
    let missing = TcpBroker::open(Config::new("tcp://nowhere.invalid:1")).unwrap();
    assert_eq!(publish(&missing, &events([1]), DEADLINE).await, ["unreachable connection"]);
}

#[tokio::test]
async fn connection_cut_after_the_frame_is_unknown() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Native);
    let messages = events(1..=2);
    let cut = async { consumer.accept().await.line().await };
    let (outcomes, _) = tokio::join!(publish(&broker, &messages, DEADLINE), cut);
    assert_eq!(outcomes, all("unknown connection", 2));
    recovers(&consumer, &broker).await;
}

#[tokio::test]
async fn silence_is_unknown_and_its_connection_is_not_used_again() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Native);
    let messages = events(1..=2);
    let silent = async {
        let mut peer = consumer.accept().await;
        (peer.line().await, peer)
    };
    let (outcomes, (first, mut peer)) = tokio::join!(publish(&broker, &messages, SHORT), silent);
    assert_eq!(outcomes, all("unknown timeout", 2));
    peer.until_closed().await;
    // The same messages are the same bytes, whatever attempt it is.
    let again: Vec<Arc<Delivery>> = messages
        .iter()
        .map(|delivery| Arc::new(Delivery { attempt: 2, ..Delivery::clone(delivery) }))
        .collect();
    let taken = async {
        let mut peer = consumer.accept().await;
        let line = peer.line().await;
        peer.send(native_ack(&serde_json::from_str(&line).unwrap(), 2)).await;
        line
    };
    let (outcomes, second) = tokio::join!(publish(&broker, &again, DEADLINE), taken);
    assert_eq!((outcomes, second), (all("acked", 2), first));
}

#[tokio::test]
async fn consumer_that_does_not_read_keeps_nobody_beyond_the_deadline() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Native);
    let large = delivery(1, Message::from_bytes("t", None, vec![b'x'; 8 * 1024 * 1024]));
    let messages = [large, event(2)];
    // Longer, because writing so much takes a busy machine its time.
    let call = within("an outcome", publish(&broker, &messages, 6 * SHORT));
    let (outcomes, _peer) = tokio::join!(call, consumer.accept());
    assert_eq!(outcomes, all("unknown timeout", 2));
    recovers(&consumer, &broker).await;
}

#[tokio::test]
async fn position_acknowledges_what_comes_before_it() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Native);
    let messages = events([5, 3, 8, 9]);
    let partly = async {
        let mut peer = consumer.accept().await;
        let frame = peer.json().await;
        for position in [5, 3] {
            peer.send(native_ack(&frame, position)).await;
        }
        peer
    };
    let (outcomes, _peer) = tokio::join!(publish(&broker, &messages, SHORT), partly);
    assert_eq!(outcomes, ["acked", "acked", "unknown timeout", "unknown timeout"]);
    let then_cut = async {
        let mut peer = consumer.accept().await;
        let frame = peer.json().await;
        peer.send(native_ack(&frame, 8)).await;
    };
    let messages = events([8, 9]);
    let (outcomes, ()) = tokio::join!(publish(&broker, &messages, DEADLINE), then_cut);
    assert_eq!(outcomes, ["acked", "unknown connection"]);
    recovers(&consumer, &broker).await;
}

#[tokio::test]
async fn acks_of_other_batches_are_ignored_and_split_ones_are_not() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Native);
    let mut peer = recovers(&consumer, &broker).await;
    let messages = events(1..=3);
    let consume = async {
        let frame = peer.json().await;
        peer.send("{\"batch\":\"another\",\"position\":3}\n{\"batch\":\"1-3-0\",").await;
        peer.send("\"position\":3}\n").await;
        peer.drip(&native_ack(&frame, 1)).await;
        peer.send(native_ack(&frame, 2) + &native_ack(&frame, 3)).await;
    };
    let (outcomes, ()) = tokio::join!(publish(&broker, &messages, DEADLINE), consume);
    assert_eq!(outcomes, all("acked", 3));
}

#[tokio::test]
async fn answers_that_are_none_are_unknown_and_close_the_connection() {
    let endless = "{\"batch\":\"".to_owned() + &"x".repeat(10_000);
    let answers = ["SSH-2.0-OpenSSH_9.2\r\n", "{\"hello\":1}\n", "\u{0}\u{1}", "[[[[", &endless];
    for answer in answers {
        let consumer = Consumer::start().await;
        let broker = consumer.broker(Frames::Native);
        let messages = events(1..=2);
        let answers = async {
            let mut peer = consumer.accept().await;
            peer.line().await;
            peer.send(answer).await;
            peer
        };
        let deadline = if answer == "[[[[" { SHORT } else { DEADLINE };
        let (outcomes, mut peer) = tokio::join!(publish(&broker, &messages, deadline), answers);
        let expected = if answer == "[[[[" { "unknown timeout" } else { "unknown unmapped" };
        assert!(
            outcomes.iter().all(|it| it == expected || it == "unknown unmapped"),
            "{answer:.20}"
        );
        peer.until_closed().await;
        recovers(&consumer, &broker).await;
    }
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Native);
    let messages = events(1..=2);
    let wrong_position = async {
        let mut peer = consumer.accept().await;
        let frame = peer.json().await;
        peer.send(native_ack(&frame, 3)).await;
        peer
    };
    let (outcomes, _peer) = tokio::join!(publish(&broker, &messages, DEADLINE), wrong_position);
    assert_eq!(outcomes, all("unknown unmapped", 2));
}

#[tokio::test]
async fn too_large_is_rejected_alone_and_holds_its_key_back() {
    let consumer = Consumer::start().await;
    let url = format!("tcp://{}", consumer.address());
    let max = Config::FRAME_BYTES_MAX_MIN;
    let broker = TcpBroker::open(Config { frame_bytes_max: max, ..Config::new(url) }).unwrap();
    let of = |seq, key, size| {
        let message = Message::from_bytes("t", Some(key), vec![b'x'; size]);
        delivery(seq, message.content_type("application/octet-stream"))
    };
    // The second and the third do not fit one frame.
    let messages =
        [of(1, "a", max), of(2, "b", max / 2), of(3, "c", max / 2), of(4, "a", 1), of(5, "b", 1)];
    let consume = async {
        let mut peer = consumer.accept().await;
        let mut sizes = Vec::new();
        for _ in 0..2 {
            let line = peer.line().await;
            sizes.push(line.len());
            let frame: serde_json::Value = serde_json::from_str(&line).unwrap();
            peer.send(native_ack(&frame, frame["last"].as_i64().unwrap())).await;
        }
        sizes
    };
    let (outcomes, sizes) = tokio::join!(publish(&broker, &messages, DEADLINE), consume);
    assert_eq!(outcomes, ["rejected too-large", "acked", "acked", "unreachable held", "acked"]);
    assert!(sizes.iter().all(|size| *size <= max), "{sizes:?}");
}

#[tokio::test]
async fn frame_may_be_as_large_as_its_limit_and_no_larger() {
    let consumer = Consumer::start().await;
    let url = format!("tcp://{}", consumer.address());
    let max = Config::FRAME_BYTES_MAX_MIN;
    let broker = TcpBroker::open(Config { frame_bytes_max: max, ..Config::new(url) }).unwrap();
    let of = |size: usize| {
        let payload = format!("\"{}\"", "x".repeat(size - 2));
        [delivery(1, Message::from_bytes("t", None, payload))]
    };
    let consume = tokio::spawn(async move {
        let mut peer = consumer.accept().await;
        let mut largest = 0;
        loop {
            let line = peer.line().await;
            if line.is_empty() {
                return largest;
            }
            largest = largest.max(line.len());
            peer.send(native_ack(&serde_json::from_str(&line).unwrap(), 1)).await;
        }
    });
    let (mut taken, mut refused) = (1024, max);
    while refused - taken > 1 {
        let middle = usize::midpoint(taken, refused);
        match publish(&broker, &of(middle), DEADLINE).await[0].as_str() {
            "acked" => taken = middle,
            "rejected too-large" => refused = middle,
            other => panic!("{other}"),
        }
    }
    broker.close().await;
    let largest = consume.await.unwrap();
    // The head is counted as if its numbers had all their digits.
    assert!(largest <= max && largest + 80 > max, "{largest} of {max}");
}

#[tokio::test]
async fn connection_closed_while_idle_is_replaced_without_a_failure() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Native);
    for _ in 0..3 {
        let peer = recovers(&consumer, &broker).await;
        drop(peer);
        noticed().await;
    }
    broker.close().await;
}

#[tokio::test]
async fn calls_follow_each_other_and_who_waits_too_long_sent_nothing() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Native);
    let (one, two) = (events([1]), events([2]));
    let (gives_up, given_up) = tokio::sync::oneshot::channel();
    let consume = async {
        let mut peer = consumer.accept().await;
        let first = peer.json().await;
        given_up.await.expect("the second call ends");
        peer.send(native_ack(&first, 1)).await;
        (first, peer)
    };
    let (first, second, (frame, mut peer)) = tokio::join!(
        publish(&broker, &one, DEADLINE),
        async {
            tokio::task::yield_now().await;
            let outcomes = publish(&broker, &two, SHORT).await;
            gives_up.send(()).expect("the consumer waits for it");
            outcomes
        },
        consume
    );
    assert_eq!((first, second), (all("acked", 1), all("unreachable busy", 1)));
    assert_eq!(frame["last"], 1);
    let (outcomes, ()) = tokio::join!(publish(&broker, &two, DEADLINE), take_from(&mut peer));
    assert_eq!(outcomes, ["acked"], "on the same connection, and nothing of it came before");
}

#[tokio::test]
async fn examining_tells_what_listens_and_leaves_original_consumers_alone() {
    let consumer = Consumer::start().await;
    let findings = consumer.broker(Frames::Native).examine(&[]).await.unwrap();
    assert!(findings[0].ok && findings[0].what.ends_with("accepts connections"), "{findings:?}");
    assert_eq!(findings.len(), 1, "loopback is near enough");
    within("the connection of the look", consumer.listener.accept()).await.unwrap();
    let findings = consumer.broker(Frames::Original).examine(&[]).await.unwrap();
    assert!(findings[0].ok, "{findings:?}");
    let second = tokio::time::timeout(SHORT, consumer.listener.accept()).await;
    assert!(second.is_err(), "its one connection is for the relay");
}
