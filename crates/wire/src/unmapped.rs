//! Errors that an adapter's table does not know.

use posthaste_core::{Failure, Outcome};

/// The outcome of an error that nobody mapped: unknown, and counted in
/// `posthaste_unmapped_errors_total`, so that the table gets the line it lacks.
pub fn unmapped(adapter: &'static str, error: impl std::fmt::Display) -> Outcome {
    metrics::counter!("posthaste_unmapped_errors_total", "adapter" => adapter).increment(1);
    Outcome::Unknown(Failure::new("unmapped", error.to_string()))
}
