//! What messages say about those before them: never too much, and in the end all there is to say.
//! That nothing is claimed that is not so, the bench checks of every message in every test.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use crate::support::{Bench, payload, rejected, unknown};
use posthaste_broker_memory::{MemoryBroker, Script};
use posthaste_core::{Floor, Message, ParkedFilter, RouteSpec, Status, Store};
use posthaste_relay::{Route, Settings};

/// The floor of the latest message that the broker took.
fn latest(bench: &Bench) -> Floor {
    let taken = bench.broker.taken();
    taken.last().and_then(|taken| taken.provenance.floor.clone()).expect("a floor")
}

/// Lets the relay settle and look again, then sends one more message and gives its floor.
async fn next_floor(bench: &Bench, number: u32) -> Floor {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let count = bench.broker.received().len();
    bench.enqueue(&["next"], number..number + 1);
    bench.broker.wait_for(count + 1).await;
    latest(bench)
}

fn refuse_the_first(bench: &Bench) {
    bench.broker.set_rule(|delivery| match &*payload(&delivery.message) {
        "bad-0" => Script::Refuse(rejected()),
        _ => Script::Take,
    });
}

/// A route that gives nothing up.
fn patient(bench: &Bench) -> Route {
    let mut route = bench.route("r", 1);
    route.retry.attempts_max = 1_000_000;
    route
}

