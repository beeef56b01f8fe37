//! The one function from the driver's errors to ours, driven by the server's error numbers, which
//! MySQL and MariaDB share up to about 1900.
//!
//! Messages name what an operator can act on. They never hold SQL, a secret or a payload: a refused
//! row's driver error quotes values, so that source is dropped.

use std::{fmt, time::Duration};

use posthaste_core::{StoreError, StoreErrorKind as Kind};
use sqlx::mysql::MySqlDatabaseError;

/// Why a call failed, before the operation's name is known.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The driver or the server.
    Database(sqlx::Error),
    /// No answer in time.
    TimedOut(Duration),
    /// Found out by this store; nothing is wrong with the connection.
    Store(Kind, String),
}

impl Fault {
    /// The caller's lease is someone else's by now.
    pub(crate) fn fenced() -> Self {
        Self::Store(
            Kind::Fenced,
            "the lease was taken over; this relay stops serving the shard".to_owned(),
        )
    }

    /// The log is not the one the caller's lease was granted in.
    pub(crate) fn rewound() -> Self {
        Self::Store(
            Kind::Rewound,
            "the log went back in time since the lease was granted: a replica was promoted, a \
             backup restored, or another server answers"
                .to_owned(),
        )
    }

    /// A route that was never registered.
    pub(crate) fn unknown_route(route: &str) -> Self {
        Self::refused(format!(
            "route `{route}` is not registered; `posthaste status` lists those that are"
        ))
    }

