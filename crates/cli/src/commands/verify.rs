//! `verify`: sends numbered probes through the database and the broker of a route, reads them back,
//! and reports lost, duplicated and reordered probes and the latency.

mod record;

use std::{process::ExitCode, sync::Arc, time::Duration};

use posthaste_core::{
    BrokerError, Message, MessageId, Sharing, Start, Store, Subscriber, Subscription,
};
use posthaste_relay::Relay;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    args::VerifyArgs,
    brokers::Brokers,
    config::{Config, Inputs, Needs, RouteConfig},
    output::{Fault, NO, Terminal, USAGE},
};

use record::{Record, Report};

/// Default topic of the probes.
const TOPIC: &str = "posthaste.verify";
/// Probes enqueued by one transaction.
const TRANSACTION: usize = 10;
/// How long to wait for duplicates after the last probe arrived.
const QUIET: Duration = Duration::from_millis(500);

/// Runs it.
///
/// # Errors
/// When the route does not exist, or its store or broker cannot be used.
pub(crate) async fn run(
    args: &VerifyArgs,
    inputs: &Inputs,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let config = super::load(inputs, Needs::Relay, terminal)?;
    let route = super::route(&config, &args.route)?;
    let topic = topic(args, route)?;
    let store = super::open(&config).await?;
    let brokers = Brokers::open(&config.brokers);
    let subscription = Subscription {
        name: None,
        topics: vec![topic.parse()?],
        start: Start::New,
        sharing: Sharing::Competing,
    };
    if args.topic.is_some() {
        super::check_receiver(&brokers, &route.broker, args.as_receiver, terminal)?;
    }
    let subscriber = brokers.subscribe(&route.broker, &subscription).await?;
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let relay = relay(&config, route, &brokers, Arc::clone(&store));
    tasks.spawn({
        let stop = stop.clone();
        async move { relay.run(stop).await }
    });
    tasks.close();
    let report = exchange(&*store, subscriber, &topic, args).await;
    stop.cancel();
    tasks.wait().await;
    let report = report?;
    if args.json {
        terminal.json(&report)?;
    } else {
        report.print(&args.route, &topic, terminal)?;
    }
    Ok(ExitCode::from(if report.is_sound() { 0 } else { NO }))
}

fn topic(args: &VerifyArgs, route: &RouteConfig) -> Result<String, Fault> {
    let topic = args.topic.as_deref().unwrap_or(TOPIC);
    if route.spec.topics.iter().any(|pattern| pattern.matches(topic)) {
        return Ok(topic.to_owned());
    }
    let patterns: Vec<&str> = route.spec.topics.iter().map(|topic| topic.as_str()).collect();
    let message = format!("route {} does not match the topic {topic:?}", route.spec.name);
    let help = format!(
        "pass a --topic that matches {}; its consumers will see the probes",
        patterns.join(", ")
    );
    Err(Fault::new(USAGE, message).help(help))
}

/// A relay for the route alone. If another relay serves the route, this one stands by.
fn relay(config: &Config, route: &RouteConfig, brokers: &Brokers, store: Arc<dyn Store>) -> Relay {
    Relay::new(store, vec![brokers.route(route)], config.relay.clone())
}

/// Sends all probes, and receives until all have arrived and no duplicates follow, or until the
/// timeout.
async fn exchange(
    store: &dyn Store,
    subscriber: Box<dyn Subscriber>,
    topic: &str,
    args: &VerifyArgs,
) -> anyhow::Result<Report> {
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let receiver = tokio::spawn(receive(subscriber, sender));
    let mut record = Record::default();
    let numbers: Vec<u32> = (0..args.count).collect();
    for numbers in numbers.chunks(TRANSACTION) {
        let messages: Vec<Message> =
            numbers.iter().map(|number| probe(topic, *number, args.keys)).collect();
        let at = Instant::now();
        store.append(&messages).await?;
        record.sent(&messages, at);
    }
    let deadline = Instant::now() + args.timeout.into();
    let mut wait_until = deadline;
    while let Ok(Some(arrival)) = timeout_at(wait_until, arrivals.recv()).await {
        let (id, at) = arrival?;
        record.arrived(id, at);
        wait_until = if record.is_complete() { Instant::now() + QUIET } else { deadline };
    }
    receiver.abort();
    Ok(record.report())
}

/// Payload of a probe. It holds the message id, because not every profile of every broker carries
/// it.
#[derive(Serialize, Deserialize)]
struct Payload {
    probe: u32,
    id: String,
}

fn probe(topic: &str, number: u32, keys: u32) -> Message {
    let key = format!("probe-{}", number % keys);
    let mut message = Message::from_bytes(topic, Some(&key), "").event_type("posthaste.probe");
    let payload = Payload { probe: number, id: message.id.to_string() };
    message.payload = serde_json::to_vec(&payload).expect("it is plain JSON").into();
    message
}

/// The id in the payload of a probe; for other messages, the message id.
fn probe_id(message: &Message) -> MessageId {
    let payload: Option<Payload> = serde_json::from_slice(&message.payload).ok();
    payload.and_then(|payload| payload.id.parse().ok()).unwrap_or(message.id)
}

/// Reports the id and the time of every arriving message, until the receiver of the channel is gone
/// or the broker fails.
async fn receive(
    mut subscriber: Box<dyn Subscriber>,
    arrivals: mpsc::UnboundedSender<Result<(MessageId, Instant), BrokerError>>,
) {
    loop {
        let arrival = async {
            let incoming = subscriber.receive().await?;
            let at = Instant::now();
            subscriber.acknowledge(incoming.receipt).await?;
            Ok((probe_id(&incoming.message), at))
        };
        let arrival = arrival.await;
        let is_over = arrival.is_err();
        if arrivals.send(arrival).is_err() || is_over {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_known_by_what_it_says() {
        let sent = probe("t", 7, 3);
        let mut arrived = Message { id: MessageId::fresh(), ..sent.clone() };
        assert_eq!(probe_id(&arrived), sent.id, "the broker carries no ids");
        arrived.payload = "{\"probe\":7}".into();
        assert_eq!(probe_id(&arrived), arrived.id, "no probe of ours");
    }
}
