//! What `doctor` reports of stores and brokers.

/// Something `doctor` looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was looked at and what was found, in one line.
    pub what: String,
    /// What to do about it, where it is not ok.
    pub fix: Option<String>,
}

impl Finding {
    /// Something that is as it should be.
    #[must_use]
    pub fn ok(what: impl Into<String>) -> Self {
        Self { ok: true, what: what.into(), fix: None }
    }

    /// Something to look at, and what to do about it.
    #[must_use]
    pub fn problem(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { ok: false, what: what.into(), fix: Some(fix.into()) }
    }
}
