//! From columns to values, and back, for what several statements share.
//!
//! Every statement that returns messages starts with the same ten columns, read by index because
//! looking up names costs a tenth of a fetch.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use posthaste_core::{Message, MessageId, Position};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;
use sqlx::{Row, ValueRef, postgres::PgRow};

use crate::error::Fault;

pub(crate) const SEQ: usize = 0;
/// NULL unless a fetch left the payload out.
pub(crate) const PAYLOAD_BYTES: usize = 6;
/// A time; of what, the statement says.
pub(crate) const TIME: usize = 9;
/// The first column after those of the message.
pub(crate) const MORE: usize = 10;

const ID: usize = 1;
const TOPIC: usize = 2;
const KEY: usize = 3;
const EVENT_TYPE: usize = 4;
const PAYLOAD: usize = 5;
const HEADERS: usize = 7;
const CONTENT_TYPE: usize = 8;

/// The message of a row; its payload is empty where the statement left it out.
pub(crate) fn message(row: &PgRow) -> Result<Message, Fault> {
    // Unchecked: the statements are ours and so are the types of their columns.
    let payload: Option<&[u8]> = row.try_get_unchecked(PAYLOAD)?;
    let headers: Option<&str> = row.try_get_unchecked(HEADERS)?;
    Ok(Message {
        id: MessageId(row.try_get_unchecked(ID)?),
        topic: row.try_get_unchecked(TOPIC)?,
        key: row.try_get_unchecked(KEY)?,
        event_type: row.try_get_unchecked(EVENT_TYPE)?,
        payload: payload.map(Bytes::copy_from_slice).unwrap_or_default(),
        headers: headers.map(headers_from_json).unwrap_or_default(),
        content_type: row.try_get_unchecked(CONTENT_TYPE)?,
    })
}

/// Whether a column is not NULL.
pub(crate) fn is_present(row: &PgRow, index: usize) -> Result<bool, Fault> {
    Ok(!row.try_get_raw(index)?.is_null())
}

/// A recorded position.
pub(crate) fn position(text: &str) -> Result<Position, Fault> {
    text.parse().map_err(Fault::internal)
}

/// A duration as the seconds PostgreSQL's intervals are made of. Longer than a century is the same
/// to us, and an interval has an end.
pub(crate) fn seconds(duration: Duration) -> f64 {
    const CENTURY_SECONDS: f64 = 3.2e9;
    duration.as_secs_f64().min(CENTURY_SECONDS)
}

/// A duration from seconds; what lies in the past is none.
pub(crate) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default()
}

/// A timestamp as PostgreSQL sends it: microseconds since the year 2000.
pub(crate) fn instant(micros: i64) -> SystemTime {
    const YEAR_2000: Duration = Duration::from_secs(946_684_800);
    let distance = Duration::from_micros(micros.unsigned_abs());
    let start = UNIX_EPOCH + YEAR_2000;
    let instant =
        if micros < 0 { start.checked_sub(distance) } else { start.checked_add(distance) };
    // `infinity` and the like, which the table does not refuse.
    instant.unwrap_or(UNIX_EPOCH)
}

/// A count from the database, none of which is negative.
pub(crate) fn count(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(0)
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
fn headers_from_json(json: &str) -> Vec<(String, String)> {
    match serde_json::from_str::<Headers>(json) {
        Ok(Headers(headers)) => headers,
        Err(_) => vec![("headers".to_owned(), json.to_owned())],
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
        assert_eq!(headers_from_json(&json), headers);
        assert_eq!(headers_to_json(&[]), None);
    }

    #[test]
    fn forced_headers_still_travel() {
        let pairs = |text| headers_from_json(text);
        assert_eq!(
            pairs(r#"{"n":1,"o":{"a":null}}"#),
            [("n".to_owned(), "1".to_owned()), ("o".to_owned(), r#"{"a":null}"#.to_owned())]
        );
        assert_eq!(pairs("[1]"), [("headers".to_owned(), "[1]".to_owned())]);
    }
}
