//! RabbitMQ: persistent messages to a durable queue, confirmed.

use std::sync::Arc;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use futures::{StreamExt, stream::FuturesUnordered};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind,
    options::{
        BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
        QueueDeclareOptions, QueuePurgeOptions,
    },
    types::{AMQPValue, FieldTable, LongString},
};
use posthaste_broker_rabbitmq::{Config, Ordering, RabbitMqBroker};
use posthaste_core::{Broker, MessageId};
use posthaste_wire::Style;

use super::{Headers, PAYLOAD_BYTES, Subject, TOPIC, WINDOW};

const EXCHANGE: &str = "posthaste";

/// A queue bound to the adapter's exchange.
pub(super) struct Queue {
    url: String,
    is_quorum: bool,
    /// Holds the channel's connection open.
    _connection: Connection,
    channel: Channel,
}

impl Queue {
    pub(super) async fn new(url: &str, is_quorum: bool) -> Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let none = FieldTable::default;
        channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, durable, none()).await?;
        let queue = QueueDeclareOptions { durable: true, ..Default::default() };
        let mut arguments = FieldTable::default();
        if is_quorum {
            let kind = AMQPValue::LongString(LongString::from("quorum"));
            arguments.insert("x-queue-type".into(), kind);
        }
        // Only one of the two is bound at a time.
        let name = if is_quorum { "quorum" } else { "classic" };
        if is_quorum {
            channel.queue_unbind("classic".into(), EXCHANGE.into(), TOPIC.into(), none()).await?;
        }
        channel.queue_declare(name.into(), queue, arguments).await?;
        let bind = QueueBindOptions::default();
        channel.queue_bind(name.into(), EXCHANGE.into(), TOPIC.into(), bind, none()).await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self { url: url.to_owned(), is_quorum, _connection: connection, channel })
    }

    fn queue(&self) -> &'static str {
        if self.is_quorum { "quorum" } else { "classic" }
    }
}

#[async_trait]
impl Subject for Queue {
    fn name(&self) -> &'static str {
        if self.is_quorum { "RabbitMQ, quorum queue" } else { "RabbitMQ, classic queue" }
    }

    fn broker(&self, is_hot: bool) -> Result<Arc<dyn Broker>> {
        let ordering = if is_hot { Ordering::Pipelined } else { Ordering::Strict };
        let config = Config { ordering, ..Config::new(&self.url) };
        Ok(Arc::new(RabbitMqBroker::open(config)?))
    }

    async fn plain(&self, messages: usize) -> Result<()> {
        let payload = [0xab; PAYLOAD_BYTES];
        let headers = Headers::new(Style::Amqp);
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let mut window = FuturesUnordered::new();
        for n in 0..messages {
            if window.len() >= WINDOW {
                acked(window.next().await)?;
            }
            let id = MessageId::fresh().to_string();
            let mut ours = FieldTable::default();
            for (name, value) in headers.of(n, &id) {
                ours.insert(name.into(), AMQPValue::LongString(value.into_owned().into()));
            }
            let properties = BasicProperties::default().with_delivery_mode(2).with_headers(ours);
            let (exchange, key) = (EXCHANGE.into(), TOPIC.into());
            let sent = self.channel.basic_publish(exchange, key, options, &payload, properties);
            window.push(sent.await?);
        }
        while !window.is_empty() {
            acked(window.next().await)?;
        }
        Ok(())
    }

    async fn clear(&self) -> Result<()> {
        self.channel.queue_purge(self.queue().into(), QueuePurgeOptions::default()).await?;
        Ok(())
    }
}

fn acked(confirmation: Option<lapin::Result<Confirmation>>) -> Result<()> {
    let is_acked = matches!(confirmation.transpose()?, Some(Confirmation::Ack(None)));
    ensure!(is_acked, "RabbitMQ did not take a message");
    Ok(())
}
