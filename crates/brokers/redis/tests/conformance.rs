//! The broker suite on a real server.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use posthaste_broker_redis::{Config, RedisBroker, subscribe};
use posthaste_conformance::broker::{self, Bed, Faults, Fixture, Traits};
use posthaste_core::{Broker, MessageId, Subscriber, Subscription};
use posthaste_fixtures::{Kind, Options, Server, server};
use posthaste_wire::Wire;
use tokio::task::block_in_place;

struct RedisFixture;

#[async_trait]
impl Fixture for RedisFixture {
    async fn shared(&self) -> Arc<dyn Bed> {
        Arc::new(RedisBed { server: Whose::All(block_in_place(|| server(Kind::Redis))) })
    }

    async fn private(&self) -> Arc<dyn Bed> {
        // Written before every answer, so that it survives a kill; `everysec` may write later.
        let settings = vec![("appendfsync".into(), "no".into())];
        let options = Options { settings, ..Options::default() };
        let server = block_in_place(|| Server::private(Kind::Redis, &options));
        let server = Box::new(server.expect("a server of our own should start"));
        Arc::new(RedisBed { server: Whose::Ours { server, is_running: AtomicBool::new(true) } })
    }
}

struct RedisBed {
    server: Whose,
}

enum Whose {
    All(&'static Server),
    Ours { server: Box<Server>, is_running: AtomicBool },
}

impl RedisBed {
    fn config(&self, wire: Wire) -> Config {
        let url = match &self.server {
            Whose::All(server) => server.url(),
            Whose::Ours { server, .. } => server.url(),
        };
        Config { wire, ..Config::new(url) }
    }

    /// Gives an order, unless the server is as it would make it.
    fn order(&self, runs_after: Option<bool>, order: fn(&Server) -> anyhow::Result<()>) {
        let Whose::Ours { server, is_running } = &self.server else { return };
        let was_running = is_running.load(Ordering::SeqCst);
        if runs_after.is_some_and(|runs| runs == was_running)
            || runs_after.is_none() && !was_running
        {
            return;
        }
        block_in_place(|| order(server)).expect("the server should do as it is told");
        is_running.store(runs_after.unwrap_or(was_running), Ordering::SeqCst);
    }
}

#[async_trait]
impl Bed for RedisBed {
    async fn broker(&self, wire: Wire) -> Arc<dyn Broker> {
        Arc::new(RedisBroker::open(self.config(wire)).expect("the configuration is right"))
    }

    async fn subscriber(&self, wire: Wire, subscription: Subscription) -> Box<dyn Subscriber> {
        let subscriber = subscribe(&self.config(wire), &subscription).await;
        Box::new(subscriber.expect("subscribing should work"))
    }

    async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let stem = format!("t{}", MessageId::fresh().0.simple());
        endings.iter().map(|ending| format!("{stem}{ending}")).collect()
    }

    fn traits(&self) -> Traits {
        Traits { has_lanes: false, ..Traits::default() }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        matches!(self.server, Whose::Ours { .. }).then_some(self)
    }
}

#[async_trait]
impl Faults for RedisBed {
    async fn stop(&self) {
        self.order(Some(false), Server::stop);
    }

    async fn kill(&self) {
        self.order(Some(false), Server::kill);
    }

    async fn start(&self) {
        self.order(Some(true), Server::start_again);
    }

    async fn freeze(&self) {
        self.order(None, Server::freeze);
    }

    async fn thaw(&self) {
        self.order(None, Server::thaw);
    }
}

fn main() -> ExitCode {
    broker::run("redis", RedisFixture)
}
