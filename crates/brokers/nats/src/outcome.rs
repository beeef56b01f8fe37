//! From whatever can go wrong to what it means.

use std::error::Error;

use async_nats::{
    ConnectError, ConnectErrorKind,
    jetstream::{
        self, ErrorCode,
        context::{PublishError, PublishErrorKind},
    },
    rustls,
};
use posthaste_core::{BrokerError, Failure, Outcome};
use posthaste_wire::unmapped;

/// Whatever can go wrong with a message.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The driver could not connect.
    Dial(ConnectError),
    /// There was no connection within the deadline.
    NotDialled,
    /// The machine we run on did not let us.
    Local(String),
    /// A file of credentials cannot be used.
    Credentials(String),
    /// The server has no JetStream for us.
    NoJetStream(String),
    /// The driver took nothing more until the deadline: this message was not handed to it.
    NotTaken,
    /// The connection was lost before this message was handed to it.
    LostBefore,
    /// The connection was lost after it.
    Lost,
    /// No answer within the deadline.
    Silence,
    /// We may not publish to this subject.
    Denied(String),
    /// Nothing stores what is published to this subject.
    NoStream(String),
    /// Nobody took what was published to this subject, and there was no time to look for its stream.
    NotLooked(String),
    /// The same, and we may not look.
    MayNotLook(String),
    /// The stream of this subject does not answer.
    NoLeader(String),
    /// What the driver made of the answer.
    Answer(PublishError),
}

/// The same for `doctor` and subscribers.
impl From<Trouble> for BrokerError {
    fn from(trouble: Trouble) -> Self {
        let message = match outcome(&trouble) {
            Outcome::Rejected(failure)
            | Outcome::Unreachable(failure)
            | Outcome::Unknown(failure) => failure.detail,
            Outcome::Acked => String::new(),
        };
        Self { message, source: None }
    }
}

/// What a trouble means for the message that had it. Total: what is not in the table is unknown and
/// counted.
pub(crate) fn outcome(trouble: &Trouble) -> Outcome {
    let unreachable = |class, detail: &str| Outcome::Unreachable(Failure::new(class, detail));
    let unknown = |class, detail: &str| Outcome::Unknown(Failure::new(class, detail));
    match trouble {
        Trouble::Dial(error) => Outcome::Unreachable(dial(error)),
        Trouble::NotDialled => unreachable("timeout", "could not connect to NATS in time"),
        Trouble::Local(detail) => unreachable("connection", detail),
        Trouble::Credentials(detail) => unreachable("auth", detail),
        Trouble::NoJetStream(detail) => unreachable(
            "missing",
            &format!(
                "NATS has no JetStream for this account ({detail}); start it with --jetstream"
            ),
        ),
        Trouble::NotTaken => unreachable("timeout", "the connection to NATS is stuck"),
        Trouble::LostBefore => unreachable("connection", "the connection to NATS was lost"),
        Trouble::Lost => unknown("connection", "the connection to NATS was lost"),
        Trouble::Silence => unknown("timeout", "NATS did not answer in time"),
        Trouble::Denied(subject) => Outcome::Rejected(Failure::new(
            "denied",
            format!("the user may not publish to {subject:?}; grant it to them on the server"),
        )),
        Trouble::NoStream(subject) => Outcome::Rejected(Failure::new(
            "unroutable",
            format!("no stream stores {subject:?}; make one with `nats stream add`"),
        )),
        Trouble::NotLooked(subject) => {
            unreachable("timeout", &format!("no time left to look for the stream of {subject:?}"))
        }
        // Of these, only the relay can tell one message that nobody takes from an outage: by what
        // becomes of the others.
        Trouble::MayNotLook(subject) => unknown(
            "unroutable",
            &format!(
                "no stream stores {subject:?}, or it has no leader now; let the user publish to \
                 $JS.API.STREAM.NAMES, so that it can be told"
            ),
        ),
        Trouble::NoLeader(subject) => {
            unreachable("missing", &format!("the stream of {subject:?} has no leader now"))
        }
        Trouble::Answer(error) => answer(error),
    }
}

fn dial(error: &ConnectError) -> Failure {
    let class = match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => "auth",
        ConnectErrorKind::Tls => "tls",
        ConnectErrorKind::TimedOut => "timeout",
        _ if is_tls(error) => "tls",
        _ => "connection",
    };
    Failure::new(class, format!("cannot connect to NATS: {error}"))
}

/// Whether TLS is behind an error, as deep as it may be.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
    let mut current = Some(error);
    while let Some(error) = current {
        if error.is::<rustls::Error>() {
            return true;
        }
        // An I/O error that wraps another says what that one's source is, not what it is.
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        current = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

fn answer(error: &PublishError) -> Outcome {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => {
            Outcome::Rejected(Failure::new("too-large", error.to_string()).hopeless())
        }
        PublishErrorKind::TimedOut => outcome(&Trouble::Silence),
        PublishErrorKind::BrokenPipe => outcome(&Trouble::Lost),
        PublishErrorKind::MaxAckPending => outcome(&Trouble::NotTaken),
        _ => match error.source().and_then(|source| source.downcast_ref::<jetstream::Error>()) {
            Some(refusal) => refused(refusal),
            None => unmapped("nats", error),
        },
    }
}

