//! One schedule: faults for a while, then a calm phase, in which the relay must deliver everything
//! by itself.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use posthaste_core::Store;
use posthaste_history::{Cause, Report};
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Fault, Planted, actors, late, panics,
    plan::Plan,
    stage::{DRAIN, Stage},
    world::World,
};

/// Virtual time within which all messages must be delivered after the faults.
const PATIENCE: Duration = Duration::from_secs(240);
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Stray messages land within this time.
const STRAYS: Duration = Duration::from_secs(8);

pub(crate) const ROUTES: [&str; 2] = ["first", "second"];

pub(crate) fn route_name(index: usize) -> &'static str {
    ROUTES[index]
}

pub(crate) fn route_index(name: &str) -> usize {
    usize::from(name == ROUTES[1])
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The seed, which decides the whole schedule.
    pub seed: u64,
    /// The bug to plant, if any.
    pub planted: Option<Planted>,
    /// Leaves the bug out, and everything else as it would be with it: what is wrong then is not the
    /// bug's doing.
    pub is_mended: bool,
    /// Whether to print what happens.
    pub is_traced: bool,
}

/// How a schedule ended.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Which promises were broken, and how; empty if none.
    pub problems: Vec<String>,
    /// Of everything that happened, in order.
    pub trace_hash: u64,
    /// How often each kind of trouble struck.
    pub faults: BTreeMap<Fault, u64>,
    /// How many copies arrived, by reason.
    pub duplicates: BTreeMap<Cause, usize>,
    /// Messages committed, summed over routes.
    pub messages: usize,
    /// Messages that arrived, copies included, summed over routes.
    pub arrivals: usize,
    /// Messages that took effect, summed over consumers.
    pub effects: usize,
}

impl Schedule {
    /// The schedule of a seed, with nothing planted and nothing printed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, planted: None, is_mended: false, is_traced: false }
    }

    /// Runs it. The same seed gives the same trace. Whatever panics in it breaks it, though a
    /// supervisor may have mended that.
    ///
    /// # Panics
    /// When the runtime cannot be made.
    #[must_use]
    pub fn run(self) -> Ended {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without drivers can be made");
        // Consumers draw their jitter from the thread's generator.
        fastrand::seed(self.seed);
        posthaste_relay::plant(self.bug().and_then(Planted::in_relay));
        let ended = watched(|| runtime.block_on(self.play()));
        posthaste_relay::plant(None);
        ended
    }

    fn bug(self) -> Option<Planted> {
        self.planted.filter(|_| !self.is_mended)
    }

    async fn play(self) -> Ended {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let needs = self.planted.map_or(&[][..], Planted::needs);
        let plan = Plan::draw(&mut random, needs);
        if self.is_traced {
            println!("{plan:#?}");
        }
        let world = World::new(plan, self.bug(), random, self.is_traced);
        let stage = Stage::new(&world);
        for consumer in &world.plan.consumers {
            world.route(consumer.route, |route| route.history.consumer(consumer.name));
        }
        for index in 0..world.plan.routes.len() {
            // So that retention waits for every route from the start.
            stage.store.register(&stage.spec(index)).await.expect("it never fails");
        }
        let over = CancellationToken::new();
        let mut keepers = JoinSet::new();
        for index in 0..world.plan.relays {
            keepers.spawn(Arc::clone(&stage).keep_relay(index, over.clone()));
        }
        for (index, consumer) in world.plan.consumers.iter().enumerate() {
            for _ in 0..consumer.replicas {
                keepers.spawn(Arc::clone(&stage).keep_consumer(index, over.clone()));
            }
        }
        suffer(&stage).await;
        recover(&stage).await;
        stop(&stage, over, keepers).await;
        conclude(&world)
    }
}

/// How it ended, with what panicked meanwhile, be it the schedule itself.
fn watched(play: impl FnOnce() -> Ended) -> Ended {
    panics::watch();
    drop(panics::take());
    let mut ended = catch_unwind(AssertUnwindSafe(play)).unwrap_or_default();
    // In front: the last one is what the history says.
    ended.problems.splice(0..0, panics::take());
    ended
}

/// The phase of faults: applications write, and faults are injected.
async fn suffer(stage: &Arc<Stage>) {
    let world = &stage.world;
    let keys: actors::Keys = Arc::new((0..world.plan.keys).map(|_| Mutex::new(())).collect());
    let mut writers = JoinSet::new();
    for _ in 0..world.plan.writers {
        writers.spawn(actors::write(Arc::clone(stage), Arc::clone(&keys)));
    }
    let operator = tokio::spawn(actors::operate(Arc::clone(stage)));
    let registrar = tokio::spawn(late::add_routes(Arc::clone(stage)));
    actors::trouble(Arc::clone(stage)).await;
    while writers.join_next().await.is_some() {}
    world.trace(format_args!("calm"));
    world.with(|state| {
        state.is_calm = true;
        state.store_down_until = Duration::ZERO;
        for route in &mut state.routes {
            (route.down_until, route.locked_until) = (Duration::ZERO, Duration::ZERO);
        }
    });
    // The person's last decision takes as long as a call may, and so does the last route.
    let _ = operator.await;
    if registrar.await.is_err() {
        world.problem("P8 a route could not be registered or served".to_owned());
    }
}

