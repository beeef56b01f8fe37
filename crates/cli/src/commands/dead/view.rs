//! Dead letters on screen and as JSON.

use std::io::{self, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use posthaste_core::ParkState;
use serde::Serialize;

use super::letters::Found;
use crate::output::{shorten, table, write_table};

/// A dead letter as one line of JSON. The fields are stable.
#[derive(Serialize)]
pub(crate) struct Row<'a> {
    id: String,
    /// The route that could not deliver it.
    route: Option<&'a str>,
    /// The consumer that could not handle it.
    consumer: Option<&'a str>,
    seq: i64,
    topic: &'a str,
    key: Option<&'a str>,
    #[serde(rename = "type")]
    event_type: Option<&'a str>,
    content_type: &'a str,
    headers: serde_json::Map<String, serde_json::Value>,
    /// Text where it is UTF-8, else base64.
    payload: String,
    payload_is_base64: bool,
    state: &'static str,
    attempts: u32,
    unknowns: u32,
    redriven: u32,
    first_error: Option<Error<'a>>,
    last_error: Option<Error<'a>>,
    created_at: &'a str,
    parked_at: &'a str,
    state_at: &'a str,
    acted_by: Option<&'a str>,
    acted_why: Option<&'a str>,
}

/// An error by class and detail.
#[derive(Serialize)]
struct Error<'a> {
    class: &'a str,
    detail: &'a str,
}

impl<'a> Row<'a> {
    /// The row of a dead letter.
    pub(crate) fn new(found: &'a Found) -> Self {
        let parked = &found.parked;
        let message = &parked.message;
        let text = std::str::from_utf8(&message.payload);
        let error = |error: &'a Option<(String, String)>| {
            let (class, detail) = error.as_ref()?;
            Some(Error { class, detail })
        };
        let headers = message.headers.iter();
        Self {
            id: message.id.to_string(),
            route: found.route(),
            consumer: found.consumer(),
            seq: parked.seq,
            topic: &message.topic,
            key: message.key.as_deref(),
            event_type: message.event_type.as_deref(),
            content_type: &message.content_type,
            headers: headers.map(|(n, v)| (n.clone(), v.as_str().into())).collect(),
            payload_is_base64: text.is_err(),
            payload: text.map_or_else(|_| STANDARD.encode(&message.payload), str::to_owned),
            state: parked.state.as_str(),
            attempts: parked.attempts,
            unknowns: parked.unknowns,
            redriven: parked.redriven,
            first_error: error(&parked.first_error),
            last_error: error(&parked.last_error),
            created_at: &parked.created_at,
            parked_at: &parked.parked_at,
            state_at: &parked.state_at,
            acted_by: parked.acted.as_ref().map(|(by, _)| by.as_str()),
            acted_why: parked.acted.as_ref().map(|(_, why)| why.as_str()),
        }
    }
}

/// Writes a table of dead letters.
///
/// # Errors
/// When the writer fails.
pub(crate) fn list(letters: &[Found], out: &mut dyn Write) -> io::Result<()> {
    let is_retrying = letters.iter().any(|found| found.parked.state == ParkState::Retrying);
    let since = if is_retrying { "retrying since" } else { "dead since" };
    let mut table = table(&["id", "route", "topic", "key", "attempts", since, "error"]);
    for found in letters {
        let parked = &found.parked;
        table.add_row([
            parked.message.id.to_string(),
            found.owner(),
            shorten(&parked.message.topic, 30),
            shorten(parked.message.key.as_deref().unwrap_or("-"), 20),
            parked.attempts.to_string(),
            parked.state_at.clone(),
            shorten(&error(parked.last_error.as_ref()), 60),
        ]);
    }
    write_table(&table, out)
}

/// Writes everything about one dead letter.
///
/// # Errors
/// When the writer fails.
pub(crate) fn show(found: &Found, out: &mut dyn Write) -> io::Result<()> {
    let parked = &found.parked;
    let message = &parked.message;
    let or_dash = |text: Option<&str>| text.unwrap_or("-").escape_debug().to_string();
    for (name, value) in [
        ("id", message.id.to_string()),
        ("route", found.owner()),
        ("state", format!("{} since {}", parked.state.as_str(), parked.state_at)),
        ("topic", or_dash(Some(&message.topic))),
        ("key", or_dash(message.key.as_deref())),
        ("type", or_dash(message.event_type.as_deref())),
        ("seq", parked.seq.to_string()),
        ("enqueued", parked.created_at.clone()),
        ("parked", parked.parked_at.clone()),
        ("refused", format!("{} times", parked.attempts)),
        ("unknown", format!("{} times", parked.unknowns)),
        ("redriven", format!("{} times", parked.redriven)),
        ("first error", error(parked.first_error.as_ref())),
        ("last error", error(parked.last_error.as_ref())),
    ] {
        writeln!(out, "{name:12} {value}")?;
    }
    if let Some((by, why)) = &parked.acted {
        writeln!(out, "{:12} {}: {}", "decided by", by.escape_debug(), why.escape_debug())?;
    }
    for (name, value) in &message.headers {
        writeln!(out, "{:12} {}: {}", "header", name.escape_debug(), value.escape_debug())?;
    }
    let size = message.payload.len();
    let kind = message.content_type.escape_debug();
    match std::str::from_utf8(&message.payload) {
        Ok(text) => writeln!(out, "{:12} {size} bytes of {kind}\n\n{}", "payload", printable(text)),
        Err(_) => {
            let encoded = STANDARD.encode(&message.payload);
            writeln!(out, "{:12} {size} bytes of {kind}, base64\n\n{encoded}", "payload")
        }
    }
}

fn error(error: Option<&(String, String)>) -> String {
    error.map_or("-".to_owned(), |(class, detail)| format!("{class}: {}", detail.escape_debug()))
}

/// Replaces control characters of a payload, except line breaks and tabs, so that it cannot drive
/// the terminal.
fn printable(text: &str) -> String {
    let is_safe = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars().map(|c| if is_safe(c) { c } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use posthaste_core::{Message, ParkedView};

    use super::*;

    fn found(payload: &[u8]) -> Found {
        let parked = ParkedView {
            route: "r".to_owned(),
            seq: 7,
            message: Message::from_bytes("t", Some("k"), payload.to_vec()),
            state: ParkState::Dead,
            attempts: 3,
            unknowns: 0,
            redriven: 0,
            first_error: None,
            last_error: Some(("too-large".to_owned(), "line one\nline two".to_owned())),
            created_at: "2026-11-15T10:00:00Z".to_owned(),
            parked_at: "2026-11-15T10:00:00Z".to_owned(),
            state_at: "2026-11-15T10:00:00Z".to_owned(),
            next_attempt_in: None,
            acted: None,
        };
        Found { parked, is_consumers: false }
    }

    #[test]
    fn payloads_are_text_where_they_can_be() {
        for (payload, shown, is_base64) in [(&b"{}"[..], "{}", false), (&[0xff][..], "/w==", true)]
        {
            let found = found(payload);
            let row = serde_json::to_value(Row::new(&found)).unwrap();
            assert_eq!(row["payload"], shown);
            assert_eq!(row["payload_is_base64"], is_base64);
        }
    }

    #[test]
    fn nothing_a_message_holds_can_drive_the_terminal() {
        let found = found(b"a\x1b[2Jb\n");
        let mut text = Vec::new();
        show(&found, &mut text).unwrap();
        list(&[found], &mut text).unwrap();
        assert!(!text.contains(&0x1b));
    }
}
