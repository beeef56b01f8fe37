//! From the wire form to a Kafka record.

use std::time::UNIX_EPOCH;

use posthaste_core::Failure;
use posthaste_wire::Outgoing;
use rdkafka::{
    message::{Header, OwnedHeaders},
    producer::BaseRecord,
};

use crate::{connect::Ticket, publish::Marked};

/// Longest name of a topic.
pub(crate) const TOPIC_BYTES_MAX: usize = 249;
/// The header of the media type, as CloudEvents name it.
pub(crate) const CONTENT_TYPE: &str = "content-type";
/// What a record and its batch cost beside key, value and headers, rounded up.
const OVERHEAD_BYTES: usize = 128;

/// Whether Kafka can have a topic of this name.
pub(crate) fn is_topic(name: &str) -> bool {
    (1..=TOPIC_BYTES_MAX).contains(&name.len())
        && !matches!(name, "." | "..")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// What Kafka would not take.
pub(crate) fn check(outgoing: &Outgoing<'_>) -> Result<(), Failure> {
    if !is_topic(&outgoing.destination) {
        let rule = "a topic has 1 to 249 letters, digits, dots, underscores and hyphens";
        return Err(Failure::new("topic", format!("{:?}: {rule}", outgoing.destination)));
    }
    // To the end of the text, because that is much faster than stopping where it is.
    let is_illegal =
        |text: &str| text.bytes().fold(false, |is, byte| is | (byte < 0x20) | (byte == 0x7f));
    match outgoing.headers.iter().find(|(name, value)| is_illegal(name) || is_illegal(value)) {
        Some((name, _)) => {
            let detail = format!("header {name:?} holds control characters");
            Err(Failure::new("header", detail))
        }
        None => Ok(()),
    }
}

/// About as many bytes as the message takes in a batch.
pub(crate) fn bytes(part: &Marked<'_>) -> usize {
    let headers: usize = part.outgoing.headers.iter().map(|(n, v)| n.len() + v.len() + 4).sum();
    let key = part.delivery.message.key.as_ref().map_or(0, String::len);
    part.outgoing.body.len() + headers + key + OVERHEAD_BYTES
}

pub(crate) type Record<'a> = BaseRecord<'a, str, [u8], Box<Ticket>>;

/// The record of a message.
pub(crate) fn record<'a>(part: &'a Marked<'_>, ticket: Ticket) -> Record<'a> {
    let Outgoing { destination, headers, content_type, body } = &part.outgoing;
    let mut all = OwnedHeaders::new_with_capacity(headers.len() + 1);
    all = all.insert(Header { key: CONTENT_TYPE, value: Some(*content_type) });
    for (name, value) in headers {
        all = all.insert(Header { key: name, value: Some(&**value) });
    }
    let since_epoch = part.delivery.enqueued_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut record = BaseRecord::with_opaque_to(destination, Box::new(ticket))
        // Empty is not null, which would mean "deleted".
        .payload(&**body)
        .timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
        .headers(all);
    if let Some(key) = &part.delivery.message.key {
        record = record.key(key.as_str());
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_kafka_does() {
        let longest = "t".repeat(TOPIC_BYTES_MAX);
        for name in ["a", "a.b_c-D9", "...", longest.as_str()] {
            assert!(is_topic(name), "{name}");
        }
        let too_long = "t".repeat(TOPIC_BYTES_MAX + 1);
        for name in ["", ".", "..", "a b", "ä", "a/b", "a*", "a\0", too_long.as_str()] {
            assert!(!is_topic(name), "{name}");
        }
    }
}
