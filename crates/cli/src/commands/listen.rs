//! `listen`: subscribes to the topics of a route at its broker, and prints the messages.

use std::{io, process::ExitCode, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use console::Style;
use posthaste_core::{Incoming, Sharing, Start, Subscription};

use crate::{
    args::ListenArgs,
    brokers::Brokers,
    config::{Inputs, Needs},
    output::{Fault, NOT_FOUND, Terminal},
};

/// How long to wait for the last acknowledgement to be sent.
const FAREWELL: Duration = Duration::from_millis(200);

/// Longest payload printed for people, in characters.
const PAYLOAD_SHOWN_MAX: usize = 200;

/// Prints messages until Ctrl-C, or until `--count` messages arrived.
///
/// # Errors
/// When there is no such route, or subscribing to its broker fails.
pub(crate) async fn run(
    args: &ListenArgs,
    inputs: &Inputs,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let config = super::load(inputs, Needs::Nothing, terminal)?;
    let route = super::route(&config, &args.route)?;
    let start = if args.from_beginning { Start::Beginning } else { Start::New };
    let subscription = Subscription {
        name: None,
        topics: route.spec.topics.clone(),
        start,
        sharing: Sharing::Competing,
    };
    let brokers = Brokers::open(&config.brokers);
    super::check_receiver(&brokers, &route.broker, args.as_receiver, terminal)?;
    let mut subscriber = brokers.subscribe(&route.broker, &subscription).await?;
    terminal.note(&format!("listening to route {}; Ctrl-C ends the command", args.route))?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let incoming = tokio::select! {
            incoming = subscriber.receive() => incoming?,
            _ = tokio::signal::ctrl_c() => break,
        };
        if args.json {
            terminal.json(&object(&incoming))?;
        } else {
            print(&incoming, terminal)?;
        }
        terminal.out.flush()?;
        subscriber.acknowledge(incoming.receipt).await?;
        left -= 1;
    }
    // With TCP and webhooks another task sends the acknowledgement to the relay.
    tokio::time::sleep(FAREWELL).await;
    if left > 0 && args.count.is_some() {
        return Err(Fault::new(NOT_FOUND, format!("ended with {left} messages missing")).into());
    }
    Ok(ExitCode::SUCCESS)
}

fn print(incoming: &Incoming, terminal: &mut Terminal<'_>) -> io::Result<()> {
    let Incoming { message, provenance, .. } = incoming;
    let faint = Style::new().dim();
    let time = provenance.enqueued_at.map(|at| humantime::format_rfc3339_millis(at).to_string());
    let mut line = format!(
        "{} {} {}",
        faint.apply_to(time.as_deref().unwrap_or("-")),
        Style::new().bold().apply_to(&message.topic),
        message.id
    );
    for (name, value) in [("key", &message.key), ("type", &message.event_type)] {
        if let Some(value) = value {
            line.push_str(&format!(" {}{value}", faint.apply_to(format!("{name}="))));
        }
    }
    if let Some(seq) = provenance.seq {
        line.push_str(&format!(" {}{seq}", faint.apply_to("seq=")));
    }
    for (name, value) in &message.headers {
        line.push_str(&format!(" {}{value}", faint.apply_to(format!("{name}:"))));
    }
    writeln!(terminal.out, "{line}\n  {}", shown(&message.payload))
}

/// The payload on one line: text with escaped control characters, shortened if it is long.
fn shown(payload: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(payload) else {
        return format!("({} bytes, not text)", payload.len());
    };
    let mut shown: String = text
        .chars()
        .take(PAYLOAD_SHOWN_MAX)
        .flat_map(|c| -> Box<dyn Iterator<Item = char>> {
            if c.is_control() { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) }
        })
        .collect();
    if text.chars().nth(PAYLOAD_SHOWN_MAX).is_some() {
        shown.push_str(&format!("... ({} bytes)", payload.len()));
    }
    shown
}

fn object(incoming: &Incoming) -> serde_json::Value {
    let Incoming { message, provenance, .. } = incoming;
    let text = std::str::from_utf8(&message.payload).ok();
    let headers: serde_json::Map<_, _> =
        message.headers.iter().map(|(n, v)| (n.clone(), v.as_str().into())).collect();
    serde_json::json!({
        "id": message.id,
        "topic": message.topic,
        "key": message.key,
        "type": message.event_type,
        "content_type": message.content_type,
        "headers": headers,
        "payload": text,
        "payload_base64": text.is_none().then(|| STANDARD.encode(&message.payload)),
        "source": provenance.source,
        "seq": provenance.seq,
        "enqueued_at":
            provenance.enqueued_at.map(|at| humantime::format_rfc3339_micros(at).to_string()),
        "redriven": provenance.redriven,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_stays_on_its_line_and_short() {
        assert_eq!(shown(b"a\nb\x1b[2J"), "a\\nb\\u{1b}[2J");
        assert_eq!(shown(&[0, 255]), "(2 bytes, not text)");
        let long = shown("x".repeat(1000).as_bytes());
        assert!(long.len() < 230 && long.ends_with("... (1000 bytes)"), "{long}");
    }
}