fn refused(refusal: &jetstream::Error) -> Outcome {
    let failure = |class| Failure::new(class, refusal.to_string());
    let says = |text| refusal.to_string().contains(text);
    match refusal.error_code() {
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
            Outcome::Rejected(failure("too-large").hopeless())
        }
        ErrorCode::STREAM_NOT_MATCH => Outcome::Rejected(failure("unroutable")),
        ErrorCode::STREAM_SEALED => Outcome::Rejected(failure("denied")),
        // Also what the disk says; the limits of a stream are told apart by the text alone.
        ErrorCode::STREAM_STORE_FAILED if says("exceeded") => Outcome::Unreachable(failure("full")),
        ErrorCode::STREAM_STORE_FAILED => Outcome::Unreachable(failure("storage")),
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::MEMORY_RESOURCES_EXCEEDED
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED => Outcome::Unreachable(failure("full")),
        ErrorCode::JETSTREAM_NOT_ENABLED
        | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT
        | ErrorCode::CLUSTER_NOT_AVAILABLE
        | ErrorCode::CLUSTER_NOT_LEADER
        | ErrorCode::STREAM_OFFLINE
        | ErrorCode::STREAM_OFFLINE_REASON => Outcome::Unreachable(failure("missing")),
        // An earlier copy is on its way through the cluster, and may get lost there yet.
        ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT => Outcome::Unknown(failure("duplicate")),
        _ => unmapped("nats", refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u64, description: &str) -> Trouble {
        let text = format!(r#"{{"code":503,"err_code":{code},"description":"{description}"}}"#);
        let error: jetstream::Error = serde_json::from_str(&text).expect("an error");
        Trouble::Answer(PublishError::with_source(PublishErrorKind::Other, error))
    }

    fn kind(trouble: &Trouble) -> (&'static str, &'static str) {
        match outcome(trouble) {
            Outcome::Acked => ("acked", ""),
            Outcome::Rejected(failure) if failure.is_hopeless => ("hopeless", failure.class),
            Outcome::Rejected(failure) => ("rejected", failure.class),
            Outcome::Unreachable(failure) => ("unreachable", failure.class),
            Outcome::Unknown(failure) => ("unknown", failure.class),
        }
    }

    #[test]
    fn every_trouble_has_its_meaning() {
        let dial = |kind| Trouble::Dial(ConnectError::new(kind));
        let answer = |kind| Trouble::Answer(PublishError::new(kind));
        let text = || "text".to_owned();
        let tls = std::io::Error::other(rustls::Error::EncryptError);
        let table = [
            (dial(ConnectErrorKind::AuthorizationViolation), ("unreachable", "auth")),
            (dial(ConnectErrorKind::Authentication), ("unreachable", "auth")),
            (dial(ConnectErrorKind::Tls), ("unreachable", "tls")),
            (dial(ConnectErrorKind::TimedOut), ("unreachable", "timeout")),
            (dial(ConnectErrorKind::Dns), ("unreachable", "connection")),
            (dial(ConnectErrorKind::Io), ("unreachable", "connection")),
            (Trouble::Dial(ConnectError::from(tls)), ("unreachable", "tls")),
            (Trouble::NotDialled, ("unreachable", "timeout")),
            (Trouble::Local(text()), ("unreachable", "connection")),
            (Trouble::Credentials(text()), ("unreachable", "auth")),
            (Trouble::NoJetStream(text()), ("unreachable", "missing")),
            (Trouble::NotTaken, ("unreachable", "timeout")),
            (Trouble::LostBefore, ("unreachable", "connection")),
            (Trouble::Lost, ("unknown", "connection")),
            (Trouble::Silence, ("unknown", "timeout")),
            (Trouble::Denied(text()), ("rejected", "denied")),
            (Trouble::NoStream(text()), ("rejected", "unroutable")),
            (Trouble::NotLooked(text()), ("unreachable", "timeout")),
            (Trouble::MayNotLook(text()), ("unknown", "unroutable")),
            (Trouble::NoLeader(text()), ("unreachable", "missing")),
            (answer(PublishErrorKind::MaxPayloadExceeded), ("hopeless", "too-large")),
            (answer(PublishErrorKind::TimedOut), ("unknown", "timeout")),
            (answer(PublishErrorKind::BrokenPipe), ("unknown", "connection")),
            (answer(PublishErrorKind::Other), ("unknown", "unmapped")),
            (refusal(10054, "message size exceeds maximum allowed"), ("hopeless", "too-large")),
            (refusal(10060, "expected stream does not match"), ("rejected", "unroutable")),
            (refusal(10109, "invalid operation on sealed stream"), ("rejected", "denied")),
            (refusal(10077, "maximum messages exceeded"), ("unreachable", "full")),
            (refusal(10077, "write error"), ("unreachable", "storage")),
            (refusal(10002, "resource limits exceeded for account"), ("unreachable", "full")),
            (refusal(10023, "insufficient resources"), ("unreachable", "full")),
            (refusal(10028, "insufficient memory resources"), ("unreachable", "full")),
            (refusal(10047, "insufficient storage resources"), ("unreachable", "full")),
            (refusal(10039, "JetStream not enabled for account"), ("unreachable", "missing")),
            (refusal(10118, "stream is offline"), ("unreachable", "missing")),
            (refusal(10158, "duplicate message id is in process"), ("unknown", "duplicate")),
            (refusal(19999, "something new"), ("unknown", "unmapped")),
        ];
        for (trouble, expected) in table {
            assert_eq!(kind(&trouble), expected, "{trouble:?}");
        }
    }
}
