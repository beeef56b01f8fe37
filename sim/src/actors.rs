//! Actors outside the system: applications that write, people who redrive and discard dead letters,
//! and the source of faults, which kills and stops processes, cuts connections and moves clocks.

use std::{sync::Arc, time::Duration};

use posthaste_core::{
    Broker, Delivery, InboxMode, Message, OnDead, ParkedFilter, ParkedView, Store,
};
use posthaste_store_memory::{Line, MemoryBackup};
use tokio::{sync::Mutex, time::sleep};

use crate::{
    Fault, Planted,
    broker::POISON,
    process::Process,
    schedule::{route_index, route_name},
    stage::Stage,
    world::{World, short},
};

/// Locks that serialise the writers of a key, as the row lock on an aggregate does.
pub(crate) type Keys = Arc<Vec<Mutex<()>>>;

/// One application: runs its transactions, one after another.
pub(crate) async fn write(stage: Arc<Stage>, keys: Keys) {
    let world = Arc::clone(&stage.world);
    for _ in 0..world.plan.transactions {
        sleep(world.millis(0..1_500)).await;
        transact(&stage, &keys).await;
        stage.wake();
    }
}

async fn transact(stage: &Stage, keys: &Keys) {
    let world = &stage.world;
    let mut tx = stage.store.begin();
    let mut touched_at = None;
    // A transaction that wrote something else first has an old id by the time it enqueues.
    if world.coin() {
        tx.touch();
        touched_at = Some(world.now());
        sleep(world.millis(0..400)).await;
    }
    let key = world.below(keys.len() + 1);
    let _held = match keys.get(key) {
        Some(lock) => Some(lock.lock().await),
        None => None,
    };
    let number = touched_at.unwrap_or_else(|| world.now()).as_millis();
    let mut messages = Vec::new();
    for _ in 0..=world.below(3) {
        let message = message(world, (key < keys.len()).then_some(key), number);
        if tx.enqueue(std::slice::from_ref(&message)).is_err() {
            // The database went back in time under it.
            break;
        }
        messages.push(message);
        sleep(world.millis(0..30)).await;
    }
    if world.strikes(Fault::LongTransaction) {
        sleep(world.millis(500..7_000)).await;
    }
    if world.has(Planted::PublishBeforeCommit) {
        publish(stage, &messages).await;
    }
    let is_unknown = world.strikes(Fault::CommitUnknown);
    let is_undone = world.strikes(Fault::Rollback) || !tx.is_open();
    let is_unknown = is_unknown && tx.is_open();
    let names: Vec<String> = messages.iter().map(|message| short(message.id)).collect();
    let word = if is_undone { "rolls back" } else { "commits" };
    world.trace(format_args!("application {word} {} of key {key}", names.join(" ")));
    for index in 0..world.plan.routes.len() {
        let topics = stage.spec(index).topics;
        let own = messages.iter().filter(|it| topics.iter().any(|topic| topic.matches(&it.topic)));
        world.route(index, |route| match (is_unknown, is_undone) {
            (true, _) => route.history.unknown(own),
            (false, true) => route.history.rolled_back(own),
            (false, false) => route.history.committed(own),
        });
    }
    if is_undone { tx.rollback() } else { tx.commit() }
}

/// The payload tells when its transaction got its id, for a planted bug to order by.
fn message(world: &World, key: Option<usize>, number: u128) -> Message {
    let topic = if world.coin() { "a" } else { "b" };
    let key = key.map(|key| format!("k{key}"));
    let payload = if world.strikes(Fault::Poison) {
        POISON.to_vec()
    } else {
        number.to_string().into_bytes()
    };
    let mut message = Message::from_bytes(topic, key.as_deref(), payload);
    message.id = world.next_id();
    message
}

/// Publishes without an outbox, for a planted bug.
async fn publish(stage: &Stage, messages: &[Message]) {
    for message in messages {
        let delivery = Delivery {
            seq: 0,
            message: message.clone(),
            enqueued_at: std::time::UNIX_EPOCH,
            attempt: 1,
            redriven: 0,
            floor: None,
        };
        stage.brokers[0].publish(&[Arc::new(delivery)], Duration::ZERO).await;
        stage.world.route(0, |route| route.history.received(message.id));
    }
}

