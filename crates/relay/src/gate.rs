//! Whether a route's broker may be used now: open, paused after an outage, or probed by one message.
//! Holds no I/O; time and randomness are arguments.

use std::time::Duration;

use posthaste_core::{Backoff, Failure};

/// Delays between probes of a broker that is down. A probe is one message, so asking every second is
/// no burden, and waiting longer would prolong every outage.
const PROBE_BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(1) };

/// Refusals in a row, without one acknowledgement, after which it is the broker that refuses, not
/// the messages that are wrong.
const REFUSALS_MAX: u32 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Messages may go, up to the limit.
    Open,
    /// None may go before `until`.
    Paused { until: Duration },
    /// One is on its way; its answer decides.
    Probing,
}

/// The gate of one shard.
#[derive(Debug)]
pub(crate) struct Gate {
    state: State,
    /// Messages in flight allowed while open: 1 after an outage, doubled by every acknowledged call.
    limit: usize,
    /// What `limit` grows to.
    limit_max: usize,
    /// Failed probes in a row.
    failures: u32,
    /// Rejected messages since the last acknowledgement.
    refusals: u32,
    /// Why it is not open.
    reason: Option<Failure>,
    /// Whether nothing was acknowledged since the last outage began: a refusal opens the gate, but an
    /// adapter may refuse without asking the broker.
    is_unproven: bool,
}

impl Gate {
    pub(crate) fn new(limit_max: usize) -> Self {
        Self {
            state: State::Open,
            limit: limit_max,
            limit_max,
            failures: 0,
            refusals: 0,
            reason: None,
            is_unproven: false,
        }
    }

    /// How many more messages may be sent now, given how many are in flight. The caller sends at
    /// least one if this is not 0 and it has one.
    pub(crate) fn allowance(&self, now: Duration, in_flight: usize) -> usize {
        match self.state {
            State::Open => self.limit.saturating_sub(in_flight),
            State::Paused { until } => usize::from(now >= until && in_flight == 0),
            State::Probing => 0,
        }
    }

    /// Whether the next message sent is a probe: alone, and better not one that is suspected.
    pub(crate) fn is_probing(&self) -> bool {
        self.state != State::Open
    }

    /// Tells that messages were sent.
    pub(crate) fn sent(&mut self) {
        if let State::Paused { .. } = self.state {
            self.state = State::Probing;
        }
    }

    /// When a paused gate lets a probe through.
    pub(crate) fn opens_at(&self) -> Option<Duration> {
        match self.state {
            State::Paused { until } => Some(until),
            State::Open | State::Probing => None,
        }
    }

    /// Why the route is not open, if it is not.
    pub(crate) fn reason(&self) -> Option<&Failure> {
        self.reason.as_ref().filter(|_| self.state != State::Open)
    }

    /// Whether a probe is on its way.
    pub(crate) fn awaits_probe(&self) -> bool {
        self.state == State::Probing
    }

    /// Tells that a call brought an acknowledgement. Returns whether it is the first since an outage.
    pub(crate) fn acknowledged(&mut self) -> bool {
        self.refusals = 0;
        if let State::Paused { .. } = self.state {
            // A call sent before the outage; the probe decides.
            return false;
        }
        self.state = State::Open;
        self.limit = (self.limit * 2).min(self.limit_max);
        self.failures = 0;
        self.reason = None;
        std::mem::take(&mut self.is_unproven)
    }

    /// Tells that a message was refused. Returns whether the refusal counts against the message: it
    /// does not once the broker refuses whatever it is given.
    pub(crate) fn refused(&mut self) -> bool {
        self.refusals = self.refusals.saturating_add(1);
        if self.refusals > REFUSALS_MAX {
            return false;
        }
        // An answer about a message, even a refusal, is an answer: the broker is there.
        if self.state == State::Probing {
            self.state = State::Open;
            self.limit = 1;
            self.reason = None;
        }
        true
    }

    /// Tells that the broker could not be used. Returns the pause if this began or prolonged one.
    pub(crate) fn down(
        &mut self,
        now: Duration,
        failure: Failure,
        random: &mut fastrand::Rng,
    ) -> Option<Duration> {
        if let State::Paused { .. } = self.state {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        let pause = PROBE_BACKOFF.delay(self.failures, random);
        self.state = State::Paused { until: now + pause };
        self.limit = 1;
        self.is_unproven = true;
        self.reason = Some(failure);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn down(gate: &mut Gate) -> Duration {
        gate.down(NOW, Failure::new("x", "x"), &mut fastrand::Rng::with_seed(1)).unwrap()
    }

    #[test]
    fn an_outage_pauses_probes_with_one_and_ramps_up() {
        let mut gate = Gate::new(64);
        assert_eq!(gate.allowance(NOW, 10), 54);
        let pause = down(&mut gate);
        assert_eq!(gate.allowance(NOW + pause, 3), 0, "not while others are in flight");
        assert_eq!(gate.allowance(NOW + pause, 0), 1);
        gate.sent();
        assert_eq!(gate.allowance(NOW + pause, 1), 0);
        assert!(gate.acknowledged());
        assert_eq!(gate.allowance(NOW, 0), 2);
        assert!(!gate.acknowledged());
        assert_eq!(gate.allowance(NOW, 0), 4);
        for _ in 0..10 {
            gate.acknowledged();
        }
        assert_eq!(gate.allowance(NOW, 0), 64);
    }

    #[test]
    fn answers_of_calls_sent_before_the_outage_do_not_open_the_gate() {
        let mut gate = Gate::new(64);
        down(&mut gate);
        assert!(!gate.acknowledged());
        assert!(gate.is_probing());
        assert!(gate.down(NOW, Failure::new("x", "x"), &mut fastrand::Rng::new()).is_none());
    }

    #[test]
    fn a_refused_probe_opens_the_gate_and_an_acknowledgement_proves_it() {
        let mut gate = Gate::new(64);
        let pause = down(&mut gate);
        gate.sent();
        assert!(gate.refused());
        assert!(!gate.is_probing());
        assert_eq!(gate.allowance(NOW + pause, 0), 1);
        assert!(gate.acknowledged(), "the first since the outage");
        assert_eq!(gate.allowance(NOW + pause, 0), 2);
        assert!(!gate.acknowledged());
    }

    #[test]
    fn a_broker_that_refuses_everything_stops_spending_attempts() {
        let mut gate = Gate::new(64);
        for _ in 0..REFUSALS_MAX {
            assert!(gate.refused());
        }
        assert!(!gate.refused());
        gate.acknowledged();
        assert!(gate.refused());
    }
}
