//! The ports to brokers: publishing and subscribing.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

use crate::{BrokerError, Failure, Finding, Floor, Message, Seq, TopicPattern};

/// A message on its way to a broker.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its place in the log.
    pub seq: Seq,
    /// The message.
    pub message: Message,
    /// When it was enqueued, by the database's clock.
    pub enqueued_at: SystemTime,
    /// 1 for the first try this relay makes, counting up: more than 1 may be a duplicate.
    pub attempt: u32,
    /// Times a person sent it again; such a message carries an old seq.
    pub redriven: u32,
    /// What the relay knows of the messages before it; `None` where it does not say.
    pub floor: Option<Arc<Floor>>,
}

/// What a broker answered about one message. Only `Acked` counts as delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The broker has it, as durably as the adapter's documentation says.
    Acked,
    /// The broker surely does not have it and refuses this message: definite, spends an attempt. Where
    /// [`Failure::is_hopeless`] is set, the message becomes a dead letter without further attempts.
    Rejected(Failure),
    /// The broker surely does not have it because it cannot be used now (connection, credentials,
    /// throttling, flow control): says nothing about the message, spends nothing.
    Unreachable(Failure),
    /// It may or may not have arrived. It will be sent again with the same id.
    Unknown(Failure),
}

/// Which messages one call may hold together, because the adapter keeps their order: none is
/// delivered before, or in spite of the failure of, one that it must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrder {
    /// One message of a key; calls overlap.
    OnePerKey,
    /// Any number of a key, kept in order; calls overlap.
    PerKey,
    /// Anything, all of it kept in order; one call at a time, so that a shard's messages arrive in
    /// the order of the log.
    Total,
}

/// What an adapter can promise beyond the port's minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerCapabilities {
    /// What a call may hold.
    pub call_order: CallOrder,
    /// Most messages worth giving in one call.
    pub call_messages_max: usize,
}

/// Takes messages to a broker. An adapter makes one attempt and reports it; retrying, pausing and
/// ordering are the relay's.
#[async_trait]
pub trait Broker: Send + Sync + 'static {
    /// What this adapter promises. Constant.
    fn capabilities(&self) -> BrokerCapabilities;

    /// Publishes every message and reports one outcome for each, in the same order.
    ///
    /// - Never more or fewer outcomes than messages; one bad message among good ones fails alone.
    /// - Returns within `deadline`: what has no answer by then is [`Outcome::Unknown`], and the
    ///   connection it was sent on is not used again.
    /// - The relay never has one key in two calls at once, and puts together in a call what
    ///   [`BrokerCapabilities::call_order`] allows.
    /// - Once a message of a key is not `Acked`, later ones of that key in the call are best reported
    ///   [`Outcome::Unreachable`]: the relay holds them back whatever is said, unless `Acked`.
    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome>;

    /// Looks at the broker as `doctor` does: whether it can be used with this configuration for
    /// these topics, and whether its settings keep what it acknowledges.
    ///
    /// # Errors
    /// When it cannot be used at all: one line that says what is wrong and what to do.
    async fn examine(&self, topics: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError>;

    /// Flushes and closes. Called once, after the last `publish` has returned.
    async fn close(&self);
}

/// Where a message that arrived comes from, as far as its wire form says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Which outbox.
    pub source: Option<String>,
    /// Its place in the log of that outbox.
    pub seq: Option<Seq>,
    /// When it was enqueued.
    pub enqueued_at: Option<SystemTime>,
    /// Times a person sent it again.
    pub redriven: u32,
    /// What the sender knew of the messages before it.
    pub floor: Option<Floor>,
}

/// What a subscriber wants to receive.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The consumer's name: subscribers of one name share the messages, and one that comes back
    /// goes on where the last stopped acknowledging. `None` is a passing listener, which gets its
    /// own copy of everything and leaves nothing behind.
    pub name: Option<String>,
    /// Topics it wants, as the outbox names them.
    pub topics: Vec<TopicPattern>,
    /// Where a name that the broker does not know yet, or a listener, starts.
    pub start: Start,
    /// How subscribers of one name share the messages.
    pub sharing: Sharing,
}

/// How subscribers of one name share messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// In any way; messages that one has not finished do not keep others from later ones.
    Competing,
    /// By lanes: each lane goes to one subscriber at a time, in the order in which the broker
    /// acknowledged it, starting with the first message that was not acknowledged by a subscriber.
    /// Every message says its [`Incoming::lane`]. Adapters of brokers that cannot do this refuse to
    /// subscribe.
    Ordered,
}

/// Where a new subscription starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With everything that the broker still has. Brokers that keep nothing for consumers they do
    /// not know (RabbitMQ, MQTT, webhooks) start with what is new.
    Beginning,
    /// With what arrives from now on.
    New,
}

/// A message that arrived at a consumer.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The message, its id that of the outbox.
    pub message: Message,
    /// What the wire said about where it comes from.
    pub provenance: Provenance,
    /// The broker's handle for acknowledging, opaque outside the adapter.
    pub receipt: u64,
    /// What it is in order with, for [`Sharing::Ordered`] subscriptions: a name that stays the same
    /// for the consumer's life, such as a topic with its partition.
    pub lane: Option<Arc<str>>,
}

/// Receives messages from a broker.
#[async_trait]
pub trait Subscriber: Send + 'static {
    /// Waits for the next message. Cancel-safe: a dropped call loses nothing.
    ///
    /// # Errors
    /// When the broker cannot be used; call again after a pause.
    async fn receive(&mut self) -> Result<Incoming, BrokerError>;

    /// Tells the broker that the message has been handled. What is received and never acknowledged
    /// comes again, to this or another subscriber of the same name.
    ///
    /// # Errors
    /// When the broker cannot be told; the message will come again.
    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError>;
}
