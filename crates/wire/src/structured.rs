//! CloudEvents as one JSON object. JSON data is copied byte by byte; other data is base64.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use posthaste_core::Delivery;
use serde_json::{Value, value::RawValue};

use crate::{
    Wire,
    attribute::{Attribute, Style},
};

/// The object for a message.
pub(crate) fn encode(wire: &Wire, delivery: &Delivery) -> Bytes {
    let message = &delivery.message;
    let mut text = String::with_capacity(message.payload.len() + 512);
    let mut member = |name: &str, value: &str| {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&Value::from(name).to_string());
        text.push(':');
        text.push_str(value);
    };
    wire.each_attribute(delivery, |attribute, value| {
        member(attribute.name(Style::Plain), &Value::from(value).to_string());
    });
    let content_type = Attribute::DataContentType.name(Style::Plain);
    member(content_type, &Value::from(message.content_type.as_str()).to_string());
    match as_json(&message.content_type, &message.payload) {
        Some(json) => member("data", json),
        None => member("data_base64", &Value::from(STANDARD.encode(&message.payload)).to_string()),
    }
    text.push('}');
    text.into()
}

/// The attributes and the data of an object; `None` if it is not one.
pub(crate) fn decode(body: &[u8]) -> Option<(Vec<(String, String)>, Bytes)> {
    let mut members: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    let data = match (members.remove("data"), members.remove("data_base64")) {
        (Some(json), _) => data(json, &members),
        (None, Some(text)) => {
            STANDARD.decode(serde_json::from_str::<String>(text.get()).ok()?).ok()?.into()
        }
        (None, None) => Bytes::new(),
    };
    let attributes = members.into_iter().map(|(name, value)| {
        let text = serde_json::from_str::<String>(value.get());
        (name, text.unwrap_or_else(|_| value.get().to_owned()))
    });
    let attributes: Vec<_> = attributes.collect();
    attributes.iter().any(|(name, _)| name == "specversion").then_some((attributes, data))
}

/// The bytes of `data`: the JSON as written, or the text of the string if the content type is not
/// JSON.
fn data(json: &RawValue, members: &BTreeMap<String, &RawValue>) -> Bytes {
    let content_type = members.get(Attribute::DataContentType.name(Style::Plain));
    let content_type =
        content_type.and_then(|text| serde_json::from_str::<String>(text.get()).ok());
    let text = serde_json::from_str::<String>(json.get());
    match (content_type, text) {
        (Some(content_type), Ok(text)) if !is_json(&content_type) => text.into(),
        _ => Bytes::copy_from_slice(json.get().as_bytes()),
    }
}

fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
        || media_type.to_ascii_lowercase().ends_with("+json")
}

fn as_json<'a>(content_type: &str, payload: &'a [u8]) -> Option<&'a str> {
    let text = std::str::from_utf8(payload).ok().filter(|_| is_json(content_type))?;
    // White space around a JSON value is not part of the value, so it would be lost.
    let json: &RawValue = serde_json::from_str(text).ok()?;
    (json.get().len() == text.len()).then_some(text)
}
