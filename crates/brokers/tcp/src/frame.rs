//! Batches as lines of JSON: written from messages, and read back.

use std::{collections::BTreeMap, fmt::Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use posthaste_core::{Delivery, Failure, Message, MessageId, Provenance, Seq};
use posthaste_wire::{Names, Profile, Received, STRUCTURED_CONTENT_TYPE, Style, Wire};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Value, value::RawValue};
use sha2::{Digest, Sha256};

use crate::Frames;

/// How attributes would be spelled beside an event: no message may bring such a header, because one
/// that reads them could not tell.
const NAMES: Names = Names { style: Style::Dash, reserved: &[], reserved_prefixes: &[] };

/// What ends a frame.
const TAIL: &[u8] = b"]}\n";
/// Longest name of a batch that is read, in bytes.
const BATCH_BYTES_MAX: usize = 256;
/// Most events in a batch that is read: each costs memory beyond its bytes.
pub(crate) const EVENTS_MAX: usize = 65_536;

/// One message in the form of its frames.
pub(crate) struct Event {
    /// Its place in the call.
    pub(crate) index: usize,
    pub(crate) tag: Tag,
    json: Vec<u8>,
}

/// Tells messages apart. One that a person sent again is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tag {
    id: MessageId,
    seq: Seq,
    redriven: u32,
}

/// A batch to be sent.
pub(crate) struct Batch {
    pub(crate) id: BatchId,
    /// Its messages, in order.
    pub(crate) messages: Vec<Tag>,
    /// The frame, always the same for the same messages.
    pub(crate) bytes: Vec<u8>,
}

/// What names a batch: always the same for the same messages, and another for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchId {
    Native(String),
    Original(u64),
}

/// Writes messages, and batches of them.
pub(crate) struct Writer {
    wire: Wire,
    frames: Frames,
    frame_bytes_max: usize,
    /// What of a frame is left for events and the commas between them.
    room: usize,
}

impl Writer {
    /// Writes frames of this form and size.
    pub(crate) fn new(wire: Wire, frames: Frames, frame_bytes_max: usize) -> Self {
        let mut writer = Self { wire, frames, frame_bytes_max, room: 0 };
        let widest = [Tag { id: MessageId(Default::default()), seq: Seq::MIN, redriven: 0 }; 2];
        let id = match writer.id(&widest) {
            BatchId::Original(_) => BatchId::Original(u64::MAX),
            native @ BatchId::Native(_) => native,
        };
        let head = writer.head(&id, &widest).len();
        writer.room = frame_bytes_max.saturating_sub(head + TAIL.len());
        writer
    }

    /// The form of the frames it writes.
    pub(crate) fn frames(&self) -> Frames {
        self.frames
    }

    /// A message in the form of its frames.
    ///
    /// # Errors
    /// When it has none: topic, header, payload or size are wrong.
    pub(crate) fn event(&self, index: usize, delivery: &Delivery) -> Result<Event, Failure> {
        let json = match self.frames {
            Frames::Native => self.native(delivery)?,
            Frames::Original => original(&delivery.message.payload)?,
        };
        if json.len() > self.room {
            let (size, max) = (json.len(), self.frame_bytes_max);
            let detail = format!("{size} bytes as JSON, and a frame has {max} (frame_bytes_max)");
            return Err(Failure::new("too-large", detail));
        }
        let Delivery { seq, redriven, message, .. } = delivery;
        Ok(Event { index, tag: Tag { id: message.id, seq: *seq, redriven: *redriven }, json })
    }

