//! Runs many schedules and sums up their results.

use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{Ended, Fault, Planted, Schedule};

/// A schedule in which a promise was broken.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was broken.
    pub problems: Vec<String>,
    /// How to see it again.
    pub replay: String,
}

/// How a planted bug was found.
#[derive(Clone, Debug, Serialize)]
pub struct Caught {
    /// The bug.
    pub planted: &'static str,
    /// How many seeds it took; `None` if it was not found.
    pub seeds: Option<u64>,
    /// The first thing that was wrong.
    pub problem: Option<String>,
}

/// The summary of a campaign; one line of JSON.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// The first seed, and the one behind the last.
    pub seeds: (u64, u64),
    /// Schedules run.
    pub schedules: u64,
    /// Messages committed, summed over routes.
    pub messages: usize,
    /// Messages that arrived, copies included.
    pub arrivals: usize,
    /// Messages that took effect, summed over consumers.
    pub effects: usize,
    /// How often each kind of fault struck.
    pub faults: BTreeMap<&'static str, u64>,
    /// Copies that arrived, by reason.
    pub duplicates: BTreeMap<&'static str, usize>,
    /// Schedules in which a promise was broken; the first ones.
    pub failures: Vec<Failure>,
    /// Planted bugs, and in how many seeds each was found.
    pub planted: Vec<Caught>,
    /// Real time.
    pub seconds: f64,
}

/// Most failures kept.
const FAILURES_MAX: usize = 10;

impl Summary {
    /// Whether every promise held and every planted bug was found.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.failures.is_empty() && self.planted.iter().all(|caught| caught.seeds.is_some())
    }

    fn add(&mut self, seed: u64, ended: Ended) {
        self.schedules += 1;
        self.seeds.1 = seed + 1;
        self.messages += ended.messages;
        self.arrivals += ended.arrivals;
        self.effects += ended.effects;
        for (fault, count) in ended.faults {
            *self.faults.entry(fault.as_str()).or_default() += count;
        }
        for (cause, count) in ended.duplicates {
            *self.duplicates.entry(cause.as_str()).or_default() += count;
        }
        if !ended.problems.is_empty() && self.failures.len() < FAILURES_MAX {
            let replay = replay(seed);
            self.failures.push(Failure { seed, problems: ended.problems, replay });
        }
    }
}

/// The command that runs a schedule again, and prints what happens in it.
fn replay(seed: u64) -> String {
    format!("cargo run -p posthaste-sim -- run --seed {seed} --trace")
}

/// Schedules to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Their seeds.
    pub seeds: Range<u64>,
    /// Stop when this much real time has passed.
    pub time_max: Option<Duration>,
}

impl Campaign {
    /// Runs the schedules, one after another. Faults that never struck are in the summary,
    /// too, with a count of 0.
    #[must_use]
    pub fn run(&self) -> Summary {
        let start = Instant::now();
        let mut summary = Summary {
            seeds: (self.seeds.start, self.seeds.start),
            faults: Fault::ALL.iter().map(|fault| (fault.as_str(), 0)).collect(),
            ..Summary::default()
        };
        for seed in self.seeds.clone() {
            if self.time_max.is_some_and(|max| start.elapsed() >= max) {
                break;
            }
            summary.add(seed, Schedule::new(seed).run());
        }
        summary.seconds = start.elapsed().as_secs_f64();
        summary
    }
}

/// Looks for a planted bug, seed after seed. A seed finds the bug if a promise is broken with the
/// bug and none without it.
#[must_use]
pub fn catch(bug: Planted, seeds: Range<u64>) -> Caught {
    let start = seeds.start;
    let planted = bug.as_str();
    for seed in seeds {
        let schedule = Schedule { planted: Some(bug), ..Schedule::new(seed) };
        // The last one is what the history says.
        let Some(problem) = schedule.run().problems.pop() else { continue };
        let mended = Schedule { is_mended: true, ..schedule }.run();
        let (seeds, problem) = match mended.problems.first() {
            None => (Some(seed + 1 - start), problem),
            Some(problem) => (None, format!("seed {seed} without the bug, too: {problem}")),
        };
        return Caught { planted, seeds, problem: Some(problem) };
    }
    Caught { planted, seeds: None, problem: None }
}