/// A person who redrives or discards dead letters at intervals, until the faults are over.
pub(crate) async fn operate(stage: Arc<Stage>) {
    let world = Arc::clone(&stage.world);
    let process = world.process("person");
    let store = stage.wire(&process);
    while !world.is_calm() {
        sleep(world.millis(300..2_000)).await;
        let Ok(dead) = store.dead(&ParkedFilter::default(), 20).await else { continue };
        for view in dead {
            if often(&world, Fault::Redrive) {
                redrive(&world, &*store, &view).await;
            } else if often(&world, Fault::Discard) {
                discard(&world, &*store, &view).await;
            }
        }
        if often(&world, Fault::Redrive) {
            stage.redrive_letters().await;
        }
    }
}

fn only(view: &ParkedView) -> ParkedFilter {
    ParkedFilter {
        route: Some(view.route.clone()),
        ids: vec![view.message.id],
        ..ParkedFilter::default()
    }
}

async fn redrive(world: &World, store: &dyn Store, view: &ParkedView) {
    let result = store.redrive(&only(view), "person").await;
    world.trace(format_args!("person redrives {}: {result:?}", short(view.message.id)));
}

async fn discard(world: &World, store: &dyn Store, view: &ParkedView) {
    let id = view.message.id;
    let index = route_index(&view.route);
    let result = store.discard(&only(view), "person", "given up").await;
    world.trace(format_args!("person discards {}: {result:?}", short(id)));
    let may_be_tried = world.may_have_usurped();
    world.route(index, |route| match result {
        Ok(0) => {}
        Ok(_) if !may_be_tried => route.history.discarded(id),
        // Perhaps it is.
        _ => {
            route.history.set_aside(id);
            for consumer in world.plan.consumers.iter().filter(|it| it.route == index) {
                route.history.consumer_set_aside(consumer.name, id);
            }
        }
    });
}

/// After the faults: redrives or discards every dead letter that blocks a key.
pub(crate) async fn unblock(stage: &Stage, process: &Arc<Process>) {
    let store = stage.wire(process);
    let Ok(dead) = store.dead(&ParkedFilter::default(), 100).await else { return };
    for view in dead {
        let plan = &stage.world.plan.routes[route_index(&view.route)];
        match (plan.on_dead, view.message.payload == POISON) {
            (OnDead::Continue, _) => {}
            (OnDead::Block, false) => redrive(&stage.world, &*store, &view).await,
            (OnDead::Block, true) => discard(&stage.world, &*store, &view).await,
        }
    }
}

/// More often than where every call counts.
pub(crate) fn often(world: &World, fault: Fault) -> bool {
    let rate = world.plan.rate(fault);
    if rate == 0.0 || world.is_calm() {
        return false;
    }
    let draw = world.with(|state| state.random.f64());
    let strikes = draw < (rate * 3.0).min(0.8);
    if strikes {
        world.struck(fault);
    }
    strikes
}

/// Injects faults until they are over.
pub(crate) async fn trouble(stage: Arc<Stage>) {
    let world = Arc::clone(&stage.world);
    let lease = world.plan.lease.as_millis() as u64;
    let mut backup = None;
    while world.now() < world.plan.trouble {
        sleep(world.millis(50..800)).await;
        if world.plan.rate(Fault::Rewind) > 0.0 {
            backup = rewind(&stage, backup);
        }
        trouble_relay(&stage, world.below(world.plan.relays), lease);
        trouble_consumers(&stage);
        for fault in [Fault::ClockAhead, Fault::ClockBack] {
            if often(&world, fault) {
                let by = match fault {
                    Fault::ClockAhead => world.millis(100..lease * 3),
                    _ => world.millis(100..5_000),
                };
                world.trace(format_args!("{} by {by:?}", fault.as_str()));
                world.step_clock(fault, by);
            }
        }
        if often(&world, Fault::StoreOutage) {
            let until = world.now() + world.millis(50..lease * 2);
            world.trace(format_args!("store down until {until:?}"));
            world.with(|state| state.store_down_until = until);
        }
        let index = world.below(world.plan.routes.len());
        if often(&world, Fault::Outage) {
            let until = world.now() + world.millis(50..6_000);
            world.trace(format_args!("broker {index} down until {until:?}"));
            world.route(index, |route| route.down_until = until);
        }
        if often(&world, Fault::RouteLocked) {
            let until = world.now() + world.millis(50..6_000);
            world.trace(format_args!("rows of route {index} locked until {until:?}"));
            world.route(index, |route| route.locked_until = until);
        }
        if often(&world, Fault::Reshard) {
            reshard(&stage, index).await;
        }
    }
}

