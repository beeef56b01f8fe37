//! Broker adapter for NATS JetStream.
//!
//! "Delivered" means that the stream that holds the subject has stored the message and said so
//! (`PubAck`): in its files, or, with several replicas, on a majority of them. Each message carries
//! its id as `Nats-Msg-Id`, so a copy within the stream's duplicate window is not stored again; the
//! answer `duplicate` is a delivery, too. Plain NATS, which stores nothing, is refused: a subject
//! that no stream holds has nobody to answer.
//!
//! # Order
//! What one connection publishes to a stream on one server is stored in that order, and if the
//! connection breaks, what was stored is a beginning of what was sent. So messages of a key may be on
//! their way together unless the stream can refuse one and take the next. It can if
//! - it is full and told to refuse what is new (`discard: new` with a limit, or per subject), because
//!   a consumer may make room in between; the same with limits of the account;
//! - a message is larger than its `max_msg_size`: that one travels alone;
//! - the server is one of a cluster: a stream has times without a leader, in which what is published
//!   is lost while the connection stays, and what follows is stored.
//!
//! Each stream is looked at once in a while, and where one of these holds, or where we may not look,
//! one message of a key is on its way at a time. The server as a whole can run out of room as well;
//! the first sign of that makes all streams go one by one for a while.
//!
//! # Connections
//! A connection that is lost, or leaves a message without an answer, is closed and never used again,
//! together with everything in it that was not sent yet, so that no message of it arrives behind a
//! later copy.

mod answers;
mod config;
mod connect;
mod examine;
mod headers;
mod outcome;
mod publish;
mod streams;
mod subject;
mod subscribe;

pub use config::Config;
pub use publish::NatsBroker;
pub use subscribe::{NatsSubscriber, subscribe};
