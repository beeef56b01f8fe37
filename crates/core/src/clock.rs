//! Time as the relay sees it. Order and expiry never depend on it: those are the database's.

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
