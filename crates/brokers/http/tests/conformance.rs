//! The broker suite, with a receiver in Python that keeps what it took in a file.

mod support;

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;
use posthaste_broker_http::{Config, HttpBroker};
use posthaste_conformance::broker::{self, Bed, Faults, Fixture, Traits};
use posthaste_core::{
    Broker, BrokerError, Incoming, MessageId, Subscriber, Subscription, TopicPattern,
};
use posthaste_wire::{Names, Received, Style, Wire};
use serde_json::Value;
use support::Receiver;

const NAMES: Names = Names { style: Style::Dash, reserved: &[], reserved_prefixes: &[] };

struct HttpFixture;

#[async_trait]
impl Fixture for HttpFixture {
    async fn shared(&self) -> Arc<dyn Bed> {
        Arc::new(HttpBed { receiver: Arc::new(Receiver::start()), is_private: false })
    }

    async fn private(&self) -> Arc<dyn Bed> {
        Arc::new(HttpBed { receiver: Arc::new(Receiver::start()), is_private: true })
    }
}

struct HttpBed {
    receiver: Arc<Receiver>,
    is_private: bool,
}

#[async_trait]
impl Bed for HttpBed {
    async fn broker(&self, wire: Wire) -> Arc<dyn Broker> {
        let config = Config { wire, ..self.receiver.config("/hook") };
        Arc::new(HttpBroker::open(config).expect("a good configuration"))
    }

    async fn subscriber(&self, wire: Wire, subscription: Subscription) -> Box<dyn Subscriber> {
        let (_, offset) = self.receiver.read(0);
        let receiver = Arc::clone(&self.receiver);
        let topics = subscription.topics;
        Box::new(FileSubscriber { receiver, wire, topics, offset, read: Vec::new() })
    }

    async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let name = format!("t{}", MessageId::fresh());
        endings.iter().map(|ending| format!("{name}{ending}")).collect()
    }

    fn traits(&self) -> Traits {
        let illegal = [("host", "evil.example"), ("webhook-id", "an id of theirs")];
        Traits {
            illegal_headers: illegal.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec(),
            refused_odd_headers: vec![
                "unicode value",
                "spaces at the ends",
                "spaced name",
                "colon in the name",
                "unicode name",
            ],
            folds_header_names: true,
            has_destinations: false,
            has_names: false,
            shares_names: false,
            redelivers: false,
            has_lanes: false,
            keeps_history: false,
            ..Traits::default()
        }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        self.is_private.then_some(self)
    }
}

#[async_trait]
impl Faults for HttpBed {
    async fn stop(&self) {
        self.receiver.kill();
    }

    async fn kill(&self) {
        self.receiver.kill();
    }

    async fn start(&self) {
        self.receiver.start_again();
    }

    async fn freeze(&self) {
        self.receiver.signal("-STOP");
    }

    async fn thaw(&self) {
        self.receiver.signal("-CONT");
    }
}

/// Reads what the receiver took.
struct FileSubscriber {
    receiver: Arc<Receiver>,
    wire: Wire,
    topics: Vec<TopicPattern>,
    offset: usize,
    /// Read and not given out, latest first.
    read: Vec<Value>,
}

impl FileSubscriber {
    fn next(&mut self) -> Option<Incoming> {
        loop {
            if self.read.is_empty() {
                let (mut entries, offset) = self.receiver.read(self.offset);
                entries.reverse();
                (self.read, self.offset) = (entries, offset);
            }
            let (message, provenance) = self.wire.decode(received(&self.read.pop()?), &NAMES);
            if self.topics.iter().any(|pattern| pattern.matches(&message.topic)) {
                return Some(Incoming { message, provenance, receipt: 0, lane: None });
            }
        }
    }
}

fn received(entry: &Value) -> Received {
    let mut received = Received::default();
    for header in entry["headers"].as_array().expect("a list") {
        let name = header[0].as_str().expect("a name").to_owned();
        let value = header[1].as_str().expect("a value").to_owned();
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        match &*name {
            "posthaste-topic" => received.destination = decode(&value),
            "content-type" => received.content_type = Some(value),
            "webhook-id" => received.id = Some(value),
            "webhook-timestamp" | "webhook-signature" | "idempotency-key" => {}
            "host" | "accept" | "user-agent" | "content-length" => {}
            name if name.starts_with("ce-") => {
                received.headers.push((name.to_owned(), decode(&value)));
            }
            _ => received.headers.push((name, value)),
        }
    }
    let body = entry["body"].as_str().expect("text");
    received.body = STANDARD.decode(body).expect("base64").into();
    received
}

#[async_trait]
impl Subscriber for FileSubscriber {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        Ok(posthaste_fixtures::look(|| self.next()).await)
    }

    async fn acknowledge(&mut self, _: u64) -> Result<(), BrokerError> {
        Ok(())
    }
}

fn main() -> ExitCode {
    broker::run("http", HttpFixture)
}
