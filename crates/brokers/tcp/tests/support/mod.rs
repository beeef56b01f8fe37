//! Messages, and consumers that do what a test tells them.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use posthaste_broker_tcp::{Config, Frames, TcpBroker, TcpSubscriber, subscribe};
use posthaste_core::{Broker, Delivery, Message, MessageId, Outcome, Sharing, Start, Subscription};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use uuid::Uuid;

/// The deadline of calls that should have an answer long before.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// The deadline of calls that will not be answered.
pub(crate) const SHORT: Duration = Duration::from_secs(2);

/// Lets the runtime hear of what is in this machine's hands already, and those whom it concerns act on
/// it: everything runs on one thread, and each turn asks the system for news.
pub(crate) async fn noticed() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// Waits for what must come.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(90), future).await;
    waited.unwrap_or_else(|_| panic!("{what} did not come"))
}

/// The message at this place of the log, always the same.
pub(crate) fn event(seq: i64) -> Arc<Delivery> {
    let payload = format!("{{\"event_id\":{seq},\"article_id\":1}}");
    delivery(seq, Message::from_bytes("likes", Some("1"), payload))
}

/// The messages at these places of the log.
pub(crate) fn events(seqs: impl IntoIterator<Item = i64>) -> Vec<Arc<Delivery>> {
    seqs.into_iter().map(event).collect()
}

/// A message on its way, at this place of the log.
pub(crate) fn delivery(seq: i64, message: Message) -> Arc<Delivery> {
    let id = MessageId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + seq as u128));
    let enqueued_at = UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
    let message = Message { id, ..message };
    Arc::new(Delivery { seq, message, enqueued_at, attempt: 1, redriven: 0, floor: None })
}

/// Outcomes in two words each.
pub(crate) fn shown(outcomes: &[Outcome]) -> Vec<String> {
    let shown = |outcome: &Outcome| match outcome {
        Outcome::Acked => "acked".to_owned(),
        Outcome::Rejected(failure) => format!("rejected {}", failure.class),
        Outcome::Unreachable(failure) => format!("unreachable {}", failure.class),
        Outcome::Unknown(failure) => format!("unknown {}", failure.class),
    };
    outcomes.iter().map(shown).collect()
}

/// So many of the same words.
pub(crate) fn all(words: &str, count: usize) -> Vec<String> {
    vec![words.to_owned(); count]
}

/// Publishes and shows the outcomes.
pub(crate) async fn publish(
    broker: &TcpBroker,
    messages: &[Arc<Delivery>],
    deadline: Duration,
) -> Vec<String> {
    shown(&broker.publish(messages, deadline).await)
}

/// A consumer by hand.
pub(crate) struct Consumer {
    pub(crate) listener: TcpListener,
}

impl Consumer {
    pub(crate) async fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        Self { listener: TcpListener::bind(address).await.expect("a port") }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("an address")
    }

    /// A broker that sends to it.
    pub(crate) fn broker(&self, frames: Frames) -> TcpBroker {
        let config = Config { frames, ..Config::new(format!("tcp://{}", self.address())) };
        TcpBroker::open(config).expect("a good configuration")
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> Peer {
        let accepted = within("a connection", self.listener.accept()).await;
        Peer::new(accepted.expect("a connection").0)
    }
}

/// One end of a connection.
pub(crate) struct Peer {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Peer {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("an option of every system");
        let (reader, writer) = stream.into_split();
        Self { reader: BufReader::new(reader), writer }
    }

    pub(crate) async fn dial(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).await.expect("somebody listens"))
    }

    /// The next line, or nothing once the other side has closed or cut the connection.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = within("a line", self.reader.read_line(&mut line)).await;
        if read.is_err() { String::new() } else { line }
    }

    /// The next line as JSON.
    pub(crate) async fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().await).expect("JSON")
    }

    pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.writer.write_all(text.as_ref()).await.expect("the other side is there");
        self.writer.flush().await.expect("the other side is there");
    }

    /// Sends each byte in a segment of its own.
    pub(crate) async fn drip(&mut self, text: &str) {
        for byte in text.bytes() {
            self.send([byte]).await;
            noticed().await;
        }
    }

    /// Waits for the other side to close, whatever it sends before.
    pub(crate) async fn until_closed(&mut self) {
        let mut rest = Vec::new();
        // A connection that is cut is closed.
        let _ = within("the end", self.reader.read_to_end(&mut rest)).await;
    }
}

/// The acknowledgement of an original frame.
pub(crate) fn original_ack(frame: &str) -> String {
    let frame: Value = serde_json::from_str(frame).expect("a frame");
    format!("{{\"id\":{}}}", frame["id"])
}

/// The acknowledgement of a native frame up to a position.
pub(crate) fn native_ack(frame: &Value, position: i64) -> String {
    format!("{{\"batch\":{},\"position\":{position}}}\n", frame["batch"])
}

/// A subscriber to everything, at this address.
pub(crate) async fn subscriber(address: &str) -> TcpSubscriber {
    let everything = vec!["*".parse().expect("a pattern")];
    let subscription = Subscription {
        name: None,
        topics: everything,
        start: Start::New,
        sharing: Sharing::Competing,
    };
    let config = Config::new(format!("tcp://{address}"));
    subscribe(&config, &subscription).await.expect("a free port")
}

/// A broker that sends to a subscriber.
pub(crate) fn broker_to(address: SocketAddr) -> TcpBroker {
    TcpBroker::open(Config::new(format!("tcp://{address}"))).expect("a good configuration")
}
