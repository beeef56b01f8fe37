//! Why a call failed, before the operation's name is known. The texts are the same on every database.

use std::{fmt, time::Duration};

use posthaste_core::{StoreError, StoreErrorKind as Kind};

/// Whether a connection can be used after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// As before.
    Sound,
    /// It may still be at work, or inside a transaction that the driver has lost count of.
    Doubtful,
}

/// Why a call failed.
#[derive(Debug)]
pub struct Fault {
    kind: Kind,
    message: String,
    source: Option<String>,
    condition: Condition,
    is_deadlock: bool,
}

impl Fault {
    /// A failure that the engine found out; nothing is wrong with the connection.
    #[must_use]
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
            condition: Condition::Sound,
            is_deadlock: false,
        }
    }

    /// A failure that the driver or the server reported, under the error that callers see.
    #[must_use]
    pub fn driver(error: StoreError, condition: Condition) -> Self {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        Self { kind: error.kind, message: error.message, source, condition, is_deadlock: false }
    }

    /// The same failure, of a transaction that the server ended because two waited for each other. The
    /// engine runs the call again.
    #[must_use]
    pub fn deadlock(mut self) -> Self {
        self.is_deadlock = true;
        self
    }

    /// The lease belongs to another relay now.
    #[must_use]
    pub fn fenced() -> Self {
        Self::new(Kind::Fenced, "the lease was taken over; this relay stops serving the shard")
    }

    /// The log is not the one that the caller's lease was granted in.
    #[must_use]
    pub fn rewound() -> Self {
        Self::new(
            Kind::Rewound,
            "the log went back in time since the lease was granted: a replica was promoted, a \
             backup restored, a file replaced, or another server answers",
        )
    }

    /// No relay ever registered the route.
    #[must_use]
    pub fn unknown_route(route: &str) -> Self {
        Self::refused(format!(
            "route `{route}` is not registered; `posthaste status` lists those that are"
        ))
    }

    /// The tables do not exist.
    #[must_use]
    pub fn schema_missing() -> Self {
        Self::new(Kind::SchemaMissing, "the tables are not there; run `posthaste migrate`")
    }

    /// The connection is not in a transaction.
    #[must_use]
    pub fn no_transaction() -> Self {
        Self::refused(
            "not inside a transaction: begin one, write the business rows and the message in it, \
             then commit",
        )
    }

    /// The request is wrong as it stands.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    /// Stored data that makes no sense.
    #[must_use]
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(Kind::Internal, message.to_string())
    }

    /// The database did not answer in time.
    #[must_use]
    pub fn timed_out(deadline: Duration) -> Self {
        let message = format!(
            "the database did not answer within {deadline:?}; it may or may not have taken effect"
        );
        Self { condition: Condition::Doubtful, ..Self::new(Kind::Unavailable, message) }
    }

    /// What the failure means to the caller.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn is_deadlock(&self) -> bool {
        self.is_deadlock
    }

    pub(crate) fn condition(&self) -> Condition {
        self.condition
    }

    /// The error of the port.
    #[must_use]
    pub fn of(self, operation: &'static str) -> StoreError {
        let error = StoreError::new(self.kind, operation, self.message);
        match self.source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
