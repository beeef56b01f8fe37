//! The subscriber, talked to by the adapter and by hand.

mod support;

use posthaste_broker_tcp::{Config, Frames, TcpSubscriber, subscribe};
use posthaste_core::{Incoming, Message, Sharing, Start, Subscriber, Subscription};
use posthaste_fixtures::{Port, eventually};
use posthaste_wire::{Profile, Wire};
use serde_json::json;
use support::{
    DEADLINE, Peer, SHORT, all, broker_to, delivery, event, events, noticed, publish, subscriber,
    within,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn receive(subscriber: &mut TcpSubscriber) -> Incoming {
    within("a message", subscriber.receive()).await.expect("a message")
}

/// The seq of the next message, acknowledged.
async fn next(subscriber: &mut TcpSubscriber) -> i64 {
    let incoming = receive(subscriber).await;
    subscriber.acknowledge(incoming.receipt).await.expect("its sender is there");
    incoming.provenance.seq.expect("a place in the log")
}

/// Nothing comes.
async fn assert_quiet(subscriber: &mut TcpSubscriber) {
    let more = tokio::time::timeout(SHORT, subscriber.receive()).await;
    assert!(more.is_err(), "nothing else comes, not {more:?}");
}

/// A frame of events with these seqs.
fn frame(batch: &str, seqs: &[i64]) -> String {
    let event = |seq: &i64| json!({"seq": seq, "topic": "t", "content_type": "x/y", "data": seq});
    let events: Vec<_> = seqs.iter().map(event).collect();
    json!({"batch": batch, "source": "/by-hand", "events": events}).to_string() + "\n"
}

fn ack(batch: &str, position: i64) -> serde_json::Value {
    json!({"batch": batch, "position": position})
}

#[tokio::test]
async fn messages_arrive_as_they_were_in_every_profile() {
    let payloads: [&[u8]; 7] =
        [b"{\"a\":1.10}", b"null", b"{\n\"pretty\": true\r\n}", b"\n", b"", b"\xff\0", b" 1 "];
    for (_, profile) in Profile::ALL {
        let everything = vec!["*".parse().unwrap()];
        let subscription = Subscription {
            name: None,
            topics: everything,
            start: Start::New,
            sharing: Sharing::Competing,
        };
        let wire = Wire { profile, source: "/shop".to_owned(), ..Wire::default() };
        let config = Config { wire, ..Config::new("tcp://127.0.0.1:0") };
        let mut subscriber = subscribe(&config, &subscription).await.unwrap();
        let config = Config { url: format!("tcp://{}", subscriber.address()), ..config };
        let broker = posthaste_broker_tcp::TcpBroker::open(config).unwrap();
        let of = |(seq, payload): (i64, &&[u8])| {
            let message = Message::from_bytes("orders", Some("k\"1"), payload.to_vec());
            delivery(seq, message.header("tenant id", "Gr\u{fc}\u{df}e").header("id", "theirs"))
        };
        let sent: Vec<_> = (1..).zip(&payloads).map(of).collect();
        // Debezium's form has the message's own id under that name.
        let sent: Vec<_> = match profile {
            Profile::Debezium => sent
                .iter()
                .map(|it| {
                    let mut message = it.message.clone();
                    message.headers.pop();
                    delivery(it.seq, message)
                })
                .collect(),
            _ => sent,
        };
        let receiving = async {
            let mut arrived = Vec::new();
            for _ in &sent {
                let incoming = receive(&mut subscriber).await;
                subscriber.acknowledge(incoming.receipt).await.unwrap();
                arrived.push(incoming);
            }
            arrived
        };
        let (outcomes, arrived) = tokio::join!(publish(&broker, &sent, DEADLINE), receiving);
        assert_eq!(outcomes, all("acked", sent.len()), "{profile:?}");
        for (incoming, delivery) in arrived.iter().zip(&sent) {
            let (arrived, sent) = (&incoming.message, &delivery.message);
            assert_eq!(arrived.payload, sent.payload, "{profile:?}");
            assert_eq!((&arrived.topic, &arrived.key), (&sent.topic, &sent.key), "{profile:?}");
            assert_eq!(arrived.content_type, sent.content_type, "{profile:?}");
            let mut headers = sent.headers.clone();
            headers.sort_unstable();
            assert_eq!(arrived.headers, headers, "{profile:?}");
            assert_eq!(arrived.id, sent.id, "{profile:?}");
            assert_eq!(incoming.provenance.seq, Some(delivery.seq), "{profile:?}");
            assert_eq!(incoming.provenance.source.as_deref(), Some("/shop"), "{profile:?}");
        }
    }
}

#[tokio::test]
async fn position_follows_what_is_acknowledged_from_the_first_on() {
    let mut subscriber = subscriber("127.0.0.1:0").await;
    let mut peer = Peer::dial(subscriber.address()).await;
    peer.send(frame("b", &[7, 5, 9, 10])).await;
    let mut receipts = Vec::new();
    for seq in [7, 5, 9, 10] {
        let incoming = receive(&mut subscriber).await;
        assert_eq!(incoming.provenance.seq, Some(seq));
        receipts.push(incoming.receipt);
    }
    for place in [1, 0] {
        subscriber.acknowledge(receipts[place]).await.unwrap();
    }
    assert_eq!(peer.json().await, ack("b", 5), "the second counts once the first does");
    subscriber.acknowledge(receipts[3]).await.unwrap();
    subscriber.acknowledge(receipts[2]).await.unwrap();
    assert_eq!(peer.json().await, ack("b", 10));
    assert!(subscriber.acknowledge(receipts[2]).await.is_err(), "once is enough");
}

#[tokio::test]
async fn r7_08_same_batch_ten_times_is_given_out_once_and_acknowledged_ten_times() {
    let mut subscriber = subscriber("127.0.0.1:0").await;
    let mut peer = Peer::dial(subscriber.address()).await;
    peer.send(frame("b", &[1, 2])).await;
    assert_eq!((next(&mut subscriber).await, next(&mut subscriber).await), (1, 2));
    while peer.json().await != ack("b", 2) {}
    for _ in 0..8 {
        peer.send(frame("b", &[1, 2])).await;
        assert_eq!(peer.json().await, ack("b", 2));
    }
    // Also on another connection.
    let mut peer = Peer::dial(subscriber.address()).await;
    peer.send(frame("b", &[1, 2]) + &frame("c", &[3])).await;
    assert_eq!(peer.json().await, ack("b", 2));
    assert_eq!(next(&mut subscriber).await, 3, "nothing of the copies");
    assert_eq!(peer.json().await, ack("c", 3));
}

#[tokio::test]
async fn unacknowledged_comes_again_on_the_next_connection() {
    let mut subscriber = subscriber("127.0.0.1:0").await;
    let mut peer = Peer::dial(subscriber.address()).await;
    peer.send(frame("b", &[1, 2, 3])).await;
    let first = receive(&mut subscriber).await;
    let second = receive(&mut subscriber).await;
    subscriber.acknowledge(first.receipt).await.unwrap();
    assert_eq!(peer.json().await, ack("b", 1));
    drop(peer);
    noticed().await;
    // Of the third nothing is seen before the batch comes again.
    assert_quiet(&mut subscriber).await;
    assert!(subscriber.acknowledge(second.receipt).await.is_err(), "it will come again");
    let mut peer = Peer::dial(subscriber.address()).await;
    peer.send(frame("b", &[1, 2, 3])).await;
    for seq in [1, 2, 3] {
        assert_eq!(next(&mut subscriber).await, seq);
    }
    while peer.json().await != ack("b", 3) {}
}

#[tokio::test]
async fn batch_that_was_handled_after_its_connection_ended_is_not_given_out_again() {
    let mut subscriber = subscriber("127.0.0.1:0").await;
    let mut peer = Peer::dial(subscriber.address()).await;
    peer.send(frame("b", &[1])).await;
    let only = receive(&mut subscriber).await;
    drop(peer);
    let mut peer = Peer::dial(subscriber.address()).await;
    peer.send(frame("b", &[1]) + &frame("c", &[2])).await;
    subscriber.acknowledge(only.receipt).await.unwrap();
    assert_eq!(next(&mut subscriber).await, 2);
    assert_eq!(peer.json().await, ack("b", 1));
    assert_eq!(peer.json().await, ack("c", 2));
}

#[tokio::test]
async fn subscriber_that_ends_unacknowledged_leaves_everything_to_the_next() {
    let port = Port::hold();
    let address = port.address();
    let mut first = subscriber(&address.to_string()).await;
    let broker = broker_to(address);
    let messages = events(1..=3);
    let receiving = async {
        receive(&mut first).await;
        drop(first);
    };
    let (outcomes, ()) = tokio::join!(publish(&broker, &messages, DEADLINE), receiving);
    assert_eq!(outcomes, all("unknown connection", 3));
    let mut second = subscriber(&address.to_string()).await;
    let receiving = async {
        for seq in 1..=3 {
            assert_eq!(next(&mut second).await, seq);
        }
    };
    let (outcomes, ()) = tokio::join!(publish(&broker, &messages, DEADLINE), receiving);
    assert_eq!(outcomes, all("acked", 3));
}

#[tokio::test]
async fn several_relays_are_served_at_once() {
    let mut subscriber = subscriber("127.0.0.1:0").await;
    let brokers: Vec<_> = (0..8).map(|_| broker_to(subscriber.address())).collect();
    let tasks: Vec<_> = (0..8)
        .zip(brokers)
        .map(|(n, broker)| {
            let messages = events(n * 1000..n * 1000 + 100);
            tokio::spawn(async move { publish(&broker, &messages, DEADLINE).await })
        })
        .collect();
    let mut arrived = Vec::new();
    while arrived.len() < 800 {
        arrived.push(next(&mut subscriber).await);
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), all("acked", 100));
    }
    for n in 0..8 {
        let of_one = arrived.iter().copied().filter(|seq| seq / 1000 == n);
        assert!(of_one.eq(n * 1000..n * 1000 + 100), "each relay's in order, each once");
    }
}

