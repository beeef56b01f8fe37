//! Headers: what NATS carries unchanged, and how attributes are written so that it does.

use std::{borrow::Cow, cell::RefCell};

use async_nats::{HeaderMap, HeaderName};
use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use posthaste_core::{Delivery, Failure, MessageId};
use posthaste_wire::{Names, Outgoing, Profile, Received, Style};

/// How NATS names things. Names with `Nats-` in front are the server's.
pub(crate) const NAMES: Names =
    Names { style: Style::Dash, reserved: &["content-type"], reserved_prefixes: &["nats-"] };

const MESSAGE_ID: &str = "Nats-Msg-Id";
const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
const CONTENT_TYPE: &str = "Content-Type";
const DATA_CONTENT_TYPE: &str = "ce-datacontenttype";
const ATTRIBUTE: &str = "ce-";

/// What the CloudEvents bindings percent-encode in a header: all but the visible ASCII characters,
/// and `"` and `%` of those.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Bytes around the headers, and around one of them.
const BLOCK_BYTES: usize = "NATS/1.0\r\n\r\n".len();
const LINE_BYTES: usize = ": \r\n".len();

/// Calls `each` with every header of a message. Those that are not attributes are as they are.
fn each<'a>(
    delivery: &'a Delivery,
    outgoing: &'a Outgoing<'_>,
    profile: Profile,
    stream: Option<&'a str>,
    mut each: impl FnMut(&'a str, Cow<'a, str>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    each(MESSAGE_ID, message_id(delivery, &outgoing.destination).into())?;
    if let Some(stream) = stream {
        each(EXPECTED_STREAM, stream.into())?;
    }
    // The binding has a header for either mode.
    if profile == Profile::Binary {
        each(DATA_CONTENT_TYPE, encoded(outgoing.content_type))?;
    } else {
        each(CONTENT_TYPE, outgoing.content_type.into())?;
    }
    for (name, value) in &outgoing.headers {
        let value =
            if name.starts_with(ATTRIBUTE) { encoded(value) } else { value.as_ref().into() };
        each(name, value)?;
    }
    Ok(())
}

/// What the stream tells copies by. The id alone would not do where it holds a message under two
/// subjects, or where a person sends it again: it would drop the second and call it stored.
fn message_id(delivery: &Delivery, destination: &str) -> String {
    let message = &delivery.message;
    let mut id = message.id.to_string();
    if destination != message.topic {
        id.push('/');
        id.extend(utf8_percent_encode(destination, ENCODED));
    }
    if delivery.redriven > 0 {
        id.push('+');
        id.push_str(&delivery.redriven.to_string());
    }
    id
}

fn encoded(value: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'%';
    match value.bytes().all(is_plain) {
        // Nearly always, and much sooner seen than by the encoder.
        true => value.into(),
        false => utf8_percent_encode(value, ENCODED).into(),
    }
}

/// The headers of a message, and how many bytes they take; refuses those that would not arrive as they
/// are.
pub(crate) fn map(
    delivery: &Delivery,
    outgoing: &Outgoing<'_>,
    profile: Profile,
    stream: Option<&str>,
) -> Result<(HeaderMap, usize), Failure> {
    let (mut map, mut bytes) = (HeaderMap::new(), BLOCK_BYTES);
    each(delivery, outgoing, profile, stream, |name, value| {
        let refused = |rule| Failure::new("header", format!("header {name:?} {rule}"));
        let known = known(name).ok_or_else(|| {
            refused("has a name that is not of visible ASCII characters without a colon")
        })?;
        if value.trim() != value {
            return Err(refused("has a value with spaces around it, which NATS would cut off"));
        }
        if value.contains(char::is_control) {
            return Err(refused("has a control character in its value"));
        }
        bytes += name.len() + value.len() + LINE_BYTES;
        map.insert(known, value.into_owned());
        Ok(())
    })?;
    Ok((map, bytes))
}

