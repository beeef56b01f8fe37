//! Straight to a consumer over TCP, with no server in between: the relay connects, the consumer
//! listens. One line of JSON is a batch of messages, one line back says how far it was handled.
//!
//! **Delivered** means that the consumer sent an acknowledgement of the message's batch that covers
//! the message. What it did before it answered is its own affair.
//!
//! **Order**: a connection has one batch outstanding, so everything arrives in the order of the log.
//!
//! Nothing is encrypted and nobody is asked who they are: for one machine and for networks in which
//! everybody is trusted.
//!
//! [`Frames::Original`] speaks the frames of another program instead, whose consumers know ids of
//! batches and nothing else; what that takes is said there.

mod ack;
mod config;
mod connect;
mod examine;
mod frame;
mod outcome;
mod publish;
mod server;
mod subscribe;

pub use config::{Config, Frames};
pub use publish::TcpBroker;
pub use subscribe::{TcpSubscriber, subscribe};