#[tokio::test]
async fn other_topics_are_acknowledged_and_skipped() {
    let subscription = Subscription {
        name: None,
        topics: vec!["t".parse().unwrap()],
        start: Start::New,
        sharing: Sharing::Competing,
    };
    let mut subscriber = subscribe(&Config::new("tcp://127.0.0.1:0"), &subscription).await.unwrap();
    let mut peer = Peer::dial(subscriber.address()).await;
    peer.send(frame("b", &[1, 2]).replace("\"t\"", "\"other\"")).await;
    peer.send(frame("c", &[3])).await;
    assert_eq!(next(&mut subscriber).await, 3);
    while peer.json().await != ack("c", 3) {}
}

#[tokio::test]
async fn what_is_no_frame_ends_its_connection_and_no_other() {
    let mut subscriber = subscriber("127.0.0.1:0").await;
    let mut good = Peer::dial(subscriber.address()).await;
    let missing = "{\"batch\":\"b\",\"source\":\"s\",\"events\":[{\"seq\":1,\"topic\":\"t\"}]}\n";
    let many = frame("b", &vec![1; 65_537]);
    let bad = [
        "\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "[".repeat(1_000_000) + "\n",
        "{\"batch\":".repeat(1000) + "\n",
        frame("b", &[]),
        frame(&"b".repeat(300), &[1]),
        frame("b", &[1]).replace("/by-hand\"", "/by-hand\",\"batch\":\"c\""),
        missing.to_owned(),
        missing.replace("\"t\"", "\"t\",\"data_base64\":\"!\""),
        missing.replace('1', "1e3"),
        many,
    ];
    for text in bad {
        let mut peer = Peer::dial(subscriber.address()).await;
        peer.send(&text).await;
        peer.until_closed().await;
    }
    good.send(frame("g", &[1])).await;
    assert_eq!(next(&mut subscriber).await, 1, "nothing of the bad ones");
    assert_eq!(good.json().await, ack("g", 1));
}

#[tokio::test]
async fn frame_beyond_the_limit_ends_its_connection_before_it_ends() {
    let limit = Config::FRAME_BYTES_MAX_MIN;
    let subscription = Subscription {
        name: None,
        topics: vec!["*".parse().unwrap()],
        start: Start::New,
        sharing: Sharing::Competing,
    };
    let config = Config { frame_bytes_max: limit, ..Config::new("tcp://127.0.0.1:0") };
    let mut subscriber = subscribe(&config, &subscription).await.unwrap();
    let mut peer = Peer::dial(subscriber.address()).await;
    let small = frame("b", &[1]);
    let exact = small.replace("x/y", &"x".repeat(limit - small.len() + "x/y".len()));
    assert_eq!(exact.len(), limit);
    peer.send(&exact).await;
    assert_eq!(next(&mut subscriber).await, 1);
    assert_eq!(peer.json().await, ack("b", 1));
    // Without a line break: nobody waits for the end of it.
    peer.send(vec![b'x'; limit]).await;
    peer.until_closed().await;
}

#[tokio::test]
async fn frames_that_never_end_take_so_much_memory_together_and_no_more() {
    let mut subscriber = subscriber("127.0.0.1:0").await;
    let address = subscriber.address();
    let piece = vec![b'x'; 15 * 1024 * 1024];
    // Each fits a frame; the fifth does not fit beside the others.
    let mut peers = Vec::new();
    for _ in 0..4 {
        let mut peer = Peer::dial(address).await;
        peer.send(&piece).await;
        peers.push(peer);
    }
    let ended = async {
        loop {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            // Cut while it sends, or right after.
            let _ = stream.write_all(&piece).await;
            if !matches!(stream.read(&mut [0]).await, Ok(1..)) {
                return;
            }
        }
    };
    within("the end of one too many", ended).await;
    drop(peers);
    // Whoever comes then finds room again.
    let messages = [event(1)];
    let broker = broker_to(address);
    let publishing = eventually("room", async || {
        (publish(&broker, &messages, DEADLINE).await == ["acked"]).then_some(())
    });
    tokio::join!(publishing, next(&mut subscriber));
}

#[tokio::test]
async fn frames_of_5000_events_and_of_ten_megabytes_arrive() {
    let mut subscriber = subscriber("127.0.0.1:0").await;
    let broker = broker_to(subscriber.address());
    let many = events(1..=5000);
    let receiving = async {
        for seq in 1..=5000 {
            assert_eq!(next(&mut subscriber).await, seq);
        }
    };
    let (outcomes, ()) = tokio::join!(publish(&broker, &many, DEADLINE), receiving);
    assert_eq!(outcomes, all("acked", 5000));
    let large: Vec<_> = (1..=10)
        .map(|seq| {
            let payload = format!("\"{}\"", "x".repeat(1_000_000));
            delivery(seq, Message::from_bytes("t", Some("k"), payload))
        })
        .collect();
    let receiving = async {
        for seq in 1..=10 {
            let incoming = receive(&mut subscriber).await;
            assert_eq!(incoming.provenance.seq, Some(seq));
            assert_eq!(incoming.message.payload.len(), 1_000_002);
            subscriber.acknowledge(incoming.receipt).await.unwrap();
        }
    };
    let (outcomes, ()) = tokio::join!(publish(&broker, &large, DEADLINE), receiving);
    assert_eq!(outcomes, all("acked", 10));
}

#[tokio::test]
async fn frames_in_pieces_and_several_in_a_segment_are_read() {
    let mut subscriber = subscriber("127.0.0.1:0").await;
    let mut peer = Peer::dial(subscriber.address()).await;
    peer.drip(&frame("b", &[1])).await;
    assert_eq!(next(&mut subscriber).await, 1);
    assert_eq!(peer.json().await, ack("b", 1));
    let two = frame("c", &[2]) + &frame("d", &[3]);
    peer.send(&two[..two.len() - 5]).await;
    assert_eq!(next(&mut subscriber).await, 2);
    assert_eq!(peer.json().await, ack("c", 2));
    peer.send(&two[two.len() - 5..]).await;
    assert_eq!(next(&mut subscriber).await, 3);
    assert_eq!(peer.json().await, ack("d", 3));
}

#[tokio::test]
async fn arbitrary_bytes_harm_nobody() {
    let mut subscriber = subscriber("127.0.0.1:0").await;
    let mut random = fastrand::Rng::with_seed(707);
    let whole = frame("b", &[1, 2, 3]);
    for round in 0..200 {
        let mut bytes = match round % 2 {
            0 => {
                let count = random.usize(..2000);
                std::iter::repeat_with(|| random.u8(..)).take(count).collect()
            }
            _ => whole.clone().into_bytes(),
        };
        // A frame with some bytes that are not its own, and never its line break.
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.u8(..);
            }
        }
        bytes.retain(|byte| *byte != b'\n');
        bytes.truncate(random.usize(..=bytes.len()));
        let mut peer = Peer::dial(subscriber.address()).await;
        peer.send(&bytes).await;
        if random.bool() {
            peer.send("}\n").await;
        }
    }
    let broker = broker_to(subscriber.address());
    let messages = [event(1)];
    let receiving = async { while next_topic(&mut subscriber).await != "likes" {} };
    let (outcomes, ()) = tokio::join!(publish(&broker, &messages, DEADLINE), receiving);
    assert_eq!(outcomes, ["acked"]);
}

/// The topic of the next message; that its sender may be gone does not matter.
async fn next_topic(subscriber: &mut TcpSubscriber) -> String {
    let incoming = receive(subscriber).await;
    let _ = subscriber.acknowledge(incoming.receipt).await;
    incoming.message.topic
}

#[tokio::test]
async fn original_frames_and_taken_addresses_cannot_be_subscribed_to() {
    let subscription = Subscription {
        name: None,
        topics: Vec::new(),
        start: Start::New,
        sharing: Sharing::Competing,
    };
    let port = Port::hold();
    let first = subscriber(&port.address().to_string()).await;
    let taken = Config::new(format!("tcp://{}", port.address()));
    let error = subscribe(&taken, &subscription).await.unwrap_err();
    assert!(error.message.contains("cannot listen on 127.0.0.1:"), "{error}");
    let original = Config { frames: Frames::Original, ..Config::new("tcp://127.0.0.1:0") };
    assert!(subscribe(&original, &subscription).await.is_err());
    assert!(subscribe(&Config::new("tcp://127.0.0.1"), &subscription).await.is_err());
    drop(first);
    eventually("free port", async || subscribe(&taken, &subscription).await.ok()).await;
}
