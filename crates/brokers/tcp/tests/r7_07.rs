//! The original's protocol, case by case: what its consumers do, and what must come of it. `r7_07_g`,
//! a consumer that is restarted, is in `relay.rs`.

mod support;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use posthaste_broker_tcp::{Config, Frames, TcpBroker};
use posthaste_core::Message;
use serde_json::Value;
use support::{
    Consumer, DEADLINE, Peer, SHORT, all, delivery, events, original_ack, publish, within,
};

/// Publishes while the consumer takes one frame and acknowledges it; gives the frame.
async fn pass(broker: &TcpBroker, peer: &mut Peer, seqs: std::ops::RangeInclusive<i64>) -> String {
    let messages = events(seqs);
    let consumer = async {
        let frame = peer.line().await;
        peer.send(original_ack(&frame)).await;
        frame
    };
    let (outcomes, frame) = tokio::join!(publish(broker, &messages, DEADLINE), consumer);
    assert_eq!(outcomes, all("acked", messages.len()));
    frame
}

/// Connects by a first message that is acknowledged.
async fn connect(consumer: &Consumer, broker: &TcpBroker) -> Peer {
    let messages = events([1]);
    let accepted = async {
        let mut peer = consumer.accept().await;
        let frame = peer.line().await;
        peer.send(original_ack(&frame)).await;
        peer
    };
    let (outcomes, peer) = tokio::join!(publish(broker, &messages, DEADLINE), accepted);
    assert_eq!(outcomes, ["acked"]);
    peer
}

#[tokio::test]
async fn r7_07_frames_are_those_of_the_original() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Original);
    let mut peer = connect(&consumer, &broker).await;
    let frame = pass(&broker, &mut peer, 2..=3).await;
    let id = serde_json::from_str::<Value>(&frame).unwrap()["id"].as_u64().unwrap();
    assert!(id < 1 << 53, "exact in every language");
    let events = "{\"event_id\":2,\"article_id\":1},{\"event_id\":3,\"article_id\":1}";
    assert_eq!(frame, format!("{{\"id\":{id},\"events\":[{events}]}}\n"));
}

#[tokio::test]
async fn r7_07_a_consumer_that_never_acks_gets_the_same_bytes_every_cycle() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Original);
    let mut peer = connect(&consumer, &broker).await;
    // The relay probes with fewer, and new events come meanwhile: the frame stays as it was.
    assert_eq!(publish(&broker, &events(2..=4), SHORT).await, all("unknown timeout", 3));
    assert_eq!(publish(&broker, &events([2]), SHORT).await, all("unknown timeout", 1));
    let more = publish(&broker, &events(2..=6), SHORT).await;
    assert_eq!(more[..3], all("unknown timeout", 3));
    assert_eq!(more[3..], all("unreachable held", 2), "surely not sent");
    let first = peer.line().await;
    assert_eq!(peer.line().await, first);
    assert_eq!(peer.line().await, first);
    // Still on the same connection, and the index moves by what was in the frame, once.
    let retried = events([2]);
    let ack = async {
        assert_eq!(peer.line().await, first);
        peer.send(original_ack(&first)).await;
    };
    assert_eq!(tokio::join!(publish(&broker, &retried, DEADLINE), ack).0, ["acked"]);
    assert_eq!(publish(&broker, &events(3..=4), SHORT).await, all("acked", 2), "known, not sent");
    let next = pass(&broker, &mut peer, 5..=6).await;
    assert!(next.contains("\"event_id\":5") && !next.contains("\"event_id\":4"), "{next}");
}

#[tokio::test]
async fn r7_07_b_ack_that_is_late_by_one_cycle_counts_and_its_repetition_is_skipped() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Original);
    let mut peer = connect(&consumer, &broker).await;
    assert_eq!(publish(&broker, &events(2..=3), SHORT).await, all("unknown timeout", 2));
    let first = peer.line().await;
    peer.send(original_ack(&first)).await;
    assert_eq!(publish(&broker, &events(2..=3), DEADLINE).await, all("acked", 2));
    assert_eq!(peer.line().await, first, "the copy that crossed the acknowledgement");
    peer.send(original_ack(&first)).await;
    let second = pass(&broker, &mut peer, 4..=5).await;
    assert_ne!(original_ack(&first), original_ack(&second));
    // Nothing else was sent.
    pass(&broker, &mut peer, 6..=6).await;
}

#[tokio::test]
async fn r7_07_c_ack_of_a_foreign_id_is_ignored() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Original);
    let mut peer = connect(&consumer, &broker).await;
    let foreign = "{\"id\":7}{\"id\":-7}{\"id\":1.5}\n{\"id\":18446744073709551616} {\"id\":7}";
    peer.send(foreign).await;
    assert_eq!(publish(&broker, &events([2]), SHORT).await, ["unknown timeout"]);
    let first = peer.line().await;
    peer.send(foreign).await;
    assert_eq!(pass(&broker, &mut peer, 2..=2).await, first);
}

