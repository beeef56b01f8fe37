//! The one function from the driver's errors to ours, driven by the server's error numbers, which
//! MySQL and MariaDB share up to about 1900.
//!
//! Messages name what an operator can act on. They never hold SQL, a secret or a payload: a refused
//! row's driver error quotes values, so that source is dropped.

use posthaste_core::{StoreError, StoreErrorKind as Kind};
use posthaste_store_sql::{Condition, Fault};
use sqlx::mysql::MySqlDatabaseError;

/// The driver's error as the engine takes it. Whatever it says, the connection may be in a transaction
/// that it has lost count of.
pub(crate) fn fault(error: sqlx::Error) -> Fault {
    let is_deadlock = server_error(&error).is_some_and(|error| error.number() == 1213);
    // The engine knows the operation.
    let fault = Fault::driver(store_error("", error), Condition::Doubtful);
    if is_deadlock { fault.deadlock() } else { fault }
}

/// What a driver's error in a handler means to its runner: kind `Unavailable` says nothing about the
/// message.
#[must_use]
pub fn handler_error(error: sqlx::Error) -> StoreError {
    store_error("handle", error)
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
        1290 | 1792 | 1836 => (Kind::ReadOnly, read_only().to_string()),
        1146 => (Kind::SchemaMissing, Fault::schema_missing().to_string()),
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

/// The server takes no writes.
pub(crate) fn read_only() -> Fault {
    Fault::new(
        Kind::ReadOnly,
        "the server refuses writes (a replica, or read_only is on); connect to the primary",
    )
}

/// What a constraint asks for, in the words of `Message::validate`, with its name, which starts with the
/// namespace. Both servers put that in quotes of some kind.
fn broken_rule(said: &str) -> String {
    let name = said.split(['`', '\'']).nth(1).unwrap_or(said);
    let rule = match name.rsplit_once("_outbox_").map_or("", |(_, rule)| rule) {
        "id" => "id must be a UUID",
        "topic" => "topic must be 1 to 255 bytes without control characters",
        "key" => "key must be NULL or 1 to 1024 bytes without control characters",
        "type" => "type must be NULL or 1 to 255 bytes without control characters",
        "content_type" => "content_type must be 1 to 255 bytes without control characters",
        "payload" => "payload must be at most 8388608 bytes",
        "headers" => "headers must be a JSON object of strings",
        "headers_control" => "headers must not contain control characters",
        "headers_names" => "header names must be 1 to 255 bytes, each given once",
        "headers_bytes" => "headers must be at most 65536 bytes together",
        _ => "the table refuses a value of the request",
    };
    format!("{rule} ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_servers_name_the_broken_rule() {
        for (said, name) in [
            (
                "CONSTRAINT `posthaste_outbox_topic` failed for `app`.`posthaste_outbox`",
                "posthaste_outbox_topic",
            ),
            ("Check constraint 'posthaste_outbox_topic' is violated.", "posthaste_outbox_topic"),
            ("Check constraint 'my_outbox_outbox_topic' is violated.", "my_outbox_outbox_topic"),
        ] {
            let rule = "topic must be 1 to 255 bytes without control characters";
            assert_eq!(broken_rule(said), format!("{rule} ({name})"));
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
