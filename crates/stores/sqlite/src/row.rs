//! Messages to and from rows, alike for the log and for parked copies.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use posthaste_core::{Message, MessageId, TopicPattern};
use serde::de::{Deserializer, MapAccess, Visitor};
use sqlx::{Row, sqlite::SqliteRow};

use crate::error::Fault;

/// The message in a row's columns `id`, `topic`, `key`, `type`, `headers`, `content_type`, `payload`.
pub(crate) fn message(row: &SqliteRow) -> Result<Message, Fault> {
    let id: &str = row.try_get("id")?;
    Ok(Message {
        id: id.parse::<MessageId>().map_err(|error| Fault::unreadable("message id", error))?,
        topic: text(row, "topic")?.unwrap_or_default(),
        key: text(row, "key")?,
        event_type: text(row, "type")?,
        payload: Bytes::from(row.try_get::<Vec<u8>, _>("payload")?),
        headers: headers_from(text(row, "headers")?.as_deref()),
        content_type: text(row, "content_type")?.unwrap_or_default(),
    })
}

/// A text column. SQLite does not check that a TEXT made by a cast is UTF-8; one row that is not
/// must not stop the route for ever, so what cannot be read is replaced.
pub(crate) fn text(row: &SqliteRow, column: &str) -> Result<Option<String>, Fault> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// When the message was enqueued: the column `created_at`, of which the table makes sure that it is
/// within what dates can say.
pub(crate) fn instant(row: &SqliteRow) -> Result<SystemTime, Fault> {
    let seconds: f64 = row.try_get("created_at")?;
    // The column keeps milliseconds; a double holds more digits than that, some of them noise.
    let millis = (seconds * 1000.0).round();
    Ok(UNIX_EPOCH + Duration::from_millis(millis as u64))
}

/// The `age` column, or any other number of seconds; what lies ahead counts as zero.
pub(crate) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.max(0.0)).unwrap_or(Duration::MAX)
}

/// The JSON object that stands for headers, in the order given; `None` for none.
pub(crate) fn headers_to(headers: &[(String, String)]) -> Option<String> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let members: Vec<String> =
        headers.iter().map(|(name, value)| format!("{}:{}", quoted(name), quoted(value))).collect();
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

/// The headers of a JSON object, in its order. The table refuses what is not an object of strings;
/// the odd thing it cannot find out about costs the headers, not the message.
fn headers_from(json: Option<&str>) -> Vec<(String, String)> {
    let Some(json) = json else {
        return Vec::new();
    };
    serde_json::Deserializer::from_str(json).deserialize_map(InOrder).unwrap_or_else(|error| {
        tracing::warn!(%error, "headers of a message cannot be read; it goes without them");
        Vec::new()
    })
}

/// Reads a map without sorting it.
struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut headers = Vec::new();
        while let Some(header) = map.next_entry()? {
            headers.push(header);
        }
        Ok(headers)
    }
}

/// Topic patterns as a JSON array.
pub(crate) fn topics_to(topics: &[TopicPattern]) -> String {
    let texts: Vec<&str> = topics.iter().map(TopicPattern::as_str).collect();
    serde_json::Value::from(texts).to_string()
}

/// Topic patterns from a JSON array.
pub(crate) fn topics_from(json: &str) -> Result<Vec<TopicPattern>, Fault> {
    let texts: Vec<String> =
        serde_json::from_str(json).map_err(|error| Fault::unreadable("topics", error))?;
    texts
        .iter()
        .map(|text| text.parse().map_err(|error| Fault::unreadable("topic pattern", error)))
        .collect()
}

/// A list as the JSON array that statements take it in.
pub(crate) fn json_array<T: Into<serde_json::Value>>(items: impl IntoIterator<Item = T>) -> String {
    serde_json::Value::from_iter(items).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_their_order_and_their_characters() {
        let headers = vec![
            ("z".to_owned(), "\"quoted\" \\ back".to_owned()),
            ("a".to_owned(), "é🙂".to_owned()),
            ("empty".to_owned(), String::new()),
        ];
        let json = headers_to(&headers);
        assert_eq!(headers_from(json.as_deref()), headers);
        assert_eq!(headers_to(&[]), None);
    }

    #[test]
    fn headers_that_cannot_be_read_cost_only_themselves() {
        for odd in [r#"{"a":"\ud800"}"#, r#"{"a":1}"#, "[]", ""] {
            assert_eq!(headers_from(Some(odd)), [], "{odd}");
        }
    }

    #[test]
    fn time_that_lies_ahead_is_zero() {
        assert_eq!(seconds(-3.0), Duration::ZERO);
        assert_eq!(seconds(f64::INFINITY), Duration::MAX);
        assert_eq!(seconds(1.5), Duration::from_millis(1500));
    }
}
