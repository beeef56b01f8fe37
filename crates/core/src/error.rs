//! Errors of the ports. Callers branch on the kind, never on text or a driver's type.

use std::{error::Error, fmt};

type Source = Box<dyn Error + Send + Sync>;

/// A value that breaks a limit: which field, what it was (shortened), what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} `{value}` {rule}")]
pub struct Invalid {
    /// The field's name as users know it.
    pub field: &'static str,
    /// The offending value, shortened; never a payload.
    pub value: String,
    /// What would be right.
    pub rule: String,
}

impl Invalid {
    /// Most characters of a refused value that are shown.
    const VALUE_CHARS_MAX: usize = 40;

    /// Names the field, its value and the rule it breaks; long values are shortened.
    #[must_use]
    pub fn new(field: &'static str, value: &str, rule: &str) -> Self {
        let mut shown: String = value.escape_debug().take(Self::VALUE_CHARS_MAX).collect();
        if shown.len() < value.len() {
            shown.push('…');
        }
        Self { field, value: shown, rule: rule.to_owned() }
    }
}

/// What a failed store call means to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The database cannot be reached, timed out or is overloaded; the call may or may not have
    /// taken effect. Try again later.
    Unavailable,
    /// The lease is someone else's by now: stop serving the shard at once.
    Fenced,
    /// The log is not the one the lease was granted in: it went back in time, or another server
    /// answers. Drop everything in memory and ask for the shard again, see [`crate::Rewound`].
    Rewound,
    /// The tables are not there. Run `posthaste migrate`.
    SchemaMissing,
    /// The tables are older than this program. Run `posthaste migrate`.
    SchemaTooOld,
    /// The tables are newer than this program. Run the newer program.
    SchemaTooNew,
    /// The server does not accept writes (a standby, or a read-only session).
    ReadOnly,
    /// The data was restored into another server, where recorded positions mean nothing.
    OtherServer,
    /// The caller may not do this; it needs a grant.
    Denied,
    /// The request is wrong as it stands: a value the table refuses, an unknown route.
    Refused,
    /// Anything else. The source says what.
    Internal,
    /// The transaction that was to be committed, or written in, is no longer there: the database had
    /// rolled it back. Nothing of it is kept.
    NotCommitted,
}

impl StoreErrorKind {
    /// The stable code of `docs/reference/errors.md`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Unavailable => "PH-1001",
            Self::Fenced => "PH-1002",
            Self::SchemaMissing => "PH-1003",
            Self::SchemaTooOld => "PH-1004",
            Self::SchemaTooNew => "PH-1005",
            Self::ReadOnly => "PH-1006",
            Self::OtherServer => "PH-1007",
            Self::Denied => "PH-1008",
            Self::Refused => "PH-1009",
            Self::Internal => "PH-1010",
            Self::Rewound => "PH-1011",
            Self::NotCommitted => "PH-1014",
        }
    }
}

/// A store call that failed.
#[derive(Debug)]
pub struct StoreError {
    /// What it means.
    pub kind: StoreErrorKind,
    /// The port's operation that failed, for example `fetch`.
    pub operation: &'static str,
    /// One line for an operator: what happened and what to do. No SQL, no secret, no payload.
    pub message: String,
    source: Option<Source>,
}

impl StoreError {
    /// An error with its one line.
    #[must_use]
    pub fn new(kind: StoreErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self { kind, operation, message: message.into(), source: None }
    }

    /// The error of a transaction that the database had rolled back before `operation`; every store
    /// says it in the same words.
    #[must_use]
    pub fn not_committed(operation: &'static str) -> Self {
        let message = "the database has rolled the transaction back, because a statement in it \
                       failed and the code went on (a deadlock, a full disk, a broken constraint); \
                       nothing of it is kept; return the errors of statements, or run a statement \
                       that may fail in a savepoint";
        Self::new(StoreErrorKind::NotCommitted, operation, message)
    }

    /// Keeps the driver's error as the source.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Whether the same call may succeed later without anyone acting.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        use StoreErrorKind::{Internal, NotCommitted, Unavailable};
        matches!(self.kind, Unavailable | Internal | NotCommitted)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}: {}", self.kind.code(), self.operation, self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as _)
    }
}

/// Why a publish did not end in an acknowledgement, in words an operator can act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One of a small fixed set per adapter, for grouping and metrics: `unroutable`, `too-large`.
    pub class: &'static str,
    /// What the broker said. No payload, no secret. Stores keep the first [`Failure::DETAIL_MAX`]
    /// bytes.
    pub detail: String,
    /// Whether the message itself is what the broker cannot take (its headers, its topic, its size), so
    /// that no later attempt can succeed. A refused message whose failure is hopeless becomes a dead
    /// letter at once. A destination that can still be mended (a queue to bind, a right to grant) is
    /// not hopeless.
    pub is_hopeless: bool,
}

impl Failure {
    /// Longest detail kept, in bytes.
    pub const DETAIL_MAX: usize = 1000;

    /// A failure of a class, its detail shortened to [`Failure::DETAIL_MAX`] bytes. Not hopeless.
    #[must_use]
    pub fn new(class: &'static str, detail: impl Into<String>) -> Self {
        let mut detail = detail.into().replace('\0', "\u{fffd}");
        let mut end = Self::DETAIL_MAX.min(detail.len());
        while !detail.is_char_boundary(end) {
            end -= 1;
        }
        detail.truncate(end);
        Self { class, detail, is_hopeless: false }
    }

    /// The same failure, of a message that no later attempt can deliver.
    #[must_use]
    pub fn hopeless(mut self) -> Self {
        self.is_hopeless = true;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.detail)
    }
}

/// A broker that cannot be used at all, found when it is opened or checked.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct BrokerError {
    /// One line for an operator: what happened and what to do.
    pub message: String,
    /// The driver's error, where there is one.
    #[source]
    pub source: Option<Source>,
}
