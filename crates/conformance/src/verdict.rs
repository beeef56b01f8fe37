//! What a case found, and how a test program says it.

use std::any::Any;

use libtest_mimic::{Completion, Failed};
use tokio::task::JoinError;

/// What a case found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The fact holds.
    Holds,
    /// It does not apply, because of something the adapter does not claim.
    Skipped(&'static str),
    /// It does not hold; why.
    Broken(String),
}

/// The text of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without text")
        .to_owned()
}

/// A verdict as the end of a named test; skips are shown with their reason.
pub(crate) fn completion(checked: Result<Verdict, JoinError>) -> Result<Completion, Failed> {
    match checked {
        Ok(Verdict::Holds) => Ok(Completion::Completed),
        Ok(Verdict::Skipped(reason)) => Ok(Completion::ignored_with(reason)),
        Ok(Verdict::Broken(why)) => Err(Failed::from(why)),
        Err(panic) => Err(Failed::from(panic)),
    }
}
