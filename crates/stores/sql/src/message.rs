//! Messages to and from rows, and other columns that several statements share.

use std::fmt;

use bytes::Bytes;
use posthaste_core::{Message, MessageId, TopicPattern};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value as Json;

use crate::{Fault, Row};

/// Every statement that returns messages starts with the same nine columns.
pub(crate) const SEQ: usize = 0;
const ID: usize = 1;
const TOPIC: usize = 2;
const KEY: usize = 3;
const EVENT_TYPE: usize = 4;
const HEADERS: usize = 5;
const CONTENT_TYPE: usize = 6;
/// When the message was enqueued.
pub(crate) const CREATED: usize = 7;
const PAYLOAD: usize = 8;
/// The first column after those of the message.
pub(crate) const MORE: usize = 9;

/// The message of a row; its payload is empty where the statement left it out. Texts and payload are moved
/// out of the row.
pub(crate) fn message(row: &mut Row) -> Result<Message, Fault> {
    let id = row.uuid(ID)?.ok_or_else(|| Fault::internal("a message has an id that is no UUID"))?;
    Ok(Message {
        id: MessageId(id),
        topic: row.take_text(TOPIC)?.unwrap_or_default(),
        key: row.take_text(KEY)?,
        event_type: row.take_text(EVENT_TYPE)?,
        headers: row.text(HEADERS)?.map(|json| headers_from_json(&json)).unwrap_or_default(),
        content_type: row.take_text(CONTENT_TYPE)?.unwrap_or_default(),
        payload: row.take_bytes(PAYLOAD)?.map(Bytes::from).unwrap_or_default(),
    })
}

/// Headers as a JSON object in the order given; `None` for none.
#[must_use]
pub fn headers_to_json(headers: &[(String, String)]) -> Option<String> {
    if headers.is_empty() {
        return None;
    }
    let fields: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{}:{}", Json::from(&**name), Json::from(&**value)))
        .collect();
    Some(format!("{{{}}}", fields.join(",")))
}

/// Headers from a JSON object. A constraint admits objects of strings only. Should somebody have forced
/// another thing past it, the message still has to go: values that are no strings travel as their JSON
/// text, and what is no object travels as one header that holds it all.
#[must_use]
pub fn headers_from_json(json: &str) -> Vec<(String, String)> {
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
                while let Some((name, value)) = map.next_entry::<String, Json>()? {
                    headers.push(match value {
                        Json::String(text) => (name, text),
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
pub(crate) fn topics_to_json(topics: &[TopicPattern]) -> String {
    let texts: Vec<&str> = topics.iter().map(TopicPattern::as_str).collect();
    Json::from(texts).to_string()
}

/// Topic patterns from a JSON array.
pub(crate) fn topics_from_json(json: &str) -> Result<Vec<TopicPattern>, Fault> {
    let texts: Vec<String> = serde_json::from_str(json).map_err(Fault::internal)?;
    texts.iter().map(|text| text.parse().map_err(Fault::internal)).collect()
}

/// Whether one of the patterns matches the topic.
pub(crate) fn is_matched(patterns: &[TopicPattern], topic: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_their_order_and_their_characters() {
        let headers = vec![
            ("zulu".to_owned(), "quo\"te \\ é🙂".to_owned()),
            ("alpha".to_owned(), String::new()),
        ];
        let json = headers_to_json(&headers).unwrap();
        assert_eq!(headers_from_json(&json), headers);
        assert_eq!(headers_to_json(&[]), None);
    }

    #[test]
    fn headers_that_are_no_object_of_strings_still_travel() {
        assert_eq!(
            headers_from_json(r#"{"n":1,"o":{"a":null}}"#),
            [("n".to_owned(), "1".to_owned()), ("o".to_owned(), r#"{"a":null}"#.to_owned())]
        );
        assert_eq!(headers_from_json("[1]"), [("headers".to_owned(), "[1]".to_owned())]);
    }
}
