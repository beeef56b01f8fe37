//! Messages and their limits. Every way of enqueueing enforces the same limits: the library through
//! [`Message::validate`], a plain `INSERT` through the table's CHECK constraints.

use std::{fmt, str::FromStr};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Invalid;

/// Longest topic, in bytes.
pub const TOPIC_BYTES_MAX: usize = 255;
/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// Longest event type, content type or header name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Largest payload, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Largest sum of all header names and values, in bytes.
pub const HEADERS_BYTES_MAX: usize = 64 * 1024;

/// Identity of a message: a UUID drawn when the message is enqueued, the same on every delivery.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub Uuid);

impl MessageId {
    /// A fresh id (UUID version 7, so ids of one process sort by time).
    #[must_use]
    pub fn fresh() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for MessageId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::from_str(text).map(Self)
    }
}

/// One message: bytes for a topic, ordered by a key.
///
/// Fields are public because adapters read and rebuild messages; every message passes
/// [`validate`](Self::validate) before it enters an outbox.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The id, the same on every delivery; consumers de-duplicate by it.
    pub id: MessageId,
    /// The topic, by which routes select messages. Column `topic`.
    pub topic: String,
    /// The key; messages of one key keep their order. `None` for no order. Column `key`.
    pub key: Option<String>,
    /// The event type, for example `OrderPlaced`. Column `type`.
    pub event_type: Option<String>,
    /// The payload, delivered byte for byte.
    pub payload: Bytes,
    /// Header names and values, in the given order.
    pub headers: Vec<(String, String)>,
    /// Media type of the payload. Column `content_type`.
    pub content_type: String,
}

impl Message {
    /// A message whose payload is `event` as JSON, ordered by `key`.
    ///
    /// # Errors
    /// When the event cannot be serialised, or the message breaks a limit of this module.
    pub fn new(
        topic: impl Into<String>,
        key: impl fmt::Display,
        event: &(impl Serialize + ?Sized),
    ) -> Result<Self, Invalid> {
        let mut message = Self::unkeyed(topic, event)?;
        message.key = Some(key.to_string());
        message.validate()?;
        Ok(message)
    }

    /// A message without a key, whose payload is `event` as JSON.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn unkeyed(
        topic: impl Into<String>,
        event: &(impl Serialize + ?Sized),
    ) -> Result<Self, Invalid> {
        let payload = serde_json::to_vec(event).map_err(|error| Invalid {
            field: "payload",
            value: String::new(),
            rule: format!("must serialise as JSON: {error}"),
        })?;
        let message = Self::from_bytes(topic, None, payload);
        message.validate()?;
        Ok(message)
    }

    /// A message of raw bytes, with content type `application/json` until
    /// [`content_type`](Self::content_type) is set. Enqueueing validates it.
    #[must_use]
    pub fn from_bytes(
        topic: impl Into<String>,
        key: Option<&str>,
        payload: impl Into<Bytes>,
    ) -> Self {
        Self {
            id: MessageId::fresh(),
            topic: topic.into(),
            key: key.map(str::to_owned),
            event_type: None,
            payload: payload.into(),
            headers: Vec::new(),
            content_type: "application/json".to_owned(),
        }
    }

    /// Sets the event type.
    #[must_use]
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = Some(event_type.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the media type of the payload.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// Bytes this message holds in memory, for budgets: its variable parts and a flat overhead.
    #[must_use]
    pub fn weight(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(n, v)| n.len() + v.len()).sum();
        self.payload.len()
            + self.topic.len()
            + self.key.as_ref().map_or(0, String::len)
            + headers
            + 256
    }

    /// Checks every limit.
    ///
    /// # Errors
    /// The first broken limit: the field, its shortened value and the rule.
    pub fn validate(&self) -> Result<(), Invalid> {
        text("topic", &self.topic, TOPIC_BYTES_MAX)?;
        if let Some(key) = &self.key {
            if key.is_empty() {
                return Err(Invalid::new(
                    "key",
                    "",
                    "must not be empty; leave it out (NULL) for a message without order",
                ));
            }
            text("key", key, KEY_BYTES_MAX)?;
        }
        if let Some(event_type) = &self.event_type {
            text("type", event_type, NAME_BYTES_MAX)?;
        }
        text("content_type", &self.content_type, NAME_BYTES_MAX)?;
        if self.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Invalid::new(
                "payload",
                &format!("{} bytes", self.payload.len()),
                &format!(
                    "must be at most {PAYLOAD_BYTES_MAX} bytes; send a reference to large data instead"
                ),
            ));
        }
        headers(&self.headers)
    }
}

