//! What `doctor` can see of a server.

use std::time::Duration;

use posthaste_core::{BrokerError, Finding, HEADERS_BYTES_MAX, PAYLOAD_BYTES_MAX, TopicPattern};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    Config, Unmatched,
    config::{Target, fresh_client_id},
    connect::{Introduction, dial},
    outcome::Trouble,
    packet::topic_problem,
};

/// How long connecting may take.
const TIME: Duration = Duration::from_secs(10);
/// With fewer publishes on their way at once, each waits for the one before.
const RECEIVE_MAX_MIN: u16 = 100;
/// The largest message there can be, its properties included.
const PACKET_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + HEADERS_BYTES_MAX + 16 * 1024;

pub(crate) async fn examine(
    config: &Config,
    target: &Target,
    topics: &[TopicPattern],
) -> Result<Vec<Finding>, BrokerError> {
    let place = format!("mqtt server {}:{}", target.host, target.port);
    // With the relay's own name it would throw the relay out.
    let client_id = match &config.client_id {
        Some(id) => format!("{id}-doctor"),
        None => fresh_client_id("posthaste-doctor"),
    };
    let (incoming, _) = mpsc::channel(1);
    let introduction = Introduction::of_publisher(client_id);
    let session = timeout(TIME, dial(target, &introduction, incoming))
        .await
        .unwrap_or(Err(Trouble::Timeout("connection")))
        .map_err(|trouble| trouble.error(&place))?;
    let terms = session.terms;
    session.close().await;
    let who = target.user.as_deref().map_or("anonymously".to_owned(), |user| format!("as {user}"));
    let how = if target.tls.is_some() { "with TLS" } else { "without TLS" };
    let mut findings = vec![
        Finding::ok(format!("{place}: connected {who} {how}, MQTT 5, QoS 1 allowed")),
        quota(terms.receive_max),
        size(terms.packet_bytes_max),
    ];
    findings.extend(topics.iter().filter_map(|pattern| topic(config, pattern)));
    findings.push(Finding::ok(
        "what it acknowledges survives its restart only if it persists (mosquitto.conf: \
         `persistence true`), and waits for absent subscribers only as far as their queues reach \
         (`max_queued_messages`): MQTT does not show either",
    ));
    if config.unmatched == Unmatched::Accept {
        findings.push(Finding::ok(
            "unmatched = \"accept\": messages that nobody subscribes to count as delivered",
        ));
    }
    Ok(findings)
}

fn quota(receive_max: u16) -> Finding {
    let what = format!("{receive_max} publishes may be unacknowledged at once (Receive Maximum)");
    if receive_max >= RECEIVE_MAX_MIN {
        return Finding::ok(what);
    }
    let fix = "raise it, in mosquitto.conf `max_inflight_messages 1000`: few at a time are slow";
    Finding::problem(what, fix)
}

fn size(packet_bytes_max: usize) -> Finding {
    let what = format!("packets of up to {packet_bytes_max} bytes are taken");
    if packet_bytes_max >= PACKET_BYTES_MAX {
        return Finding::ok(what);
    }
    let fix = format!(
        "messages may have up to {PACKET_BYTES_MAX} bytes and larger ones are rejected as \
         too-large: raise it (mosquitto.conf `max_packet_size`), or enqueue smaller ones only"
    );
    Finding::problem(what, fix)
}

/// Only an exact pattern names a topic; a server does not show which topics it lets us publish to.
fn topic(config: &Config, pattern: &TopicPattern) -> Option<Finding> {
    let pattern = config.wire.destination.pattern(pattern);
    let topic = pattern.as_str();
    if topic.contains('*') {
        return None;
    }
    let problem = topic_problem(topic)?;
    let what = format!("topic {topic:?} cannot be published to: it {problem}");
    Some(Finding::problem(what, "choose another topic, or map it with `destination`"))
}
