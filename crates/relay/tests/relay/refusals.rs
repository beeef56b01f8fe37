//! Refusals around outages: what they say of the broker, and what they cost a message.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use posthaste_broker_memory::{MemoryBroker, Script};
use posthaste_core::{CallOrder, Clock as _, Failure, OnDead, Outcome, Status};
use posthaste_relay::{RouteState, Settings};

use crate::support::{Bench, Gauges, hopeless, payload, policy, rejected, unknown};

fn unreachable() -> Outcome {
    Outcome::Unreachable(Failure::new("down", "not now"))
}

fn dead(count: u64) -> impl Fn(&Status) -> bool {
    move |status| status.routes.first().is_some_and(|route| route.dead == count)
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_refused_ends_the_outage() {
    let gauges = Gauges::default();
    let _guard = metrics::set_default_local_recorder(&gauges);
    let paused = || gauges.value("posthaste_route_paused") == Some(1.0);
    let bench = Bench::new(MemoryBroker::unordered());
    bench.enqueue(&["bad"], 0..1);
    bench.broker.set_down(true);
    let mut route = bench.route("r", 1);
    route.retry = policy(1);
    let relay = bench.start(vec![route], Settings::default());
    bench.until("the route is paused", |_| paused()).await;
    assert_eq!(relay.handle.health().routes[0].state, RouteState::Paused);
    bench.broker.set_rule(|delivery| match &*payload(&delivery.message) {
        "bad-0" => Script::Refuse(rejected()),
        _ => Script::Take,
    });
    bench.broker.set_down(false);
    bench.until("the probe is a dead letter", dead(1)).await;
    assert_eq!(relay.handle.health().routes[0].state, RouteState::Running);
    assert!(!paused(), "the broker answered");
    bench.enqueue(&["good"], 0..3);
    bench.until_idle().await;
    assert!(!paused());
    relay.shutdown().await;
}

/// What was left unanswered in one outage and refused at its end must not be written down as
/// unanswered at the end of the next: that would give it its attempt back.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_an_unknown_outcome_stays_counted() {
    let bench = Bench::new(MemoryBroker::unordered());
    let (tries, outages) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
    let counted = tries.clone();
    bench.broker.set_rule(move |delivery| match &*payload(&delivery.message) {
        "bad-0" => Script::Refuse(match counted.fetch_add(1, Ordering::Relaxed) {
            1 => unknown(),
            _ => rejected(),
        }),
        _ if outages.fetch_add(1, Ordering::Relaxed) == 0 => Script::Refuse(unreachable()),
        _ => Script::Take,
    });
    bench.enqueue(&["bad"], 0..1);
    let mut route = bench.route("r", 1);
    route.retry.backoff.initial = Duration::from_secs(60);
    let relay = bench.start(vec![route], Settings::default());
    let tried = |times: u32| {
        let tries = tries.clone();
        move |_: &Status| tries.load(Ordering::Relaxed) == times
    };
    bench.until("refused, unanswered, refused", tried(3)).await;
    bench.enqueue(&["good"], 0..1);
    relay.handle.wake();
    bench.until("the other arrived", |_| bench.broker.received().len() == 1).await;
    assert!(tried(3)(&Status::default()), "an outage began and ended between two of its tries");
    bench.until("a dead letter", dead(1)).await;
    assert_eq!(tries.load(Ordering::Relaxed), 4, "three refusals and one without an answer");
    relay.shutdown().await;
}

/// A broker that refuses a hundred in a row is taken for down, but what is behind them must have its
/// try: there may be more bad messages than that, and all before the first good one.
#[tokio::test(start_paused = true)]
async fn a_good_message_behind_any_number_of_bad_ones_is_delivered_and_they_are_dead_letters() {
    for order in [CallOrder::OnePerKey, CallOrder::PerKey, CallOrder::Total] {
        let bench = Bench::new(MemoryBroker::with_call_order(order));
        bench.broker.set_rule(|delivery| match payload(&delivery.message).starts_with("bad") {
            true => Script::Refuse(rejected()),
            false => Script::Take,
        });
        let bad: Vec<String> = (0..150).map(|n| format!("bad{n}")).collect();
        let bad: Vec<&str> = bad.iter().map(String::as_str).collect();
        bench.enqueue(&bad, 0..1);
        let mut good = bench.enqueue(&["good"], 0..1);
        // No more than these are read before the first of them have left.
        let settings = Settings { window_messages_max: 40, batch: 20, ..Settings::default() };
        let relay = bench.start(vec![bench.route("r", 1)], settings);
        let arrived = |count| {
            let broker = bench.broker.clone();
            move |_: &Status| broker.received().len() == count
        };
        bench.until("the good one is delivered", arrived(1)).await;
        assert_eq!(bench.dead().await, [] as [&str; 0], "{order:?}: nothing else was acknowledged");
        while bench.dead().await.len() < bad.len() {
            good.extend(bench.enqueue(&["good"], 1..2));
            bench.until("it is delivered", arrived(good.len())).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        bench.until_idle().await;
        relay.shutdown().await;
        assert_eq!(bench.broker.received(), good, "{order:?}");
    }
}

/// A message that no attempt can deliver is tried once, and its key does not wait for a second time.
#[tokio::test(start_paused = true)]
async fn a_hopeless_message_is_a_dead_letter_after_one_attempt_and_its_key_goes_on() {
    for order in [CallOrder::OnePerKey, CallOrder::PerKey, CallOrder::Total] {
        let bench = Bench::new(MemoryBroker::with_call_order(order));
        let tries = Arc::new(AtomicU32::new(0));
        let counted = tries.clone();
        bench.broker.set_rule(move |delivery| {
            if payload(&delivery.message) != "a-1" {
                return Script::Take;
            }
            counted.fetch_add(1, Ordering::Relaxed);
            Script::Refuse(hopeless())
        });
        bench.enqueue(&["a", "b"], 0..4);
        let started = bench.clock.elapsed();
        let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
        bench.broker.wait_for(7).await;
        bench.until_idle().await;
        let took = bench.clock.elapsed().saturating_sub(started);
        relay.shutdown().await;
        assert_eq!(tries.load(Ordering::Relaxed), 1, "{order:?}");
        assert_eq!(bench.dead().await, ["a-1"], "{order:?}");
        let mut of_a = bench.payloads();
        of_a.retain(|payload| payload.starts_with('a'));
        assert_eq!(of_a, ["a-0", "a-2", "a-3"], "{order:?}");
        assert!(took < Duration::from_secs(5), "{order:?}: the key waited for {took:?}");
    }
}

/// The key of a hopeless message waits for a person where the policy says so.
#[tokio::test(start_paused = true)]
async fn a_hopeless_message_blocks_its_key_where_the_policy_says_so() {
    let bench = Bench::new(MemoryBroker::unordered());
    bench.broker.set_rule(|delivery| match payload(&delivery.message) == "a-1" {
        true => Script::Refuse(hopeless()),
        false => Script::Take,
    });
    bench.enqueue(&["a", "b"], 0..4);
    let mut route = bench.route("r", 1);
    route.retry.on_dead = OnDead::Block;
    let relay = bench.start(vec![route], Settings::default());
    bench.until("a dead letter", dead(1)).await;
    bench.broker.wait_for(5).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    relay.shutdown().await;
    let mut of_a = bench.payloads();
    of_a.retain(|payload| payload.starts_with('a'));
    assert_eq!(of_a, ["a-0"]);
}
