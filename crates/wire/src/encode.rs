//! Encodes a message into its wire form.

use std::{
    borrow::Cow,
    cell::RefCell,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use posthaste_core::{Delivery, Failure, Floor};

use crate::{
    Names, Profile, Wire,
    attribute::{Attribute, Style},
    structured,
};

/// The content type of CloudEvents in structured mode.
pub const STRUCTURED_CONTENT_TYPE: &str = "application/cloudevents+json; charset=UTF-8";

/// A message in its wire form; adapters only have to put the parts into the fields of their broker.
#[derive(Clone, Debug)]
pub struct Outgoing<'a> {
    /// Where it goes.
    pub destination: Cow<'a, str>,
    /// Attributes in the broker's spelling, then the message's own headers. No name comes twice.
    pub headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Media type of the body.
    pub content_type: &'a str,
    /// The bytes to send.
    pub body: Bytes,
}

impl Wire {
    /// The wire form of a message.
    ///
    /// # Errors
    /// When the message has no wire form: a header with a reserved name (class `header`), or no
    /// value for a part of the destination (class `destination`).
    pub fn encode<'a>(
        &'a self,
        delivery: &'a Delivery,
        names: &Names,
    ) -> Result<Outgoing<'a>, Failure> {
        let message = &delivery.message;
        let destination = self.destination.of(message)?;
        let mut headers = Vec::with_capacity(13 + message.headers.len());
        let mut content_type = message.content_type.as_str();
        let mut body = message.payload.clone();
        match self.profile {
            Profile::Binary => self.attributes(delivery, names.style, &mut headers),
            Profile::Structured => {
                content_type = STRUCTURED_CONTENT_TYPE;
                body = structured::encode(self, delivery);
            }
            Profile::Raw => {
                let id = |name: &'static str| (name.into(), message.id.to_string().into());
                headers.extend(names.raw_id().map(id));
            }
            Profile::Debezium => headers.push(("id".into(), message.id.to_string().into())),
        }
        for (name, value) in &message.headers {
            let is_ours = match self.profile {
                Profile::Debezium => name == "id",
                Profile::Raw => names.raw_id().is_some_and(|id| name.eq_ignore_ascii_case(id)),
                Profile::Binary | Profile::Structured => false,
            };
            if is_ours || names.refuses(name) {
                let detail =
                    format!("header {name:?} has a name that the wire form keeps for itself");
                return Err(Failure::new("header", detail));
            }
            headers.push((name.into(), value.into()));
        }
        Ok(Outgoing { destination, headers, content_type, body })
    }

    fn attributes<'a>(
        &'a self,
        delivery: &'a Delivery,
        style: Style,
        headers: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>,
    ) {
        self.each_attribute(delivery, |attribute, value| {
            // If attributes have no prefix, the trace context already has its own name.
            if !(attribute.is_trace() && style == Style::Plain) {
                headers.push((attribute.name(style).into(), value));
            }
        });
    }

    /// Every attribute of a message except the content type of its data, which has its own field.
    pub(crate) fn each_attribute<'a>(
        &'a self,
        delivery: &'a Delivery,
        mut each: impl FnMut(Attribute, Cow<'a, str>),
    ) {
        let message = &delivery.message;
        each(Attribute::SpecVersion, "1.0".into());
        each(Attribute::Id, message.id.to_string().into());
        each(Attribute::Source, self.source.as_str().into());
        // Every event needs a type; a message without a type uses its topic.
        each(Attribute::Type, message.event_type.as_deref().unwrap_or(&message.topic).into());
        if let Some(key) = &message.key {
            each(Attribute::Subject, key.into());
            each(Attribute::PartitionKey, key.into());
        }
        if let Some(time) = timestamp(delivery.enqueued_at) {
            each(Attribute::Time, time.into());
        }
        // Padded with zeros, so that the order of the texts is the order of the log.
        each(Attribute::Sequence, format!("{:020}", delivery.seq).into());
        if delivery.redriven > 0 {
            each(Attribute::Redriven, delivery.redriven.to_string().into());
        }
        if let Some(floor) = &delivery.floor {
            each(Attribute::Floor, written(floor).into());
        }
        for (name, value) in &message.headers {
            match name.as_str() {
                "traceparent" => each(Attribute::TraceParent, value.into()),
                "tracestate" => each(Attribute::TraceState, value.into()),
                _ => {}
            }
        }
    }
}

/// The text of a floor. Thousands of messages share one floor, and one thread encodes them one
/// after the other, so the last text is cached.
fn written(floor: &Arc<Floor>) -> String {
    thread_local! {
        static LAST: RefCell<Option<(Arc<Floor>, String)>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| match last {
        Some((known, text)) if Arc::ptr_eq(known, floor) => text.clone(),
        _ => last.insert((floor.clone(), floor.to_string())).1.clone(),
    })
}

/// The time as RFC 3339; `None` for years that RFC 3339 does not allow but a table does.
fn timestamp(at: SystemTime) -> Option<String> {
    const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);
    let since_epoch = at.duration_since(UNIX_EPOCH).ok().filter(|since| *since < YEAR_10000)?;
    Some(humantime::format_rfc3339_micros(UNIX_EPOCH + since_epoch).to_string())
}
