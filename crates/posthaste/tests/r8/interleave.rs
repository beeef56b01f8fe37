//! R8.10: two workers, every order of their calls, and at any two calls a failure that came before it
//! took effect, one that came after, or the end of the worker.
//!
//! The [`Inbox`] is the shipped one; `model.rs` is a database with the locks that matter and a broker
//! that gives out again what was not acknowledged. A run is a list of choices, one for every call.
//! All lists are tried. Two that lead to the same state have the same future, which is looked at once
//! and counted as often as it is reached.

mod model;

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Waker},
};

use model::{Fate, Model, Pool, Sharing, World};
use posthaste::{Begun, Database, Handled, Inbox, InboxError, Incoming, Input, Message, Outbox};

/// What two workers do.
#[derive(Clone)]
struct Plan {
    inbox: Inbox<Model>,
    sharing: Sharing,
    /// What the broker gives out: numbers of messages, several times the same.
    deliveries: Vec<u32>,
    /// Most messages in a transaction.
    batch: usize,
    /// Failures in a run.
    failures: usize,
    plant: Plant,
}

/// A mistake that people make, to see that it is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plant {
    Nothing,
    AcknowledgesFirst,
    RecordsApart,
}

impl Plan {
    fn new(inbox: Inbox<Model>, sharing: Sharing, deliveries: &[u32], batch: usize) -> Self {
        let deliveries = deliveries.to_vec();
        Self { inbox, sharing, deliveries, batch, failures: 2, plant: Plant::Nothing }
    }
}

/// A worker: receives, handles, acknowledges, until nothing is left.
async fn work(plan: Plan, pool: Pool) {
    loop {
        let Ok(received) = pool.receive(plan.batch).await else {
            pool.give_back();
            continue;
        };
        if received.is_empty() {
            return;
        }
        if plan.plant == Plant::AcknowledgesFirst {
            acknowledge(&pool, &received).await;
        }
        match handle(&plan, &pool, &received).await {
            Ok(true) if plan.plant != Plant::AcknowledgesFirst => {
                acknowledge(&pool, &received).await;
            }
            _ => {}
        }
        pool.give_back();
    }
}

/// Until the first that fails: the rest comes again.
async fn acknowledge(pool: &Pool, received: &[(usize, Incoming)]) {
    for (receipt, _) in received {
        if pool.acknowledge(*receipt).await.is_err() {
            return;
        }
    }
}

/// Handles messages as [`posthaste::Consumer`] does; whether they can be acknowledged.
async fn handle(
    plan: &Plan,
    pool: &Pool,
    received: &[(usize, Incoming)],
) -> Result<bool, InboxError> {
    if plan.plant == Plant::RecordsApart {
        return handle_apart(plan, pool, &received[0].1).await;
    }
    let inputs: Vec<Input<'_>> = received.iter().map(|(_, it)| Input::from(it)).collect();
    let mut open = plan.inbox.begin_all(pool, &inputs).await?;
    let mut count = 0;
    for (index, (_, incoming)) in received.iter().enumerate() {
        if open.is_new(index) {
            count += 1;
            let change = change(&mut open, incoming).await;
            if let Err(error) = change {
                open.rollback().await;
                return Err(error);
            }
        }
    }
    if count == 0 {
        open.rollback().await;
        return Ok(true);
    }
    match open.commit().await? {
        Handled::Done(()) => Ok(true),
        // Of one message it says that another handled it; of several, that some are to be tried again.
        Handled::Duplicate => Ok(received.len() == 1),
    }
}

/// What the handler does: counts, and says what the count is now.
async fn change(connection: &mut model::Connection, of: &Incoming) -> Result<(), InboxError> {
    let count = connection.count(of.message.id).await?;
    let said = Message::new("outputs", of.message.id, &count).expect("a message");
    Outbox::<Model>::new().enqueue(connection, said).await?;
    Ok(())
}

/// The record in one transaction, the effect in another.
async fn handle_apart(plan: &Plan, pool: &Pool, of: &Incoming) -> Result<bool, InboxError> {
    let Begun::New(record) = plan.inbox.begin(pool, of).await? else { return Ok(true) };
    let _ = record.commit().await?;
    let mut effect = Model::begin(pool).await?;
    change(&mut effect, of).await?;
    Model::commit(effect).await?;
    Ok(true)
}

type Worker = Pin<Box<dyn Future<Output = ()>>>;

/// Where a list of choices leads.
enum End {
    /// Everything is acknowledged.
    Done,
    /// Something is wrong.
    Wrong(String),
    /// So many choices are there next; the number stands for the state.
    Open { state: u64, choices: usize },
}

/// One run.
struct Run {
    plan: Plan,
    world: Arc<Mutex<World>>,
    workers: [Option<Worker>; 2],
    failures: usize,
}

impl Run {
    fn new(plan: &Plan) -> Self {
        let world = Arc::new(Mutex::new(World::new(plan.sharing, &plan.deliveries)));
        let mut run =
            Self { plan: plan.clone(), world, workers: [None, None], failures: plan.failures };
        run.start(0);
        run.start(1);
        run
    }

