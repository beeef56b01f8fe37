//! From what a server says, or fails to say, to outcomes. Nothing else decides them.

use std::io;

use mqtt5_protocol::ReasonCode;
use posthaste_core::{BrokerError, Failure, Outcome};
use posthaste_wire::unmapped;
use tokio_rustls::rustls;

use crate::{Unmatched, packet::Reason};

/// Why a connection cannot be made, or be used any longer.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// No connection, or it broke.
    Connection(String),
    /// The other side could not prove who it is.
    Tls(String),
    /// It said no to CONNECT.
    Refused(Reason),
    /// It said goodbye.
    Disconnected(Reason),
    /// It said something that makes no sense.
    Malformed(String),
    /// It does not take QoS 1.
    QosZeroOnly,
    /// It did not answer in time.
    Timeout(&'static str),
    /// It allows only so many unacknowledged publishes, and no room came free in time.
    Full,
    /// We closed it.
    Closed,
}

impl Trouble {
    /// The trouble that an error of reading, writing or connecting is.
    pub(crate) fn from_io(error: &io::Error) -> Self {
        let is_tls = error.get_ref().is_some_and(|source| source.is::<rustls::Error>());
        if is_tls { Self::Tls(error.to_string()) } else { Self::Connection(error.to_string()) }
    }

    /// What to tell people.
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Connection(detail) => Failure::new("connection", detail),
            Self::Tls(detail) => Failure::new("tls", detail),
            Self::Refused(reason) => {
                Failure::new(refusal(reason.code), words("the server refuses us", reason))
            }
            Self::Disconnected(reason) => {
                let said = words("the server closed the connection", reason);
                Failure::new(goodbye(reason.code), said)
            }
            Self::Malformed(what) => {
                Failure::new("protocol", format!("the server does not speak MQTT 5: {what}"))
            }
            Self::QosZeroOnly => Failure::new(
                "denied",
                "the server allows QoS 0 only, which says nothing of what arrived: allow QoS 1",
            ),
            Self::Timeout(waiting_for) => {
                Failure::new("timeout", format!("no {waiting_for} in time"))
            }
            Self::Full => Failure::new(
                "throttled",
                "as many publishes are unacknowledged as the server allows (Receive Maximum)",
            ),
            Self::Closed => Failure::new("connection", "closed"),
        }
    }

    /// As an error of a subscriber or of an examination.
    pub(crate) fn error(&self, place: &str) -> BrokerError {
        BrokerError { message: format!("{place}: {}", self.failure()), source: None }
    }

    /// Of a message that was never handed to the network.
    pub(crate) fn unsent(&self) -> Outcome {
        Outcome::Unreachable(self.failure())
    }

    /// Of a message that was, and of which nothing was heard.
    pub(crate) fn unanswered(&self) -> Outcome {
        Outcome::Unknown(self.failure())
    }
}

/// The class of a CONNACK that says no.
fn refusal(code: u8) -> &'static str {
    match code {
        // 1 to 5 are version 3's words, by servers that do not know version 5.
        0x01 | 0x84 => "protocol",
        0x04 | 0x05 | 0x86 | 0x87 | 0x8a | 0x8c => "auth",
        0x02 | 0x85 => "denied",
        0x03 | 0x88 | 0x89 | 0x97 | 0x9f => "throttled",
        0x9c | 0x9d => "moved",
        _ => "refused",
    }
}

/// The class of a DISCONNECT.
fn goodbye(code: u8) -> &'static str {
    match code {
        0x81 | 0x82 | 0x93 | 0x94 => "protocol",
        0x87 => "auth",
        0x89 | 0x96 | 0x97 | 0x9f => "throttled",
        0x8e => "taken-over",
        0x90 => "topic",
        0x95 => "too-large",
        0x99 => "payload",
        0x9c | 0x9d => "moved",
        _ => "connection",
    }
}

/// The outcome of a PUBACK.
pub(crate) fn acknowledged(reason: &Reason, unmatched: Unmatched) -> Outcome {
    let failure = |class| Failure::new(class, words("the server refuses the message", reason));
    match reason.code {
        0x00 => Outcome::Acked,
        0x10 if unmatched == Unmatched::Accept => Outcome::Acked,
        0x10 => Outcome::Rejected(Failure::new(
            "unroutable",
            "the server took the message and threw it away: nobody subscribes to the topic",
        )),
        0x80 | 0x83 => Outcome::Rejected(failure("refused")),
        0x87 => Outcome::Rejected(failure("denied")),
        0x90 => Outcome::Rejected(failure("topic").hopeless()),
        // Its idea of what is on the way is not ours: it may mean another message.
        0x91 => Outcome::Unknown(failure("protocol")),
        // Not in the standard's list for PUBACK: Mosquitto's `message_size_limit`.
        0x95 => Outcome::Rejected(failure("too-large").hopeless()),
        0x97 => Outcome::Unreachable(failure("full")),
        0x99 => Outcome::Rejected(failure("payload").hopeless()),
        _ => unmapped("mqtt", words("PUBACK", reason)),
    }
}

