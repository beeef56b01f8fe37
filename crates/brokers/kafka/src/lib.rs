//! Apache Kafka, through librdkafka.
//!
//! # What "delivered" means
//!
//! `acks=all`: every in-sync replica of the partition has the message, at least as many as the topic's
//! `min.insync.replicas` says. Kafka answers before anything is on disk; copies are what keeps it.
//!
//! # How order is kept
//!
//! A key goes to one partition, and a partition keeps the order in which it takes messages. Messages
//! of a key are pipelined, so what has to be shown is that none is taken in spite of the failure of one
//! before it:
//!
//! - `enable.idempotence`: a batch that is sent again after a lost answer is stored once, in its place,
//!   and one whose predecessor is missing is refused.
//! - That refusal has a hole: a server accepts any number from a producer that it has not met on the
//!   partition. If a new producer's first batch is turned away and its second is taken, the first is
//!   overtaken; librdkafka would even conclude that the first had arrived, too, and report it delivered.
//!   Hence `max.in.flight.requests.per.connection=1`: a batch that is turned away for a while (too few
//!   replicas, a new leader) is sent again before any other; after a change of leader librdkafka waits
//!   for the old leader's answers before it asks the new. And where a partition has not acknowledged
//!   anything of the producer yet, only one message of a key is handed over at first. While a batch is
//!   on its way the next one fills, so little speed is lost.
//! - `enable.gapless.guarantee`: a batch that is refused for good stops the producer, instead of the
//!   next batch being numbered anew and sent in its stead.
//! - `message.timeout.ms=0`: a message whose time is up in librdkafka's queue would be dropped and those
//!   behind it sent. Time is ours to keep: at the deadline of a call the whole producer is thrown away
//!   with everything in it, and what had no answer is unknown.
//! - A topic is looked up before the first message to it is handed over, so that a missing one is found
//!   out before, not between, its messages.
//!
//! # One bad message among good ones
//!
//! Kafka refuses batches, not messages. A message larger than a batch is alone in it, so its refusal is
//! its own. Those of a smaller size are then sent one by one, in order, by a producer that goes on after
//! a failure; what was stopped behind them follows. If all fit alone, the topic takes less than our batch,
//! and batches get smaller.

mod config;
mod connect;
mod examine;
mod ledger;
mod outcome;
mod partition;
mod publish;
mod queue;
mod reader;
mod record;
mod round;
mod subscribe;
mod topic;

pub use config::{Compression, Config};
pub use publish::KafkaBroker;
pub use subscribe::{KafkaSubscriber, subscribe};
