//! The service as a process: the API, and a relay that tells consumers of what happened.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use jiff::Timestamp;
use posthaste::{
    Relay,
    tcp::{Config, TcpBroker},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    args, http,
    service::Articles,
    storage::{self, Storage, TOPIC},
};

/// How long the progress of a service that was killed stays reserved for it: the next one waits so
/// long before it delivers. Longer where consumers may take longer to answer.
const LEASE_MIN: Duration = Duration::from_secs(10);

/// The service, about to run.
pub struct Server {
    listener: TcpListener,
    articles: Articles,
    relay: Relay,
}

impl Server {
    /// Opens storage, seeds it, and listens. Consumers may be down.
    ///
    /// # Errors
    /// When storage cannot be used, a consumer's URL is wrong, or the address is taken.
    pub async fn open(args: &args::Serve) -> anyhow::Result<Self> {
        let storage = storage::open(&args.database).await.context("cannot open the database")?;
        let articles = Articles::new(Arc::clone(&storage), Timestamp::now);
        articles.seed().await.context("cannot write to the database")?;
        let relay = relay(&*storage, args)?;
        let listener = TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("cannot listen on {}; --listen chooses", args.listen))?;
        Ok(Self { listener, articles, relay })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until stopped: then requests that were begun are finished, what consumers are just
    /// receiving is waited for, and the rest stays in the outbox for the next time.
    ///
    /// # Errors
    /// When the relay had to end.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let running = self.relay.spawn();
        self.articles.set_relay(running.handle());
        let router = http::router(self.articles);
        http::run(self.listener, router, stop).await;
        running.shutdown().await.context("the relay failed")
    }
}

/// One route for each consumer: each has its own progress, and waits for nobody.
fn relay(storage: &dyn Storage, args: &args::Serve) -> anyhow::Result<Relay> {
    let mut relay = Relay::builder(storage.outbox()).settings(|settings| {
        settings.name = "articles".to_owned();
        settings.lease = LEASE_MIN.max(args.ack_timeout * 3);
    });
    for consumer in &args.consumers {
        let mut config = Config::new(&consumer.url);
        config.wire.source = storage.source().to_owned();
        config.frames = consumer.frames;
        let broker = TcpBroker::open(config)
            .with_context(|| format!("consumer {} cannot be used", consumer.name))?;
        relay =
            relay.route(&consumer.name, TOPIC, Arc::new(broker)).publish_timeout(args.ack_timeout);
    }
    Ok(relay.build()?)
}