/// Leaves out payload and header values: they may hold secrets that must not reach a log.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("key", &self.key)
            .field("event_type", &self.event_type)
            .field("payload_bytes", &self.payload.len())
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

fn text(field: &'static str, value: &str, bytes_max: usize) -> Result<(), Invalid> {
    if value.is_empty() {
        return Err(Invalid::new(field, value, "must not be empty"));
    }
    if value.len() > bytes_max {
        return Err(Invalid::new(
            field,
            value,
            &format!("must be at most {bytes_max} bytes, has {}", value.len()),
        ));
    }
    no_control(field, value)
}

fn no_control(field: &'static str, value: &str) -> Result<(), Invalid> {
    if value.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(Invalid::new(field, value, "must not contain control characters"));
    }
    Ok(())
}

fn headers(headers: &[(String, String)]) -> Result<(), Invalid> {
    let mut total = 0;
    for (index, (name, value)) in headers.iter().enumerate() {
        text("header name", name, NAME_BYTES_MAX)?;
        no_control("header value", value)
            .map_err(|invalid| Invalid { value: format!("(of header {name})"), ..invalid })?;
        if headers[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(Invalid::new("header name", name, "must be given once"));
        }
        total += name.len() + value.len();
    }
    if total > HEADERS_BYTES_MAX {
        return Err(Invalid::new(
            "headers",
            &format!("{total} bytes"),
            &format!("must be at most {HEADERS_BYTES_MAX} bytes together"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        let at = Message::from_bytes(
            "t".repeat(TOPIC_BYTES_MAX),
            Some(&"k".repeat(KEY_BYTES_MAX)),
            vec![0; PAYLOAD_BYTES_MAX],
        );
        assert_eq!(at.validate(), Ok(()));
        let topic = Message::from_bytes("t".repeat(TOPIC_BYTES_MAX + 1), None, "");
        assert_eq!(topic.validate().unwrap_err().field, "topic");
        let key = Message::from_bytes("t", Some(&"k".repeat(1024 * 1024)), "");
        let refused = key.validate().unwrap_err();
        assert_eq!(refused.field, "key");
        assert!(refused.to_string().len() < 300, "a refused value is shortened");
        let payload = Message::from_bytes("t", None, vec![0; PAYLOAD_BYTES_MAX + 1]);
        assert_eq!(payload.validate().unwrap_err().field, "payload");
    }

    #[test]
    fn control_characters_are_refused_wherever_they_could_reach_a_wire() {
        for bad in ["a\r\nb", "a\0b", "a\u{7f}b", "\t"] {
            assert_eq!(Message::from_bytes(bad, None, "").validate().unwrap_err().field, "topic");
            assert_eq!(
                Message::from_bytes("t", Some(bad), "").validate().unwrap_err().field,
                "key"
            );
            let named = Message::from_bytes("t", None, "").header(bad, "v");
            assert_eq!(named.validate().unwrap_err().field, "header name");
            let valued = Message::from_bytes("t", None, "").header("n", bad);
            assert_eq!(valued.validate().unwrap_err().field, "header value");
            let typed = Message::from_bytes("t", None, "").event_type(bad);
            assert_eq!(typed.validate().unwrap_err().field, "type");
        }
    }

    #[test]
    fn empty_key_is_refused_and_missing_key_is_not() {
        assert_eq!(Message::from_bytes("t", Some(""), "").validate().unwrap_err().field, "key");
        assert_eq!(Message::from_bytes("t", None, "").validate(), Ok(()));
    }

    #[test]
    fn any_bytes_are_a_payload() {
        assert_eq!(Message::from_bytes("t", None, vec![0, 255, 13, 10]).validate(), Ok(()));
    }

    #[test]
    fn debug_shows_no_payload_and_no_header_value() {
        let message = Message::from_bytes("t", None, "hunter2").header("authorization", "hunter2");
        assert!(!format!("{message:?}").contains("hunter2"));
    }
}
