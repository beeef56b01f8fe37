//! Redis Streams: every message becomes an entry of a stream, every name a consumer group.
//!
//! **Delivered** means that the server has the entry in memory and has handed it to its append-only
//! file; how soon that is on disk is for `appendfsync` to say (`always`: before the answer;
//! `everysec`: about a second later, so a crash of the machine may lose that second). Replicas have
//! it later still, unless [`Config::wait_replicas`] asks for them. [`examine`] says what a server's
//! settings are worth.
//!
//! **Order**: the messages of a call that go to one stream are added by one transaction
//! (`MULTI`/`EXEC`). The server takes all of them or none, in order, so nothing that refuses one
//! message lets a later one of its key pass; and it costs no round trip.
//!
//! [`examine`]: posthaste_core::Broker::examine

mod config;
mod connect;
mod entry;
mod examine;
mod outcome;
mod publish;
mod reader;
mod subscribe;

pub use config::Config;
pub use publish::RedisBroker;
pub use subscribe::{RedisSubscriber, subscribe};

use posthaste_wire::{Names, Style};

/// The field that holds the body.
const DATA: &str = "data";
/// The field that holds the media type of the body.
const CONTENT_TYPE: &str = "content-type";
/// The field that holds the key where the profile has no attributes.
const KEY: &str = "key";

/// How fields are named. There is no CloudEvents binding for Redis; this is Kafka's.
const NAMES: Names = Names {
    style: Style::Underscore,
    reserved: &[DATA, CONTENT_TYPE, KEY],
    reserved_prefixes: &[],
};
