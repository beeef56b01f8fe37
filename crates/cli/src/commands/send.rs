//! `send`: enqueues a message in its own transaction.

use std::{
    io::{self, IsTerminal, Read},
    process::ExitCode,
};

use anyhow::Context;
use posthaste_core::{Message, MessageId, Store, TopicPattern};

use crate::{
    args::SendArgs,
    config::{Config, Inputs, Needs},
    output::{Fault, Terminal, USAGE},
};

/// Messages enqueued by one transaction, so that a large `--count` neither fills memory nor locks
/// a single-writer database for long.
const CHUNK: u32 = 1000;

/// Runs it.
///
/// # Errors
/// When the message breaks a limit or the store refuses it.
pub(crate) async fn run(
    args: SendArgs,
    inputs: &Inputs,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let config = super::load(inputs, Needs::Store, terminal)?;
    let count = args.count;
    let message = message(args)?;
    message.validate()?;
    let is_json = message.content_type == "application/json";
    if is_json && serde_json::from_slice::<serde::de::IgnoredAny>(&message.payload).is_err() {
        terminal.note("the payload is not JSON: give its media type with --content-type")?;
    }
    let store = super::open(&config).await?;
    let mut left = count;
    while left > 0 {
        let size = left.min(CHUNK);
        let fresh = |_| Message { id: MessageId::fresh(), ..message.clone() };
        let messages: Vec<Message> = (0..size).map(fresh).collect();
        store.append(&messages).await?;
        for message in &messages {
            writeln!(terminal.out, "{}", message.id)?;
        }
        left -= size;
    }
    if !is_routed(&message.topic, &config, &*store).await? {
        terminal.note(&format!(
            "no route matches the topic `{}` yet: the message is kept until a route matches it",
            message.topic
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn message(args: SendArgs) -> anyhow::Result<Message> {
    let payload = match (args.payload, args.file) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(path)) => {
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?
        }
        (None, None) if io::stdin().is_terminal() => {
            let fault = Fault::new(USAGE, "there is no payload");
            return Err(fault
                .help("pass --payload TEXT or --file FILE, or pipe the payload")
                .into());
        }
        (None, None) => {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
            bytes
        }
    };
    let mut message = Message::from_bytes(args.topic, args.key.as_deref(), payload);
    message.event_type = args.event_type;
    message.headers = args.headers;
    message.content_type = args.content_type;
    Ok(message)
}

/// Whether a route of the configuration or of the store matches the topic.
async fn is_routed(topic: &str, config: &Config, store: &dyn Store) -> anyhow::Result<bool> {
    let matches = |pattern: &TopicPattern| pattern.matches(topic);
    if config.routes.iter().any(|route| route.spec.topics.iter().any(matches)) {
        return Ok(true);
    }
    let status = store.status().await?;
    let patterns = status.routes.iter().flat_map(|route| &route.topics);
    let is_routed = patterns.filter_map(|text| text.parse().ok()).any(|pattern| matches(&pattern));
    Ok(is_routed)
}
