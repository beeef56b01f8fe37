//! The broker suite on a real server.

mod common;

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use common::{client, create_named};
use posthaste_broker_kafka::{Config, KafkaBroker, subscribe};
use posthaste_conformance::broker::{self, Bed, Faults, Fixture, Traits};
use posthaste_core::{Broker, MessageId, Subscriber, Subscription};
use posthaste_fixtures::{Kind, Options, Server, server};
use posthaste_wire::Wire;
use tokio::task::block_in_place;

/// What the server takes at most, batch and all, by its own default.
const MESSAGE_BYTES_MAX: usize = 1_048_588;

struct KafkaFixture;

#[async_trait]
impl Fixture for KafkaFixture {
    async fn shared(&self) -> Arc<dyn Bed> {
        let url = block_in_place(|| server(Kind::Kafka).url().to_owned());
        Arc::new(KafkaBed { url, private: None })
    }

    async fn private(&self) -> Arc<dyn Bed> {
        let server = block_in_place(|| Server::private(Kind::Kafka, &Options::default()));
        let server = server.expect("a server");
        let url = server.url().to_owned();
        let private = Private {
            server,
            is_running: AtomicBool::new(true),
            is_frozen: AtomicBool::new(false),
        };
        Arc::new(KafkaBed { url, private: Some(private) })
    }
}

struct KafkaBed {
    url: String,
    private: Option<Private>,
}

#[async_trait]
impl Bed for KafkaBed {
    async fn broker(&self, wire: Wire) -> Arc<dyn Broker> {
        let config = Config { wire, ..Config::new(&self.url) };
        Arc::new(KafkaBroker::open(config).expect("a good configuration"))
    }

    async fn subscriber(&self, wire: Wire, subscription: Subscription) -> Box<dyn Subscriber> {
        let config = Config { wire, ..Config::new(&self.url) };
        Box::new(subscribe(&config, &subscription).await.expect("a subscriber"))
    }

    async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let name = format!("t{}", MessageId::fresh().0.simple());
        let topics: Vec<String> = endings.iter().map(|ending| format!("{name}{ending}")).collect();
        let client = client(&self.url);
        for topic in &topics {
            create_named(&client, topic, &[]).await;
        }
        topics
    }

    fn traits(&self) -> Traits {
        let illegal = ["with space", "with/slash", "wild*card", "größe", ".", ".."];
        Traits {
            payload_max: Some(MESSAGE_BYTES_MAX),
            illegal_topics: illegal
                .map(str::to_owned)
                .into_iter()
                .chain(["t".repeat(250)])
                .collect(),
            illegal_headers: [("ce_id", "x"), ("CE_Tenant", "x"), ("content-type", "text/plain")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Traits::default()
        }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        self.private.as_ref().map(|private| private as &dyn Faults)
    }
}

struct Private {
    server: Server,
    is_running: AtomicBool,
    is_frozen: AtomicBool,
}

impl Private {
    /// Does it unless it is done already.
    fn change(&self, flag: &AtomicBool, to: bool, order: impl Fn(&Server) -> anyhow::Result<()>) {
        if flag.swap(to, Ordering::AcqRel) != to {
            block_in_place(|| order(&self.server)).expect("the server obeys");
        }
    }
}

#[async_trait]
impl Faults for Private {
    async fn stop(&self) {
        self.change(&self.is_running, false, Server::stop);
    }

    async fn kill(&self) {
        self.change(&self.is_running, false, Server::kill);
    }

    async fn start(&self) {
        self.change(&self.is_running, true, Server::start_again);
    }

    async fn freeze(&self) {
        self.change(&self.is_frozen, true, Server::freeze);
    }

    async fn thaw(&self) {
        self.change(&self.is_frozen, false, Server::thaw);
    }
}

fn main() -> ExitCode {
    broker::run("kafka", KafkaFixture)
}
