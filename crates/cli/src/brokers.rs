//! The only file that names all brokers: one `match` per port, by the scheme of the URL.

use std::{collections::BTreeMap, sync::Arc};

use posthaste_broker_http as http;
#[cfg(feature = "kafka")]
use posthaste_broker_kafka as kafka;
use posthaste_broker_memory::MemoryBroker;
use posthaste_broker_mqtt as mqtt;
use posthaste_broker_nats as nats;
use posthaste_broker_null::NullBroker;
use posthaste_broker_rabbitmq as rabbitmq;
use posthaste_broker_redis as redis;
use posthaste_broker_stdout::StdoutBroker;
use posthaste_broker_tcp as tcp;
use posthaste_core::{Broker, BrokerError, Invalid, Subscriber, Subscription};
use posthaste_relay::Route;

use crate::config::{BrokerConfig, RouteConfig};

/// Every scheme.
pub(crate) const SCHEMES: &[&str] = &[
    "stdout", "null", "memory", "amqp", "amqps", "kafka", "nats", "tls", "redis", "rediss", "mqtt",
    "mqtts", "http", "https", "tcp",
];

/// The kind of a broker, and its configuration.
#[derive(Clone, Debug)]
pub(crate) enum Adapter {
    /// Lines on standard output.
    Stdout,
    /// Messages are acknowledged and dropped.
    Null,
    /// The memory of this process, shared by all memory brokers.
    Memory,
    /// RabbitMQ.
    RabbitMq(rabbitmq::Config),
    /// Kafka.
    #[cfg(feature = "kafka")]
    Kafka(kafka::Config),
    /// NATS JetStream.
    Nats(nats::Config),
    /// Redis streams.
    Redis(redis::Config),
    /// MQTT 5.
    Mqtt(mqtt::Config),
    /// Webhooks.
    Http(http::Config),
    /// Straight to a consumer.
    Tcp(tcp::Config),
}

impl Adapter {
    /// Opens the broker without connecting.
    ///
    /// # Errors
    /// When the configuration breaks a rule of the adapter.
    pub(crate) fn open(&self, memory: &MemoryBroker) -> Result<Arc<dyn Broker>, Invalid> {
        Ok(match self {
            Self::Stdout => Arc::new(StdoutBroker::new()),
            Self::Null => Arc::new(NullBroker::new()),
            Self::Memory => Arc::new(memory.clone()),
            Self::RabbitMq(config) => Arc::new(rabbitmq::RabbitMqBroker::open(config.clone())?),
            #[cfg(feature = "kafka")]
            Self::Kafka(config) => Arc::new(kafka::KafkaBroker::open(config.clone())?),
            Self::Nats(config) => Arc::new(nats::NatsBroker::open(config.clone())?),
            Self::Redis(config) => Arc::new(redis::RedisBroker::open(config.clone())?),
            Self::Mqtt(config) => Arc::new(mqtt::MqttBroker::open(config.clone())?),
            Self::Http(config) => Arc::new(http::HttpBroker::open(config.clone())?),
            Self::Tcp(config) => Arc::new(tcp::TcpBroker::open(config.clone())?),
        })
    }

    /// The reason why a message that only a listener gets counts as delivered; `None` if it does
    /// not.
    fn listener_receives(&self) -> Option<&'static str> {
        match self {
            Self::RabbitMq(_) => Some(
                "RabbitMQ counts the queue of a listener like any other: a message for which no \
                 other queue is bound counts as delivered",
            ),
            Self::Mqtt(config) if config.unmatched == mqtt::Unmatched::Reject => Some(
                "an MQTT server counts a listener as a subscriber: a message without other \
                 subscribers counts as delivered",
            ),
            Self::Http(_) => Some(
                "a listener takes the place of the webhook's receiver: a message that it gets counts \
                 as delivered",
            ),
            Self::Tcp(_) => Some(
                "a listener takes the place of the consumer: a message that it gets counts as \
                 delivered",
            ),
            // These keep messages with or without listeners, or have no subscribers.
            #[cfg(feature = "kafka")]
            Self::Kafka(_) => None,
            Self::Mqtt(_) | Self::Nats(_) | Self::Redis(_) => None,
            Self::Stdout | Self::Null | Self::Memory => None,
        }
    }

    async fn subscribe(
        &self,
        memory: &MemoryBroker,
        subscription: &Subscription,
    ) -> Result<Box<dyn Subscriber>, BrokerError> {
        Ok(match self {
            Self::Stdout | Self::Null => {
                let message = "this broker keeps no messages, so it has no subscribers".to_owned();
                return Err(BrokerError { message, source: None });
            }
            Self::Memory => Box::new(memory.subscribe_to(subscription)),
            Self::RabbitMq(config) => Box::new(rabbitmq::subscribe(config, subscription).await?),
            #[cfg(feature = "kafka")]
            Self::Kafka(config) => Box::new(kafka::subscribe(config, subscription).await?),
            Self::Nats(config) => Box::new(nats::subscribe(config, subscription).await?),
            Self::Redis(config) => Box::new(redis::subscribe(config, subscription).await?),
            Self::Mqtt(config) => Box::new(mqtt::subscribe(config, subscription).await?),
            Self::Http(config) => Box::new(http::subscribe(config, subscription).await?),
            Self::Tcp(config) => Box::new(tcp::subscribe(config, subscription).await?),
        })
    }
}

/// The opened brokers of a configuration.
pub(crate) struct Brokers {
    memory: MemoryBroker,
    open: BTreeMap<String, (Adapter, Arc<dyn Broker>)>,
}

impl Brokers {
    /// Opens every broker.
    pub(crate) fn open(brokers: &[BrokerConfig]) -> Self {
        let memory = MemoryBroker::new();
        let open = |broker: &BrokerConfig| {
            let adapter = broker.adapter.clone();
            let open = adapter.open(&memory).expect("the configuration was checked by opening it");
            (broker.name.clone(), (adapter, open))
        };
        Self { open: brokers.iter().map(open).collect(), memory }
    }

    /// Every broker with its name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &dyn Broker)> {
        self.open.iter().map(|(name, (_, broker))| (name.as_str(), &**broker))
    }

    /// A configured route as the relay takes it.
    pub(crate) fn route(&self, route: &RouteConfig) -> Route {
        let (_, broker) = &self.open[&route.broker];
        Route {
            broker: Arc::clone(broker),
            spec: route.spec.clone(),
            retry: route.retry,
            publish_timeout: route.publish_timeout,
            in_flight_max: route.in_flight_max,
        }
    }

    /// The reason why a message that only a listener gets counts as delivered; `None` if it does
    /// not.
    pub(crate) fn listener_receives(&self, broker: &str) -> Option<&'static str> {
        self.open[broker].0.listener_receives()
    }

    /// Subscribes to a broker.
    ///
    /// # Errors
    /// When the broker cannot be reached, refuses, or keeps no messages.
    pub(crate) async fn subscribe(
        &self,
        broker: &str,
        subscription: &Subscription,
    ) -> Result<Box<dyn Subscriber>, BrokerError> {
        let (adapter, _) = &self.open[broker];
        adapter.subscribe(&self.memory, subscription).await
    }
}