#[tokio::test]
async fn r7_07_d_ack_in_one_byte_writes_is_accepted() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Original);
    let mut peer = connect(&consumer, &broker).await;
    let messages = events(2..=3);
    let ack = async {
        let frame = peer.line().await;
        peer.drip(&original_ack(&frame)).await;
    };
    assert_eq!(tokio::join!(publish(&broker, &messages, DEADLINE), ack).0, all("acked", 2));
    // Cut by the deadline: the rest counts in the next cycle.
    let cut = async {
        let frame = peer.line().await;
        let ack = original_ack(&frame);
        let (head, tail) = ack.split_at(ack.len() / 2);
        peer.send(head).await;
        (frame, tail.to_owned())
    };
    let messages = events([4]);
    let (outcomes, (frame, tail)) = tokio::join!(publish(&broker, &messages, SHORT), cut);
    assert_eq!(outcomes, ["unknown timeout"]);
    let rest = async {
        assert_eq!(peer.line().await, frame);
        peer.send(tail).await;
    };
    assert_eq!(tokio::join!(publish(&broker, &messages, DEADLINE), rest).0, ["acked"]);
}

#[tokio::test]
async fn r7_07_e_two_acks_in_one_segment_are_both_read() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Original);
    let mut peer = connect(&consumer, &broker).await;
    assert_eq!(publish(&broker, &events([2]), SHORT).await, ["unknown timeout"]);
    let first = peer.line().await;
    let messages = events([2]);
    let twice = async {
        assert_eq!(peer.line().await, first);
        peer.send(original_ack(&first).repeat(2)).await;
    };
    assert_eq!(tokio::join!(publish(&broker, &messages, DEADLINE), twice).0, ["acked"]);
    let messages = events([3]);
    let behind_a_stale_one = async {
        let frame = peer.line().await;
        peer.send(original_ack(&first) + &original_ack(&frame)).await;
    };
    let (outcomes, ()) = tokio::join!(publish(&broker, &messages, DEADLINE), behind_a_stale_one);
    assert_eq!(outcomes, ["acked"]);
}

#[tokio::test]
async fn r7_07_f_message_of_5000_events_is_one_line() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Original);
    let mut peer = connect(&consumer, &broker).await;
    let frame = pass(&broker, &mut peer, 2..=5001).await;
    let parsed: Value = serde_json::from_str(&frame).unwrap();
    let ids: Vec<i64> = parsed["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event_id"].as_i64().unwrap())
        .collect();
    assert!(ids.into_iter().eq(2..=5001), "all of them, in order");
    // Ten megabytes, as one line, too.
    let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(1_000_000));
    let large: Vec<_> = (6000..6010)
        .map(|seq| delivery(seq, Message::from_bytes("likes", Some("1"), payload.clone())))
        .collect();
    let consumer = async {
        let frame = peer.line().await;
        peer.send(original_ack(&frame)).await;
        frame.len()
    };
    let (outcomes, length) = tokio::join!(publish(&broker, &large, DEADLINE), consumer);
    assert_eq!(outcomes, all("acked", 10));
    assert!(length > 10_000_000, "{length}");
}

#[tokio::test]
async fn r7_07_cut_connection_keeps_the_message() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Original);
    let mut peer = connect(&consumer, &broker).await;
    let messages = events(2..=3);
    let cut = async {
        let frame = peer.line().await;
        drop(peer);
        frame
    };
    let (outcomes, first) = tokio::join!(publish(&broker, &messages, DEADLINE), cut);
    assert_eq!(outcomes, all("unknown connection", 2));
    let again = async {
        let mut peer = consumer.accept().await;
        let frame = peer.line().await;
        peer.send(original_ack(&frame)).await;
        frame
    };
    let messages = events([2]);
    let (outcomes, second) = tokio::join!(publish(&broker, &messages, DEADLINE), again);
    assert_eq!((outcomes, second), (all("acked", 1), first), "the very same bytes");
}

#[tokio::test]
async fn r7_07_messages_that_have_no_place_are_rejected_alone() {
    let consumer = Consumer::start().await;
    let broker = consumer.broker(Frames::Original);
    let mut peer = connect(&consumer, &broker).await;
    let payloads = ["not JSON", "7", "[1]", "\"text\"", "{\"a\":\n\r\n 1}", " {\"b\":\"\\n\"} "];
    let messages: Vec<_> = (2..)
        .zip(payloads)
        .map(|(seq, payload)| delivery(seq, Message::from_bytes("t", None, payload)))
        .collect();
    let consumer = async {
        let frame = peer.line().await;
        peer.send(original_ack(&frame)).await;
        frame
    };
    let (outcomes, frame) = tokio::join!(publish(&broker, &messages, DEADLINE), consumer);
    assert_eq!(outcomes[..4], all("rejected payload", 4));
    assert_eq!(outcomes[4..], all("acked", 2));
    assert!(frame.ends_with("\"events\":[{\"a\":    1},{\"b\":\"\\n\"}]}\n"), "{frame}");
}

/// The original's own kind of consumer: it accepts once, and takes what one `recv` gives for a message.
#[tokio::test]
async fn r7_07_consumer_of_the_original_works() {
    let mut child = Command::new("python3")
        .args(["-c", include_str!("support/original.py"), "30"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed for this test: apt-get install python3");
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = output.next().unwrap().unwrap();
    let config =
        Config { frames: Frames::Original, ..Config::new(format!("tcp://127.0.0.1:{port}")) };
    let broker = TcpBroker::open(config).unwrap();
    for first in [1, 11, 21] {
        let messages = events(first..first + 10);
        assert_eq!(publish(&broker, &messages, DEADLINE).await, all("acked", 10));
    }
    let ended = tokio::task::spawn_blocking(move || child.wait());
    assert!(within("its end", ended).await.unwrap().unwrap().success());
    let applied: Vec<String> =
        output.map(|line| line.unwrap().split_once(' ').unwrap().1.to_owned()).collect();
    assert_eq!(applied, ["10 10", "10 20", "10 30"]);
}
