//! The packets we speak, on the codec of `mqtt5-protocol`. Reason codes stay numbers: what a server
//! says that the standard does not know must reach the table in `outcome`, not break the connection.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use mqtt5_protocol::{
    MqttError, Properties, PropertyId, PropertyValue,
    encoding::{encode_variable_int, variable_int_len},
    packet::{FixedHeader, MqttPacket, PacketType, publish::PublishPacket},
};
use posthaste_core::{Failure, MessageId};
use posthaste_wire::Outgoing;
use uuid::{Uuid, fmt::Urn};

/// Longest text or binary field.
const FIELD_BYTES_MAX: usize = 0xffff;
/// Largest packet without its first five bytes.
pub(crate) const BODY_BYTES_MAX: usize = 268_435_455;

/// A reason code, and the words that came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) code: u8,
    pub(crate) text: Option<String>,
}

/// What a server says.
#[derive(Debug)]
pub(crate) enum FromServer {
    Connack { reason: Reason, properties: Properties },
    Puback { id: u16, reason: Reason },
    Suback { id: u16, codes: Vec<u8>, text: Option<String> },
    Publish(Box<PublishPacket>),
    Pong,
    Disconnect(Reason),
}

/// Takes the next packet out of what has arrived; `None` until all of it is there.
pub(crate) fn take(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<FromServer>, String> {
    let Some((header, body)) = frame(buffer, bytes_max)? else { return Ok(None) };
    decode(header, body).map(Some)
}

fn frame(buffer: &mut BytesMut, max: usize) -> Result<Option<(FixedHeader, Bytes)>, String> {
    let Some(length) = buffer.get(1..).and_then(|rest| {
        rest.iter().take(4).position(|byte| byte & 0x80 == 0).map(|last| last + 1)
    }) else {
        return if buffer.len() >= 5 { Err("a length without end".to_owned()) } else { Ok(None) };
    };
    let header = FixedHeader::decode(&mut &buffer[..]).map_err(|error| error.to_string())?;
    let body = usize::try_from(header.remaining_length).unwrap_or(usize::MAX);
    if body > max {
        return Err(format!("a packet of {body} bytes"));
    }
    let total = 1 + length + body;
    if buffer.len() < total {
        buffer.reserve(total - buffer.len());
        return Ok(None);
    }
    let mut packet = buffer.split_to(total).freeze();
    packet.advance(1 + length);
    Ok(Some((header, packet)))
}

fn decode(header: FixedHeader, mut body: Bytes) -> Result<FromServer, String> {
    let malformed = |error: MqttError| format!("{:?}: {error}", header.packet_type);
    let missing = || format!("{:?}: too short", header.packet_type);
    Ok(match header.packet_type {
        PacketType::ConnAck => {
            // The first byte says whether there was a session: subscribing anew is right either way.
            let (_, code) = (byte(&mut body).ok_or_else(missing)?, byte(&mut body));
            // Servers that do not know version 5 leave the rest out.
            let properties = properties(&mut body).map_err(malformed)?;
            let reason = Reason { code: code.ok_or_else(missing)?, text: text(&properties) };
            FromServer::Connack { reason, properties }
        }
        PacketType::PubAck => {
            let id = number(&mut body).ok_or_else(missing)?;
            let reason = reason(&mut body).map_err(malformed)?;
            FromServer::Puback { id, reason }
        }
        PacketType::SubAck => {
            let id = number(&mut body).ok_or_else(missing)?;
            let properties = properties(&mut body).map_err(malformed)?;
            FromServer::Suback { id, codes: body.to_vec(), text: text(&properties) }
        }
        PacketType::Publish => {
            let packet = PublishPacket::decode_body(&mut body, &header).map_err(malformed)?;
            FromServer::Publish(Box::new(packet))
        }
        PacketType::PingResp => FromServer::Pong,
        PacketType::Disconnect => FromServer::Disconnect(reason(&mut body).map_err(malformed)?),
        other => return Err(format!("{other:?}, which no server should send")),
    })
}

fn byte(body: &mut Bytes) -> Option<u8> {
    body.has_remaining().then(|| body.get_u8())
}

fn number(body: &mut Bytes) -> Option<u16> {
    (body.remaining() >= 2).then(|| body.get_u16())
}

fn properties(body: &mut Bytes) -> Result<Properties, MqttError> {
    if body.is_empty() { Ok(Properties::default()) } else { Properties::decode(body) }
}

/// A reason at the end of a packet, where both parts of it may be left out.
fn reason(body: &mut Bytes) -> Result<Reason, MqttError> {
    let code = byte(body).unwrap_or(0);
    Ok(Reason { code, text: text(&properties(body)?) })
}

fn text(properties: &Properties) -> Option<String> {
    match properties.get(PropertyId::ReasonString)? {
        PropertyValue::Utf8String(text) => Some(text.clone()),
        _ => None,
    }
}

/// A packet of the codec's own.
pub(crate) fn encode(packet: &impl MqttPacket, buffer: &mut BytesMut) -> Result<(), MqttError> {
    packet.encode(buffer)
}

/// PUBACK: handled.
pub(crate) fn encode_puback(id: u16, buffer: &mut BytesMut) {
    buffer.put_slice(&[0x40, 2]);
    buffer.put_u16(id);
}

/// PINGREQ.
pub(crate) const PING: [u8; 2] = [0xc0, 0];
/// DISCONNECT: goodbye.
pub(crate) const GOODBYE: [u8; 2] = [0xe0, 0];

/// A PUBLISH of QoS 1. Written without the codec's types, which would copy every text once more.
pub(crate) struct Publication<'a> {
    outgoing: &'a Outgoing<'a>,
    id: MessageId,
    properties_len: usize,
}

