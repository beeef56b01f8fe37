//! The ports to brokers: publishing and subscribing.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

use crate::{BrokerError, Failure, Finding, Floor, Message, Seq, TopicPattern};

/// A message that a relay publishes.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The seq of the message.
    pub seq: Seq,
    /// The message.
    pub message: Message,
    /// When it was enqueued, by the database's clock.
    pub enqueued_at: SystemTime,
    /// 1 for this relay's first attempt, counting up: a message with more than 1 may be a
    /// duplicate.
    pub attempt: u32,
    /// Number of redrives; a redriven message carries an old seq.
    pub redriven: u32,
    /// Which messages were acknowledged before this one; `None` if the relay does not know.
    pub floor: Option<Arc<Floor>>,
}

/// The broker's answer about one message. Only `Acked` counts as delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The broker has the message, as durably as the adapter's documentation says.
    Acked,
    /// The broker certainly does not have the message and refuses it: spends an attempt. If
    /// [`Failure::is_hopeless`] is set, the message becomes a dead letter without further attempts.
    Rejected(Failure),
    /// The broker certainly does not have the message, because the broker cannot be used now
    /// (connection, credentials, throttling, flow control): spends no attempt.
    Unreachable(Failure),
    /// The message may or may not have arrived. It will be sent again with the same id.
    Unknown(Failure),
}

/// Which messages one call may hold together, because the adapter keeps their order: no message is
/// delivered before an earlier one, or after an earlier one failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrder {
    /// One message of a key; calls overlap.
    OnePerKey,
    /// Any number of messages of a key, kept in order; calls overlap.
    PerKey,
    /// Any messages, all kept in order; one call at a time, so that a shard's messages arrive in
    /// the order of the log.
    Total,
}

/// Capabilities of an adapter beyond the port's minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerCapabilities {
    /// Which messages a call may hold.
    pub call_order: CallOrder,
    /// Largest useful number of messages in one call.
    pub call_messages_max: usize,
}

/// Publishes messages to a broker. An adapter makes one attempt and reports its outcome; the relay
/// retries, pauses and orders.
#[async_trait]
pub trait Broker: Send + Sync + 'static {
    /// The capabilities of this adapter. Constant.
    fn capabilities(&self) -> BrokerCapabilities;

    /// Publishes every message and reports one outcome for each, in the same order.
    ///
    /// - Never more or fewer outcomes than messages; one bad message among good ones fails alone.
    /// - Returns within `deadline`: a message without an answer is [`Outcome::Unknown`] then, and
    ///   its connection is not used again.
    /// - The relay never has one key in two calls at once; a call holds only messages that
    ///   [`BrokerCapabilities::call_order`] allows together.
    /// - Once a message of a key is not `Acked`, report later messages of that key in the call as
    ///   [`Outcome::Unreachable`]: the relay holds them back with any outcome but `Acked`.
    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome>;

    /// Examines the broker for `doctor`: whether it can be used with this configuration for these
    /// topics, and whether its settings keep acknowledged messages.
    ///
    /// # Errors
    /// When the broker cannot be used at all: one line with the problem and what to do.
    async fn examine(&self, topics: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError>;

    /// Flushes and closes. Called once, after the last `publish` has returned.
    async fn close(&self);
}

/// The origin of a received message, as far as its wire form carries it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The name of the outbox.
    pub source: Option<String>,
    /// The seq of the message in the log of that outbox.
    pub seq: Option<Seq>,
    /// When it was enqueued.
    pub enqueued_at: Option<SystemTime>,
    /// Number of redrives.
    pub redriven: u32,
    /// Which messages were acknowledged before this one was sent.
    pub floor: Option<Floor>,
}

/// Which messages a subscriber receives, and how.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The name of the subscription: subscribers of one name share the messages, and a returning
    /// subscriber goes on with the first unacknowledged message. `None` is a listener, which gets
    /// its own copy of every message and leaves nothing behind.
    pub name: Option<String>,
    /// Topics of the outbox to receive.
    pub topics: Vec<TopicPattern>,
    /// Where a new name, or a listener, starts.
    pub start: Start,
    /// How subscribers of one name share the messages.
    pub sharing: Sharing,
}

/// How subscribers of one name share messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// In any way: an unfinished message of one subscriber does not delay later messages for
    /// others.
    Competing,
    /// By lanes: each lane goes to one subscriber at a time, in the order in which the broker
    /// acknowledged its messages, starting with the first message that no subscriber has
    /// acknowledged. Every message names its [`Incoming::lane`]. Adapters of brokers that cannot do
    /// this refuse to subscribe.
    Ordered,
}

/// Where a new subscription starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the oldest message that the broker still has. Brokers that keep no messages for unknown
    /// consumers (RabbitMQ, MQTT, webhooks) start with new messages.
    Beginning,
    /// With messages that arrive from now on.
    New,
}

/// A received message.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The message, with its id of the outbox.
    pub message: Message,
    /// The origin of the message, from its wire form.
    pub provenance: Provenance,
    /// The handle for acknowledging, opaque outside the adapter.
    pub receipt: u64,
    /// The lane of the message, for [`Sharing::Ordered`] subscriptions: a name that stays the same
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

    /// Acknowledges a handled message to the broker. An unacknowledged message comes again, to this
    /// or another subscriber of the same name.
    ///
    /// # Errors
    /// When acknowledging fails; the message will come again.
    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError>;
}
