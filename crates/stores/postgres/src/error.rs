//! The one function from the driver's errors to ours, driven by SQLSTATE.
//!
//! Messages name what an operator can act on. They never hold SQL, a secret or a payload: a refused
//! row's driver error quotes the row, so that source is dropped.

use posthaste_core::{StoreError, StoreErrorKind as Kind};
use posthaste_store_sql::{Condition, Fault};
use sqlx::error::DatabaseError;

/// SQLSTATE of a transaction that the server ended because two waited for each other.
const DEADLOCK: &str = "40P01";

/// The engine's fault for a driver's error. The engine rolls back after an error that the server reported;
/// after any other, nothing is known about the connection.
pub(crate) fn fault(error: sqlx::Error) -> Fault {
    use sqlx::Error as E;
    let condition = match &error {
        E::Io(_) | E::Tls(_) | E::Protocol(_) | E::PoolClosed | E::WorkerCrashed => {
            Condition::Doubtful
        }
        _ => Condition::Sound,
    };
    let code = error.as_database_error().and_then(DatabaseError::code);
    let is_deadlock = code.is_some_and(|code| code == DEADLOCK);
    // The operation is not known yet; the fault leaves it out.
    let fault = Fault::driver(store_error("", error), condition);
    if is_deadlock { fault.deadlock() } else { fault }
}

/// What a driver's error in a handler means to its runner: kind `Unavailable` says nothing about the
/// message.
#[must_use]
pub fn handler_error(error: sqlx::Error) -> StoreError {
    store_error("handle", error)
}

/// The port's error for a driver's error.
pub(crate) fn store_error(operation: &'static str, error: sqlx::Error) -> StoreError {
    use sqlx::Error as E;
    let (kind, message) = match &error {
        E::Database(database) => return database_error(operation, database.as_ref(), &error),
        E::Io(io) => (Kind::Unavailable, format!("the database cannot be reached: {io}")),
        E::Tls(tls) => (Kind::Unavailable, format!("no secure connection to the database: {tls}")),
        E::PoolTimedOut => (
            Kind::Unavailable,
            "no connection to the database in time: it is down, or all are in use".to_owned(),
        ),
        E::PoolClosed | E::WorkerCrashed | E::BeginFailed => {
            (Kind::Unavailable, "the connection to the database was lost".to_owned())
        }
        // What the driver makes of a connection that is closed while it is being opened.
        E::Protocol(text) if text.contains("SSLRequest: 0x00") => {
            (Kind::Unavailable, "the database closed the connection at once".to_owned())
        }
        // The driver quotes the part of the URL it cannot read, which may be the password.
        E::Configuration(_) => {
            return StoreError::new(
                Kind::Refused,
                operation,
                "the database URL cannot be read; \
                 it has the form postgres://user:password@host:port/database",
            );
        }
        _ => {
            (Kind::Internal, "the database answered in a way this program does not know".to_owned())
        }
    };
    StoreError::new(kind, operation, message).with_source(error.to_string())
}

fn database_error(
    operation: &'static str,
    database: &dyn DatabaseError,
    error: &sqlx::Error,
) -> StoreError {
    let code = database.code().unwrap_or_default();
    let (kind, message) = match code.as_ref() {
        "25006" => (
            Kind::ReadOnly,
            "the server refuses writes (a standby, or default_transaction_read_only is on); \
             connect to the primary"
                .to_owned(),
        ),
        // Ours, see the transaction's start: this relay stood still in the middle of a call.
        "25P03" => (Kind::Unavailable, "the server ended a call that stood still".to_owned()),
        "55P03" => (
            Kind::Unavailable,
            "another session holds a lock that this call needs; pg_locks shows which".to_owned(),
        ),
        "42P01" | "3F000" => {
            (Kind::SchemaMissing, "the tables are not there; run `posthaste migrate`".to_owned())
        }
        "42501" => (
            Kind::Denied,
            format!(
                "{}; grant it to the relay's role, or run `posthaste migrate` as a role that may",
                database.message()
            ),
        ),
        // A statement failed before, and the code on the transaction went on.
        "25P02" => return StoreError::not_committed(operation).with_source(error.to_string()),
        "23514" => return refused(operation, &rule(database.constraint().unwrap_or_default())),
        "3D000" => (Kind::Refused, database.message().to_owned()),
        code => match code.get(..2).unwrap_or_default() {
            "22" | "23" => return refused(operation, "the table refuses a value of the request"),
            "08" | "40" | "53" | "57" => (Kind::Unavailable, database.message().to_owned()),
            "28" => (Kind::Denied, database.message().to_owned()),
            _ => (Kind::Internal, format!("the database reports an error of code {code}")),
        },
    };
    StoreError::new(kind, operation, message).with_source(error.to_string())
}

/// Without its source: the driver's error quotes the row.
fn refused(operation: &'static str, message: &str) -> StoreError {
    StoreError::new(Kind::Refused, operation, message)
}

/// Constraints are named after their rule.
fn rule(constraint: &str) -> String {
    constraint.replace('_', " ")
}
