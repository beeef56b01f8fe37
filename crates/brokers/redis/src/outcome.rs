//! What goes wrong, and what it means for the messages.

use std::{io, time::Duration};

use posthaste_core::{BrokerError, Failure, Outcome};
use posthaste_wire::unmapped;
use redis::{RedisError, ServerError};

/// Everything that can go wrong between us and the server.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No connection.
    Dial(RedisError),
    /// A connection, and no agreement on TLS.
    Tls(io::Error),
    /// The time was over before anything had been sent.
    NoTime(Duration),
    /// The server answered with an error: it has not done what it was asked.
    Refused(ServerError),
    /// The request was handed to a connection that then failed.
    Lost(RedisError),
    /// The request was handed to a connection that did not answer in time.
    Late(Duration),
    /// The server has it, and fewer replicas confirmed than are wanted.
    Replicas {
        /// How many confirmed.
        confirmed: i64,
        /// How many are wanted.
        wanted: u32,
    },
}

/// What a fault means for each message that it concerns.
pub(crate) fn outcome(fault: &Fault) -> Outcome {
    let unreachable = |class, detail: String| Outcome::Unreachable(Failure::new(class, detail));
    let unknown = |class, detail: String| Outcome::Unknown(Failure::new(class, detail));
    match fault {
        Fault::Dial(error) => unreachable("connection", format!("cannot connect: {error}")),
        Fault::Tls(error) => unreachable("tls", format!("no TLS connection: {error}")),
        Fault::NoTime(time) => unreachable(
            "timeout",
            format!("no connection within {time:.1?}, so nothing has been sent"),
        ),
        Fault::Refused(error) => refused(error.code(), error.details().unwrap_or_default()),
        Fault::Lost(error) => unknown("connection", format!("no answer: {error}")),
        Fault::Late(time) => unknown("timeout", format!("no answer within {time:.1?}")),
        Fault::Replicas { confirmed, wanted } => {
            unknown("replication", format!("{confirmed} of {wanted} replicas confirmed in time"))
        }
    }
}

/// What an error of the server means. It is the answer to a command that has not been carried out.
fn refused(code: &str, detail: &str) -> Outcome {
    let failure = |class| Failure::new(class, format!("{code} {detail}"));
    // Why a transaction was discarded, where the answer to `EXEC` says it.
    if let ("EXECABORT", Some(cause)) = (code, detail.split_once("because of: ")) {
        let (code, detail) = cause.1.split_once(' ').unwrap_or((cause.1, ""));
        return refused(code.trim_start_matches('-'), detail);
    }
    let class = match code {
        "WRONGTYPE" => return Outcome::Rejected(failure("wrong-type")),
        // Of one key, so of one destination; commands that are forbidden are so for all messages.
        "NOPERM" if detail.contains("permissions to access") => {
            return Outcome::Rejected(failure("denied"));
        }
        "NOPERM" | "DENIED" => "denied",
        "NOAUTH" | "WRONGPASS" => "auth",
        "OOM" => "full",
        "READONLY" | "MASTERDOWN" => "read-only",
        "MISCONF" => "disk",
        "NOREPLICAS" => "replication",
        "LOADING" => "loading",
        "BUSY" | "UNKILLABLE" => "busy",
        "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "CROSSSLOT" => "cluster",
        "EXECABORT" => "aborted",
        "ERR" => return in_words(detail, failure),
        _ => return unmapped("redis", format!("{code} {detail}")),
    };
    Outcome::Unreachable(failure(class))
}

