//! Decodes a received record into a message. The function is total: every record becomes a message,
//! because a consumer must be able to see, and make a dead letter of, a record that it cannot use.

use bytes::Bytes;
use posthaste_core::{Message, MessageId, Provenance};
use uuid::Uuid;

use crate::{
    Names, Profile, Wire,
    attribute::{Attribute, Style},
    structured,
};

/// A record as an adapter received it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The destination on which it was received.
    pub destination: String,
    /// All headers, except those with a field here.
    pub headers: Vec<(String, String)>,
    /// Media type of the body, if it was said.
    pub content_type: Option<String>,
    /// The bytes.
    pub body: Bytes,
    /// The broker's own field for the key, if it has one.
    pub key: Option<String>,
    /// The broker's own field for the id, if it has one.
    pub id: Option<String>,
    /// The broker's name of this record, the same on every redelivery: the id of a message without
    /// an id is derived from it.
    pub coordinates: String,
}

#[derive(Default)]
struct Event {
    id: Option<String>,
    event_type: Option<String>,
    key: Option<String>,
    subject: Option<String>,
    content_type: Option<String>,
    provenance: Provenance,
}

impl Wire {
    /// The message and its provenance. With a CloudEvents profile both modes of CloudEvents are
    /// recognised.
    #[must_use]
    pub fn decode(&self, received: Received, names: &Names) -> (Message, Provenance) {
        let Received { destination, headers, content_type, body, key, id, coordinates } = received;
        let is_event = |(name, _): &(String, String)| {
            Attribute::of(name, names.style) == Some(Attribute::SpecVersion)
        };
        let may_be_structured = matches!(self.profile, Profile::Binary | Profile::Structured)
            && !headers.iter().any(is_event);
        let is_structured =
            |text: &str| text.to_ascii_lowercase().starts_with("application/cloudevents+json");
        let is_structured = may_be_structured && content_type.as_deref().is_some_and(is_structured);
        let (mut event, mut own) = (Event::default(), Vec::new());
        let mut content_type = content_type;
        let mut payload = body;
        if is_structured && let Some((attributes, data)) = structured::decode(&payload) {
            for (name, value) in attributes {
                own.extend(event.take(&name, value, Style::Plain));
            }
            (content_type, payload) = (None, data);
        }
        for (name, value) in headers {
            let Some(header) = event.take(&name, value, names.style) else { continue };
            // An extension that also came as a header is kept once.
            own.retain(|(name, _)| *name != header.0);
            own.push(header);
        }
        let id_header = match self.profile {
            Profile::Debezium => Some("id"),
            Profile::Raw => names.raw_id(),
            Profile::Binary | Profile::Structured => None,
        };
        if let Some(at) = own.iter().position(|(name, _)| Some(name.as_str()) == id_header) {
            event.id = Some(own.remove(at).1);
        }
        let source = event.provenance.source.as_deref().unwrap_or_default();
        let id = match event.id.or(id) {
            Some(id) => message_id(&id, source),
            None => message_id(&coordinates, &destination),
        };
        let message = Message {
            id,
            topic: self.destination.topic(&destination).to_owned(),
            key: key.or(event.key).or(event.subject),
            event_type: event.event_type,
            payload,
            headers: own,
            content_type: event
                .content_type
                .or(content_type)
                .unwrap_or_else(|| "application/octet-stream".to_owned()),
        };
        (message, event.provenance)
    }
}

/// The id if it is a UUID, else a UUID derived from it and its source, always the same.
fn message_id(text: &str, source: &str) -> MessageId {
    let derived = || Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{source}#{text}").as_bytes());
    text.parse().unwrap_or_else(|_| MessageId(derived()))
}

impl Event {
    /// Stores an attribute; returns a header that is no attribute.
    fn take(&mut self, name: &str, value: String, style: Style) -> Option<(String, String)> {
        let provenance = &mut self.provenance;
        let Some(attribute) = Attribute::of(name, style) else {
            return Some((name.to_owned(), value));
        };
        match attribute {
            Attribute::SpecVersion => {}
            Attribute::Id => self.id = Some(value),
            Attribute::Source => provenance.source = Some(value),
            Attribute::Type => self.event_type = Some(value),
            Attribute::Subject => self.subject = Some(value),
            Attribute::PartitionKey => self.key = Some(value),
            Attribute::Time => provenance.enqueued_at = humantime::parse_rfc3339_weak(&value).ok(),
            Attribute::DataContentType => self.content_type = Some(value),
            Attribute::Sequence => provenance.seq = value.parse().ok(),
            Attribute::Redriven => provenance.redriven = value.parse().unwrap_or(0),
            Attribute::Floor => provenance.floor = value.parse().ok(),
            Attribute::TraceParent | Attribute::TraceState => {
                // The trace context also has a header of its own name; if the names are equal, this
                // is the header.
                return (style == Style::Plain).then(|| (name.to_owned(), value));
            }
        }
        None
    }
}
