//! Time that moves only when told to.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::Clock;
use tokio::sync::watch;

/// A clock moved by hand. Sleepers wake when it has been moved far enough.
#[derive(Debug)]
pub struct ManualClock {
    elapsed: watch::Sender<Duration>,
}

impl ManualClock {
    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        self.elapsed.send_modify(|elapsed| *elapsed += by);
    }
}

impl Default for ManualClock {
    /// Stands at zero.
    fn default() -> Self {
        Self { elapsed: watch::Sender::new(Duration::ZERO) }
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn elapsed(&self) -> Duration {
        *self.elapsed.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.elapsed() + duration;
        let mut elapsed = self.elapsed.subscribe();
        let woken = elapsed.wait_for(|elapsed| *elapsed >= until).await;
        woken.expect("this clock, borrowed here, holds the sender");
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::Arc};

    use super::*;

    #[tokio::test]
    async fn sleepers_wake_when_their_time_has_come() {
        let clock = Arc::new(ManualClock::default());
        let mut sleep = pin!(clock.sleep(Duration::from_secs(10)));
        let is_pending = |polled: Result<(), _>| polled.is_err();
        let poll = Duration::ZERO;
        assert!(is_pending(tokio::time::timeout(poll, &mut sleep).await));
        clock.advance(Duration::from_secs(9));
        assert!(is_pending(tokio::time::timeout(poll, &mut sleep).await));
        clock.advance(Duration::from_secs(1));
        sleep.await;
        assert_eq!(clock.elapsed(), Duration::from_secs(10));
    }
}