/// Takes a backup at times, and puts the database back to it at others.
fn rewind(stage: &Stage, backup: Option<MemoryBackup>) -> Option<MemoryBackup> {
    let world = &stage.world;
    let Some(backup) = backup else { return world.coin().then(|| stage.store.backup()) };
    if !often(world, Fault::Rewind) {
        return Some(backup);
    }
    let is_by_position = |index: usize| {
        let consumers = world.plan.consumers.iter().filter(move |it| it.route == index);
        consumers.filter(|it| it.mode == InboxMode::Watermark)
    };
    let routes = 0..world.plan.routes.len();
    // Where the server cannot tell and nobody who noticed lives on, such consumers need a person's
    // help.
    let line = match routes.clone().any(|index| is_by_position(index).next().is_some()) {
        true => Line::Other,
        false => Line::Same,
    };
    stage.store.restore(&backup, line);
    world.trace(format_args!("the database goes back in time, line {line:?}"));
    let held = stage.store.held();
    for index in routes {
        world.route(index, |route| {
            route.history.rewound(|id| held.contains(&id));
            is_by_position(index).for_each(|it| route.history.consumer_may_repeat(it.name));
        });
    }
    world.with(|state| {
        state.leases.rewound();
        state.has_rewound = true;
    });
    None
}

fn trouble_relay(stage: &Arc<Stage>, index: usize, lease: u64) {
    let world = &stage.world;
    let Some(relay) = stage.relay(index) else { return };
    if often(world, Fault::RelayCrash) {
        let steps = 1 + world.below(60) as u64;
        relay.process.crash_in(steps);
    }
    if often(world, Fault::RelayPause) {
        pause(world, &relay.process, world.millis(100..lease * 3));
    }
    if often(world, Fault::RelayStop) {
        world.trace(format_args!("{} is told to stop", relay.process.name));
        relay.stop.cancel();
    }
}

fn trouble_consumers(stage: &Arc<Stage>) {
    let world = &stage.world;
    let consumers = stage.consumers();
    let living: Vec<_> = consumers.iter().filter(|process| !process.is_dead()).collect();
    if living.is_empty() {
        return;
    }
    let process = living[world.below(living.len())];
    if often(world, Fault::ConsumerCrash) {
        process.crash_in(1 + world.below(40) as u64);
    }
    if often(world, Fault::ConsumerPause) {
        pause(world, process, world.millis(100..4_000));
    }
}

fn pause(world: &Arc<World>, process: &Arc<Process>, pause: Duration) {
    if process.pause() {
        world.trace(format_args!("{} stands still for {pause:?}", process.name));
        let process = Arc::clone(process);
        tokio::spawn(async move {
            sleep(pause).await;
            process.resume();
        });
    }
}

/// Tells every relay another number of shards, which takes a restart of each.
async fn reshard(stage: &Arc<Stage>, index: usize) {
    let world = &stage.world;
    let shards = 1 + world.below(3) as u16;
    world.trace(format_args!("{} gets {shards} shards", route_name(index)));
    world.route(index, |route| route.shards = shards);
    for relay in 0..world.plan.relays {
        if let Some(relay) = stage.relay(relay) {
            relay.stop.cancel();
        }
        sleep(world.millis(0..500)).await;
    }
}