/// Errors without a code of their own.
fn in_words(detail: &str, failure: impl Fn(&'static str) -> Failure) -> Outcome {
    let says = |words: &str| detail.contains(words);
    if says("exhausted the last possible ID") {
        return Outcome::Rejected(failure("exhausted"));
    }
    let class = if says("max number of clients") || says("max clients") {
        "throttled"
    } else if says("AUTH") || says("invalid password") {
        "auth"
    } else if says("DB index") {
        "database"
    } else if says("cluster mode") {
        "cluster"
    } else if says("unknown command") {
        "unsupported"
    } else {
        return unmapped("redis", format!("ERR {detail}"));
    };
    Outcome::Unreachable(failure(class))
}

/// The line for an operator.
pub(crate) fn broker_error(place: &str, fault: Fault) -> BrokerError {
    let failure = match outcome(&fault) {
        Outcome::Acked => String::new(),
        Outcome::Rejected(failure) | Outcome::Unreachable(failure) | Outcome::Unknown(failure) => {
            failure.to_string()
        }
    };
    let message = format!("cannot use Redis at {place}: {failure}");
    let source: Option<Box<dyn std::error::Error + Send + Sync>> = match fault {
        Fault::Dial(error) | Fault::Lost(error) => Some(error.into()),
        Fault::Tls(error) => Some(error.into()),
        Fault::Refused(error) => Some(error.into()),
        Fault::NoTime(_) | Fault::Late(_) | Fault::Replicas { .. } => None,
    };
    BrokerError { message, source }
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::*;

    fn answered(line: &str) -> Fault {
        match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => Fault::Refused(error),
            other => panic!("{line}: {other:?}"),
        }
    }

    /// In the words of Redis 6.2, 7.0 and 7.2: `R`ejected, `U`nreachable or unknown.
    const TABLE: &[(&str, char, &str)] = &[
        ("WRONGTYPE Operation against a key holding the wrong kind of value", 'R', "wrong-type"),
        (
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            'R',
            "denied",
        ),
        ("NOPERM No permissions to access a key", 'R', "denied"),
        ("NOPERM this user has no permissions to run the 'xadd' command", 'U', "denied"),
        ("NOPERM User app has no permissions to run the 'multi' command", 'U', "denied"),
        ("NOPERM User monkey has no permissions to run the 'xadd' command", 'U', "denied"),
        (
            "ERR The stream has exhausted the last possible ID, unable to add more items",
            'R',
            "exhausted",
        ),
        ("OOM command not allowed when used memory > 'maxmemory'.", 'U', "full"),
        (
            "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.",
            'U',
            "full",
        ),
        ("EXECABORT Transaction discarded because of previous errors.", 'U', "aborted"),
        ("READONLY You can't write against a read only replica.", 'U', "read-only"),
        (
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            'U',
            "read-only",
        ),
        (
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            'U',
            "disk",
        ),
        ("NOREPLICAS Not enough good replicas to write.", 'U', "replication"),
        ("LOADING Redis is loading the dataset in memory", 'U', "loading"),
        (
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            'U',
            "busy",
        ),
        ("MOVED 3999 127.0.0.1:6381", 'U', "cluster"),
        ("CROSSSLOT Keys in request don't hash to the same slot", 'U', "cluster"),
        ("CLUSTERDOWN Hash slot not served", 'U', "cluster"),
        ("NOAUTH Authentication required.", 'U', "auth"),
        ("WRONGPASS invalid username-password pair or user is disabled.", 'U', "auth"),
        (
            "ERR AUTH <password> called without any password configured for the default user.",
            'U',
            "auth",
        ),
        (
            "DENIED Redis is running in protected mode because protected mode is enabled",
            'U',
            "denied",
        ),
        ("ERR max number of clients reached", 'U', "throttled"),
        ("ERR DB index is out of range", 'U', "database"),
        ("ERR SELECT is not allowed in cluster mode", 'U', "cluster"),
        ("ERR unknown command 'XADD', with args beginning with: ", 'U', "unsupported"),
        ("ERR something nobody has seen", '?', "unmapped"),
        ("NEWCODE something nobody has seen", '?', "unmapped"),
    ];

    #[test]
    fn what_the_server_says_is_mapped() {
        for &(line, kind, class) in TABLE {
            let (found, failure) = match outcome(&answered(line)) {
                Outcome::Acked => panic!("{line} is no acknowledgement"),
                Outcome::Rejected(failure) => ('R', failure),
                Outcome::Unreachable(failure) => ('U', failure),
                Outcome::Unknown(failure) => ('?', failure),
            };
            assert_eq!((found, failure.class), (kind, class), "{line}");
        }
    }

    #[test]
    fn what_may_have_arrived_is_unknown_and_what_was_not_sent_is_not() {
        let error = || RedisError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        let second = Duration::from_secs(1);
        for fault in [
            Fault::Dial(error()),
            Fault::Tls(io::Error::from(io::ErrorKind::InvalidData)),
            Fault::NoTime(second),
        ] {
            assert!(matches!(outcome(&fault), Outcome::Unreachable(_)), "{fault:?}");
        }
        for fault in
            [Fault::Lost(error()), Fault::Late(second), Fault::Replicas { confirmed: 0, wanted: 1 }]
        {
            assert!(matches!(outcome(&fault), Outcome::Unknown(_)), "{fault:?}");
        }
    }
}
