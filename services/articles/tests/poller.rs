//! What goes to a consumer, as bytes: one batch of everything there is, nothing where there is nothing, and
//! frames of the original for those who speak them.

mod support;

use std::{collections::BTreeSet, time::Duration};

use articles::{service::Articles, storage};
use jiff::Timestamp;
use serde_json::Value;
use support::{PATIENCE, Service};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// How often the original looked for something to send.
const INTERVAL: Duration = Duration::from_secs(5);

/// A consumer that takes a connection and is told frame by frame what to do.
struct Peer {
    stream: BufReader<TcpStream>,
}

impl Peer {
    async fn of(listener: &TcpListener) -> Self {
        let accepted = timeout(PATIENCE, listener.accept()).await.expect("a connection in time");
        Self { stream: BufReader::new(accepted.expect("a connection").0) }
    }

    async fn frame(&mut self) -> Value {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.stream.read_line(&mut line)).await;
        read.expect("a frame in time").expect("a frame");
        serde_json::from_str(&line).expect("a frame is JSON")
    }

    async fn answer(&mut self, text: String) {
        self.stream.get_mut().write_all(text.as_bytes()).await.expect("it reads");
    }

    /// As the original's consumers do: an object, and nothing after it.
    async fn acknowledge_original(&mut self, frame: &Value) {
        self.answer(format!("{{\"id\":{}}}", frame["id"])).await;
    }

    async fn acknowledge(&mut self, frame: &Value) {
        let (batch, last) = (&frame["batch"], &frame["last"]);
        self.answer(format!("{{\"batch\":{batch},\"position\":{last}}}\n")).await;
    }

    /// Whether nothing comes for longer than the original paused.
    async fn is_silent(&mut self) -> bool {
        timeout(INTERVAL + Duration::from_secs(1), self.stream.fill_buf()).await.is_err()
    }
}

/// A consumer's listener, and the option that names it.
async fn listener(frames: &str) -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    (listener, format!("--consumer=graph=tcp://{address}?frames={frames}"))
}

/// Likes article 1 so often before anybody relays.
async fn liked(folder: &std::path::Path, likes: usize) {
    let url = format!("sqlite:{}", folder.join("articles.db").display());
    let storage = storage::open(&url).await.expect("storage for the test");
    let articles = Articles::new(storage, Timestamp::now);
    articles.seed().await.expect("it works");
    for _ in 0..likes {
        articles.like(1.try_into().expect("an id")).await.expect("a like");
    }
}

fn event_ids(frame: &Value) -> BTreeSet<String> {
    let events = frame["events"].as_array().expect("events");
    // Native frames have CloudEvents, the original's their data alone.
    let id = |event: &Value| {
        let id = event.pointer("/event/data/event_id").unwrap_or(&event["event_id"]);
        id.as_str().expect("an id").to_owned()
    };
    events.iter().map(id).collect()
}

#[tokio::test]
async fn r7_06_ten_likes_are_one_message() {
    for frames in ["native", "original"] {
        let folder = tempfile::tempdir().expect("a folder");
        liked(folder.path(), 10).await;
        let (listener, consumer) = listener(frames).await;
        let _service = Service::start_with(folder.path(), &[&consumer]).await;
        let frame = Peer::of(&listener).await.frame().await;
        assert_eq!(event_ids(&frame).len(), 10, "{frame}");
    }
}

#[tokio::test]
async fn r7_06_without_likes_there_is_silence() {
    let folder = tempfile::tempdir().expect("a folder");
    liked(folder.path(), 1).await;
    let (listener, consumer) = listener("native").await;
    let service = Service::start_with(folder.path(), &[&consumer]).await;
    let mut peer = Peer::of(&listener).await;
    let frame = peer.frame().await;
    peer.acknowledge(&frame).await;
    assert!(peer.is_silent().await, "there is nothing new");
    service.like(1).await;
    let next = peer.frame().await;
    assert_eq!(event_ids(&next).len(), 1, "{next}");
    assert!(event_ids(&next).is_disjoint(&event_ids(&frame)), "{next}");
}

#[tokio::test]
async fn r7_07_likes_reach_a_consumer_that_speaks_the_originals_frames() {
    let folder = tempfile::tempdir().expect("a folder");
    let (listener, consumer) = listener("original").await;
    let service = Service::start_with(folder.path(), &[&consumer]).await;
    for _ in 0..10 {
        service.like(1).await;
    }
    let mut peer = Peer::of(&listener).await;
    let (mut batches, mut events) = (BTreeSet::new(), BTreeSet::new());
    while events.len() < 10 {
        let frame = peer.frame().await;
        assert_eq!(frame.as_object().expect("an object").len(), 2, "{frame}");
        for event in frame["events"].as_array().expect("events") {
            assert_eq!((&event["article_id"], &event["author_id"]), (&1.into(), &1.into()));
            let at = event["timestamp"].as_str().expect("a time");
            at.parse::<Timestamp>().expect("RFC 3339");
        }
        // As the original's: a batch that was seen is acknowledged and not looked at again.
        if batches.insert(frame["id"].as_u64().expect("a number")) {
            let new = event_ids(&frame);
            assert!(new.is_disjoint(&events), "{frame}");
            events.extend(new);
        }
        peer.acknowledge_original(&frame).await;
    }
    service.stop().await;
}

/// Half of a request's headers, by somebody who then does nothing.
#[tokio::test]
async fn r1_15_half_a_request_does_not_hold_up_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_listener, consumer) = listener("native").await;
    let service = Service::start_with(folder.path(), &[&consumer]).await;
    let address = service.url.strip_prefix("http://").expect("a URL");
    let mut half = TcpStream::connect(address).await.expect("it listens");
    half.write_all(b"POST /articles/1/like HTTP/1.1\r\nHost: x\r\n").await.expect("it reads");
    // Answered after the half request was accepted.
    assert_eq!(service.like(1).await, 4);
    service.stop().await;
}