    fn start(&mut self, worker: usize) {
        let pool = Pool { world: Arc::clone(&self.world), worker };
        self.workers[worker] = Some(Box::pin(work(self.plan.clone(), pool)));
        self.poll(worker);
    }

    /// Up to its next call.
    fn poll(&mut self, worker: usize) {
        let mut context = Context::from_waker(Waker::noop());
        let future = self.workers[worker].as_mut().expect("it has not ended");
        if future.as_mut().poll(&mut context).is_ready() {
            self.workers[worker] = None;
        }
    }

    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().expect("one thread")
    }

    fn choices(&self) -> Vec<(usize, Fate)> {
        let world = self.world();
        let is_able = |worker: &usize| self.workers[*worker].is_some() && world.is_able(*worker);
        let fates = if self.failures > 0 { &Fate::ALL[..] } else { &Fate::ALL[..1] };
        let able = [0, 1].into_iter().filter(is_able);
        able.flat_map(|worker| fates.iter().map(move |fate| (worker, *fate))).collect()
    }

    fn choose(&mut self, choice: usize) {
        let (worker, fate) = self.choices()[choice];
        self.failures -= usize::from(fate != Fate::Succeeds);
        self.world().turn = Some((worker, fate));
        self.poll(worker);
        if fate == Fate::Ends {
            // Gone with its connection; another begins in its place.
            self.workers[worker] = None;
            Pool { world: Arc::clone(&self.world), worker }.give_back();
            self.start(worker);
        }
    }

    fn end(&self) -> End {
        if let Some(wrong) = self.world().wrong() {
            return End::Wrong(wrong);
        }
        let choices = self.choices().len();
        if choices > 0 {
            let state = self.world().state(self.failures);
            return End::Open { state, choices };
        }
        if self.workers.iter().any(Option::is_some) {
            return End::Wrong("two wait for each other".to_owned());
        }
        self.world().unfinished().map_or(End::Done, End::Wrong)
    }
}

/// All runs that begin with these choices: how many they are, or the first that goes wrong.
fn explore(
    plan: &Plan,
    choices: &mut Vec<usize>,
    known: &mut HashMap<u64, u128>,
) -> Result<u128, String> {
    let mut run = Run::new(plan);
    for choice in choices.iter() {
        run.choose(*choice);
    }
    let (state, count) = match run.end() {
        End::Done => return Ok(1),
        End::Wrong(what) => return Err(format!("{what}, after choices {choices:?}")),
        End::Open { state, choices } => (state, choices),
    };
    drop(run);
    if let Some(runs) = known.get(&state) {
        return Ok(*runs);
    }
    let mut runs = 0;
    for choice in 0..count {
        choices.push(choice);
        runs += explore(plan, choices, known)?;
        choices.pop();
    }
    known.insert(state, runs);
    Ok(runs)
}

fn holds(name: &str, plan: &Plan) {
    let mut known = HashMap::new();
    match explore(plan, &mut Vec::new(), &mut known) {
        Ok(runs) => {
            println!("{name}: {runs} schedules of two workers, {} states", known.len());
            assert!(runs > 10_000, "{name}: that is not all of them: {runs}");
        }
        Err(wrong) => panic!("{name}: {wrong}"),
    }
}

fn is_found(name: &str, plan: &Plan) {
    let wrong = explore(plan, &mut Vec::new(), &mut HashMap::new());
    let wrong = wrong.expect_err("a mistake is found");
    println!("{name}: {wrong}");
}

#[test]
fn r8_10_by_id_every_schedule_has_one_effect_and_one_output() {
    holds("one by one", &Plan::new(Inbox::new("c"), Sharing::Competing, &[1, 1, 2], 1));
    holds("two at a time", &Plan::new(Inbox::new("c"), Sharing::Competing, &[1, 2, 2, 1], 2));
}

#[test]
fn r8_10_optimistically_every_schedule_has_one_effect_and_one_output() {
    let inbox = || Inbox::new("c").optimistic();
    holds("one by one", &Plan::new(inbox(), Sharing::Competing, &[1, 1, 2], 1));
    holds("two at a time", &Plan::new(inbox(), Sharing::Competing, &[1, 2, 2, 1], 2));
}

/// Both have the whole lane, as while it goes from one to the other.
#[test]
fn r8_10_by_watermark_every_schedule_has_one_effect_and_one_output() {
    let inbox = || Inbox::new("c").watermark();
    holds("one by one", &Plan::new(inbox(), Sharing::Ordered, &[1, 2, 1], 1));
    holds("two at a time", &Plan::new(inbox(), Sharing::Ordered, &[1, 2, 1], 2));
}

#[test]
fn r8_10_mistakes_are_found() {
    let plan = Plan::new(Inbox::new("c"), Sharing::Competing, &[1], 1);
    is_found("acknowledge, then commit", &Plan { plant: Plant::AcknowledgesFirst, ..plan.clone() });
    is_found("record apart", &Plan { plant: Plant::RecordsApart, ..plan });
    // A watermark where each gets a part of the messages is what the library refuses.
    let plan = Plan::new(Inbox::new("c").watermark(), Sharing::Competing, &[1, 2], 1);
    is_found("a watermark that competes", &plan);
}
