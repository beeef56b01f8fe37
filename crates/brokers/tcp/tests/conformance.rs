//! The broker suite, with a consumer in Python that keeps what it took in a file.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use posthaste_broker_tcp::{Config, TcpBroker};
use posthaste_conformance::broker::{self, Bed, Faults, Fixture, Traits};
use posthaste_core::{
    Broker, BrokerError, Incoming, MessageId, Subscriber, Subscription, TopicPattern,
};
use posthaste_fixtures::{Port, look};
use posthaste_wire::{Destination, Names, Profile, Received, STRUCTURED_CONTENT_TYPE, Style, Wire};
use serde_json::value::RawValue;
use tempfile::TempDir;

const NAMES: Names = Names { style: Style::Dash, reserved: &[], reserved_prefixes: &[] };

struct TcpFixture;

#[async_trait]
impl Fixture for TcpFixture {
    async fn shared(&self) -> Arc<dyn Bed> {
        Arc::new(TcpBed { consumer: Arc::new(Consumer::start()), is_private: false })
    }

    async fn private(&self) -> Arc<dyn Bed> {
        Arc::new(TcpBed { consumer: Arc::new(Consumer::start()), is_private: true })
    }
}

/// The consumer's process. Gone when dropped.
struct Consumer {
    folder: TempDir,
    port: Port,
    process: Mutex<Child>,
}

impl Consumer {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = Port::hold();
        let process = Mutex::new(spawn(&folder, &port));
        Self { folder, port, process }
    }

    fn kill(&self) {
        let mut process = self.process.lock().expect("no case panics here");
        process.kill().expect("it can be killed");
        process.wait().expect("it ends");
    }

    fn start_again(&self) {
        let mut process = self.process.lock().expect("no case panics here");
        if process.try_wait().expect("its state").is_some() {
            *process = spawn(&self.folder, &self.port);
        }
    }

    fn signal(&self, signal: &str) {
        let mut process = self.process.lock().expect("no case panics here");
        if process.try_wait().expect("its state").is_none() {
            let id = process.id().to_string();
            let status = Command::new("kill").args([signal, &id]).status().expect("kill");
            assert!(status.success(), "{signal} reaches the consumer");
            if signal == "-STOP" {
                posthaste_fixtures::until_stopped(process.id());
            }
        }
    }

    /// The log's lines that are complete, from a byte on.
    fn read(&self, from: u64) -> Vec<u8> {
        let mut text = Vec::new();
        let mut log = File::open(self.folder.path().join("log")).expect("the consumer's log");
        log.seek(SeekFrom::Start(from)).expect("a place in the log");
        log.read_to_end(&mut text).expect("the log");
        text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
        text
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.signal("-CONT");
        self.kill();
    }
}

fn spawn(folder: &TempDir, port: &Port) -> Child {
    let mut child = Command::new("python3")
        .arg("-c")
        .arg(include_str!("support/consumer.py"))
        .arg(folder.path())
        .arg(port.address().port().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed for this test: apt-get install python3");
    let output = child.stdout.take().expect("its output");
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n", "the consumer starts");
    child
}

struct TcpBed {
    consumer: Arc<Consumer>,
    is_private: bool,
}

#[async_trait]
impl Bed for TcpBed {
    async fn broker(&self, wire: Wire) -> Arc<dyn Broker> {
        let url = format!("tcp://{}", self.consumer.port.address());
        let config = Config { wire, ..Config::new(url) };
        Arc::new(TcpBroker::open(config).expect("a good configuration"))
    }

    async fn subscriber(&self, mut wire: Wire, subscription: Subscription) -> Box<dyn Subscriber> {
        let consumer = Arc::clone(&self.consumer);
        let offset = consumer.read(0).len() as u64;
        if wire.profile == Profile::Binary {
            wire.profile = Profile::Structured;
        }
        wire.destination = Destination::default();
        let (topics, read) = (subscription.topics, VecDeque::new());
        Box::new(FileSubscriber { consumer, wire, topics, offset, read })
    }

    async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let name = format!("t{}", MessageId::fresh());
        endings.iter().map(|ending| format!("{name}{ending}")).collect()
    }

    fn traits(&self) -> Traits {
        Traits {
            illegal_headers: vec![("ce-id".to_owned(), "an id of theirs".to_owned())],
            has_destinations: false,
            has_lanes: false,
            has_names: false,
            shares_names: false,
            redelivers: false,
            keeps_history: false,
            ..Traits::default()
        }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        self.is_private.then_some(self)
    }
}

#[async_trait]
impl Faults for TcpBed {
    async fn stop(&self) {
        self.consumer.kill();
    }

    async fn kill(&self) {
        self.consumer.kill();
    }

    async fn start(&self) {
        self.consumer.start_again();
    }

    async fn freeze(&self) {
        self.consumer.signal("-STOP");
    }

    async fn thaw(&self) {
        self.consumer.signal("-CONT");
    }
}

/// Reads what the consumer took, by what the documentation says of frames and by no code of the
/// adapter.
struct FileSubscriber {
    consumer: Arc<Consumer>,
    wire: Wire,
    topics: Vec<TopicPattern>,
    offset: u64,
    /// Read and not given out.
    read: VecDeque<Incoming>,
}

type Members<'a> = BTreeMap<String, &'a RawValue>;

impl FileSubscriber {
    fn look(&mut self) {
        let text = self.consumer.read(self.offset);
        self.offset += text.len() as u64;
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let frame: Members<'_> = serde_json::from_slice(line).expect("a frame");
            let events: Vec<Members<'_>> =
                serde_json::from_str(frame["events"].get()).expect("a list of events");
            for event in &events {
                let (message, provenance) = self.wire.decode(received(event), &NAMES);
                if self.topics.iter().any(|pattern| pattern.matches(&message.topic)) {
                    self.read.push_back(Incoming { message, provenance, receipt: 0, lane: None });
                }
            }
        }
    }
}

fn received(event: &Members<'_>) -> Received {
    let text = |name: &str| -> Option<String> {
        event.get(name).map(|text| serde_json::from_str(text.get()).expect("a text"))
    };
    let headers: BTreeMap<String, String> = event
        .get("headers")
        .map(|headers| serde_json::from_str(headers.get()).expect("names and values"))
        .unwrap_or_default();
    let (content_type, body) = match (event.get("event"), event.get("data")) {
        (Some(event), _) => {
            (Some(STRUCTURED_CONTENT_TYPE.to_owned()), event.get().as_bytes().to_vec())
        }
        (None, Some(data)) => (text("content_type"), data.get().as_bytes().to_vec()),
        (None, None) => {
            let data = text("data_base64").expect("data of either kind");
            (text("content_type"), STANDARD.decode(data).expect("base64"))
        }
    };
    Received {
        destination: text("topic").expect("a topic"),
        headers: headers.into_iter().collect(),
        content_type,
        body: body.into(),
        key: text("key"),
        id: None,
        coordinates: event["seq"].get().to_owned(),
    }
}

#[async_trait]
impl Subscriber for FileSubscriber {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        let next = || {
            if self.read.is_empty() {
                self.look();
            }
            self.read.pop_front()
        };
        Ok(look(next).await)
    }

    async fn acknowledge(&mut self, _: u64) -> Result<(), BrokerError> {
        Ok(())
    }
}

fn main() -> ExitCode {
    broker::run("tcp", TcpFixture)
}
