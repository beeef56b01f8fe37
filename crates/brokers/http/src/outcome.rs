//! What an answer, or the lack of one, means.

use std::{error::Error, time::Duration};

use posthaste_core::{Failure, Outcome};
use posthaste_wire::unmapped;

use crate::connect::Forbidden;

/// The outcome of an answer with this status.
pub(crate) fn of_status(status: u16) -> Outcome {
    let failure = |class, words: &str| Failure::new(class, format!("HTTP {status}: {words}"));
    match status {
        200..=299 => Outcome::Acked,
        300..=399 => {
            let words = "the receiver has moved, and redirects are not followed";
            Outcome::Unreachable(failure("redirect", words))
        }
        401 | 403 | 407 => Outcome::Unreachable(failure("auth", "the receiver does not let us in")),
        // Every message goes to this URL, so it says nothing about the one that was sent.
        404 | 405 => Outcome::Unreachable(failure("missing", "nothing takes webhooks at the URL")),
        410 => Outcome::Unreachable(failure("gone", "the receiver wants no more webhooks")),
        425 | 429 | 503 => {
            Outcome::Unreachable(failure("throttled", "the receiver asks us to wait"))
        }
        408 => Outcome::Unknown(failure("timeout", "the receiver gave up waiting for the request")),
        413 => {
            let words = "the receiver takes no body of that size";
            Outcome::Rejected(failure("too-large", words).hopeless())
        }
        431 => {
            let words = "the receiver takes no headers of that size";
            Outcome::Rejected(failure("header", words).hopeless())
        }
        400..=499 => Outcome::Rejected(failure("refused", "the receiver refuses this message")),
        // It failed while it handled the message, or behind a gateway: how far it got nobody knows.
        500..=599 => Outcome::Unknown(failure("server-error", "the receiver failed")),
        _ => unmapped("http", format!("HTTP status {status}")),
    }
}

/// The outcome of a request without an answer.
pub(crate) fn of_error(error: &reqwest::Error) -> Outcome {
    let causes = || std::iter::successors(error.source(), |cause| (*cause).source());
    // The outermost words only name the URL; the innermost say what happened.
    let words = causes().last().map_or_else(|| "no answer".to_owned(), ToString::to_string);
    if let Some(forbidden) = causes().find_map(|cause| find::<Forbidden>(cause)) {
        return Outcome::Unreachable(Failure::new("forbidden", forbidden.to_string()));
    }
    if error.is_connect() {
        // Later than that, it may be in the answer that the encryption goes wrong.
        let tls = causes().find_map(|cause| find::<rustls::Error>(cause)).map(ToString::to_string);
        let class = if tls.is_some() { "tls" } else { "connection" };
        return Outcome::Unreachable(Failure::new(class, tls.unwrap_or(words)));
    }
    if error.is_timeout() {
        return Outcome::Unknown(Failure::new("timeout", "no answer before the deadline"));
    }
    if error.is_request() || error.is_body() {
        return Outcome::Unknown(Failure::new("connection", words));
    }
    unmapped("http", words)
}

/// The cause, whether it stands there itself or inside I/O errors, which do not show what is in them
/// as their source.
fn find<'a, E: Error + 'static>(cause: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let inner = cause.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
    cause.downcast_ref::<E>().or_else(|| inner.and_then(|inner| find::<E>(inner)))
}

/// How long the receiver asks us to wait: `Retry-After`, in seconds or as a date, which is compared
/// with the receiver's own clock.
pub(crate) fn retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = httpdate::parse_http_date(value.trim()).ok()?;
    let now = httpdate::parse_http_date(date?.trim()).ok()?;
    then.duration_since(now).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_outcome() {
        let name = |status| match of_status(status) {
            Outcome::Acked => "acked".to_owned(),
            Outcome::Rejected(failure) if failure.is_hopeless => {
                format!("hopeless {}", failure.class)
            }
            Outcome::Rejected(failure) => format!("rejected {}", failure.class),
            Outcome::Unreachable(failure) => format!("unreachable {}", failure.class),
            Outcome::Unknown(failure) => format!("unknown {}", failure.class),
        };
        let table = [
            (200, "acked"),
            (204, "acked"),
            (301, "unreachable redirect"),
            (307, "unreachable redirect"),
            (400, "rejected refused"),
            (401, "unreachable auth"),
            (403, "unreachable auth"),
            (404, "unreachable missing"),
            (405, "unreachable missing"),
            (408, "unknown timeout"),
            (410, "unreachable gone"),
            (413, "hopeless too-large"),
            (422, "rejected refused"),
            (429, "unreachable throttled"),
            (500, "unknown server-error"),
            (502, "unknown server-error"),
            (431, "hopeless header"),
            (503, "unreachable throttled"),
            (504, "unknown server-error"),
            (999, "unknown unmapped"),
        ];
        for (status, outcome) in table {
            assert_eq!(name(status), outcome, "{status}");
        }
    }

    #[test]
    fn waiting_is_said_in_seconds_or_as_a_date() {
        let date = Some("Wed, 21 Oct 2015 07:28:00 GMT");
        assert_eq!(retry_after("120", None), Some(Duration::from_secs(120)));
        assert_eq!(
            retry_after("Wed, 21 Oct 2015 07:29:00 GMT", date),
            Some(Duration::from_secs(60))
        );
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:29:00 GMT", None), None);
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:27:00 GMT", date), None, "it is over");
        assert_eq!(retry_after("soon", date), None);
    }
}
