//! What `doctor` says about NATS.

use std::time::Duration;

use async_nats::jetstream::stream::{DiscardPolicy, Info, RetentionPolicy, StorageType};
use futures::TryStreamExt;
use posthaste_core::{BrokerError, Finding, PAYLOAD_BYTES_MAX, TopicPattern};
use tokio::time::timeout;

use crate::{config::Settings, connect::Session, outcome::Trouble, subject};

const EXAMINE_TIMEOUT: Duration = Duration::from_secs(15);
/// The server's own default.
const DUPLICATE_WINDOW_MIN: Duration = Duration::from_secs(120);

pub(crate) async fn examine(
    settings: &Settings,
    topics: &[TopicPattern],
) -> Result<Vec<Finding>, BrokerError> {
    let examined = timeout(EXAMINE_TIMEOUT, look(settings, topics)).await;
    examined.map_err(|_| Trouble::NotDialled)?
}

async fn look(settings: &Settings, topics: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
    let session = Session::dial(settings, EXAMINE_TIMEOUT).await?;
    let server = session.client.server_info();
    let mut findings = vec![Finding::ok(format!("NATS {} with JetStream answers", server.version))];
    findings.push(payload(session.bytes_max));
    let mut seen: Vec<String> = Vec::new();
    if let Some(name) = &settings.stream {
        match session.stream(name).await? {
            Some(info) => {
                findings.extend(stream(&info, server.cluster.is_some()));
                seen.push(info.config.name);
            }
            None => findings.push(Finding::problem(
                format!("there is no stream {name}"),
                format!("nats stream add {name} --subjects ..."),
            )),
        }
    }
    for pattern in topics.iter().map(|topics| settings.wire.destination.pattern(topics)) {
        let found = holders(&session, &pattern).await?;
        if found.is_empty() {
            findings.push(missing(&pattern));
        }
        for info in found {
            if let Some(name) = &settings.stream
                && *name != info.config.name
            {
                findings.push(Finding::problem(
                    format!("{pattern} is stored by stream {}, not {name}", info.config.name),
                    format!("set stream = \"{}\", or leave it out", info.config.name),
                ));
            }
            if !seen.contains(&info.config.name) {
                findings.extend(stream(&info, server.cluster.is_some()));
                seen.push(info.config.name);
            }
        }
    }
    session.close().await;
    Ok(findings)
}

async fn holders(session: &Session, pattern: &TopicPattern) -> Result<Vec<Info>, BrokerError> {
    let filter = subject::filter(pattern);
    if filter == pattern.as_str() {
        return Ok(session.stream_of(&filter).await?.into_iter().collect());
    }
    let all: Vec<Info> = session.context.streams().try_collect().await.map_err(|error| {
        BrokerError { message: format!("cannot list the streams: {error}"), source: None }
    })?;
    let holds =
        |info: &Info| info.config.subjects.iter().any(|subject| subject::overlap(subject, &filter));
    Ok(all.into_iter().filter(holds).collect())
}

fn missing(pattern: &TopicPattern) -> Finding {
    let filter = subject::filter(pattern);
    let letters = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = filter.trim_end_matches(['.', '>']).chars().map(letters).collect();
    let name = if name.is_empty() { "EVENTS" } else { &name };
    Finding::problem(
        format!("no stream stores {pattern}: what is published there is refused"),
        format!("nats stream add {name} --subjects '{filter}' --storage file --defaults"),
    )
}

fn payload(bytes_max: usize) -> Finding {
    let what = format!("the server takes messages of up to {bytes_max} bytes (max_payload)");
    if bytes_max >= PAYLOAD_BYTES_MAX {
        return Finding::ok(what);
    }
    Finding::problem(
        format!("{what}, the outbox of up to {PAYLOAD_BYTES_MAX}: larger ones are rejected"),
        "if you send such, set max_payload: 8MB and room for headers in the server's configuration",
    )
}

fn stream(info: &Info, is_cluster: bool) -> Vec<Finding> {
    let config = &info.config;
    let name = &config.name;
    let mut findings = Vec::new();
    findings.push(if config.storage == StorageType::File {
        Finding::ok(format!("stream {name} is kept in files"))
    } else {
        Finding::problem(
            format!("stream {name} is kept in memory: a restart loses what was acknowledged"),
            format!(
                "make it anew with --storage file (it cannot be changed): nats stream rm {name}"
            ),
        )
    });
    if is_cluster {
        findings.push(if config.num_replicas > 1 {
            Finding::ok(format!("stream {name} has {} replicas", config.num_replicas))
        } else {
            Finding::problem(
                format!("stream {name} has one replica in a cluster: it stops with its server"),
                format!("nats stream edit {name} --replicas 3"),
            )
        });
    }
    if config.no_ack {
        findings.push(Finding::problem(
            format!("stream {name} acknowledges nothing (no_ack): no message counts as delivered"),
            format!("nats stream edit {name} --ack"),
        ));
    }
    findings.push(window(name, config.duplicate_window));
    findings.push(keeping(info));
    findings
}

fn window(name: &str, window: Duration) -> Finding {
    let what = format!(
        "stream {name} drops a copy that comes within {} s; a later one is for the inbox to drop",
        window.as_secs()
    );
    if window >= DUPLICATE_WINDOW_MIN {
        return Finding::ok(what);
    }
    Finding::problem(what, format!("nats stream edit {name} --dupe-window 2m"))
}

/// How long it keeps messages: what goes before a consumer has read it, that consumer never sees.
fn keeping(info: &Info) -> Finding {
    let config = &info.config;
    let mut limits = Vec::new();
    if config.max_messages > 0 {
        limits.push(format!("{} messages", config.max_messages));
    }
    if config.max_messages_per_subject > 0 {
        limits.push(format!("{} messages of a subject", config.max_messages_per_subject));
    }
    if config.max_bytes > 0 {
        limits.push(format!("{} bytes", config.max_bytes));
    }
    if !config.max_age.is_zero() {
        limits.push(format!("{} s", config.max_age.as_secs()));
    }
    let limits = if limits.is_empty() { "no limit".to_owned() } else { limits.join(", ") };
    let then = match (config.discard, config.retention) {
        (DiscardPolicy::New, _) => "what is new is refused, and waits in the outbox",
        (_, RetentionPolicy::Limits) => "what is oldest goes, read or not",
        (_, RetentionPolicy::Interest) => "what is oldest goes, and what no consumer waits for",
        (_, RetentionPolicy::WorkQueue) => "what is oldest goes, and what has been consumed",
    };
    Finding::ok(format!("stream {} keeps {limits}; beyond that {then}", config.name))
}
