//! From SQLite's errors to ours: one total function, and the rules behind the table's constraints.

use posthaste_core::{StoreError, StoreErrorKind};
use posthaste_store_sql::{Condition, Fault};
use sqlx::error::DatabaseError;

/// The engine's failure for an error of the driver: the connection is not used again.
pub(crate) fn fault(error: sqlx::Error) -> Fault {
    Fault::driver(store_error("", error), Condition::Doubtful)
}

/// Whether another connection was in the way.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| matches!(code(error) & 0xff, 5 | 6))
}

/// The port's error for any error of the driver.
pub(crate) fn store_error(operation: &'static str, error: sqlx::Error) -> StoreError {
    // What a guarded transaction answers to commits that are not its own.
    const COMMIT_HOOK: i32 = 531;
    if error.as_database_error().is_some_and(|error| code(error) == COMMIT_HOOK) {
        return StoreError::not_committed(operation).with_source(error);
    }
    let (kind, message) = match &error {
        sqlx::Error::Database(database) => of_database(database.as_ref()),
        sqlx::Error::Configuration(_) => (
            StoreErrorKind::Refused,
            "the database URL is not of the form sqlite://path/to/file.db".to_owned(),
        ),
        sqlx::Error::PoolTimedOut => (
            StoreErrorKind::Unavailable,
            "no free connection in time; give the pool more connections".to_owned(),
        ),
        sqlx::Error::PoolClosed => {
            (StoreErrorKind::Unavailable, "the connection pool is closed".to_owned())
        }
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed => {
            (StoreErrorKind::Unavailable, "the connection to the database broke".to_owned())
        }
        _ => (
            StoreErrorKind::Internal,
            "the driver failed in an unforeseen way; its own error says how".to_owned(),
        ),
    };
    StoreError::new(kind, operation, message).with_source(error)
}

/// By SQLite's result code (<https://sqlite.org/rescode.html>); its low byte is the primary one.
fn of_database(error: &dyn DatabaseError) -> (StoreErrorKind, String) {
    use StoreErrorKind::{Denied, Internal, ReadOnly, Refused, SchemaMissing, Unavailable};
    const BUSY_SNAPSHOT: i32 = 517;
    let code = code(error);
    let (kind, message) = match (code, code & 0xff) {
        (_, 1) if is_table_missing(error.message()) => {
            (SchemaMissing, "the tables are not there; run `posthaste migrate`")
        }
        (_, 3 | 23) => (Denied, "the database may not be used like this by this user"),
        (BUSY_SNAPSHOT, _) => (
            Unavailable,
            "the transaction read before another one wrote; begin it with BEGIN IMMEDIATE",
        ),
        (_, 5 | 6) => (Unavailable, "another writer kept the database locked for too long"),
        (_, 8) => (
            ReadOnly,
            "the database file cannot be written; check its permissions and the URL's `mode`",
        ),
        (_, 9 | 15 | 17) => (Unavailable, "the database was disturbed; the call can be repeated"),
        (_, 10) => (Unavailable, "reading or writing the database file failed; check the disk"),
        (_, 11 | 26) => (Internal, "the database file is damaged or not a database"),
        (_, 13) => (Unavailable, "the disk of the database is full"),
        (_, 14) => {
            (Unavailable, "the database file cannot be opened; check its path and permissions")
        }
        (_, 18 | 19) => return (Refused, broken_rule(error.message())),
        _ => (Internal, "SQLite failed in an unforeseen way; its own error says how"),
    };
    (kind, message.to_owned())
}

/// Whether a table of ours is missing, whatever its prefix.
fn is_table_missing(message: &str) -> bool {
    let tables = ["outbox", "route", "lease", "progress", "relay", "parked", "inbox", "migration"];
    let table = message.strip_prefix("no such table: ");
    table.is_some_and(|table| tables.iter().any(|ours| table.contains(&format!("_{ours}"))))
}

