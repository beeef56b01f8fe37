//! Decides whether a shard may use its broker now: open, paused after an outage, or probed by one
//! message. Holds no I/O; time and randomness are arguments.

use std::time::Duration;

use posthaste_core::{Backoff, Failure};

/// Delays between probes of a broker that is down. A probe is one message, so one probe per second
/// is no burden, and longer delays would prolong every outage.
const PROBE_BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(1) };

/// Refusals in a row, without one acknowledgement, after which the broker counts as down instead of
/// the messages as bad.
const REFUSALS_MAX: u32 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Messages may be sent, up to the limit.
    Open,
    /// No message may be sent before `until`.
    Paused { until: Duration },
    /// One probe message is in flight; its answer decides.
    Probing,
}

/// The gate of one shard.
#[derive(Debug)]
pub(crate) struct Gate {
    state: State,
    /// Messages in flight allowed while open: 1 after an outage, doubled by every acknowledged
    /// call.
    limit: usize,
    /// The most that `limit` grows to.
    limit_max: usize,
    /// Failed probes in a row.
    failures: u32,
    /// Rejected messages since the last acknowledgement.
    refusals: u32,
    /// Why the gate is not open.
    reason: Option<Failure>,
    /// Whether no message was acknowledged since the last outage began. A refusal opens the gate,
    /// but an adapter may refuse a message without asking the broker.
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

    /// The number of messages that may be sent now, given the number in flight. If it is not 0, the
    /// caller sends at least one message, if it has one.
    pub(crate) fn allowance(&self, now: Duration, in_flight: usize) -> usize {
        match self.state {
            State::Open => self.limit.saturating_sub(in_flight),
            State::Paused { until } => usize::from(now >= until && in_flight == 0),
            State::Probing => 0,
        }
    }

    /// Whether the next message is a probe: it is sent alone, and should not be a suspect.
    pub(crate) fn is_probing(&self) -> bool {
        self.state != State::Open
    }

    /// Records that messages were sent.
    pub(crate) fn sent(&mut self) {
        if let State::Paused { .. } = self.state {
            self.state = State::Probing;
        }
    }

    /// When a paused gate allows a probe.
    pub(crate) fn opens_at(&self) -> Option<Duration> {
        match self.state {
            State::Paused { until } => Some(until),
            State::Open | State::Probing => None,
        }
    }

    /// Why the gate is not open, if it is not.
    pub(crate) fn reason(&self) -> Option<&Failure> {
        self.reason.as_ref().filter(|_| self.state != State::Open)
    }

    /// Whether a probe is in flight.
    pub(crate) fn awaits_probe(&self) -> bool {
        self.state == State::Probing
    }

    /// Records that a call brought an acknowledgement. Returns whether it is the first since an
    /// outage.
    pub(crate) fn acknowledged(&mut self) -> bool {
        self.refusals = 0;
        if let State::Paused { .. } = self.state {
            // The call was sent before the outage; the probe decides.
            return false;
        }
        self.state = State::Open;
        self.limit = (self.limit * 2).min(self.limit_max);
        self.failures = 0;
        self.reason = None;
        std::mem::take(&mut self.is_unproven)
    }

    /// Records that a message was refused. Returns whether the refusal spends an attempt: it does
    /// not once the broker refuses everything.
    pub(crate) fn refused(&mut self) -> bool {
        self.refusals = self.refusals.saturating_add(1);
        if self.refusals > REFUSALS_MAX {
            return false;
        }
        // Even a refusal is an answer: the broker works.
        if self.state == State::Probing {
            self.state = State::Open;
            self.limit = 1;
            self.reason = None;
        }
        true
    }

    /// Records that the broker could not be used. Returns the pause if this began or prolonged one.
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
