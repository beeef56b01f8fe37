//! The one function from the driver's errors to ours, driven by SQLSTATE.
//!
//! Messages name what an operator can act on. They never hold SQL, a secret or a payload: a refused
//! row's driver error quotes the row, so that source is dropped.

use std::{fmt, time::Duration};

use posthaste_core::{StoreError, StoreErrorKind as Kind};
use sqlx::error::DatabaseError;

/// Why a call failed, before the operation's name is known.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The driver or the server.
    Database(sqlx::Error),
    /// No answer in time.
    TimedOut(Duration),
    /// Found out by this store.
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
            "the log went back in time since the lease was granted: a standby was promoted, a \
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