/// The extended result code.
fn code(error: &dyn DatabaseError) -> i32 {
    error.code().and_then(|code| code.parse().ok()).unwrap_or_default()
}

/// What a constraint asks for, in the words of `Message::validate`, with its name.
fn broken_rule(message: &str) -> String {
    let name = message.rsplit(": ").next().unwrap_or(message);
    let rule = match name {
        "posthaste_outbox_seq" => "seq is handed out by the database; leave it out",
        "posthaste_outbox_id" => "id must be a UUID",
        "posthaste_outbox_topic" => "topic must be 1 to 255 bytes without control characters",
        "posthaste_outbox_key" => "key must be NULL or 1 to 1024 bytes without control characters",
        "posthaste_outbox_type" => "type must be NULL or 1 to 255 bytes without control characters",
        "posthaste_outbox_headers" => {
            "headers must be a JSON object of strings without control characters, 65536 bytes at \
             most, each name once and 1 to 255 bytes"
        }
        "posthaste_outbox_content_type" => {
            "content_type must be 1 to 255 bytes without control characters"
        }
        "posthaste_outbox_created_at" => "created_at must be seconds since 1970",
        "posthaste_outbox_payload" => "payload must be TEXT or BLOB of at most 8388608 bytes",
        _ => "the database refuses the value",
    };
    format!("{rule} ({name})")
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection, SqliteConnection};

    use super::*;
    use crate::MIGRATIONS;

    /// Errors provoked on SQLite itself, each with what it must become.
    #[tokio::test]
    async fn every_provoked_error_has_its_kind_and_its_words() {
        let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let missing = provoke(&mut conn, "SELECT 1 FROM posthaste_outbox").await;
        assert_eq!(missing.kind, StoreErrorKind::SchemaMissing);
        assert!(missing.message.contains("`posthaste migrate`"));

        for migration in MIGRATIONS {
            let up = sqlx::raw_sql(migration.up).execute(&mut conn).await;
            up.unwrap();
        }
        for (sql, kind, words) in [
            (
                "INSERT INTO posthaste_outbox (topic, payload) VALUES ('', 'hunter2')",
                StoreErrorKind::Refused,
                "topic must be 1 to 255 bytes without control characters (posthaste_outbox_topic)",
            ),
            (
                "INSERT INTO posthaste_outbox (topic, payload, headers) VALUES ('t', '', '{\"a\":1}')",
                StoreErrorKind::Refused,
                "headers must be a JSON object of strings",
            ),
            (
                "INSERT INTO posthaste_outbox (topic) VALUES ('t')",
                StoreErrorKind::Refused,
                "posthaste_outbox.payload",
            ),
            ("SELECT 1 FROM somebody_elses", StoreErrorKind::Internal, "unforeseen"),
            ("SELEKT 'hunter2'", StoreErrorKind::Internal, "unforeseen"),
            (
                "PRAGMA query_only = 1; DELETE FROM posthaste_outbox",
                StoreErrorKind::ReadOnly,
                "cannot be written",
            ),
        ] {
            let error = provoke(&mut conn, sql).await;
            assert_eq!(error.kind, kind, "{sql}: {error}");
            assert!(error.message.contains(words), "{sql}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    async fn provoke(conn: &mut SqliteConnection, sql: &'static str) -> StoreError {
        let outcome = sqlx::raw_sql(sql).execute(conn).await;
        store_error("test", outcome.unwrap_err())
    }

    #[test]
    fn errors_of_the_driver_itself_have_their_kind() {
        for (error, kind) in [
            (sqlx::Error::PoolTimedOut, StoreErrorKind::Unavailable),
            (sqlx::Error::PoolClosed, StoreErrorKind::Unavailable),
            (sqlx::Error::WorkerCrashed, StoreErrorKind::Unavailable),
            (sqlx::Error::RowNotFound, StoreErrorKind::Internal),
        ] {
            assert_eq!(store_error("test", error).kind, kind);
        }
    }
}
