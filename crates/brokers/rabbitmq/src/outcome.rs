//! What an error of the driver means: the one place that decides.

use lapin::{Confirmation, ErrorKind, types::ReplyCode};
use posthaste_core::{BrokerError, Failure, Outcome};
use posthaste_wire::unmapped;

/// How far things had come when an error happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Shaking hands over TLS.
    Tls,
    /// Dialling and logging in.
    Connect,
    /// Opening a channel, declaring an exchange or a queue; or a publish that the driver refused to
    /// begin with, knowing that the channel is closed.
    Open,
    /// A message was, or may have been, on its way.
    Sent {
        /// With no other on the same channel.
        is_alone: bool,
    },
}

/// An error of the driver, and when it happened.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) stage: Stage,
    pub(crate) error: lapin::Error,
}

impl Stage {
    /// For `map_err`.
    pub(crate) fn of<E: Into<lapin::Error>>(self) -> impl Fn(E) -> Trouble {
        move |error| Trouble { stage: self, error: error.into() }
    }
}

/// Reply codes of AMQP 0-9-1.
mod code {
    pub(super) const CONNECTION_FORCED: u16 = 320;
    pub(super) const ACCESS_REFUSED: u16 = 403;
    pub(super) const NOT_FOUND: u16 = 404;
    pub(super) const RESOURCE_LOCKED: u16 = 405;
    pub(super) const PRECONDITION_FAILED: u16 = 406;
    pub(super) const NOT_ALLOWED: u16 = 530;
    pub(super) const INTERNAL_ERROR: u16 = 541;
}

/// What trouble means for a message. What follows from a code is said by RabbitMQ about the channel
/// or the connection, so that it settles a message only if that was alone on its channel.
pub(crate) fn outcome(trouble: &Trouble) -> Outcome {
    let Trouble { stage, error } = trouble;
    let class = class(trouble);
    let is_alone = match stage {
        // Nothing was sent, whatever the reason.
        Stage::Tls | Stage::Connect | Stage::Open => {
            return Outcome::Unreachable(failure(trouble));
        }
        Stage::Sent { is_alone } => *is_alone,
    };
    match class {
        None => unmapped("rabbitmq", error),
        Some("too-large") if is_alone => Outcome::Rejected(failure(trouble).hopeless()),
        // One topic of the exchange; where it is the exchange, no message can pass.
        Some("denied") if is_alone && is_about_topic(error) => Outcome::Rejected(failure(trouble)),
        Some("denied" | "missing") if is_alone => Outcome::Unreachable(failure(trouble)),
        Some(_) => Outcome::Unknown(failure(trouble)),
    }
}

/// The same in words, for where there is no message.
pub(crate) fn failure(trouble: &Trouble) -> Failure {
    let text = match trouble.error.kind() {
        // Without the driver's preface.
        ErrorKind::ProtocolError(error) => error.get_message().to_string(),
        ErrorKind::IOError(error) => error.to_string(),
        _ => trouble.error.to_string(),
    };
    Failure::new(class(trouble).unwrap_or("connection"), text)
}

/// The same as an error of the port, naming the server.
pub(crate) fn broker_error(server: &str, trouble: Trouble) -> BrokerError {
    let Failure { class, detail, .. } = failure(&trouble);
    let advice = match class {
        "auth" => "check the user and the password in the URL",
        "tls" => "check the server's certificate and ca_file",
        "missing" => "create it, or set declare = true",
        "denied" => "grant it with `rabbitmqctl set_permissions`, or check the virtual host",
        "mismatch" => "delete what is there, or give another name",
        _ => "check that RabbitMQ runs there",
    };
    let message = format!("RabbitMQ at {server} cannot be used: {class}: {detail}; {advice}");
    BrokerError { message, source: Some(Box::new(trouble.error)) }
}

/// The answer to a message. Whether an acknowledged message was returned is not seen here.
pub(crate) fn answer(confirmation: &Confirmation) -> Outcome {
    match confirmation {
        Confirmation::Ack(_) => Outcome::Acked,
        Confirmation::Nack(_) => Outcome::Unreachable(Failure::new(
            "full",
            "RabbitMQ refuses the message: a queue is full, or cannot store it",
        )),
        Confirmation::NotRequested => unmapped("rabbitmq", "the channel does not confirm"),
    }
}

/// A word for an error; `None` for one that nobody has thought of.
fn class(trouble: &Trouble) -> Option<&'static str> {
    let Trouble { stage, error } = trouble;
    match error.kind() {
        _ if *stage == Stage::Tls => Some("tls"),
        ErrorKind::ProtocolError(error) => class_of_code(*stage, error.get_id()),
        ErrorKind::IOError(_)
        | ErrorKind::RuntimeShutdownError(_)
        | ErrorKind::MissingHeartbeatError
        | ErrorKind::InvalidChannel(_)
        | ErrorKind::InvalidChannelState(..)
        | ErrorKind::InvalidConnectionState(_) => Some("connection"),
        ErrorKind::ChannelsLimitReached => Some("throttled"),
        _ => None,
    }
}