impl<'a> Publication<'a> {
    /// The id travels as correlation data, whatever the form of the message.
    pub(crate) fn new(outgoing: &'a Outgoing<'a>, id: MessageId) -> Self {
        let field = |text: &str| 2 + text.len();
        let properties_len = 1
            + field(outgoing.content_type)
            + 1
            + 2
            + Urn::LENGTH
            + outgoing.headers.iter().map(|(n, v)| 1 + field(n) + field(v)).sum::<usize>();
        Self { outgoing, id, properties_len }
    }

    fn body_len(&self) -> usize {
        let topic = 2 + self.outgoing.destination.len();
        let properties = variable_len(self.properties_len) + self.properties_len;
        topic + 2 + properties + self.outgoing.body.len()
    }

    /// Bytes on the wire.
    pub(crate) fn size(&self) -> usize {
        let body = self.body_len();
        1 + variable_len(body) + body
    }

    /// Appends the packet. Only for what has passed [`check`](Self::check).
    pub(crate) fn encode(&self, packet_id: u16, buffer: &mut BytesMut) {
        buffer.reserve(self.size());
        buffer.put_u8(0x32);
        put_variable(self.body_len(), buffer);
        put_field(&self.outgoing.destination, buffer);
        buffer.put_u16(packet_id);
        put_variable(self.properties_len, buffer);
        buffer.put_u8(PropertyId::ContentType as u8);
        put_field(self.outgoing.content_type, buffer);
        buffer.put_u8(PropertyId::CorrelationData as u8);
        put_field(self.id.0.urn().encode_lower(&mut Uuid::encode_buffer()), buffer);
        for (name, value) in &self.outgoing.headers {
            buffer.put_u8(PropertyId::UserProperty as u8);
            put_field(name, buffer);
            put_field(value, buffer);
        }
        buffer.put_slice(&self.outgoing.body);
    }

