//! What the tests of this adapter share.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{sync::Arc, time::Duration};

use async_nats::jetstream::{self, stream};
use posthaste_broker_nats::{Config, NatsBroker};
use posthaste_core::{Broker, Delivery, Message, MessageId, Outcome};
use posthaste_fixtures::{Kind, Options, Server};

/// Time for whatever should not need any.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) fn private(settings: &[(&str, &str)]) -> Server {
    let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let options = Options { settings, ..Options::default() };
    Server::private(Kind::Nats, &options).expect("a NATS of our own")
}

pub(crate) fn open(url: &str) -> NatsBroker {
    NatsBroker::open(Config::new(url)).expect("a good configuration")
}

/// The URL with someone else in it.
pub(crate) fn as_user(url: &str, user: &str) -> String {
    let address = url.rsplit(['@', '/']).next().expect("an address");
    format!("nats://{user}@{address}")
}

pub(crate) fn address(url: &str) -> &str {
    url.strip_prefix("nats://").expect("a plain URL")
}

/// A name that nobody else uses.
pub(crate) fn fresh() -> String {
    format!("t{}", MessageId::fresh().0.simple())
}

pub(crate) async fn context(url: &str) -> jetstream::Context {
    let url: async_nats::ServerAddr = url.parse().expect("a URL");
    let options = match (url.username(), url.password()) {
        (Some(user), Some(password)) => {
            async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned())
        }
        _ => async_nats::ConnectOptions::new(),
    };
    jetstream::new(options.connect(url).await.expect("NATS"))
}

/// Makes a stream for the subject and everything below it.
pub(crate) async fn add_stream(url: &str, subject: &str, more: stream::Config) {
    let subjects = vec![subject.to_owned(), format!("{subject}.>")];
    let config = stream::Config { name: subject.to_owned(), subjects, ..more };
    context(url).await.create_stream(config).await.expect("a stream");
}

/// How many messages a stream has.
pub(crate) async fn stored(url: &str, stream: &str) -> u64 {
    let stream = context(url).await.get_stream(stream).await.expect("the stream");
    stream.cached_info().state.messages
}

pub(crate) fn delivery(message: Message) -> Arc<Delivery> {
    let enqueued_at = std::time::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    Arc::new(Delivery { seq: 42, message, enqueued_at, attempt: 1, redriven: 0, floor: None })
}

pub(crate) fn message(topic: &str, key: &str) -> Arc<Delivery> {
    delivery(Message::from_bytes(topic, Some(key), "{}"))
}

pub(crate) async fn publish_one(broker: &NatsBroker, topic: &str) -> Outcome {
    let mut outcomes = broker.publish(&[message(topic, "key")], LONG).await;
    outcomes.pop().expect("an outcome")
}

/// What an outcome is, and its class.
pub(crate) fn kind(outcome: &Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Acked => ("acked", ""),
        Outcome::Rejected(failure) => ("rejected", failure.class),
        Outcome::Unreachable(failure) => ("unreachable", failure.class),
        Outcome::Unknown(failure) => ("unknown", failure.class),
    }
}

pub(crate) fn kinds(outcomes: &[Outcome]) -> Vec<(&'static str, &'static str)> {
    outcomes.iter().map(kind).collect()
}
