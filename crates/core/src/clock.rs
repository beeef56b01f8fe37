//! The relay's clock. Order and expiry never depend on it: the database's clock decides those.

use std::time::Duration;

use async_trait::async_trait;

/// Monotonic time and sleeping, injected so that a simulator can own both.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Time since some fixed instant; never goes back.
    fn elapsed(&self) -> Duration;

    /// Returns once at least `duration` has passed. Dropping the future cancels the wait.
    async fn sleep(&self, duration: Duration);
}

/// A duration for a field of a log line: seconds as a number, with millisecond precision. The name
/// of such a field ends in `_seconds`, as names of metrics do.
#[must_use]
pub fn log_seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_log_lines_are_rounded_to_the_millisecond() {
        for (nanos, seconds) in [(0, 0.0), (1_234_567_890, 1.235), (499_999, 0.0), (500_000, 0.001)]
        {
            assert_eq!(log_seconds(Duration::from_nanos(nanos)).to_string(), seconds.to_string());
        }
    }
}