    fn native(&self, delivery: &Delivery) -> Result<Vec<u8>, Failure> {
        let message = &delivery.message;
        if message.topic.chars().any(char::is_control) {
            let detail = format!("topic {:?} has control characters", message.topic);
            return Err(Failure::new("topic", detail));
        }
        let outgoing = self.wire.encode(delivery, &NAMES)?;
        let mut json =
            format!("{{\"seq\":{},\"topic\":{}", delivery.seq, text(&outgoing.destination));
        if !outgoing.headers.is_empty() {
            json.push_str(",\"headers\":{");
            for (at, (name, value)) in outgoing.headers.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let _ = write!(json, "{comma}{}:{}", text(name), text(value));
            }
            json.push('}');
        }
        let mut json = json.into_bytes();
        if self.wire.profile == Profile::Structured {
            json.extend_from_slice(b",\"event\":");
            push_event(&mut json, &outgoing.body, &message.payload);
        } else {
            json.extend_from_slice(format!(",\"id\":\"{}\"", message.id).as_bytes());
            if let Some(key) = &message.key {
                json.extend_from_slice(format!(",\"key\":{}", text(key)).as_bytes());
            }
            let content_type = text(outgoing.content_type);
            json.extend_from_slice(format!(",\"content_type\":{content_type},").as_bytes());
            push_data(&mut json, &outgoing.body);
        }
        json.push(b'}');
        Ok(json)
    }

    /// The first of these messages that fit a frame, at least one.
    pub(crate) fn batch(&self, events: &[Event]) -> Batch {
        let mut room = self.room;
        let fits = |event: &&Event| {
            let needed = event.json.len() + 1;
            let is_room = needed <= room + 1;
            room = room.saturating_sub(needed);
            is_room
        };
        let events = &events[..events.iter().take_while(fits).count().max(1)];
        let messages: Vec<Tag> = events.iter().map(|event| event.tag).collect();
        let id = self.id(&messages);
        let mut bytes = self.head(&id, &messages).into_bytes();
        bytes.reserve_exact(
            events.iter().map(|event| event.json.len() + 1).sum::<usize>() + TAIL.len(),
        );
        for (at, event) in events.iter().enumerate() {
            if at > 0 {
                bytes.push(b',');
            }
            bytes.extend_from_slice(&event.json);
        }
        bytes.extend_from_slice(TAIL);
        Batch { id, messages, bytes }
    }

    fn head(&self, id: &BatchId, messages: &[Tag]) -> String {
        let (first, last) = ends(messages);
        match id {
            BatchId::Native(id) => format!(
                "{{\"batch\":\"{id}\",\"source\":{},\"first\":{first},\"last\":{last},\"events\":[",
                text(&self.wire.source)
            ),
            BatchId::Original(id) => format!("{{\"id\":{id},\"events\":["),
        }
    }

    fn id(&self, messages: &[Tag]) -> BatchId {
        let mut digest = Sha256::new();
        for tag in messages {
            digest.update(tag.id.0.as_bytes());
            digest.update(tag.seq.to_be_bytes());
            digest.update(tag.redriven.to_be_bytes());
        }
        let digest = digest.finalize();
        let word = digest.iter().take(8).fold(0, |word, byte| word << 8 | u64::from(*byte));
        match self.frames {
            Frames::Native => {
                let (first, last) = ends(messages);
                BatchId::Native(format!("{first}-{last}-{word:016x}"))
            }
            // Numbers of JSON are exact up to here, whatever reads them.
            Frames::Original => BatchId::Original(word >> 11),
        }
    }
}

fn ends(messages: &[Tag]) -> (Seq, Seq) {
    let seq = |tag: Option<&Tag>| tag.map_or(0, |tag| tag.seq);
    (seq(messages.first()), seq(messages.last()))
}

impl Batch {
    /// How many messages there are up to the one with this seq.
    pub(crate) fn count_to(&self, position: Seq) -> Option<usize> {
        self.messages.iter().position(|tag| tag.seq == position).map(|at| at + 1)
    }
}

/// A text of JSON.
fn text(text: &str) -> String {
    Value::from(text).to_string()
}

fn has_line_break(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

/// A structured event in one line. Its payload is its last member and as it was, so white space of
/// the payload is all that can break the line; then the payload travels as base64.
fn push_event(json: &mut Vec<u8>, event: &[u8], payload: &[u8]) {
    const DATA: &[u8] = b"\"data\":";
    let head = event.len().checked_sub(DATA.len() + payload.len() + 1);
    match head {
        Some(head) if has_line_break(event) => {
            json.extend_from_slice(&event[..head]);
            push_base64(json, payload);
            json.push(b'}');
        }
        _ => json.extend_from_slice(event),
    }
}

/// A body, as it is if it is JSON in one line.
fn push_data(json: &mut Vec<u8>, body: &[u8]) {
    let raw = serde_json::from_slice::<&RawValue>(body).ok();
    if raw.is_some_and(|raw| raw.get().len() == body.len()) && !has_line_break(body) {
        json.extend_from_slice(b"\"data\":");
        json.extend_from_slice(body);
    } else {
        push_base64(json, body);
    }
}

fn push_base64(json: &mut Vec<u8>, bytes: &[u8]) {
    json.extend_from_slice(b"\"data_base64\":\"");
    json.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    json.push(b'"');
}

/// A payload as an event of original frames.
fn original(payload: &[u8]) -> Result<Vec<u8>, Failure> {
    let raw = serde_json::from_slice::<&RawValue>(payload).ok();
    let Some(object) = raw.map(RawValue::get).filter(|text| text.starts_with('{')) else {
        return Err(Failure::new("payload", "original frames hold JSON objects, and this is none"));
    };
    // Between the parts of an object a line break is white space; inside a text there is none.
    let line = |byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
    Ok(object.bytes().map(line).collect())
}

/// A batch that came.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) batch: String,
    pub(crate) events: Vec<ArrivedEvent>,
}

