//! When a refused message is tried again, and when it becomes a dead letter.

use std::time::Duration;

/// Exponential delays with full jitter: the n-th is uniform in `0..=min(initial * 2^n, max)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Upper bound of the first delay.
    pub initial: Duration,
    /// Upper bound of all delays.
    pub max: Duration,
}

impl Backoff {
    /// The delay after `failures` failures in a row (at least 1), drawn from `random`.
    #[must_use]
    pub fn delay(&self, failures: u32, random: &mut fastrand::Rng) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let bound = self.initial.saturating_mul(1 << doublings).min(self.max);
        bound.mul_f64(random.f64())
    }
}

/// What happens to a key when one of its messages becomes a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDead {
    /// Later messages of the key go on.
    Continue,
    /// The key waits until a person redrives or discards the dead letter.
    Block,
}

/// When a message that the broker refuses is tried again, and when it becomes a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Delays between attempts.
    pub backoff: Backoff,
    /// Refusals after which the message becomes a dead letter; at least 1.
    pub attempts_max: u32,
    /// Age after which a refused message becomes a dead letter whatever its attempts; `None` for
    /// never.
    pub age_max: Option<Duration>,
    /// Whether a dead letter blocks its key.
    pub on_dead: OnDead,
}

impl RetryPolicy {
    /// Whether a message that was refused `attempts` times at this age becomes a dead letter.
    #[must_use]
    pub fn gives_up(&self, attempts: u32, age: Duration) -> bool {
        attempts >= self.attempts_max || self.age_max.is_some_and(|max| age >= max)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            backoff: Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(600) },
            attempts_max: 10,
            age_max: None,
            on_dead: OnDead::Continue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_maximum_and_never_pass_it() {
        let backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(2) };
        let mut random = fastrand::Rng::with_seed(7);
        for failures in 1..200 {
            let bound = Duration::from_millis(100).saturating_mul(1 << (failures - 1).min(20));
            let delay = backoff.delay(failures, &mut random);
            assert!(delay <= bound.min(backoff.max), "{failures}: {delay:?}");
        }
        let longest = (0..1000).map(|_| backoff.delay(50, &mut random)).max().unwrap();
        assert!(
            longest > Duration::from_millis(1900),
            "jitter covers the whole range: {longest:?}"
        );
    }

    #[test]
    fn a_lowered_maximum_gives_up_at_the_next_refusal() {
        let policy = RetryPolicy { attempts_max: 3, ..RetryPolicy::default() };
        assert!(!policy.gives_up(2, Duration::ZERO));
        assert!(policy.gives_up(3, Duration::ZERO));
        assert!(policy.gives_up(9, Duration::ZERO));
    }

    #[test]
    fn age_gives_up_on_its_own() {
        let policy =
            RetryPolicy { age_max: Some(Duration::from_secs(60)), ..RetryPolicy::default() };
        assert!(!policy.gives_up(1, Duration::from_secs(59)));
        assert!(policy.gives_up(1, Duration::from_secs(60)));
    }
}