fn class_of_code(stage: Stage, code: ReplyCode) -> Option<&'static str> {
    let is_sent = matches!(stage, Stage::Sent { .. });
    match code {
        code::ACCESS_REFUSED if stage == Stage::Connect => Some("auth"),
        code::ACCESS_REFUSED | code::NOT_ALLOWED => Some("denied"),
        code::NOT_FOUND => Some("missing"),
        // Nothing else about the messages we send can fail it.
        code::PRECONDITION_FAILED if is_sent => Some("too-large"),
        code::PRECONDITION_FAILED | code::RESOURCE_LOCKED => Some("mismatch"),
        code::CONNECTION_FORCED | code::INTERNAL_ERROR => Some("connection"),
        _ => None,
    }
}

/// RabbitMQ has one code for both.
fn is_about_topic(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(error)
        if error.get_message().as_str().contains("access to topic"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use lapin::{ChannelState, ConnectionState, protocol::AMQPError};

    use super::*;

    fn closed(code: u16, text: &str) -> lapin::Error {
        let error = AMQPError::from_id(code, text.into()).expect("a code of AMQP");
        ErrorKind::ProtocolError(error).into()
    }

    fn told(stage: Stage, error: lapin::Error) -> (&'static str, &'static str) {
        match outcome(&Trouble { stage, error }) {
            Outcome::Acked => ("acked", ""),
            Outcome::Rejected(failure) if failure.is_hopeless => ("hopeless", failure.class),
            Outcome::Rejected(failure) => ("rejected", failure.class),
            Outcome::Unreachable(failure) => ("unreachable", failure.class),
            Outcome::Unknown(failure) => ("unknown", failure.class),
        }
    }

    const ALONE: Stage = Stage::Sent { is_alone: true };
    const AMONG: Stage = Stage::Sent { is_alone: false };

    #[test]
    fn before_anything_is_sent_the_route_is_unreachable() {
        let io = || lapin::Error::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        for (stage, error, class) in [
            (Stage::Tls, io(), "tls"),
            (Stage::Connect, io(), "connection"),
            (Stage::Connect, closed(403, "login"), "auth"),
            (Stage::Connect, closed(530, "vhost shop not found"), "denied"),
            (Stage::Open, closed(403, "access to exchange"), "denied"),
            (Stage::Open, closed(404, "no exchange"), "missing"),
            (Stage::Open, closed(406, "inequivalent arg"), "mismatch"),
            (Stage::Open, ErrorKind::ChannelsLimitReached.into(), "throttled"),
            (Stage::Open, ErrorKind::NoDefaultRuntime.into(), "connection"),
        ] {
            assert_eq!(told(stage, error), ("unreachable", class));
        }
    }

    #[test]
    fn what_was_sent_is_unknown_unless_the_server_names_a_reason_and_it_was_alone() {
        let lost = || ErrorKind::InvalidConnectionState(ConnectionState::Error).into();
        for (stage, error, expected) in [
            (ALONE, lost(), ("unknown", "connection")),
            (AMONG, lost(), ("unknown", "connection")),
            (AMONG, ErrorKind::MissingHeartbeatError.into(), ("unknown", "connection")),
            (
                AMONG,
                ErrorKind::InvalidChannelState(ChannelState::Closed, "").into(),
                ("unknown", "connection"),
            ),
            (ALONE, closed(320, "shutdown"), ("unknown", "connection")),
            (ALONE, closed(404, "no exchange"), ("unreachable", "missing")),
            (AMONG, closed(404, "no exchange"), ("unknown", "missing")),
            (ALONE, closed(403, "access to exchange 'x'"), ("unreachable", "denied")),
            (ALONE, closed(403, "access to topic 'x'"), ("rejected", "denied")),
            (AMONG, closed(403, "access to topic 'x'"), ("unknown", "denied")),
            (ALONE, closed(406, "message size"), ("hopeless", "too-large")),
            (AMONG, closed(406, "message size"), ("unknown", "too-large")),
            (ALONE, closed(501, "frame"), ("unknown", "unmapped")),
            (ALONE, ErrorKind::FutureCompleted.into(), ("unknown", "unmapped")),
        ] {
            assert_eq!(told(stage, error), expected);
        }
    }

    #[test]
    fn only_an_acknowledgement_is_one() {
        assert_eq!(answer(&Confirmation::Ack(None)), Outcome::Acked);
        assert!(matches!(
            answer(&Confirmation::Nack(None)),
            Outcome::Unreachable(Failure { class: "full", .. })
        ));
        assert!(matches!(answer(&Confirmation::NotRequested), Outcome::Unknown(_)));
    }
}
