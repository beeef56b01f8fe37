//! Errors of the ports. Callers branch on the kind, never on text or a driver's type.

use std::{error::Error, fmt};

type Source = Box<dyn Error + Send + Sync>;

/// A value that breaks a rule: the field, the shortened value, and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} `{value}` {rule}")]
pub struct Invalid {
    /// The field's name as users know it.
    pub field: &'static str,
    /// The offending value, shortened; never a payload.
    pub value: String,
    /// The rule that the value breaks.
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

/// The kind of a failed store call; callers branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The database cannot be reached, timed out or is overloaded; the call may or may not have
    /// taken effect. Try again later.
    Unavailable,
    /// Another relay has the lease: stop serving the shard at once.
    Fenced,
    /// The log is not the one in which the lease was granted: it went back in time, or another
    /// server answers. Drop the messages in memory and acquire the shard again, see
    /// [`crate::Rewound`].
    Rewound,
    /// The tables do not exist. Run `posthaste migrate`.
    SchemaMissing,
    /// The tables are older than this program. Run `posthaste migrate`.
    SchemaTooOld,
    /// The tables are newer than this program. Run the newer program.
    SchemaTooNew,
    /// The server does not accept writes (a standby, or a read-only session).
    ReadOnly,
    /// The data was restored into another server, where recorded positions are not valid.
    OtherServer,
    /// The database user lacks a privilege.
    Denied,
    /// The request is invalid: a value that the table refuses, an unknown route.
    Refused,
    /// An unexpected error. Its source has the details.
    Internal,
    /// The database had rolled the transaction back before this commit or write. Nothing of the
    /// transaction is kept.
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
    /// The kind, on which callers branch.
    pub kind: StoreErrorKind,
    /// The port's operation that failed, for example `fetch`.
    pub operation: &'static str,
    /// One line for an operator: what happened and what to do. No SQL, no secret, no payload.
    pub message: String,
    source: Option<Source>,
}

impl StoreError {
    /// An error of a kind, with its message.
    #[must_use]
    pub fn new(kind: StoreErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self { kind, operation, message: message.into(), source: None }
    }

    /// The error of a transaction that the database had rolled back before `operation`; every store
    /// uses the same text.
    #[must_use]
    pub fn not_committed(operation: &'static str) -> Self {
        let message = "the database has rolled the transaction back and kept nothing of it, because \
                       a statement failed and the application went on (a deadlock, a full disk, a \
                       broken constraint); return the errors of statements, or run a statement that \
                       may fail in a savepoint";
        Self::new(StoreErrorKind::NotCommitted, operation, message)
    }

    /// Keeps the driver's error as the source.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Whether the same call may succeed later without a person acting.
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

/// Why the broker did not acknowledge a message, in words that an operator can act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One of a small fixed set per adapter, for grouping and metrics: `unroutable`, `too-large`.
    pub class: &'static str,
    /// The broker's own text. No payload, no secret. Stores keep the first [`Failure::DETAIL_MAX`]
    /// bytes.
    pub detail: String,
    /// Whether the broker can never accept the message (its headers, its topic, its size), so that
    /// no later attempt can succeed. A refused message with a hopeless failure becomes a dead
    /// letter at once. A failure that a change at the broker can fix (a queue to bind, a permission
    /// to grant) is not hopeless.
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

/// The error of a broker that cannot be used at all, found when it is opened or examined.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct BrokerError {
    /// One line for an operator: what happened and what to do.
    pub message: String,
    /// The driver's error, if there is one.
    #[source]
    pub source: Option<Source>,
}
