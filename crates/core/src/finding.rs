//! Findings of `doctor` about stores and brokers.

/// One finding of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the checked fact is ok.
    pub ok: bool,
    /// The checked fact, in one line.
    pub what: String,
    /// How to fix the problem, if it is not ok.
    pub fix: Option<String>,
}

impl Finding {
    /// A finding that is ok.
    #[must_use]
    pub fn ok(what: impl Into<String>) -> Self {
        Self { ok: true, what: what.into(), fix: None }
    }

    /// A problem and its fix.
    #[must_use]
    pub fn problem(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { ok: false, what: what.into(), fix: Some(fix.into()) }
    }
}