/// One of its messages.
#[derive(Debug)]
pub(crate) struct ArrivedEvent {
    pub(crate) seq: Seq,
    pub(crate) message: Message,
    pub(crate) provenance: Provenance,
}

#[derive(Deserialize)]
struct FrameJson<'a> {
    batch: String,
    source: String,
    #[serde(borrow, deserialize_with = "events")]
    events: Vec<EventJson<'a>>,
}

#[derive(Deserialize)]
struct EventJson<'a> {
    seq: Seq,
    topic: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    id: Option<String>,
    key: Option<String>,
    content_type: Option<String>,
    #[serde(borrow, default, deserialize_with = "raw")]
    event: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "raw")]
    data: Option<&'a RawValue>,
    data_base64: Option<String>,
}

/// A member that is there: `null` is a value.
fn raw<'de, D: Deserializer<'de>>(member: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(member).map(Some)
}

/// A list of events, not too many.
fn events<'de, D: Deserializer<'de>>(member: D) -> Result<Vec<EventJson<'de>>, D::Error> {
    struct Visitor;

    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Vec<EventJson<'de>>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "from 1 to {EVENTS_MAX} events")
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut events = Vec::new();
            while let Some(event) = list.next_element()? {
                if events.len() == EVENTS_MAX {
                    return Err(de::Error::invalid_length(EVENTS_MAX + 1, &self));
                }
                events.push(event);
            }
            if events.is_empty() {
                return Err(de::Error::invalid_length(0, &self));
            }
            Ok(events)
        }
    }

    member.deserialize_seq(Visitor)
}

/// Reads a native frame, with or without its line break.
///
/// # Errors
/// What is wrong with it, without what is in it.
pub(crate) fn read(line: &[u8], wire: &Wire) -> Result<Arrived, String> {
    let wrong = |error: serde_json::Error| {
        // The words may quote the sender; the place and the kind say enough.
        format!("{:?} error at byte {}", error.classify(), error.column())
    };
    let frame: FrameJson<'_> = serde_json::from_slice(line).map_err(wrong)?;
    if frame.batch.len() > BATCH_BYTES_MAX {
        return Err(format!("a batch has a name of more than {BATCH_BYTES_MAX} bytes"));
    }
    let source = frame.source;
    let events = frame.events.into_iter().map(|event| arrived(event, &source, wire));
    Ok(Arrived { batch: frame.batch, events: events.collect::<Result<_, _>>()? })
}

