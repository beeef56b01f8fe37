//! Through a real relay: consumers that crash, hang and lose acknowledgements. `r7_07_g`: nothing is
//! lost, and nothing counts twice.

mod support;

use std::{collections::HashSet, net::SocketAddr, sync::Arc, time::Duration};

use posthaste_broker_tcp::Frames;
use posthaste_core::{Broker, Message, RouteSpec};
use posthaste_fixtures::{Port, look};
use posthaste_relay::{Relay, Route, Settings, TokioClock};
use posthaste_store_memory::MemoryStore;
use serde_json::Value;
use support::{Consumer, Peer, native_ack, original_ack, within};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

const EVENTS: usize = 600;
/// Events enqueued at once, and most of a frame.
const BURST: usize = 20;

/// A running relay with an outbox in memory.
struct Running {
    store: MemoryStore,
    stop: CancellationToken,
    relay: AbortOnDropHandle<()>,
}

fn run(broker: Arc<dyn Broker>) -> Running {
    let store = MemoryStore::new(Arc::new(TokioClock::new()));
    let topics = vec!["likes".parse().expect("a pattern")];
    let spec = RouteSpec { name: "likes".to_owned(), topics, shards: 1 };
    let route = Route {
        publish_timeout: Duration::from_millis(300),
        in_flight_max: BURST,
        ..Route::new(spec, broker)
    };
    let settings = Settings { poll: Duration::from_millis(20), ..Settings::default() };
    let relay = Relay::new(Arc::new(store.clone()), vec![route], settings);
    let stop = CancellationToken::new();
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { relay.run(stop).await.expect("the store can be served") }
    });
    Running { store, stop, relay: AbortOnDropHandle::new(task) }
}

impl Running {
    fn like(&self, numbers: std::ops::Range<usize>) {
        let event = |n| Message::from_bytes("likes", Some("1"), format!("{{\"event_id\":{n}}}"));
        let mut tx = self.store.begin();
        tx.enqueue(&numbers.map(event).collect::<Vec<_>>()).expect("good messages");
        tx.commit();
    }

    async fn stop(self) {
        self.stop.cancel();
        within("the relay's end", self.relay).await.expect("no panic");
    }
}

/// What a consumer keeps on its disk.
#[derive(Default)]
struct Replica {
    applied: Vec<u64>,
    batches: HashSet<String>,
    positions: HashSet<i64>,
}

impl Replica {
    /// Applies what is new: by the id of the batch as the original does, or by position.
    fn apply(&mut self, frame: &Value) {
        let events = frame["events"].as_array().expect("a list");
        if let Some(id) = frame.get("id") {
            if self.batches.insert(id.to_string()) {
                self.applied.extend(events.iter().map(event_id));
            }
            return;
        }
        for event in events {
            if self.positions.insert(event["seq"].as_i64().expect("a number")) {
                self.applied.push(event_id(&event["event"]["data"]));
            }
        }
    }
}

fn event_id(event: &Value) -> u64 {
    event["event_id"].as_u64().expect("a number")
}

/// How a consumer treats one frame.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Good,
    /// Dies before it has applied it.
    DieEarly,
    /// Dies after it has applied it, without a word.
    DieLate,
    /// Applies it, and its acknowledgement is lost.
    LoseAck,
    /// Half an acknowledgement, then death.
    HalfAck,
    /// The acknowledgement twice.
    AckTwice,
}

const DEEDS: [Deed; 5] =
    [Deed::DieEarly, Deed::DieLate, Deed::LoseAck, Deed::HalfAck, Deed::AckTwice];

fn ack(line: &str, frame: &Value) -> String {
    match frame.get("id") {
        Some(_) => original_ack(line),
        None => native_ack(frame, frame["last"].as_i64().expect("a number")),
    }
}

