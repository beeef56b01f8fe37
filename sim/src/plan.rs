//! The plan of a schedule, drawn from its seed before the schedule runs.

use std::{collections::BTreeMap, time::Duration};

use posthaste_core::{CallOrder, InboxMode, OnDead};

use crate::Fault;

/// Kinds of trouble that came later, drawn apart: seeds that have found something before mean the
/// same schedule as then, where none of these is on.
const LATER: &[Fault] = &[Fault::Rewind, Fault::Register, Fault::Widen, Fault::RouteLocked];

/// How likely trouble is at least that a planted bug needs.
const NEEDED_MIN: f64 = 0.1;

/// A schedule, but for what happens in it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The probability of each kind of fault at each place; a missing kind never strikes.
    pub(crate) rates: BTreeMap<Fault, f64>,
    pub(crate) relays: usize,
    pub(crate) routes: Vec<RoutePlan>,
    pub(crate) consumers: Vec<ConsumerPlan>,
    pub(crate) writers: usize,
    /// Transactions of each writer.
    pub(crate) transactions: u32,
    pub(crate) keys: u32,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) batch: u32,
    pub(crate) window: usize,
    pub(crate) retention: Duration,
    /// How long faults are injected.
    pub(crate) trouble: Duration,
}

/// One route.
#[derive(Clone, Debug)]
pub(crate) struct RoutePlan {
    /// Messages of topics that match.
    pub(crate) topics: &'static [&'static str],
    pub(crate) shards: u16,
    pub(crate) call_order: CallOrder,
    pub(crate) in_flight_max: usize,
    pub(crate) attempts_max: u32,
    pub(crate) on_dead: OnDead,
}

/// One consumer of a route.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerPlan {
    pub(crate) name: &'static str,
    pub(crate) route: usize,
    pub(crate) mode: InboxMode,
    pub(crate) replicas: usize,
    pub(crate) batch: usize,
}

fn pick<T: Copy>(random: &mut fastrand::Rng, from: &[T]) -> T {
    from[random.usize(..from.len())]
}

impl Plan {
    /// Draws a schedule. Of the kinds of trouble each is off in every other schedule, and the rest
    /// differ wildly in how often they strike; those in `needs` are on, and not rare.
    pub(crate) fn draw(random: &mut fastrand::Rng, needs: &[Fault]) -> Self {
        let mut rates = BTreeMap::new();
        let mut apart = random.clone();
        let mut draw = |random: &mut fastrand::Rng, fault, is_on: bool| {
            let is_needed = needs.contains(&fault);
            let rate: f64 = pick(random, &[0.01, 0.03, 0.1, 0.3]);
            if is_needed {
                rates.insert(fault, rate.max(NEEDED_MIN));
            } else if is_on {
                rates.insert(fault, rate);
            }
        };
        for &fault in Fault::ALL.iter().filter(|fault| !LATER.contains(fault)) {
            let is_on = random.bool();
            draw(random, fault, is_on);
        }
        for &fault in LATER {
            // Beside a planted bug only what it needs: they would hide it.
            let is_on = needs.is_empty() && apart.u8(..4) == 0;
            draw(&mut apart, fault, is_on);
        }
        // Routes that come late would be gone with what a rewind undoes, and nobody would miss
        // them.
        let late = [Fault::Register, Fault::Widen];
        if late.iter().any(|fault| needs.contains(fault)) {
            rates.remove(&Fault::Rewind);
        } else if rates.contains_key(&Fault::Rewind) {
            rates.retain(|fault, _| !late.contains(fault));
        }
        let routes = 1 + usize::from(random.u8(..4) == 0);
        // Where messages are to wait for a route that comes late, none takes everything.
        let is_selective = [Fault::Register, Fault::Widen].iter().any(|it| rates.contains_key(it));
        let millis =
            |random: &mut fastrand::Rng, from: &[u64]| Duration::from_millis(pick(random, from));
        Self {
            rates,
            relays: pick(random, &[1, 2, 2, 3]),
            routes: (0..routes).map(|index| RoutePlan::draw(random, index, is_selective)).collect(),
            consumers: ConsumerPlan::draw(random, routes),
            writers: random.usize(2..=4),
            transactions: random.u32(3..=6),
            keys: random.u32(1..=5),
            lease: millis(random, &[1_000, 2_000, 4_000]),
            poll: millis(random, &[50, 200, 750]),
            batch: pick(random, &[1, 3, 10, 100]),
            window: pick(random, &[4, 16, 64]),
            retention: millis(random, &[0, 0, 1_000, 10_000]),
            trouble: millis(random, &[5_000, 10_000, 20_000]),
        }
    }

    pub(crate) fn rate(&self, fault: Fault) -> f64 {
        self.rates.get(&fault).copied().unwrap_or(0.0)
    }

    pub(crate) fn publish_timeout(&self) -> Duration {
        self.lease / 4
    }
}

impl RoutePlan {
    fn draw(random: &mut fastrand::Rng, index: usize, is_selective: bool) -> Self {
        let orders = [CallOrder::OnePerKey, CallOrder::PerKey, CallOrder::Total];
        Self {
            topics: match (index, is_selective) {
                (0, false) => &["*"],
                (0, true) => &["a", "b"],
                _ => &["b*"],
            },
            shards: pick(random, &[1, 1, 2, 3]),
            call_order: pick(random, &orders),
            in_flight_max: pick(random, &[1, 4, 64]),
            attempts_max: random.u32(1..=3),
            on_dead: pick(random, &[OnDead::Continue, OnDead::Continue, OnDead::Block]),
        }
    }
}

impl ConsumerPlan {
    fn draw(random: &mut fastrand::Rng, routes: usize) -> Vec<Self> {
        let modes = [InboxMode::IdsFirst, InboxMode::IdsLast, InboxMode::Watermark];
        let names = ["billing", "stock"];
        let count = random.usize(1..=2);
        let consumers = names.into_iter().take(count).map(|name| {
            let mode = pick(random, &modes);
            // A lane goes to one at a time anyway.
            let replicas = random.usize(1..=2);
            let (route, batch) = (random.usize(..routes), pick(random, &[1, 1, 4]));
            Self { name, route, mode, replicas, batch }
        });
        consumers.collect()
    }
}
