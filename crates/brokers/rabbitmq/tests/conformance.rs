//! The broker suite on a real server.

mod support;

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use async_trait::async_trait;
use lapin::types::AMQPValue;
use posthaste_broker_rabbitmq::{Config, subscribe};
use posthaste_conformance::broker::{self, Bed, Faults, Fixture, Traits};
use posthaste_core::{Broker, MessageId, Subscriber, Subscription};
use posthaste_fixtures::{Kind, Options, Server, server};
use posthaste_wire::Wire;
use support::{Admin, unique};

struct RabbitMqFixture;

struct RabbitMqBed {
    url: String,
    exchange: String,
    /// `None` for the shared one.
    own: Option<Server>,
    is_running: AtomicBool,
}

impl RabbitMqBed {
    /// With a queue that gets everything and keeps nearly nothing, because a message that nobody wants
    /// is one that RabbitMQ does not take.
    async fn on(url: String, own: Option<Server>) -> Arc<dyn Bed> {
        let admin = Admin::new(&url).await;
        let exchange = unique("suite");
        admin.exchange(&exchange).await;
        admin.queue(&exchange, &[("x-max-length", AMQPValue::LongInt(1))]).await;
        admin.bind(&exchange, &exchange, "#").await;
        Arc::new(Self { url, exchange, own, is_running: AtomicBool::new(true) })
    }

    fn config(&self, wire: Wire) -> Config {
        Config { wire, exchange: self.exchange.clone(), ..Config::new(&self.url) }
    }

    /// Does what is asked, if the server runs as it must for that, and notes whether it runs then.
    async fn order(&self, order: fn(&Server) -> anyhow::Result<()>, needs: bool, gives: bool) {
        let own = self.own.as_ref().expect("only the private bed has faults");
        if self.is_running.load(Relaxed) == needs {
            tokio::task::block_in_place(|| order(own)).expect("the server obeys");
            self.is_running.store(gives, Relaxed);
        }
    }
}

#[async_trait]
impl Fixture for RabbitMqFixture {
    async fn shared(&self) -> Arc<dyn Bed> {
        let url = tokio::task::block_in_place(|| server(Kind::RabbitMq).url());
        RabbitMqBed::on(url.to_owned(), None).await
    }

    async fn private(&self) -> Arc<dyn Bed> {
        let start = || Server::private(Kind::RabbitMq, &Options::default());
        let own = tokio::task::block_in_place(start).expect("a server");
        RabbitMqBed::on(own.url().to_owned(), Some(own)).await
    }
}

#[async_trait]
impl Bed for RabbitMqBed {
    async fn broker(&self, wire: Wire) -> Arc<dyn Broker> {
        Arc::new(support::broker(self.config(wire)))
    }

    async fn subscriber(&self, wire: Wire, subscription: Subscription) -> Box<dyn Subscriber> {
        Box::new(subscribe(&self.config(wire), &subscription).await.expect("subscribes"))
    }

    async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let name = MessageId::fresh().to_string().replace('-', "");
        endings.iter().map(|ending| format!("t{name}{ending}")).collect()
    }

    fn traits(&self) -> Traits {
        Traits {
            illegal_headers: vec![("CC".to_owned(), "another-topic".to_owned())],
            keeps_history: false,
            ..Traits::default()
        }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        self.own.as_ref().map(|_| self as &dyn Faults)
    }
}

#[async_trait]
impl Faults for RabbitMqBed {
    async fn stop(&self) {
        self.order(Server::stop, true, false).await;
    }

    async fn kill(&self) {
        self.order(Server::kill, true, false).await;
    }

    async fn start(&self) {
        self.order(Server::start_again, false, true).await;
    }

    async fn freeze(&self) {
        self.order(Server::freeze, true, true).await;
    }

    async fn thaw(&self) {
        self.order(Server::thaw, true, true).await;
    }
}

fn main() -> ExitCode {
    broker::run("rabbitmq", RabbitMqFixture)
}
