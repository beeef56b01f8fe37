//! Entries of streams, as the server sends them.

use posthaste_wire::Received;
use redis::Value;

use crate::{CONTENT_TYPE, DATA, KEY};

/// One entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The stream's name.
    pub(crate) stream: String,
    /// Its id in the stream.
    pub(crate) id: String,
    /// Its fields; `None` if it has been deleted since it was first read.
    pub(crate) fields: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl Entry {
    /// What it says.
    pub(crate) fn received(self) -> Received {
        let mut received =
            Received { coordinates: self.id, destination: self.stream, ..Received::default() };
        for (name, value) in self.fields.unwrap_or_default() {
            let name = into_text(name);
            match name.as_str() {
                DATA => received.body = value.into(),
                CONTENT_TYPE => received.content_type = Some(into_text(value)),
                KEY => received.key = Some(into_text(value)),
                _ => received.headers.push((name, into_text(value))),
            }
        }
        received
    }
}

/// The answer to `XREAD` and `XREADGROUP`: entries of several streams, or nothing in time.
pub(crate) fn of_streams(answer: Value) -> Option<Vec<Entry>> {
    let streams = match answer {
        Value::Nil => return Some(Vec::new()),
        answer => array(answer)?,
    };
    let mut entries = Vec::new();
    for stream in streams {
        let [name, list] = array(stream)?.try_into().ok()?;
        entries.extend(of_stream(&text(name)?, list)?);
    }
    Some(entries)
}

/// The answer to `XCLAIM` and `XREVRANGE`: entries of one stream.
pub(crate) fn of_stream(stream: &str, answer: Value) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in array(answer)? {
        // Redis before 7.0 claims deleted entries, and shows them as nothing.
        if entry == Value::Nil {
            continue;
        }
        let [id, fields] = array(entry)?.try_into().ok()?;
        let fields = match fields {
            Value::Nil => None,
            fields => Some(pairs(fields)?),
        };
        entries.push(Entry { stream: stream.to_owned(), id: text(id)?, fields });
    }
    Some(entries)
}

fn pairs(fields: Value) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut fields = array(fields)?.into_iter();
    let mut pairs = Vec::with_capacity(fields.len() / 2);
    while let Some(name) = fields.next() {
        pairs.push((bytes(name)?, bytes(fields.next()?)?));
    }
    Some(pairs)
}

/// An array's items.
pub(crate) fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// A text, its bytes replaced where they are none.
pub(crate) fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(into_text(bytes)),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn entry(id: &str, fields: Value) -> Value {
        Value::Array(vec![bulk(id), fields])
    }

    #[test]
    fn entries_are_read_and_deleted_ones_seen() {
        let fields = Value::Array(vec![bulk("data"), Value::BulkString(vec![0, 255])]);
        let list = Value::Array(vec![entry("1-0", fields), entry("2-0", Value::Nil)]);
        let answer = Value::Array(vec![Value::Array(vec![bulk("s"), list])]);
        let entries = of_streams(answer).unwrap();
        assert_eq!(entries[0].id, "1-0");
        assert_eq!(entries[0].fields, Some(vec![(b"data".to_vec(), vec![0, 255])]));
        assert_eq!((entries[1].id.as_str(), &entries[1].fields), ("2-0", &None));
        assert_eq!(of_streams(Value::Nil), Some(vec![]));
    }

    #[test]
    fn answers_of_another_shape_are_refused() {
        for odd in [
            Value::Okay,
            Value::Array(vec![Value::Nil]),
            Value::Array(vec![Value::Array(vec![bulk("s")])]),
            Value::Array(vec![Value::Array(vec![bulk("s"), bulk("x")])]),
        ] {
            assert_eq!(of_streams(odd), None);
        }
        let odd_count = entry("1-0", Value::Array(vec![bulk("name")]));
        assert_eq!(of_stream("s", Value::Array(vec![odd_count])), None);
    }

    #[test]
    fn fields_go_where_they_belong() {
        let pair = |name: &str, value: &str| (name.into(), value.into());
        let fields = vec![
            pair("ce_id", "x"),
            pair("content-type", "text/plain"),
            pair("key", "k"),
            pair("data", "body"),
        ];
        let entry = Entry { stream: "s".into(), id: "1-0".into(), fields: Some(fields) };
        let received = entry.received();
        assert_eq!(received.headers, vec![("ce_id".to_owned(), "x".to_owned())]);
        assert_eq!(received.content_type.as_deref(), Some("text/plain"));
        assert_eq!(received.key.as_deref(), Some("k"));
        assert_eq!(&received.body[..], b"body");
        assert_eq!((received.destination.as_str(), received.coordinates.as_str()), ("s", "1-0"));
    }
}
