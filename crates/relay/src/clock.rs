//! The runtime's clock. Under tokio's paused time it is virtual.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::Clock;
use tokio::time::Instant;

/// Monotonic time of the tokio runtime in which it was created.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Instant,
}

impl TokioClock {
    /// A clock that starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for TokioClock {
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