    /// Refuses what the server would not take.
    pub(crate) fn check(&self, bytes_max: usize) -> Result<(), Failure> {
        let Outgoing { destination, headers, content_type, .. } = self.outgoing;
        if let Some(problem) = topic_problem(destination) {
            return Err(Failure::new("topic", format!("topic {destination:?} {problem}")));
        }
        let refused = |what: String| {
            let rule = "must be at most 65535 bytes without control characters and non-characters";
            Err(Failure::new("header", format!("{what} {rule}")))
        };
        for (name, value) in headers {
            if !is_text(name) {
                return refused(format!("header name {name:?}"));
            }
            if !is_text(value) {
                return refused(format!("the value of header {name:?}"));
            }
        }
        if !is_text(content_type) {
            return refused("the content type".to_owned());
        }
        let size = self.size();
        if size > bytes_max || self.body_len() > BODY_BYTES_MAX {
            let detail = format!("{size} bytes with its properties; the server takes {bytes_max}");
            return Err(Failure::new("too-large", detail));
        }
        Ok(())
    }
}

/// The id that a message of ours carries as correlation data. Whoever answers a request puts the
/// correlation data of the request into any number of answers: that is no id.
pub(crate) fn correlated_id(properties: &Properties) -> Option<String> {
    match properties.get(PropertyId::CorrelationData)? {
        PropertyValue::BinaryData(data) if !properties.contains(PropertyId::ResponseTopic) => {
            let id = std::str::from_utf8(data).ok()?.strip_prefix("urn:uuid:")?;
            id.parse::<MessageId>().ok().map(|id| id.to_string())
        }
        _ => None,
    }
}

fn variable_len(value: usize) -> usize {
    variable_int_len(u32::try_from(value).unwrap_or(u32::MAX))
}

fn put_variable(value: usize, buffer: &mut BytesMut) {
    let value = u32::try_from(value).expect("a size that was checked");
    encode_variable_int(buffer, value).expect("a size that was checked");
}

fn put_field(text: &str, buffer: &mut BytesMut) {
    buffer.put_u16(u16::try_from(text.len()).expect("a length that was checked"));
    buffer.put_slice(text.as_bytes());
}

