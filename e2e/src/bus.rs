//! The broker of one test: its server, which may be killed and frozen, the proxy in front of it,
//! and its messages at the end.

use std::time::Duration;

use anyhow::Context;
use async_nats::jetstream::{self, stream};
use posthaste::{Sharing, Start, Subscriber, Subscription, kafka, nats, rabbitmq};
use posthaste_fixtures::{Kind, Options, Proxy, Server};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
};
use serde::Serialize;

use crate::{PATIENCE, TOPIC, address, behind, blocking};

/// Which broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Broker {
    /// RabbitMQ, one durable queue.
    Rabbitmq,
    /// NATS JetStream, one stream.
    Nats,
    /// Apache Kafka, one partition.
    Kafka,
}

impl Broker {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rabbitmq, Self::Nats, Self::Kafka];

    fn kind(self) -> Kind {
        match self {
            Self::Rabbitmq => Kind::RabbitMq,
            Self::Nats => Kind::Nats,
            Self::Kafka => Kind::Kafka,
        }
    }
}

/// A short duplicate window: NATS drops duplicates within it, but the test counts duplicates.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(100);

/// A broker that stores all messages of [`TOPIC`] in one order.
#[derive(Debug)]
pub struct Bus {
    broker: Broker,
    server: Server,
    proxy: Proxy,
    /// Where relays find it.
    through: String,
}

impl Bus {
    /// A new one on a server of its own.
    ///
    /// # Errors
    /// When there is no such server; says what to install.
    pub async fn start(broker: Broker) -> anyhow::Result<Self> {
        // Kafka's clients go where it tells them to, which must be the proxy.
        let proxy = Proxy::start("127.0.0.1:1").await?;
        let advertised = (broker == Broker::Kafka).then(|| proxy.address().to_string());
        let options = Options { advertised, ..Options::default() };
        let server = blocking(|| Server::private(broker.kind(), &options))?;
        proxy.retarget(address(server.url()));
        let through = behind(server.url(), &proxy);
        let bus = Self { broker, server, proxy, through };
        bus.prepare().await.context("the broker cannot be prepared")?;
        Ok(bus)
    }

    /// What keeps messages until they are read: a queue, a stream, a topic.
    async fn prepare(&self) -> anyhow::Result<()> {
        match self.broker {
            // The queue stays when its first reader goes.
            Broker::Rabbitmq => self.reader().await.map(drop),
            Broker::Nats => {
                let client = async_nats::connect(self.server.url()).await?;
                let config = stream::Config {
                    name: TOPIC.to_owned(),
                    subjects: vec![TOPIC.to_owned()],
                    duplicate_window: DUPLICATE_WINDOW,
                    ..stream::Config::default()
                };
                jetstream::new(client).create_stream(config).await?;
                Ok(())
            }
            Broker::Kafka => {
                let mut client = ClientConfig::new();
                client.set("bootstrap.servers", self.proxy.address().to_string());
                let admin: AdminClient<DefaultClientContext> = client.create()?;
                let topic = NewTopic::new(TOPIC, 1, TopicReplication::Fixed(1));
                let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
                for created in admin.create_topics([&topic], &options).await? {
                    created.map_err(|(topic, code)| anyhow::anyhow!("{topic}: {code}"))?;
                }
                Ok(())
            }
        }
    }

    /// The line of a configuration that says where it is.
    #[must_use]
    pub fn config(&self) -> String {
        format!("url = {:?}", self.through)
    }

    /// Reads everything it has, from the beginning, in order.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn reader(&self) -> anyhow::Result<Box<dyn Subscriber>> {
        let subscription = Subscription {
            name: Some("reader".to_owned()),
            topics: vec![TOPIC.parse()?],
            start: Start::Beginning,
            sharing: Sharing::Competing,
        };
        let url = &self.through;
        Ok(match self.broker {
            Broker::Rabbitmq => {
                let config = rabbitmq::Config::new(url);
                Box::new(rabbitmq::subscribe(&config, &subscription).await?)
            }
            Broker::Nats => {
                let config = nats::Config::new(url);
                Box::new(nats::subscribe(&config, &subscription).await?)
            }
            Broker::Kafka => {
                let config = kafka::Config::new(url);
                Box::new(kafka::subscribe(&config, &subscription).await?)
            }
        })
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The network between relays and it.
    #[must_use]
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}
