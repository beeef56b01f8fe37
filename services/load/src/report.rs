//! The measurements, and the checks of their thresholds.

use std::time::Duration;

use crate::{Call, Scenario};

/// What nine of ten calls must be below.
const P90_BELOW: Duration = Duration::from_millis(30);

/// The share of wrong answers that there must be less of.
const ERRORS_BELOW: f64 = 0.01;

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Index of its scenario.
    pub scenario: usize,
    /// What was asked for.
    pub call: Call,
    /// How long it took.
    pub took: Duration,
    /// Whether the answer was right.
    pub is_good: bool,
}

/// Durations by rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// How many there were.
    pub count: usize,
    /// Half are at or below it.
    pub p50: Duration,
    /// Nine of ten are.
    pub p90: Duration,
    /// 99 of 100 are.
    pub p99: Duration,
    /// All are.
    pub max: Duration,
}

impl Percentiles {
    /// Of any durations; all zero if there are none.
    pub fn of(durations: impl IntoIterator<Item = Duration>) -> Self {
        let mut sorted: Vec<Duration> = durations.into_iter().collect();
        sorted.sort_unstable();
        let count = sorted.len();
        // The nearest rank, counted from 1.
        let at = |percent: usize| {
            sorted.get((count * percent).div_ceil(100).max(1) - 1).copied().unwrap_or_default()
        };
        Self { count, p50: at(50), p90: at(90), p99: at(99), max: at(100) }
    }
}

/// One thing that must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// What must hold.
    pub rule: String,
    /// What was found.
    pub found: String,
    /// Whether it holds.
    pub is_held: bool,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Who worked when.
    pub scenarios: Vec<Scenario>,
    /// What was asked for.
    pub calls: Vec<Call>,
    /// Every call.
    pub samples: Vec<Sample>,
    /// From creation to settlement, of five transfers a second; `None` was not settled in a minute.
    pub settled: Vec<Option<Duration>>,
}

impl Report {
    /// Samples of a call, of a scenario, or of all.
    pub fn of(&self, call: Option<Call>, scenario: Option<usize>) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| {
            call.is_none_or(|call| call == sample.call)
                && scenario.is_none_or(|scenario| scenario == sample.scenario)
        })
    }

    /// Wrong answers and no answers.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.samples.iter().filter(|sample| !sample.is_good).count()
    }

    /// The thresholds of the requirements, over all scenarios.
    #[must_use]
    pub fn thresholds(&self) -> Vec<Threshold> {
        let mut thresholds = vec![self.p90("http_req_duration", None)];
        for call in &self.calls {
            thresholds.push(self.p90(&format!("duration_{}", call.name()), Some(*call)));
        }
        let (errors, all) = (self.errors(), self.samples.len());
        #[expect(clippy::cast_precision_loss, reason = "counts of minutes, not of years")]
        let share = errors as f64 / all.max(1) as f64;
        thresholds.push(Threshold {
            rule: format!("error_rate < {} %", ERRORS_BELOW * 100.0),
            found: format!("{:.3} % ({errors} of {all})", share * 100.0),
            is_held: all > 0 && share < ERRORS_BELOW,
        });
        thresholds
    }

    /// A call that was never made has not passed.
    fn p90(&self, name: &str, call: Option<Call>) -> Threshold {
        let found = Percentiles::of(self.of(call, None).map(|sample| sample.took));
        Threshold {
            rule: format!("{name} p90 < {P90_BELOW:?}"),
            found: format!("{:.1} ms", found.p90.as_secs_f64() * 1000.0),
            is_held: found.count > 0 && found.p90 < P90_BELOW,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Form, scenarios};

    fn report(samples: impl IntoIterator<Item = (Call, u64, bool)>) -> Report {
        let sample = |(call, milliseconds, is_good)| Sample {
            scenario: 0,
            call,
            took: Duration::from_millis(milliseconds),
            is_good,
        };
        Report {
            scenarios: scenarios(Form::Quick).to_vec(),
            calls: vec![Call::CreateTransaction, Call::GetStatus, Call::GetBalance],
            samples: samples.into_iter().map(sample).collect(),
            settled: Vec::new(),
        }
    }

    /// Rules that do not hold.
    fn broken(report: &Report) -> Vec<String> {
        let broken = report.thresholds().into_iter().filter(|threshold| !threshold.is_held);
        broken.map(|threshold| threshold.rule).collect()
    }

    fn fine() -> Vec<(Call, u64, bool)> {
        let calls = [Call::CreateTransaction, Call::GetStatus, Call::GetBalance];
        calls.into_iter().flat_map(|call| (0..100).map(move |_| (call, 29, true))).collect()
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let of = |count: u64| Percentiles::of((1..=count).map(Duration::from_millis));
        let milliseconds = |found: Percentiles| {
            [found.p50, found.p90, found.p99, found.max].map(|duration| duration.as_millis())
        };
        assert_eq!(milliseconds(of(100)), [50, 90, 99, 100]);
        assert_eq!(milliseconds(of(10)), [5, 9, 10, 10]);
        assert_eq!(milliseconds(of(1)), [1, 1, 1, 1]);
        assert_eq!(milliseconds(of(0)), [0, 0, 0, 0]);
    }

    #[test]
    fn r5_02_every_threshold_can_be_violated() {
        assert_eq!(broken(&report(fine())), Vec::<String>::new());
        let mut slow = fine();
        for sample in slow.iter_mut().filter(|sample| sample.0 == Call::GetStatus).take(11) {
            sample.1 = 31;
        }
        assert_eq!(broken(&report(slow)), ["duration_get_status p90 < 30ms"]);
        let mut wrong = fine();
        for sample in wrong.iter_mut().take(3) {
            sample.2 = false;
        }
        assert_eq!(broken(&report(wrong)), ["error_rate < 1 %"]);
        let all_slow = fine().into_iter().map(|(call, _, is_good)| (call, 30, is_good));
        assert_eq!(broken(&report(all_slow)).len(), 4);
    }

    /// D3-36: the original's calls for a status were left out when its setup had failed.
    #[test]
    fn r5_02_a_call_that_was_never_made_has_not_passed() {
        let without = fine().into_iter().filter(|sample| sample.0 != Call::GetStatus);
        assert_eq!(broken(&report(without)), ["duration_get_status p90 < 30ms"]);
        assert_eq!(broken(&report([])).len(), 5);
    }
}
