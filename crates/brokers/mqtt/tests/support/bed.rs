//! A Mosquitto for the broker suite.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use async_trait::async_trait;
use posthaste_broker_mqtt::{Config, MqttBroker, Ordering, subscribe};
use posthaste_conformance::broker::{Bed, Faults, Fixture, Traits};
use posthaste_core::{Broker, MessageId, Subscriber, Subscription};
use posthaste_fixtures::{Kind, Options, Server, server};
use posthaste_wire::Wire;
use tokio::task::block_in_place;

/// How the adapter and its server are set up.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) ordering: Ordering,
    /// The server's `max_packet_size`, if it has one.
    pub(crate) packet_bytes_max: Option<usize>,
}

impl Setup {
    fn server(self) -> Server {
        let limit = self.packet_bytes_max.map(|n| ("max_packet_size".to_owned(), n.to_string()));
        let options = Options { settings: limit.into_iter().collect(), ..Options::default() };
        Server::private(Kind::Mosquitto, &options).expect("Mosquitto starts")
    }

    fn bed(self, server: Place) -> Arc<dyn Bed> {
        Arc::new(MqttBed { setup: self, server, runs: AtomicBool::new(true) })
    }
}

#[async_trait]
impl Fixture for Setup {
    async fn shared(&self) -> Arc<dyn Bed> {
        self.bed(block_in_place(|| match self.packet_bytes_max {
            Some(_) => Place::Configured(self.server()),
            None => Place::Shared(server(Kind::Mosquitto)),
        }))
    }

    async fn private(&self) -> Arc<dyn Bed> {
        self.bed(block_in_place(|| Place::Private(self.server())))
    }
}

enum Place {
    Shared(&'static Server),
    /// As good as shared, with settings of its own.
    Configured(Server),
    Private(Server),
}

struct MqttBed {
    setup: Setup,
    server: Place,
    runs: AtomicBool,
}

impl MqttBed {
    fn server(&self) -> &Server {
        match &self.server {
            Place::Shared(server) => server,
            Place::Configured(server) | Place::Private(server) => server,
        }
    }

    fn config(&self, wire: Wire) -> Config {
        Config { wire, ordering: self.setup.ordering, ..Config::new(self.server().url()) }
    }
}

#[async_trait]
impl Bed for MqttBed {
    async fn broker(&self, wire: Wire) -> Arc<dyn Broker> {
        Arc::new(MqttBroker::open(self.config(wire)).expect("a valid configuration"))
    }

    async fn subscriber(&self, wire: Wire, subscription: Subscription) -> Box<dyn Subscriber> {
        Box::new(subscribe(&self.config(wire), &subscription).await.expect("subscribes"))
    }

    async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let name = format!("t{}", MessageId::fresh().0.simple());
        endings.iter().map(|ending| format!("{name}{ending}")).collect()
    }

    fn traits(&self) -> Traits {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let topics = ["a/+", "a/#", "$SYS/a", "a\u{85}b", "a\u{ffff}"];
        let headers = [
            ("type", "an attribute's name"),
            ("next-line", "a control\u{85} character"),
            ("none", "not a character\u{fffe}"),
        ];
        Traits {
            payload_max: self.setup.packet_bytes_max,
            illegal_topics: topics.map(Into::into).into(),
            illegal_headers: headers.map(owned).into(),
            // A name is one client: the second takes the place of the first.
            shares_names: false,
            // Only retained messages are kept for whoever comes later.
            keeps_history: false,
            // It writes its data every now and then.
            survives_kill: false,
            ..Traits::default()
        }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        matches!(self.server, Place::Private(_)).then_some(self)
    }
}

#[async_trait]
impl Faults for MqttBed {
    async fn stop(&self) {
        if self.runs.swap(false, Relaxed) {
            block_in_place(|| self.server().stop()).expect("stops");
        }
    }

    async fn kill(&self) {
        if self.runs.swap(false, Relaxed) {
            block_in_place(|| self.server().kill()).expect("is killed");
        }
    }

    async fn start(&self) {
        if !self.runs.swap(true, Relaxed) {
            block_in_place(|| self.server().start_again()).expect("starts again");
        }
    }

    async fn freeze(&self) {
        block_in_place(|| self.server().freeze()).expect("freezes");
    }

    async fn thaw(&self) {
        if self.runs.load(Relaxed) {
            block_in_place(|| self.server().thaw()).expect("thaws");
        }
    }
}
