//! Several relays: who serves what, take-over, shards, stopping.

use std::time::Duration;

use crate::support::Bench;
use posthaste_broker_memory::{MemoryBroker, Script};
use posthaste_core::{Clock, Message, Retention, Status, Store};
use posthaste_relay::{Error, RouteState, Settings};
use tokio_util::sync::CancellationToken;

fn shards_of(status: &Status) -> Vec<Option<String>> {
    status
        .routes
        .iter()
        .flat_map(|route| route.leases.iter().map(|lease| lease.relay.clone()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_within_a_lease_and_a_poll() {
    let bench = Bench::new(MemoryBroker::new());
    let settings = Settings::default();
    let first = bench.start(vec![bench.route("r", 1)], settings.clone());
    bench.until("served", |status| shards_of(status).iter().any(Option::is_some)).await;
    let second = bench.start(vec![bench.route("r", 1)], settings.clone());
    let mut committed = bench.enqueue(&["a"], 0..10);
    bench.broker.wait_for(10).await;
    assert_eq!(second.handle.health().routes[0].state, RouteState::Standby);
    first.kill().await;
    let killed_at = bench.clock.elapsed();
    committed.extend(bench.enqueue(&["a"], 10..20));
    bench.broker.wait_for(20).await;
    let took = bench.clock.elapsed() - killed_at;
    assert!(took <= settings.lease + settings.poll * 2, "{took:?}");
    second.shutdown().await;
    assert!(bench.history(&committed).is_sound());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_relay_gives_its_shard_back_at_once() {
    let bench = Bench::new(MemoryBroker::new());
    let first = bench.start(vec![bench.route("r", 1)], Settings::default());
    bench.until("served", |status| shards_of(status).iter().any(Option::is_some)).await;
    first.shutdown().await;
    let status = bench.store.status().await.unwrap();
    assert_eq!(shards_of(&status), [None]);
    assert!(status.relays.is_empty(), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn killed_relays_lose_nothing_and_keep_the_order_of_keys() {
    let bench = Bench::new(MemoryBroker::unordered());
    let mut committed = Vec::new();
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..30 {
        let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
        committed.extend(bench.enqueue(&["a", "b", "c"], round * 20..(round + 1) * 20));
        tokio::time::sleep(Duration::from_millis(random.u64(..40_000))).await;
        relay.kill().await;
    }
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    bench.until_idle().await;
    relay.shutdown().await;
    let report = bench.history(&committed);
    assert!(report.is_sound(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn relays_share_shards_fairly_and_keep_the_order_of_keys() {
    let bench = Bench::new(MemoryBroker::unordered());
    let keys: Vec<String> = (0..40).map(|n| format!("key{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut committed = bench.enqueue(&keys, 0..10);
    let relays: Vec<_> =
        (0..3).map(|_| bench.start(vec![bench.route("r", 6)], Settings::default())).collect();
    let is_fair = |status: &Status| {
        let mut counts = std::collections::HashMap::new();
        for relay in shards_of(status).into_iter().flatten() {
            *counts.entry(relay).or_insert(0) += 1;
        }
        counts.len() == 3 && counts.values().all(|&count| count == 2)
    };
    bench.until("fair shares", is_fair).await;
    committed.extend(bench.enqueue(&keys, 10..20));
    bench.until_idle().await;
    for relay in relays {
        relay.shutdown().await;
    }
    let report = bench.history(&committed);
    assert!(report.is_exact(), "no fault, so no duplicate: {report:?}");
}

#[tokio::test(start_paused = true)]
async fn the_number_of_shards_changes_without_loss_or_duplicate_or_disorder() {
    let bench = Bench::new(MemoryBroker::unordered());
    let keys: Vec<String> = (0..20).map(|n| format!("key{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut committed = Vec::new();
    for (round, shards) in [1_u16, 4, 3, 7, 1].into_iter().enumerate() {
        let round = u32::try_from(round).unwrap();
        committed.extend(bench.enqueue(&keys, round * 10..round * 10 + 5));
        let relay = bench.start(vec![bench.route("r", shards)], Settings::default());
        let has_shards = |status: &Status| status.routes[0].leases.len() == usize::from(shards);
        bench.until("resharded", |status| !status.routes.is_empty() && has_shards(status)).await;
        committed.extend(bench.enqueue(&keys, round * 10 + 5..round * 10 + 10));
        bench.until_idle().await;
        relay.shutdown().await;
    }
    let report = bench.history(&committed);
    assert!(report.is_exact(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn running_once_delivers_everything_and_ends() {
    let bench = Bench::new(MemoryBroker::unordered());
    let committed = bench.enqueue(&["a", "b"], 0..3000);
    bench.drain(vec![bench.route("r", 3)]).await;
    assert!(bench.history(&committed).is_exact());
}

#[tokio::test(start_paused = true)]
async fn running_once_beside_another_relay_says_so() {
    let bench = Bench::new(MemoryBroker::new());
    let first = bench.start(vec![bench.route("r", 1)], Settings::default());
    bench.until("served", |status| shards_of(status).iter().any(Option::is_some)).await;
    let relay = bench.relay(vec![bench.route("r", 1)], Settings::default());
    let error = relay.run_once(CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    first.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_answers_and_settles_them() {
    let bench = Bench::new(MemoryBroker::new());
    bench.broker.set_rule(|_| Script::Hang);
    bench.enqueue(&["a"], 0..1);
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    bench.until("served", |status| shards_of(status).iter().any(Option::is_some)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked_at = bench.clock.elapsed();
    relay.shutdown().await;
    let took = bench.clock.elapsed() - asked_at;
    assert!(took < Settings::default().drain, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_late_commit_is_delivered_and_before_later_ones_of_its_key() {
    let bench = Bench::new(MemoryBroker::new());
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    let mut late = bench.store.begin();
    let early = Message::from_bytes("t", Some("a"), "first");
    late.enqueue(std::slice::from_ref(&early)).unwrap();
    let mut committed = bench.enqueue(&["b"], 0..50);
    bench.broker.wait_for(50).await;
    late.commit();
    committed.insert(0, early);
    committed.extend(bench.enqueue(&["a"], 0..5));
    bench.until_idle().await;
    relay.shutdown().await;
    assert!(bench.history(&committed).is_exact());
}

#[tokio::test(start_paused = true)]
async fn what_is_delivered_goes_and_what_is_not_stays() {
    let bench = Bench::new(MemoryBroker::new());
    let settings = Settings {
        retention: Retention {
            delivered: Duration::from_secs(60),
            discarded: Duration::from_secs(60),
        },
        ..Settings::default()
    };
    bench.enqueue(&["a"], 0..5000);
    let mut late = bench.store.begin();
    late.enqueue(&[Message::from_bytes("t", Some("late"), "late")]).unwrap();
    bench.enqueue(&["a"], 5000..5010);
    let relay = bench.start(vec![bench.route("r", 1)], settings);
    bench.broker.wait_for(5010).await;
    assert_eq!(bench.store.committed().len(), 5010, "kept for the retention");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(bench.store.committed().len(), 0);
    late.commit();
    bench.broker.wait_for(5011).await;
    relay.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_woken_relay_does_not_wait_for_its_poll() {
    let bench = Bench::new(MemoryBroker::new());
    let settings = Settings { poll: Duration::from_secs(9), ..Settings::default() };
    let relay = bench.start(vec![bench.route("r", 1)], settings);
    bench.until("served", |status| shards_of(status).iter().any(Option::is_some)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    bench.enqueue(&["a"], 0..1);
    let woken_at = bench.clock.elapsed();
    relay.handle.wake();
    bench.broker.wait_for(1).await;
    assert!(bench.clock.elapsed() - woken_at < Duration::from_millis(100));
    relay.shutdown().await;
}