#[tokio::test(start_paused = true)]
async fn it_follows_what_was_acknowledged() {
    let bench = Bench::new(MemoryBroker::new());
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    bench.enqueue(&["a"], 0..10);
    bench.broker.wait_for(10).await;
    let floor = next_floor(&bench, 0).await;
    assert_eq!((floor.seq, floor.missing.len()), (10, 0));
    relay.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn it_stays_below_an_open_transaction_and_passes_it_when_it_has_ended() {
    for commits in [true, false] {
        let bench = Bench::new(MemoryBroker::new());
        let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
        let committed = bench.enqueue(&["a"], 0..5);
        let mut late = bench.store.begin();
        late.enqueue(&[Message::from_bytes("t", Some("late"), "late")]).unwrap();
        bench.enqueue(&["a"], 5..10);
        bench.broker.wait_for(10).await;
        let floor = next_floor(&bench, 0).await;
        assert!(floor.seq <= 5, "6 may still come: {floor}");
        if commits {
            late.commit();
        } else {
            late.rollback();
        }
        bench.until_idle().await;
        let floor = next_floor(&bench, 1).await;
        assert_eq!(floor.seq, 12, "{floor}");
        relay.shutdown().await;
        assert_eq!(bench.consumed()[..5], committed.iter().map(|m| m.id).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_has_begun_but_not_written_holds_it_back() {
    let bench = Bench::new(MemoryBroker::new());
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    let mut idle = bench.store.begin();
    idle.touch();
    bench.enqueue(&["a"], 0..5);
    bench.broker.wait_for(5).await;
    let before = next_floor(&bench, 0).await;
    idle.rollback();
    let after = next_floor(&bench, 1).await;
    assert_eq!((before.seq, after.seq), (0, 6), "nobody can tell that it never drew a seq");
    relay.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn parked_and_dead_messages_are_missing_until_they_are_delivered() {
    let bench = Bench::new(MemoryBroker::unordered());
    let committed = bench.enqueue(&["bad", "a"], 0..3);
    refuse_the_first(&bench);
    let relay = bench.start(vec![patient(&bench)], Settings::default());
    bench.broker.wait_for(3).await;
    let floor = next_floor(&bench, 0).await;
    assert_eq!((floor.seq, &*floor.missing), (6, &[1, 3, 5][..]), "waiting");
    relay.shutdown().await;
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    bench.until("dead", |status| status.routes[0].dead == 1).await;
    bench.until_idle().await;
    let floor = next_floor(&bench, 1).await;
    assert_eq!((floor.seq, &*floor.missing), (7, &[1][..]), "dead");
    bench.broker.clear_rule();
    bench.store.redrive(&ParkedFilter::default(), "me").await.unwrap();
    bench.until_idle().await;
    let floor = next_floor(&bench, 2).await;
    assert_eq!((floor.seq, floor.missing.len()), (8, 0), "redriven");
    relay.shutdown().await;
    let handled = bench.consumed();
    assert!(committed.iter().all(|message| handled.contains(&message.id)));
}

#[tokio::test(start_paused = true)]
async fn more_dead_letters_than_fit_stop_it_until_people_have_decided() {
    let bench = Bench::new(MemoryBroker::unordered());
    let keys: Vec<String> = (0..40).map(|n| format!("bad{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    bench.broker.set_rule(|delivery| match payload(&delivery.message).starts_with("bad") {
        true => Script::Refuse(rejected()),
        false => Script::Take,
    });
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    // With others between them, or the broker would seem to refuse everything.
    for key in &keys {
        bench.enqueue(&[key, "good", "fine", "well"], 0..1);
    }
    bench.until("dead", |status| status.routes.iter().any(|route| route.dead == 40)).await;
    let floor = next_floor(&bench, 0).await;
    assert_eq!((floor.seq, floor.missing.len()), (128, 32), "just below the 33rd, which is 129");
    bench.store.discard(&ParkedFilter::default(), "me", "not needed").await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let floor = next_floor(&bench, 1).await;
    assert_eq!((floor.seq, floor.missing.len()), (161, 0), "the relay has looked");
    relay.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_takes_over_knows_what_is_missing() {
    let bench = Bench::new(MemoryBroker::unordered());
    refuse_the_first(&bench);
    let committed = bench.enqueue(&["bad", "a"], 0..3);
    let first = bench.start(vec![patient(&bench)], Settings::default());
    bench.broker.wait_for(3).await;
    bench.until("parked", |status| status.routes[0].retrying == 3).await;
    first.kill().await;
    let second = bench.start(vec![patient(&bench)], Settings::default());
    tokio::time::sleep(Duration::from_secs(31)).await;
    next_floor(&bench, 0).await;
    bench.broker.clear_rule();
    bench.until_idle().await;
    let floor = next_floor(&bench, 1).await;
    assert_eq!((floor.seq, floor.missing.len()), (7, 0));
    second.shutdown().await;
    let handled = bench.consumed();
    assert!(committed.iter().all(|message| handled.contains(&message.id)));
}

/// Everything at once: kills between an acknowledgement and its settlement, lost answers, refusals,
/// dead letters that are redriven or discarded, transactions that stay open, and other layouts.
#[tokio::test(start_paused = true)]
async fn it_holds_and_is_enough_for_a_consumer_under_everything_at_once() {
    for seed in 0..12 {
        let bench = Bench::new(MemoryBroker::unordered());
        let count = AtomicU32::new(0);
        bench.broker.set_rule(move |delivery| {
            let number = count.fetch_add(1, Ordering::Relaxed) + 7 * seed;
            match number % 13 {
                2 if payload(&delivery.message).starts_with("bad") => Script::Refuse(rejected()),
                5 if payload(&delivery.message).starts_with("bad") => Script::Refuse(rejected()),
                7 => Script::TakeAndAnswer(unknown()),
                11 => Script::Refuse(unknown()),
                _ => Script::Take,
            }
        });
        let mut random = fastrand::Rng::with_seed(u64::from(seed));
        let mut committed = Vec::new();
        for round in 0..10_u32 {
            let shards = [1, 1, 3, 2][random.usize(..4)];
            let mut route = bench.route("r", shards);
            route.retry.attempts_max = random.u32(1..4);
            let relay = bench.start(vec![route], Settings::default());
            let mut late = bench.store.begin();
            let early = Message::from_bytes("t", Some("late"), format!("late-{round}"));
            late.enqueue(std::slice::from_ref(&early)).unwrap();
            committed
                .extend(bench.enqueue(&["bad0", "bad1", "a", "b"], round * 20..round * 20 + 9));
            tokio::time::sleep(Duration::from_millis(random.u64(..3_000))).await;
            if random.bool() {
                late.commit();
                committed.push(early);
            } else {
                late.rollback();
            }
            committed.extend(bench.enqueue(&["bad0", "a"], round * 20 + 9..round * 20 + 20));
            tokio::time::sleep(Duration::from_millis(random.u64(..60_000))).await;
            bench.store.redrive(&ParkedFilter::default(), "me").await.unwrap();
            if random.bool() { relay.kill().await } else { relay.shutdown().await }
        }
        bench.broker.clear_rule();
        let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
        bench.until("one shard", |status| status.routes[0].leases.len() == 1).await;
        bench.store.redrive(&ParkedFilter::default(), "me").await.unwrap();
        bench.until_idle().await;
        relay.shutdown().await;
        let handled = bench.consumed();
        for message in &committed {
            let times = handled.iter().filter(|id| **id == message.id).count();
            assert_eq!(times, 1, "seed {seed}: {} was handled {times} times", payload(message));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_consumer_must_remember_is_bounded_by_what_is_on_its_way() {
    let bench = Bench::new(MemoryBroker::new());
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    for round in 0..100 {
        bench.enqueue(&["a", "b"], round * 50..(round + 1) * 50);
        bench.broker.wait_for(usize::try_from((round + 1) * 100).unwrap()).await;
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
    relay.shutdown().await;
    let remembered = bench.consumer().remembered_max;
    assert!(remembered <= 300, "{remembered} of 10,000");
}

#[tokio::test(start_paused = true)]
async fn another_layout_starts_at_what_it_can_prove() {
    let bench = Bench::new(MemoryBroker::unordered());
    let keys = ["a", "b", "c", "d"];
    for (round, shards) in [1_u16, 3, 2].into_iter().enumerate() {
        let round = u32::try_from(round).unwrap();
        let relay = bench.start(vec![bench.route("r", shards)], Settings::default());
        let has_shards = |status: &Status| status.routes[0].leases.len() == usize::from(shards);
        bench.until("resharded", |status| !status.routes.is_empty() && has_shards(status)).await;
        bench.enqueue(&keys, round * 10..round * 10 + 10);
        bench.until_idle().await;
        let floor = next_floor(&bench, round).await;
        assert_eq!(floor.shard.of, shards);
        bench.until_idle().await;
        relay.shutdown().await;
    }
    let taken = bench.broker.taken();
    let floors: Vec<_> = taken.iter().filter_map(|taken| taken.provenance.floor.clone()).collect();
    assert!(floors.iter().all(|floor| floor.log == floors[0].log), "one log in all layouts");
    assert!(floors.iter().any(|floor| floor.shard.of == 2 && floor.seq > 80));
}

/// A message that no floor could speak of comes below one: under another name of the log.
#[tokio::test(start_paused = true)]
async fn other_topics_are_another_log() {
    let bench = Bench::new(MemoryBroker::new());
    let of = |topics: &[&str]| {
        let spec = RouteSpec {
            name: "r".to_owned(),
            topics: topics.iter().map(|topic| topic.parse().unwrap()).collect(),
            shards: 1,
        };
        bench.route_of(spec)
    };
    let mut waited = Vec::new();
    let first = bench.start(vec![of(&["t"])], Settings::default());
    for number in 0..10 {
        bench.enqueue(&["a"], number..number + 1);
        let message = Message::from_bytes("other", Some("b"), "waits");
        bench.store.append(std::slice::from_ref(&message)).await.unwrap();
        waited.push(message.id);
    }
    bench.broker.wait_for(10).await;
    let before = next_floor(&bench, 0).await;
    assert_eq!(before.seq, 20);
    first.shutdown().await;
    let second = bench.start(vec![of(&["t", "other"])], Settings::default());
    bench.broker.wait_for(21).await;
    bench.until_idle().await;
    let after = next_floor(&bench, 1).await;
    assert_ne!(after.log, before.log);
    second.shutdown().await;
    let handled = bench.consumed();
    assert!(waited.iter().all(|id| handled.contains(id)), "though the floor was above them");
}
