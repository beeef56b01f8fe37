//! Publishes to RabbitMQ, and subscribes at it, over AMQP 0-9-1.
//!
//! "Delivered" means that RabbitMQ has confirmed a persistent message that it could route: every durable
//! queue that got it has written it to disk, or to most of its replicas where it has any. A message
//! for which no queue is bound is returned, and that is a rejection, although RabbitMQ confirms it.
//!
//! Order: RabbitMQ keeps the order of what is published on one channel to one queue. It does not stop
//! at a failure: a full queue may refuse a message and, drained a moment later, take the next. So by
//! default one message of a key is on its way at a time ([`Ordering::Strict`]); where no queue
//! refuses messages, or where a key may be overtaken in that case, [`Ordering::Pipelined`] is faster
//! for a hot key.

mod config;
mod connect;
mod examine;
mod outcome;
mod publish;
mod subscribe;

pub use config::{AttributePrefix, Config, EXCHANGE_DEFAULT, QueueType};
pub use posthaste_wire::Ordering;
pub use publish::RabbitMqBroker;
pub use subscribe::{RabbitMqSubscriber, subscribe};