/// The driver's form of a name, if it can have it. Nearly all messages have the same names in the same
/// order, so those that came first are kept, and looked for behind the one that was wanted last.
fn known(name: &str) -> Option<HeaderName> {
    const KNOWN_MAX: usize = 32;
    thread_local! {
        static KNOWN: RefCell<(Vec<HeaderName>, usize)> = const { RefCell::new((Vec::new(), 0)) };
    }
    KNOWN.with_borrow_mut(|(known, next)| {
        let is_it = |place: &usize| AsRef::<str>::as_ref(&known[*place]) == name;
        let (before, behind) = (0..*next, *next..known.len());
        if let Some(place) = behind.chain(before).find(is_it) {
            *next = (place + 1) % known.len();
            return Some(known[place].clone());
        }
        let parsed: HeaderName = name.parse().ok().filter(|_| !name.is_empty())?;
        if known.len() < KNOWN_MAX {
            known.push(parsed.clone());
        }
        Some(parsed)
    })
}

/// What arrived, its attributes decoded and the server's own headers left out.
pub(crate) fn received(
    subject: &str,
    coordinates: String,
    headers: Option<&HeaderMap>,
    body: Bytes,
) -> Received {
    let mut received =
        Received { destination: subject.to_owned(), coordinates, body, ..Received::default() };
    for (name, values) in headers.into_iter().flat_map(HeaderMap::iter) {
        let name: &str = name.as_ref();
        for value in values {
            let value = value.as_str();
            let lower = name.to_ascii_lowercase();
            if lower == "nats-msg-id" {
                let id = value.split(['/', '+']).next().unwrap_or(value);
                let is_ours = id.parse::<MessageId>().is_ok();
                received.id = Some(if is_ours { id } else { value }.to_owned());
            } else if lower == "content-type" {
                received.content_type = Some(value.to_owned());
            } else if lower.starts_with(ATTRIBUTE) {
                let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
                received.headers.push((name.to_owned(), value));
            } else if !lower.starts_with("nats-") {
                received.headers.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    // The driver keeps no order, and a message should look the same whenever it is read.
    received.headers.sort_unstable();
    received
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use posthaste_core::Message;
    use posthaste_wire::Wire;

    use super::*;

    fn delivery(message: Message, redriven: u32) -> Delivery {
        Delivery { seq: 7, message, enqueued_at: UNIX_EPOCH, attempt: 1, redriven, floor: None }
    }

    #[test]
    fn size_of_headers_is_known_before_they_are_written() {
        let message = Message::from_bytes("orders", Some("ä \"%"), "x").header("tenant", "Ä b");
        let (delivery, wire) = (delivery(message, 1), Wire::default());
        let outgoing = wire.encode(&delivery, &NAMES).unwrap();
        let (map, size) = map(&delivery, &outgoing, Profile::Binary, Some("ORDERS")).unwrap();
        let lines = map.iter().map(|(name, values)| {
            let name: &str = name.as_ref();
            values
                .iter()
                .map(|value| format!("{name}: {}\r\n", value.as_str()).len())
                .sum::<usize>()
        });
        assert_eq!(size, lines.sum::<usize>() + "NATS/1.0\r\n\r\n".len());
        assert_eq!(map.get("ce-subject").unwrap().as_str(), "%C3%A4%20%22%25");
        assert_eq!(map.get("tenant").unwrap().as_str(), "Ä b");
    }

    #[test]
    fn copies_are_told_by_id_subject_and_redrive() {
        let message = Message::from_bytes("orders", None, "x");
        let id = message.id;
        let plain = delivery(message, 0);
        assert_eq!(message_id(&plain, "orders"), id.to_string());
        assert_eq!(message_id(&plain, "shop.orders"), format!("{id}/shop.orders"));
        let again = Delivery { redriven: 2, ..plain };
        assert_eq!(message_id(&again, "orders"), format!("{id}+2"));
        let mut headers = HeaderMap::new();
        headers.insert(MESSAGE_ID, message_id(&again, "shop.orders").as_str());
        let received = received("shop.orders", String::new(), Some(&headers), Bytes::new());
        assert_eq!(received.id, Some(id.to_string()));
        headers.insert(MESSAGE_ID, "someone/else+1");
        let other = super::received("a", String::new(), Some(&headers), Bytes::new());
        assert_eq!(other.id.as_deref(), Some("someone/else+1"));
    }
}