/// The calm phase: one relay is left, and must deliver all messages without help.
async fn recover(stage: &Arc<Stage>) {
    let world = &stage.world;
    stage.leave_one_relay();
    for index in 0..world.plan.relays {
        if let Some(relay) = stage.relay(index) {
            relay.process.resume();
            relay.process.spare();
            // Calls hang below, where a store would give up: one that waits for its calls before it stops
            // would never be replaced.
            if relay.stop.is_cancelled() {
                relay.process.kill();
            }
        }
    }
    for process in stage.consumers() {
        process.resume();
        process.spare();
    }
    if world.plan.routes.len() > 1 {
        let is_locked = world.plan.rate(Fault::RouteLocked) > 0.0;
        world.route(1, |route| {
            route.down_until = Duration::MAX;
            route.locked_until = if is_locked { Duration::MAX } else { Duration::ZERO };
        });
        if timeout(PATIENCE, settled(stage, &[0])).await.is_err() {
            world.problem("P7 a route waits for another's broker or rows".to_owned());
        }
        world.route(1, |route| {
            (route.down_until, route.locked_until) = (Duration::ZERO, Duration::ZERO);
        });
    }
    let all: Vec<usize> = (0..world.plan.routes.len()).collect();
    if timeout(PATIENCE, settled(stage, &all)).await.is_err() {
        let status = stage.store.status().await.expect("it never fails");
        let behind = status.routes.iter().map(|it| (it.pending, it.retrying)).collect::<Vec<_>>();
        world
            .problem(format!("P8 not everything was done in time: (pending, retrying) {behind:?}"));
    }
    sleep(STRAYS).await;
}

/// Waits until everything of these routes has arrived or is set aside, has taken effect, and the store
/// knows. People decide about what waits for them.
async fn settled(stage: &Stage, routes: &[usize]) {
    let world = &stage.world;
    let person = world.process("person");
    let is_done = |index: &usize| {
        world.route(*index, |route| {
            route.history.is_complete() && route.history.check().effects_missing.is_empty()
        })
    };
    while !(is_idle(stage, routes).await && routes.iter().all(is_done)) {
        actors::unblock(stage, &person).await;
        stage.redrive_letters().await;
        sleep(LOOK_EVERY).await;
    }
}

/// Whether the store has settled all messages.
async fn is_idle(stage: &Stage, routes: &[usize]) -> bool {
    let status = stage.store.status().await.expect("it never fails");
    let of = |index: &usize| status.routes.iter().find(|it| it.name == route_name(*index));
    routes.iter().filter_map(of).all(|route| route.pending == 0 && route.retrying == 0)
}

/// Stops what runs: in time, and with every lease given back.
async fn stop(stage: &Arc<Stage>, over: CancellationToken, mut keepers: JoinSet<()>) {
    let world = &stage.world;
    world.trace(format_args!("the end"));
    over.cancel();
    let ended = async { while keepers.join_next().await.is_some() {} };
    let limit = DRAIN + world.plan.lease * 3 + Duration::from_secs(40);
    if timeout(limit, ended).await.is_err() {
        world.problem("P9 something did not stop in time".to_owned());
    }
    let now = world.database_now();
    let is_dead = |process| stage.is_dead(process);
    if world.with(|state| state.leases.is_held(now, is_dead)) {
        world.problem("P9 a lease was not given back".to_owned());
    }
}

fn conclude(world: &World) -> Ended {
    let mut problems = world.problems();
    let reports: Vec<Report> =
        world.with(|state| state.routes.iter().map(|route| route.history.check()).collect());
    let mut duplicates = BTreeMap::new();
    for (index, report) in reports.iter().enumerate() {
        for breach in report.breaches() {
            problems.push(format!("{breach} on route {}: {report}", route_name(index)));
        }
        for (cause, count) in &report.causes {
            *duplicates.entry(*cause).or_default() += count;
        }
    }
    let arrivals = |report: &Report| report.received + report.duplicated.len();
    Ended {
        problems,
        trace_hash: world.trace_hash(),
        faults: world.with(|state| state.faults.clone()),
        duplicates,
        messages: reports.iter().map(|report| report.committed).sum(),
        arrivals: reports.iter().map(arrivals).sum(),
        effects: reports.iter().map(|report| report.effects).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_schedule_itself_is_a_failure_of_it() {
        let problems = watched(|| panic!("a bug of the simulator")).problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("a bug of the simulator"), "{problems:?}");
        assert!(watched(Ended::default).problems.is_empty(), "it is not the next one's");
    }
}