/// Whether a text may stand in a packet. Servers close the connection for what the standard only
/// advises against (control characters, and what Unicode says is no character): Mosquitto does.
pub(crate) fn is_text(text: &str) -> bool {
    let is_bad = |c: char| {
        let code = u32::from(c);
        c.is_control() || (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe
    };
    text.len() <= FIELD_BYTES_MAX && !text.chars().any(is_bad)
}

/// Why a topic cannot be published to, if it cannot.
pub(crate) fn topic_problem(topic: &str) -> Option<&'static str> {
    if topic.is_empty() || !is_text(topic) {
        Some("must be 1 to 65535 bytes without control characters and non-characters")
    } else if topic.contains(['+', '#']) {
        Some("must not contain `+` or `#`, which are for subscribers")
    } else if topic.starts_with('$') {
        Some("must not start with `$`: such topics belong to the server")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(bytes: &[u8]) -> Result<Option<FromServer>, String> {
        take(&mut BytesMut::from(bytes), BODY_BYTES_MAX)
    }

    fn outgoing(destination: &'static str) -> Outgoing<'static> {
        Outgoing {
            destination: destination.into(),
            headers: vec![("id".into(), "1".into()), ("tenant".into(), "é".into())],
            content_type: "text/plain",
            body: Bytes::from_static(&[0, 255, 10]),
        }
    }

    #[test]
    fn a_publication_is_what_the_codec_reads() {
        let (outgoing, id) = (outgoing("orders/eu"), MessageId::fresh());
        let publication = Publication::new(&outgoing, id);
        let mut buffer = BytesMut::new();
        publication.encode(7, &mut buffer);
        assert_eq!(buffer.len(), publication.size());
        let Ok(Some(FromServer::Publish(packet))) = take(&mut buffer, BODY_BYTES_MAX) else {
            panic!("a PUBLISH")
        };
        assert!(buffer.is_empty());
        assert_eq!((packet.topic_name.as_str(), packet.packet_id), ("orders/eu", Some(7)));
        assert_eq!(packet.payload, outgoing.body);
        assert_eq!(packet.properties.get_content_type().as_deref(), Some("text/plain"));
        assert_eq!(packet.properties.get_user_property_value("tenant"), Some("é"));
        assert_eq!(correlated_id(&packet.properties), Some(id.to_string()));
    }

    #[test]
    fn only_our_correlation_data_is_an_id() {
        let id = "0190a6d2-7d9b-7a3c-8f52-6b1f4f3c2a10";
        let of = |data: String| {
            let mut properties = Properties::default();
            properties.set_correlation_data(data.into());
            properties
        };
        assert_eq!(correlated_id(&of(format!("urn:uuid:{id}"))).as_deref(), Some(id));
        assert_eq!(correlated_id(&of(id.to_owned())), None);
        assert_eq!(correlated_id(&of("urn:uuid:x".to_owned())), None);
        let mut request = of(format!("urn:uuid:{id}"));
        request.set_response_topic("answers".to_owned());
        assert_eq!(correlated_id(&request), None);
        assert_eq!(correlated_id(&Properties::default()), None);
    }

    #[test]
    fn limits_are_inclusive() {
        let outgoing = outgoing("t");
        let publication = Publication::new(&outgoing, MessageId::fresh());
        assert_eq!(publication.check(publication.size()), Ok(()));
        let refused = publication.check(publication.size() - 1).unwrap_err();
        assert_eq!(refused.class, "too-large");
    }

    #[test]
    fn illegal_names_are_refused() {
        for topic in ["", "a/#", "+", "$SYS/x", "a\0b", "a\u{85}b", "a\u{ffff}", "\u{fdd0}"] {
            let outgoing = outgoing(topic);
            let refused = Publication::new(&outgoing, MessageId::fresh()).check(1000).unwrap_err();
            assert_eq!(refused.class, "topic", "{topic:?}");
        }
        for (name, value) in [("a\u{85}", "b"), ("a", "b\u{1fffe}")] {
            let mut outgoing = outgoing("t");
            outgoing.headers.push((name.into(), value.into()));
            let refused = Publication::new(&outgoing, MessageId::fresh()).check(1000).unwrap_err();
            assert_eq!(refused.class, "header", "{name:?}");
        }
        for topic in ["/", "a//b", "a b", "ü", "orders.created"] {
            assert_eq!(topic_problem(topic), None, "{topic:?}");
        }
    }

    #[test]
    fn a_reason_may_be_left_out() {
        let code = |bytes: &[u8]| match taken(bytes) {
            Ok(Some(FromServer::Puback { id: 1, reason } | FromServer::Disconnect(reason))) => {
                (reason.code, reason.text)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(code(&[0x40, 2, 0, 1]), (0, None));
        assert_eq!(code(&[0x40, 3, 0, 1, 0x87]), (0x87, None));
        assert_eq!(code(&[0x40, 4, 0, 1, 0xfe, 0]), (0xfe, None), "even an unknown one");
        assert_eq!(code(&[0xe0, 0]), (0, None));
        assert_eq!(code(&[0xe0, 1, 0x8e]), (0x8e, None));
        let with_text = [0xe0, 6, 0x8b, 4, 0x1f, 0, 1, b'x'];
        assert_eq!(code(&with_text), (0x8b, Some("x".to_owned())));
    }

    #[test]
    fn half_a_packet_is_waited_for_and_too_large_a_one_is_not() {
        assert!(matches!(taken(&[]), Ok(None)));
        assert!(matches!(taken(&[0x40]), Ok(None)));
        assert!(matches!(taken(&[0x40, 2, 0]), Ok(None)));
        assert!(matches!(taken(&[0x30, 0x80, 0x80]), Ok(None)));
        assert!(taken(&[0x30, 0x80, 0x80, 0x80, 0x80]).is_err());
        assert!(take(&mut BytesMut::from(&[0x30, 11][..]), 10).is_err());
    }

    proptest! {
        #[test]
        fn nothing_that_arrives_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = take(&mut buffer, 1 << 20) {}
        }
    }
}
