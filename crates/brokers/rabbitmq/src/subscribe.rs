//! Subscribing: a queue, bound to the exchange as narrowly as AMQP's wildcards allow.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use lapin::{
    Channel, Consumer,
    message::Delivery,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueBindOptions,
        QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};
use posthaste_core::{
    BrokerError, Incoming, MessageId, Provenance, Sharing, Subscriber, Subscription, TopicPattern,
};
use posthaste_wire::Received;
use tokio::time::timeout;

use crate::{
    config::{Config, QueueType, Settings},
    connect::Session,
    outcome::{Stage, Trouble, broker_error},
};

/// Most messages that are delivered and not acknowledged.
const PREFETCH_MESSAGES: u16 = 256;
/// How long RabbitMQ may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Receives messages from a queue.
pub struct RabbitMqSubscriber {
    settings: Settings,
    /// The queue's name; `None` for one that is ours alone and gone with the connection.
    name: Option<ShortString>,
    /// Destinations that are wanted.
    patterns: Vec<TopicPattern>,
    /// The queue as what its messages are in order with, for an ordered subscription.
    lane: Option<Arc<str>>,
    /// `None` after it was lost: the next call makes a new one.
    listening: Option<Listening>,
    receipts: u64,
}

/// A connection with its consumer.
struct Listening {
    consumer: Consumer,
    channel: Channel,
    /// RabbitMQ's handles of what is not acknowledged, by receipt.
    unacknowledged: HashMap<u64, u64>,
    /// Ends all of it on drop.
    _session: Session,
}

/// Subscribes: once it returns, what is published will be received.
///
/// A name is that of a durable queue, which is declared and bound, and stays. Without a name the
/// queue is exclusive and goes with the connection, at its end or loss. Either way only what is
/// published from now on arrives, and bindings of an earlier subscription of the same name stay: what
/// they bring and is not wanted any more is acknowledged and dropped.
///
/// An ordered subscription's queue has a single active consumer: RabbitMQ gives its messages to one
/// subscriber of the name, and to the next when that one's connection ends, starting with the first
/// that was not acknowledged. A queue that is there and was declared otherwise is refused.
///
/// # Errors
/// When the configuration is wrong, RabbitMQ cannot be used, or its default exchange is configured:
/// that takes no bindings.
pub async fn subscribe(
    config: &Config,
    subscription: &Subscription,
) -> Result<RabbitMqSubscriber, BrokerError> {
    let refuse = |message: String| BrokerError { message, source: None };
    let settings = Settings::check(config.clone()).map_err(|error| refuse(error.to_string()))?;
    if settings.is_default_exchange() {
        return Err(refuse(
            "RabbitMQ's default exchange takes no bindings: name an exchange to subscribe at"
                .to_owned(),
        ));
    }
    let name = subscription.name.as_deref().map(ShortString::try_new).transpose();
    let name = name.map_err(|_| refuse("a queue's name has at most 255 bytes".to_owned()))?;
    let destination = &settings.wire.destination;
    let patterns = subscription.topics.iter().map(|topics| destination.pattern(topics)).collect();
    let queue = subscription.name.as_deref().unwrap_or("listener");
    let lane = (subscription.sharing == Sharing::Ordered).then(|| queue.into());
    let mut subscriber =
        RabbitMqSubscriber { settings, name, patterns, lane, listening: None, receipts: 0 };
    subscriber.listen().await?;
    Ok(subscriber)
}

impl RabbitMqSubscriber {
    /// The current connection, or a new one.
    async fn listen(&mut self) -> Result<&mut Listening, BrokerError> {
        let server = self.settings.server();
        if self.listening.is_none() {
            let opened = match timeout(ANSWER_TIMEOUT, self.open()).await {
                Ok(opened) => opened,
                Err(_) => {
                    Err(Stage::Connect.of()(std::io::Error::from(std::io::ErrorKind::TimedOut)))
                }
            };
            self.listening = Some(opened.map_err(|trouble| broker_error(&server, trouble))?);
        }
        Ok(self.listening.as_mut().expect("it was just made where it was not"))
    }

    async fn open(&self) -> Result<Listening, Trouble> {
        let session = Session::open(&self.settings).await?;
        let channel = session.plain_channel().await?;
        let consumer = self.consume(&channel).await.map_err(Stage::Open.of())?;
        Ok(Listening { consumer, channel, unacknowledged: HashMap::new(), _session: session })
    }

    async fn consume(&self, channel: &Channel) -> lapin::Result<Consumer> {
        channel.basic_qos(PREFETCH_MESSAGES, BasicQosOptions::default()).await?;
        let is_ours = self.name.is_none();
        let options = QueueDeclareOptions {
            durable: !is_ours,
            exclusive: is_ours,
            auto_delete: is_ours,
            ..Default::default()
        };
        let mut arguments = FieldTable::default();
        if !is_ours && self.settings.queue_type == QueueType::Quorum {
            arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        }
        if self.lane.is_some() {
            arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
        }
        let name = self.name.clone().unwrap_or_default();
        let queue = channel.queue_declare(name, options, arguments).await?.name().clone();
        for pattern in &self.patterns {
            let (exchange, key) = (self.settings.exchange.clone(), binding(pattern.as_str()));
            let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
            channel.queue_bind(queue.clone(), exchange, key, options, arguments).await?;
        }
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        channel.basic_consume(queue, ShortString::default(), options, arguments).await
    }

