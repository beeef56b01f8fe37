//! A broker in this process whose messages take the way over the wire: encoded by the publisher,
//! decoded by the subscriber, with a server between that can be stopped, killed and frozen.
//!
//! It is also broken on demand, in one way at a time: a [`Flaw`].

mod client;
mod consumer;
mod flaw;
mod server;

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_conformance::broker::{Bed, Faults, Fixture, Traits};
use posthaste_core::{Broker, CallOrder, MessageId, Subscriber, Subscription};
use posthaste_wire::{Names, Style, Wire};

pub(crate) use flaw::Flaw;

use self::{client::Client, consumer::Consumer, server::Server};

/// How this broker names things.
fn names(style: Style) -> Names {
    Names { style, reserved: &["content-type"], reserved_prefixes: &["lb-"] }
}

/// Largest message, all parts counted.
const SIZE_MAX: usize = 1_200_000;

/// Makes loopback servers.
#[derive(Clone, Copy)]
pub(crate) struct Loopback {
    /// What its adapters promise.
    pub(crate) order: CallOrder,
    /// How they spell attributes.
    pub(crate) style: Style,
    /// What is wrong with them.
    pub(crate) flaw: Flaw,
}

impl Loopback {
    fn bed(self, has_faults: bool) -> Arc<dyn Bed> {
        let server = Arc::new(Server::new(self.flaw));
        Arc::new(LoopbackBed { like: self, server, has_faults })
    }
}

#[async_trait]
impl Fixture for Loopback {
    async fn shared(&self) -> Arc<dyn Bed> {
        self.bed(false)
    }

    async fn private(&self) -> Arc<dyn Bed> {
        self.bed(true)
    }
}

struct LoopbackBed {
    like: Loopback,
    server: Arc<Server>,
    has_faults: bool,
}

#[async_trait]
impl Bed for LoopbackBed {
    async fn broker(&self, wire: Wire) -> Arc<dyn Broker> {
        if self.like.flaw == Flaw::OpenDials {
            self.server.dial().await.expect("a server to dial");
        }
        Arc::new(Client::new(Arc::clone(&self.server), wire, self.like))
    }

    async fn subscriber(&self, wire: Wire, subscription: Subscription) -> Box<dyn Subscriber> {
        let server = Arc::clone(&self.server);
        Box::new(Consumer::new(server, wire, &subscription, self.like))
    }

    async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let name = MessageId::fresh();
        endings.iter().map(|ending| format!("t-{name}{ending}")).collect()
    }

    fn traits(&self) -> Traits {
        let attribute = match self.like.style {
            Style::Underscore => "ce_id",
            Style::Dash => "CE-Time",
            Style::Amqp => "cloudEvents:source",
            Style::Plain => "type",
        };
        Traits {
            payload_max: Some(SIZE_MAX),
            illegal_topics: vec!["with space".to_owned(), "t".repeat(250)],
            illegal_headers: [(attribute, "x"), ("Content-Type", "text/plain"), ("lb-own", "")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            refused_odd_headers: vec!["colon in the name"],
            has_lanes: false,
            ..Traits::default()
        }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        self.has_faults.then_some(self)
    }
}

#[async_trait]
impl Faults for LoopbackBed {
    async fn stop(&self) {
        self.server.stop();
    }

    async fn kill(&self) {
        self.server.kill();
    }

    async fn start(&self) {
        self.server.start();
    }

    async fn freeze(&self) {
        self.server.freeze();
    }

    async fn thaw(&self) {
        self.server.thaw();
    }
}