/// Why a SUBSCRIBE was refused, if it was.
pub(crate) fn subscribed(codes: &[u8], text: Option<String>) -> Result<(), Failure> {
    let Some(&code) = codes.iter().find(|code| **code >= 0x80) else {
        // Granted at QoS 0, messages would be lost without notice.
        return match codes.contains(&0) {
            true => Err(Failure::new("denied", "the server grants the subscription QoS 0 only")),
            false => Ok(()),
        };
    };
    let class = match code {
        0x87 => "denied",
        0x8f | 0xa2 => "topic",
        0x97 => "throttled",
        _ => "refused",
    };
    let reason = Reason { code, text };
    Err(Failure::new(class, words("the server refuses the subscription", &reason)))
}

fn words(what: &str, reason: &Reason) -> String {
    let Reason { code, text } = reason;
    let name = ReasonCode::from_u8(*code).map_or("unknown".to_owned(), |name| format!("{name:?}"));
    let text = text.as_ref().map(|text| format!(", {text:?}")).unwrap_or_default();
    format!("{what}: {name} (0x{code:02x}){text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(code: u8) -> Reason {
        Reason { code, text: None }
    }

    fn kind(outcome: &Outcome) -> (&'static str, &'static str) {
        match outcome {
            Outcome::Acked => ("acked", ""),
            Outcome::Rejected(failure) if failure.is_hopeless => ("hopeless", failure.class),
            Outcome::Rejected(failure) => ("rejected", failure.class),
            Outcome::Unreachable(failure) => ("unreachable", failure.class),
            Outcome::Unknown(failure) => ("unknown", failure.class),
        }
    }

    #[test]
    fn every_acknowledgement_has_its_outcome() {
        for (code, expected) in [
            (0x00, ("acked", "")),
            (0x10, ("rejected", "unroutable")),
            (0x80, ("rejected", "refused")),
            (0x83, ("rejected", "refused")),
            (0x87, ("rejected", "denied")),
            (0x90, ("hopeless", "topic")),
            (0x91, ("unknown", "protocol")),
            (0x95, ("hopeless", "too-large")),
            (0x97, ("unreachable", "full")),
            (0x99, ("hopeless", "payload")),
            (0x01, ("unknown", "unmapped")),
            (0xff, ("unknown", "unmapped")),
        ] {
            let outcome = acknowledged(&reason(code), Unmatched::Reject);
            assert_eq!(kind(&outcome), expected, "{code:#x}");
        }
        assert_eq!(acknowledged(&reason(0x10), Unmatched::Accept), Outcome::Acked);
    }

    #[test]
    fn every_trouble_has_its_class() {
        let certificate = rustls::Error::General("x".to_owned());
        for (trouble, class) in [
            (Trouble::from_io(&io::Error::other("x")), "connection"),
            (Trouble::from_io(&io::Error::new(io::ErrorKind::InvalidData, certificate)), "tls"),
            (Trouble::Refused(reason(0x01)), "protocol"),
            (Trouble::Refused(reason(0x84)), "protocol"),
            (Trouble::Refused(reason(0x05)), "auth"),
            (Trouble::Refused(reason(0x86)), "auth"),
            (Trouble::Refused(reason(0x87)), "auth"),
            (Trouble::Refused(reason(0x85)), "denied"),
            (Trouble::Refused(reason(0x88)), "throttled"),
            (Trouble::Refused(reason(0x89)), "throttled"),
            (Trouble::Refused(reason(0x9d)), "moved"),
            (Trouble::Refused(reason(0x80)), "refused"),
            (Trouble::Disconnected(reason(0x8b)), "connection"),
            (Trouble::Disconnected(reason(0x8e)), "taken-over"),
            (Trouble::Disconnected(reason(0x95)), "too-large"),
            (Trouble::Disconnected(reason(0x96)), "throttled"),
            (Trouble::Malformed("x".to_owned()), "protocol"),
            (Trouble::QosZeroOnly, "denied"),
            (Trouble::Timeout("acknowledgement"), "timeout"),
            (Trouble::Full, "throttled"),
            (Trouble::Closed, "connection"),
        ] {
            assert_eq!(kind(&trouble.unsent()), ("unreachable", class), "{trouble:?}");
            assert_eq!(kind(&trouble.unanswered()), ("unknown", class), "{trouble:?}");
        }
    }

    #[test]
    fn a_subscription_needs_every_filter_and_acknowledgements() {
        assert_eq!(subscribed(&[1, 1], None), Ok(()));
        assert_eq!(subscribed(&[1, 0x87], None).unwrap_err().class, "denied");
        assert_eq!(subscribed(&[1, 0], None).unwrap_err().class, "denied");
        let refused = subscribed(&[0x97], Some("too many".to_owned())).unwrap_err();
        assert!(refused.detail.ends_with("QuotaExceeded (0x97), \"too many\""), "{refused}");
    }
}
