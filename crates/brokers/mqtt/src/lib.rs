//! MQTT 5: Mosquitto, EMQX, HiveMQ and others.
//!
//! "Delivered" means that the server answered a QoS 1 PUBLISH with PUBACK: it has taken over the
//! message for those who subscribe now, absent ones with a session included. Whether that survives
//! its restart is up to its own settings (`persistence true` for Mosquitto), which MQTT does not
//! show. A PUBACK that says that nobody subscribes is no delivery unless [`Unmatched::Accept`] says
//! so.
//!
//! Order: one message of a key is on its way at a time ([`Ordering::Strict`]). A server keeps the
//! order of a topic, but may refuse one message (too large, quota, format) and take the next, so
//! more than one at a time is the user's choice ([`Ordering::Pipelined`]).
//!
//! # Why no client library
//! A client that keeps publishes to send them again by itself cannot say what became of them. With
//! `rumqttc` 0.25 messages were lost over a restart, and its codec takes a DISCONNECT without
//! properties, as Mosquitto sends it, for an unfinished packet. `mqtt5` 0.49 gives a result for each
//! publish, but has replay and an offline queue behind its API. What a relay needs is little: write,
//! remember by packet identifier, and forget everything when the connection ends. So `session` does
//! that, on the codec crate of `mqtt5` (`mqtt5-protocol`), and nothing is ever sent twice that the
//! relay did not ask for.

mod config;
mod connect;
mod examine;
mod outcome;
mod packet;
mod publish;
mod session;
mod subscribe;

pub use config::{Config, Unmatched};
pub use posthaste_wire::Ordering;
pub use publish::MqttBroker;
pub use subscribe::{MqttSubscriber, subscribe};