fn arrived(event: EventJson<'_>, source: &str, wire: &Wire) -> Result<ArrivedEvent, String> {
    let copied = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
    let (content_type, body) = match (event.event, event.data, event.data_base64) {
        (Some(event), ..) => (Some(STRUCTURED_CONTENT_TYPE.to_owned()), copied(event)),
        (None, Some(data), _) => (event.content_type, copied(data)),
        (None, None, Some(text)) => {
            let bytes = STANDARD.decode(text).map_err(|_| "an event has no base64".to_owned())?;
            (event.content_type, bytes.into())
        }
        (None, None, None) => return Err("an event has no data".to_owned()),
    };
    let seq = event.seq;
    let received = Received {
        destination: event.topic,
        headers: event.headers.into_iter().collect(),
        content_type,
        body,
        key: event.key,
        id: event.id,
        coordinates: format!("{source}#{seq}"),
    };
    let (message, mut provenance) = wire.decode(received, &NAMES);
    // Also for those forms of a message that have no place for them.
    provenance.seq = provenance.seq.or(Some(seq));
    provenance.source = provenance.source.or_else(|| Some(source.to_owned()));
    Ok(ArrivedEvent { seq, message, provenance })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 1024 * 1024;

    fn writer(frames: Frames, profile: Profile) -> Writer {
        Writer::new(Wire { profile, ..Wire::default() }, frames, MAX)
    }

    fn delivery(seq: Seq, message: Message) -> Delivery {
        let enqueued_at = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        Delivery { seq, message, enqueued_at, attempt: 1, redriven: 0, floor: None }
    }

    fn batch(writer: &Writer, deliveries: &[Delivery]) -> Batch {
        let events: Vec<Event> =
            deliveries.iter().map(|delivery| writer.event(0, delivery).unwrap()).collect();
        writer.batch(&events)
    }

    #[test]
    fn same_messages_are_the_same_bytes_and_others_have_another_name() {
        let of = |seq| delivery(seq, Message::from_bytes("t", None, "{}"));
        let all: Vec<Delivery> = (1..=4).map(of).collect();
        for frames in [Frames::Native, Frames::Original] {
            let writer = writer(frames, Profile::Structured);
            let first = batch(&writer, &all[..3]);
            let again: Vec<Delivery> =
                all[..3].iter().map(|it| Delivery { attempt: 9, ..it.clone() }).collect();
            assert_eq!(batch(&writer, &again).bytes, first.bytes);
            let mut redriven = all[..3].to_vec();
            redriven[1].redriven = 1;
            let mut others = all[..3].to_vec();
            others[1].message.id = MessageId::fresh();
            // Also where all that is sent of them is alike.
            for other in [&all[..2], &all[..], &all[1..], &redriven, &others] {
                assert_ne!(batch(&writer, other).id, first.id);
            }
        }
    }

    #[test]
    fn frames_are_filled_and_never_overfilled() {
        let writer = Writer::new(Wire::default(), Frames::Original, 2000);
        let payload = format!("{{\"x\":\"{}\"}}", "y".repeat(100));
        let of = |seq| delivery(seq, Message::from_bytes("t", None, payload.clone()));
        let mut events: Vec<Event> =
            (0..40).map(|seq| writer.event(0, &of(seq)).unwrap()).collect();
        let mut sizes = Vec::new();
        while !events.is_empty() {
            let batch = writer.batch(&events);
            events.drain(..batch.messages.len());
            sizes.push(batch.bytes.len());
        }
        let one = payload.len() + 1;
        let (last, full) = sizes.split_last().unwrap();
        assert!(*last <= 2000 && full.iter().all(|size| (2000 - one - 40..=2000).contains(size)));
    }

    fn any_delivery() -> impl Strategy<Value = Delivery> {
        let json =
            prop::sample::select(vec!["{}", "null", "[1,\n2]", "\"\\n\"", " 7", "{\"a\":1.10}"]);
        let payload = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..100),
            json.prop_map(|text| text.as_bytes().to_vec()),
        ];
        let headers =
            prop::collection::btree_map("x[a-z ]{0,9}", "[^\\x00-\\x1f\\x7f]{0,20}", 0..4);
        let key = prop::option::of("[^\\x00-\\x1f\\x7f]{1,20}");
        let topic = "[^\\x00-\\x1f\\x7f-\\u{9f}]{1,20}";
        let content_type = prop::sample::select(vec!["application/json", "text/plain", "a/b+json"]);
        (any::<i64>(), topic, key, payload, headers, content_type).prop_map(
            |(seq, topic, key, payload, headers, content_type)| {
                let mut message = Message::from_bytes(topic, key.as_deref(), payload);
                message.headers = headers.into_iter().collect();
                delivery(seq, message.content_type(content_type))
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            sent in prop::collection::vec(any_delivery(), 1..8),
            profile in prop::sample::select(vec![Profile::Structured, Profile::Raw, Profile::Debezium]),
        ) {
            let writer = writer(Frames::Native, profile);
            let batch = batch(&writer, &sent);
            let breaks = batch.bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
            prop_assert_eq!(breaks, 1, "one line");
            let read = read(&batch.bytes, &writer.wire).unwrap();
            prop_assert_eq!(BatchId::Native(read.batch), batch.id);
            prop_assert_eq!(read.events.len(), sent.len());
            for (arrived, sent) in read.events.iter().zip(&sent) {
                prop_assert_eq!(arrived.seq, sent.seq);
                let (arrived, sent) = (&arrived.message, &sent.message);
                prop_assert_eq!(&arrived.payload, &sent.payload);
                prop_assert_eq!(&arrived.headers, &sent.headers);
                prop_assert_eq!(&arrived.content_type, &sent.content_type);
                prop_assert_eq!(&arrived.topic, &sent.topic);
                prop_assert_eq!(&arrived.key, &sent.key);
                prop_assert_eq!(arrived.id, sent.id);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let _ = read(&bytes, &Wire::default());
        }

        #[test]
        fn damaged_frames_never_panic(
            sent in prop::collection::vec(any_delivery(), 1..4),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            end in any::<prop::sample::Index>(),
        ) {
            let writer = writer(Frames::Native, Profile::Structured);
            let mut bytes = batch(&writer, &sent).bytes;
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = read(&bytes, &writer.wire);
            bytes.truncate(end.index(bytes.len() + 1));
            let _ = read(&bytes, &writer.wire);
        }
    }
}