/// Does it; whether the consumer lives on.
async fn take(peer: &mut Peer, line: &str, deed: Deed, replica: &mut Replica) -> bool {
    let frame: Value = serde_json::from_str(line).expect("a frame");
    let ack = ack(line, &frame);
    if !matches!(deed, Deed::DieEarly) {
        replica.apply(&frame);
    }
    match deed {
        Deed::Good => peer.send(ack).await,
        Deed::AckTwice => peer.send(ack.repeat(2)).await,
        Deed::HalfAck => peer.send(&ack[..ack.len() / 2]).await,
        Deed::DieEarly | Deed::DieLate | Deed::LoseAck => {}
    }
    matches!(deed, Deed::Good | Deed::AckTwice | Deed::LoseAck)
}

/// Consumes until everything has come; badly at first, every other frame. Counts the frames.
async fn consume(
    address: SocketAddr,
    first: TcpListener,
    seed: u64,
    frames: watch::Sender<usize>,
) -> Replica {
    let mut replica = Replica::default();
    let mut deeds: Vec<Deed> = DEEDS.to_vec();
    fastrand::Rng::with_seed(seed).shuffle(&mut deeds);
    let mut listener = first;
    while replica.applied.len() < EVENTS {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut peer = Peer::new(stream);
        while replica.applied.len() < EVENTS {
            let line = peer.line().await;
            if line.is_empty() {
                break;
            }
            frames.send_modify(|count| *count += 1);
            let bad = if *frames.borrow() % 2 == 1 { deeds.pop() } else { None };
            if !take(&mut peer, &line, bad.unwrap_or(Deed::Good), &mut replica).await {
                break;
            }
        }
        drop((peer, listener));
        listener = bind_again(address).await;
    }
    assert!(deeds.is_empty(), "every deed was done");
    replica
}

async fn bind_again(address: SocketAddr) -> TcpListener {
    let listener = look(|| std::net::TcpListener::bind(address).ok()).await;
    listener.set_nonblocking(true).expect("a socket of its own");
    TcpListener::from_std(listener).expect("a runtime")
}

async fn nothing_is_lost_and_nothing_counts_twice(form: Frames, seed: u64) {
    let port = Port::hold();
    let consumer = Consumer::start_at(port.address()).await;
    let (address, broker) = (consumer.address(), consumer.broker(form));
    let relay = run(Arc::new(broker));
    let (count, mut frames) = watch::channel(0);
    let consuming = tokio::spawn(consume(address, consumer.listener, seed, count));
    // In bursts, so that newer events come while an older batch is outstanding.
    for start in (0..EVENTS).step_by(BURST) {
        let before = *frames.borrow();
        relay.like(start..start + BURST);
        let next = frames.wait_for(|count| *count > before);
        within("a frame", next).await.expect("it consumes until everything has come");
    }
    let replica = tokio::time::timeout(Duration::from_secs(90), consuming).await;
    let replica = replica.expect("everything comes in time").expect("no panic");
    assert!(replica.applied.iter().copied().eq(0..EVENTS as u64), "in order, each once");
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r7_07_g_restarted_consumer_of_native_frames() {
    nothing_is_lost_and_nothing_counts_twice(Frames::Native, 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r7_07_g_restarted_consumer_of_original_frames() {
    nothing_is_lost_and_nothing_counts_twice(Frames::Original, 8).await;
}

/// An index that does not move: the relay asks again and again, with fewer messages and with newer
/// ones, and what goes out stays the same until it is acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn r7_07_a_through_a_relay_the_same_bytes_come_until_they_are_acknowledged() {
    let consumer = Consumer::start().await;
    let relay = run(Arc::new(consumer.broker(Frames::Original)));
    relay.like(0..10);
    let mut peer = consumer.accept().await;
    let first = peer.line().await;
    for round in 1..6 {
        relay.like(round * 10..round * 10 + 10);
        assert_eq!(peer.line().await, first, "round {round}");
    }
    let mut replica = Replica::default();
    let mut line = first;
    loop {
        let frame: Value = serde_json::from_str(&line).expect("a frame");
        replica.apply(&frame);
        peer.send(original_ack(&line)).await;
        if replica.applied.len() == 60 {
            break;
        }
        line = peer.line().await;
    }
    assert!(replica.applied.iter().copied().eq(0..60), "in order, each once");
    relay.stop().await;
}