    fn is_wanted(&self, delivery: &Delivery) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(delivery.routing_key.as_str()))
    }

    fn decode(&self, delivery: Delivery) -> (posthaste_core::Message, Provenance) {
        let received = received(delivery, self.settings.type_header);
        self.settings.wire.decode(received, &self.settings.names)
    }
}

#[async_trait]
impl Subscriber for RabbitMqSubscriber {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        loop {
            let delivered = self.listen().await?.consumer.next().await;
            let delivery = match delivered {
                Some(Ok(delivery)) => delivery,
                lost => {
                    self.listening = None;
                    let gone = || lapin::Error::from(std::io::Error::other("the queue is gone"));
                    let error = lost.and_then(Result::err).unwrap_or_else(gone);
                    let trouble = Trouble { stage: Stage::Open, error };
                    return Err(broker_error(&self.settings.server(), trouble));
                }
            };
            let tag = delivery.delivery_tag;
            if !self.is_wanted(&delivery) {
                self.listen().await?.acknowledge(tag).await.ok();
                continue;
            }
            self.receipts += 1;
            let receipt = self.receipts;
            self.listen().await?.unacknowledged.insert(receipt, tag);
            let (message, provenance) = self.decode(delivery);
            return Ok(Incoming { message, provenance, receipt, lane: self.lane.clone() });
        }
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        let server = self.settings.server();
        let tagged = self.listening.as_mut().and_then(|listening| {
            let tag = listening.unacknowledged.remove(&receipt)?;
            Some((listening, tag))
        });
        let Some((listening, tag)) = tagged else {
            let message = "the connection it came on is lost; it will come again".to_owned();
            return Err(BrokerError { message, source: None });
        };
        listening.acknowledge(tag).await.map_err(|trouble| broker_error(&server, trouble))
    }
}

impl Listening {
    /// Handed to the driver at the first poll, so that nothing is lost when this is dropped.
    async fn acknowledge(&self, tag: u64) -> Result<(), Trouble> {
        let sent = self.channel.basic_ack(tag, BasicAckOptions::default());
        match timeout(ANSWER_TIMEOUT, sent).await {
            Ok(sent) => sent.map_err(Stage::Open.of()),
            Err(error) => Err(Stage::Open.of()(std::io::Error::from(error))),
        }
    }
}

/// The narrowest key that binds all of a pattern. AMQP's wildcards stand for words, ours for any
/// characters, so what is behind the last whole word is left to be filtered. A word that happens to be
/// one of AMQP's wildcards matches itself, too.
fn binding(pattern: &str) -> ShortString {
    let key = match pattern.split_once('*') {
        None => pattern.to_owned(),
        Some((head, _)) => match head.rsplit_once('.') {
            Some((words, _)) => format!("{words}.#"),
            None => "#".to_owned(),
        },
    };
    ShortString::try_new(key).unwrap_or_else(|_| "#".into())
}

/// What a delivery says; the property `type` stands in for the attribute of that name.
fn received(delivery: Delivery, type_header: &str) -> Received {
    let Delivery { routing_key, properties, data, .. } = delivery;
    let mut headers = Vec::new();
    for (name, value) in properties.headers().iter().flatten() {
        if let Some(text) = text(value) {
            headers.push((name.to_string(), text));
        }
    }
    if let Some(event_type) = properties.kind()
        && !headers.iter().any(|(name, _)| name == type_header)
    {
        headers.push((type_header.to_owned(), event_type.to_string()));
    }
    Received {
        destination: routing_key.to_string(),
        headers,
        content_type: properties.content_type().as_ref().map(ToString::to_string),
        body: data.into(),
        key: None,
        id: properties.message_id().as_ref().map(ToString::to_string),
        // RabbitMQ has no name for a message that its sender did not name.
        coordinates: MessageId::fresh().to_string(),
    }
}

/// A header's value as text; what is not one value has none.
fn text(value: &AMQPValue) -> Option<String> {
    match value {
        AMQPValue::LongString(text) => Some(text.to_string()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        AMQPValue::Boolean(value) => Some(value.to_string()),
        AMQPValue::ShortShortInt(value) => Some(value.to_string()),
        AMQPValue::ShortShortUInt(value) => Some(value.to_string()),
        AMQPValue::ShortInt(value) => Some(value.to_string()),
        AMQPValue::ShortUInt(value) => Some(value.to_string()),
        AMQPValue::LongInt(value) => Some(value.to_string()),
        AMQPValue::LongUInt(value) => Some(value.to_string()),
        AMQPValue::LongLongInt(value) => Some(value.to_string()),
        AMQPValue::Float(value) => Some(value.to_string()),
        AMQPValue::Double(value) => Some(value.to_string()),
        AMQPValue::Timestamp(value) => Some(value.to_string()),
        AMQPValue::DecimalValue(_)
        | AMQPValue::FieldArray(_)
        | AMQPValue::FieldTable(_)
        | AMQPValue::ByteArray(_)
        | AMQPValue::Void => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_as_narrow_as_whole_words_allow() {
        for (pattern, key) in [
            ("orders", "orders"),
            ("orders.eu.placed", "orders.eu.placed"),
            ("orders.*", "orders.#"),
            ("orders.eu*", "orders.#"),
            ("orders.eu.*.placed", "orders.eu.#"),
            ("or*", "#"),
            ("*", "#"),
            ("*.placed", "#"),
            ("a.#.b", "a.#.b"),
        ] {
            assert_eq!(binding(pattern).as_str(), key, "{pattern}");
        }
    }
}
