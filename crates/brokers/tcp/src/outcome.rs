//! What goes wrong, and what it means for the messages.

use std::{io, time::Duration};

use posthaste_core::{BrokerError, Failure, Outcome};
use posthaste_wire::unmapped;

/// Everything that can go wrong between us and the consumer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No connection.
    Dial(io::Error),
    /// The time was over before anything had been sent.
    NoTime(Duration),
    /// Another call had the connection until the deadline.
    Busy(Duration),
    /// Not sent, because a batch before it was not acknowledged.
    Held,
    /// The batch was being sent, or had been, when the connection failed.
    Lost(io::Error),
    /// The batch was not acknowledged in time.
    Late(Duration),
    /// What came back is no acknowledgement.
    Answer(String),
}

/// What a fault means for each message that it concerns.
pub(crate) fn outcome(fault: &Fault) -> Outcome {
    let unreachable = |class, detail: String| Outcome::Unreachable(Failure::new(class, detail));
    let unknown = |class, detail: String| Outcome::Unknown(Failure::new(class, detail));
    match fault {
        Fault::Dial(error) => unreachable("connection", format!("cannot connect: {error}")),
        Fault::NoTime(time) => unreachable(
            "timeout",
            format!("no connection within {time:.1?}, so nothing has been sent"),
        ),
        Fault::Busy(time) => {
            unreachable("busy", format!("another batch had the connection for {time:.1?}"))
        }
        Fault::Held => unreachable("held", "a batch before it was not acknowledged".to_owned()),
        Fault::Lost(error) => unknown("connection", format!("no acknowledgement: {error}")),
        Fault::Late(time) => unknown("timeout", format!("no acknowledgement within {time:.1?}")),
        Fault::Answer(words) => unmapped("tcp", words),
    }
}

/// The line for an operator.
pub(crate) fn broker_error(place: &str, fault: &Fault) -> BrokerError {
    let why = match outcome(fault) {
        Outcome::Acked => String::new(),
        Outcome::Rejected(failure) | Outcome::Unreachable(failure) | Outcome::Unknown(failure) => {
            failure.to_string()
        }
    };
    BrokerError { message: format!("cannot use the consumer at {place}: {why}"), source: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_arrived_is_unknown_and_what_was_not_sent_is_not() {
        let error = || io::Error::from(io::ErrorKind::ConnectionReset);
        let second = Duration::from_secs(1);
        let table = [
            (Fault::Dial(error()), "unreachable connection"),
            (Fault::NoTime(second), "unreachable timeout"),
            (Fault::Busy(second), "unreachable busy"),
            (Fault::Held, "unreachable held"),
            (Fault::Lost(error()), "unknown connection"),
            (Fault::Late(second), "unknown timeout"),
            (Fault::Answer("not JSON".to_owned()), "unknown unmapped"),
        ];
        for (fault, expected) in table {
            let found = match outcome(&fault) {
                Outcome::Unreachable(failure) => format!("unreachable {}", failure.class),
                Outcome::Unknown(failure) => format!("unknown {}", failure.class),
                other => panic!("{fault:?} is no {other:?}"),
            };
            assert_eq!(found, expected, "{fault:?}");
        }
    }
}