    /// A request that is wrong as it stands.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Store(Kind::Refused, message.into())
    }

    /// Stored data that makes no sense.
    pub(crate) fn internal(message: impl fmt::Display) -> Self {
        Self::Store(Kind::Internal, message.to_string())
    }

    /// Whether the server ended the transaction because two waited for each other.
    pub(crate) fn is_deadlock(&self) -> bool {
        matches!(self, Self::Database(error) if server_error(error).is_some_and(|e| e.number() == 1213))
    }

    /// The error of the port.
    pub(crate) fn of(self, operation: &'static str) -> StoreError {
        match self {
            Self::Database(error) => store_error(operation, error),
            Self::TimedOut(deadline) => StoreError::new(
                Kind::Unavailable,
                operation,
                format!(
                    "the database did not answer within {deadline:?}; \
                     it may or may not have taken effect"
                ),
            ),
            Self::Store(kind, message) => StoreError::new(kind, operation, message),
        }
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

/// Whether a savepoint was named that does not exist.
pub(crate) fn is_savepoint_missing(error: &sqlx::Error) -> bool {
    server_error(error).is_some_and(|error| error.number() == 1305)
}

fn server_error(error: &sqlx::Error) -> Option<&MySqlDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

/// The port's error for a driver's error.
pub(crate) fn store_error(operation: &'static str, error: sqlx::Error) -> StoreError {
    use sqlx::Error as E;
    let (kind, message) = match &error {
        E::Database(_) => return database_error(operation, error),
        E::Io(io) => (Kind::Unavailable, format!("the database cannot be reached: {io}")),
        E::Tls(tls) => (
            Kind::Unavailable,
            format!(
                "no secure connection to the database: {tls}; \
                 `?ssl-mode=disabled` in the URL does without"
            ),
        ),
        E::PoolTimedOut => (
            Kind::Unavailable,
            "no connection to the database in time: it is down, or all are in use".to_owned(),
        ),
        E::PoolClosed | E::WorkerCrashed | E::BeginFailed => {
            (Kind::Unavailable, "the connection to the database was lost".to_owned())
        }
        // The driver quotes the part of the URL it cannot read, which may be the password.
        E::Configuration(_) => {
            return StoreError::new(
                Kind::Refused,
                operation,
                "the database URL cannot be read; \
                 it has the form mysql://user:password@host:port/database",
            );
        }
        _ => {
            (Kind::Internal, "the database answered in a way this program does not know".to_owned())
        }
    };
    StoreError::new(kind, operation, message).with_source(error.to_string())
}

fn database_error(operation: &'static str, error: sqlx::Error) -> StoreError {
    let (number, said) = match server_error(&error) {
        Some(server) => (server.number(), server.message().to_owned()),
        None => (0, String::new()),
    };
    let (kind, message) = match number {
        1290 | 1792 | 1836 => (
            Kind::ReadOnly,
            "the server refuses writes (a replica, or read_only is on); connect to the primary"
                .to_owned(),
        ),
        1146 => {
            (Kind::SchemaMissing, "the tables are not there; run `posthaste migrate`".to_owned())
        }
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 => {
            (Kind::Denied, format!("{said}; grant it to the relay's user"))
        }
        // The name of a database that does not exist, or none given.
        1046 | 1049 => (Kind::Refused, said),
        1153 => (
            Kind::Refused,
            "the message is larger than the server's max_allowed_packet; raise it to 16M or more"
                .to_owned(),
        ),
        1598 | 1665 => (
            Kind::Refused,
            "binlog_format STATEMENT cannot log READ COMMITTED; set binlog_format = ROW".to_owned(),
        ),
        // A CHECK: MySQL 3819, MariaDB 4025. Without its source: the driver's error may quote the row.
        3819 | 4025 => return StoreError::new(Kind::Refused, operation, broken_rule(&said)),
        // NULL, too long, out of range, no valid text or date.
        1048 | 1264 | 1292 | 1364 | 1366 | 1406 | 1441 | 3140 | 3141 => {
            let message = "the table refuses a value of the request";
            return StoreError::new(Kind::Refused, operation, message);
        }
        // The second where a statement does not wait at all, on MySQL; MariaDB has one for both.
        1205 | 3572 => (
            Kind::Unavailable,
            "another session holds a lock that this call needs; SHOW ENGINE INNODB STATUS shows which"
                .to_owned(),
        ),
        1213 => (Kind::Unavailable, "it met another transaction again and again".to_owned()),
        // Disk or table full, connections exhausted, shutting down, killed, a node out of its
        // cluster, a commit that the cluster undid.
        1021
        | 1040
        | 1041
        | 1047
        | 1053
        | 1077
        | 1079
        | 1080
        | 1114
        | 1129
        | 1135
        | 1152
        | 1158..=1161
        | 1180
        | 1184
        | 1203
        | 1226
        | 1317
        | 1614
        | 1637
        | 1927
        | 1969
        | 3024
        | 3100
        | 3101 => (Kind::Unavailable, said),
        _ => (Kind::Internal, format!("the database reports error {number}")),
    };
    StoreError::new(kind, operation, message).with_source(error.to_string())
}

/// What a constraint asks for, in the words of `Message::validate`, with its name. Both servers put
/// that in quotes of some kind.
fn broken_rule(said: &str) -> String {
    let name = said.split(['`', '\'']).nth(1).unwrap_or(said);
    let rule = match name.rsplit('.').next().unwrap_or(name) {
        "posthaste_outbox_id" => "id must be a UUID",
        "posthaste_outbox_topic" => "topic must be 1 to 255 bytes without control characters",
        "posthaste_outbox_key" => "key must be NULL or 1 to 1024 bytes without control characters",
        "posthaste_outbox_type" => "type must be NULL or 1 to 255 bytes without control characters",
        "posthaste_outbox_content_type" => {
            "content_type must be 1 to 255 bytes without control characters"
        }
        "posthaste_outbox_payload" => "payload must be at most 8388608 bytes",
        "posthaste_outbox_headers" => "headers must be a JSON object of strings",
        "posthaste_outbox_headers_control" => "headers must not contain control characters",
        "posthaste_outbox_headers_names" => "header names must be 1 to 255 bytes, each given once",
        "posthaste_outbox_headers_bytes" => "headers must be at most 65536 bytes together",
        _ => "the table refuses a value of the request",
    };
    format!("{rule} ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_servers_name_the_broken_rule() {
        for said in [
            "CONSTRAINT `posthaste_outbox_topic` failed for `app`.`posthaste_outbox`",
            "Check constraint 'posthaste_outbox_topic' is violated.",
        ] {
            assert_eq!(
                broken_rule(said),
                "topic must be 1 to 255 bytes without control characters (posthaste_outbox_topic)"
            );
        }
    }

    #[test]
    fn errors_of_the_driver_itself_have_their_kind() {
        for (error, kind) in [
            (sqlx::Error::PoolTimedOut, Kind::Unavailable),
            (sqlx::Error::PoolClosed, Kind::Unavailable),
            (sqlx::Error::BeginFailed, Kind::Unavailable),
            (sqlx::Error::RowNotFound, Kind::Internal),
        ] {
            assert_eq!(store_error("test", error).kind, kind);
        }
    }
}
