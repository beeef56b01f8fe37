//! The broker suite on a real server.

use std::{
    process::ExitCode,
    sync::{Arc, Mutex},
};

use async_nats::jetstream::{self, stream};
use async_trait::async_trait;
use posthaste_broker_nats::{Config, NatsBroker, subscribe};
use posthaste_conformance::broker::{self, Bed, Faults, Fixture, Traits};
use posthaste_core::{Broker, MessageId, Subscriber, Subscription};
use posthaste_fixtures::{Kind, Options, Server, server};
use posthaste_wire::Wire;
use tokio::task::block_in_place;

struct NatsFixture;

#[async_trait]
impl Fixture for NatsFixture {
    async fn shared(&self) -> Arc<dyn Bed> {
        let server = block_in_place(|| server(Kind::Nats));
        Arc::new(NatsBed { url: server.url().to_owned(), own: None, state: Mutex::new(State::Up) })
    }

    async fn private(&self) -> Arc<dyn Bed> {
        let own = block_in_place(|| Server::private(Kind::Nats, &Options::default()));
        let own = own.expect("a NATS of our own");
        Arc::new(NatsBed {
            url: own.url().to_owned(),
            own: Some(own),
            state: Mutex::new(State::Up),
        })
    }
}

struct NatsBed {
    url: String,
    own: Option<Server>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Up,
    Down,
    Frozen,
}

#[async_trait]
impl Bed for NatsBed {
    async fn broker(&self, wire: Wire) -> Arc<dyn Broker> {
        let config = Config { wire, ..Config::new(&self.url) };
        Arc::new(NatsBroker::open(config).expect("a good configuration"))
    }

    async fn subscriber(&self, wire: Wire, subscription: Subscription) -> Box<dyn Subscriber> {
        let config = Config { wire, ..Config::new(&self.url) };
        Box::new(subscribe(&config, &subscription).await.expect("a subscription"))
    }

    async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let name = format!("t{}", MessageId::fresh().0.simple());
        let client = async_nats::connect(&self.url).await.expect("NATS");
        let context = jetstream::new(client);
        let subjects = vec![name.clone(), format!("{name}.>")];
        let config = stream::Config { name: name.clone(), subjects, ..Default::default() };
        context.create_stream(config).await.expect("a stream");
        endings.iter().map(|ending| format!("{name}{ending}")).collect()
    }

    fn traits(&self) -> Traits {
        let odd = [".", "a.", ".a", "a..b", "a b", "a.*", "a*", "a.>", "$JS.API.INFO", "_INBOX.a"];
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Traits {
            payload_max: Some(1 << 20),
            illegal_topics: odd.iter().map(|topic| (*topic).to_owned()).collect(),
            illegal_headers: [
                ("Nats-Msg-Id", "other id of mine"),
                ("nats-expected-stream", "other stream"),
                ("Content-Type", "text/x-other"),
                ("ce-id", "other id of mine"),
                ("padded", " value with a space"),
                ("padded", "value with a space "),
                ("wide", "\u{3000}value with a space"),
            ]
            .map(pair)
            .to_vec(),
            refused_odd_headers: vec![
                "spaces at the ends",
                "spaced name",
                "colon in the name",
                "unicode name",
            ],
            ..Traits::default()
        }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        self.own.is_some().then_some(self as &dyn Faults)
    }
}

impl NatsBed {
    /// Does something to the server, unless it is in another state.
    fn change(&self, from: State, to: State, how: impl FnOnce(&Server) -> anyhow::Result<()>) {
        let own = self.own.as_ref().expect("a server of our own");
        let mut state = self.state.lock().expect("a state");
        if *state == from {
            block_in_place(|| how(own)).expect("a server that does as it is told");
            *state = to;
        }
    }
}

#[async_trait]
impl Faults for NatsBed {
    async fn stop(&self) {
        self.change(State::Up, State::Down, Server::stop);
    }

    async fn kill(&self) {
        self.change(State::Up, State::Down, Server::kill);
    }

    async fn start(&self) {
        self.change(State::Down, State::Up, Server::start_again);
    }

    async fn freeze(&self) {
        self.change(State::Up, State::Frozen, Server::freeze);
    }

    async fn thaw(&self) {
        self.change(State::Frozen, State::Up, Server::thaw);
    }
}

fn main() -> ExitCode {
    broker::run("nats", NatsFixture)
}
