//! From columns to values, and back, for what several statements share.
//!
//! Every statement that returns messages starts with the same nine columns, read by index.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use posthaste_core::{Message, MessageId, Position, TopicPattern};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;
use sqlx::{Row, mysql::MySqlRow};

use crate::error::Fault;

pub(crate) const SEQ: usize = 0;
/// When the message was enqueued, in microseconds since 1970.
pub(crate) const CREATED: usize = 7;
/// The first column after those of the message.
pub(crate) const MORE: usize = 9;

const ID: usize = 1;
const TOPIC: usize = 2;
const KEY: usize = 3;
const EVENT_TYPE: usize = 4;
const HEADERS: usize = 5;
const CONTENT_TYPE: usize = 6;
const PAYLOAD: usize = 8;

/// The message of a row; its payload is empty where the statement left it out.
pub(crate) fn message(row: &MySqlRow) -> Result<Message, Fault> {
    let id: &[u8] = row.try_get_unchecked(ID)?;
    let id = uuid::Uuid::try_parse_ascii(id).map_err(Fault::internal)?;
    let payload: Option<&[u8]> = row.try_get_unchecked(PAYLOAD)?;
    let headers: Option<&[u8]> = row.try_get_unchecked(HEADERS)?;
    Ok(Message {
        id: MessageId(id),
        topic: text(row, TOPIC)?.unwrap_or_default(),
        key: text(row, KEY)?,
        event_type: text(row, EVENT_TYPE)?,
        payload: payload.map(Bytes::copy_from_slice).unwrap_or_default(),
        headers: headers.map(headers_from_json).unwrap_or_default(),
        content_type: text(row, CONTENT_TYPE)?.unwrap_or_default(),
    })
}

/// A text. Columns hold UTF-8, but one row that someone forced past that must not stop a route.
pub(crate) fn text(row: &MySqlRow, index: usize) -> Result<Option<String>, Fault> {
    let bytes: Option<&[u8]> = row.try_get_unchecked(index)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// A recorded position.
pub(crate) fn position(text: &str) -> Result<Position, Fault> {
    text.parse().map_err(Fault::internal)
}

/// A duration as the microseconds of an interval. Longer than a century is the same to us, and
/// dates have an end.
pub(crate) fn micros(duration: Duration) -> i64 {
    const CENTURY: Duration = Duration::from_secs(3_200_000_000);
    i64::try_from(duration.min(CENTURY).as_micros()).unwrap_or(i64::MAX)
}

/// A duration from microseconds; what lies in the past is none.
pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// An instant from microseconds since 1970.
pub(crate) fn instant(micros: i64) -> SystemTime {
    let distance = Duration::from_micros(micros.unsigned_abs());
    let instant = if micros < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    instant.unwrap_or(UNIX_EPOCH)
}

/// A count from the database, none of which is negative.
pub(crate) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Headers as a JSON object in the order given; NULL for none.
pub(crate) fn headers_to_json(headers: &[(String, String)]) -> Option<String> {
    if headers.is_empty() {
        return None;
    }
    let fields: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{}:{}", Value::from(&**name), Value::from(&**value)))
        .collect();
    Some(format!("{{{}}}", fields.join(",")))
}

/// The table's CHECK admits objects of strings only. Should someone have forced another thing past
/// it, the message still has to go: values that are not strings travel as their JSON text, and what
/// is no object as one header that holds it all.
fn headers_from_json(json: &[u8]) -> Vec<(String, String)> {
    match serde_json::from_slice::<Headers>(json) {
        Ok(Headers(headers)) => headers,
        Err(_) => vec![("headers".to_owned(), String::from_utf8_lossy(json).into_owned())],
    }
}

/// The pairs of a JSON object in the order written, which a map would not keep.
struct Headers(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Headers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
                let mut headers = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    headers.push(match value {
                        Value::String(text) => (name, text),
                        other => (name, other.to_string()),
                    });
                }
                Ok(Headers(headers))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

/// Topic patterns as a JSON array.
pub(crate) fn topics_to(topics: &[TopicPattern]) -> String {
    let texts: Vec<&str> = topics.iter().map(TopicPattern::as_str).collect();
    Value::from(texts).to_string()
}

/// Topic patterns from a JSON array.
pub(crate) fn topics_from(json: &[u8]) -> Result<Vec<TopicPattern>, Fault> {
    let texts: Vec<String> = serde_json::from_slice(json).map_err(Fault::internal)?;
    texts.iter().map(|text| text.parse().map_err(Fault::internal)).collect()
}

/// A list as the JSON array that statements take it in.
pub(crate) fn json_array<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> String {
    Value::from_iter(items).to_string()
}

/// Texts as a JSON array of their bytes in hex: so no character set or collation has a say.
pub(crate) fn hex_array<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    json_array(texts.into_iter().map(|text| hex(text.as_bytes())))
}

/// Bytes in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_order_and_bytes() {
        let headers = vec![
            ("zulu".to_owned(), "quo\"te \\ é".to_owned()),
            ("alpha".to_owned(), String::new()),
        ];
        let json = headers_to_json(&headers).unwrap();
        assert_eq!(headers_from_json(json.as_bytes()), headers);
        assert_eq!(headers_to_json(&[]), None);
    }

    #[test]
    fn forced_headers_still_travel() {
        let pairs = |text: &str| headers_from_json(text.as_bytes());
        assert_eq!(
            pairs(r#"{"n":1,"o":{"a":null}}"#),
            [("n".to_owned(), "1".to_owned()), ("o".to_owned(), r#"{"a":null}"#.to_owned())]
        );
        assert_eq!(pairs("[1]"), [("headers".to_owned(), "[1]".to_owned())]);
    }

    #[test]
    fn texts_go_as_their_bytes() {
        assert_eq!(hex_array(["é", "q "]), r#"["c3a9","7120"]"#);
    }
}
