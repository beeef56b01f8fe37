//! The outbox's relay behind the API: what becomes of events when relays and brokers fail. Brokers are
//! RabbitMQ, or one in memory where it must fail at a certain moment; the relay is the library's, which
//! `posthaste relay` runs as a process of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use posthaste::{
    Backoff, OnDead, Relay, RelayBuilder, RetryPolicy, Sharing, Start, Store, Subscriber,
    Subscription,
    postgres::PostgresStore,
    rabbitmq,
    testing::{MemoryBroker, Script},
};
use posthaste_fixtures::{Kind, Options, Server, server};
use services_web::testing::{Bed, PATIENCE, Pool, eventually};
use sqlx::PgPool;
use uuid::Uuid;

use crate::bed::{Api, transfer};

const TOPICS: &str = "transaction.*";

/// A pool that is not the test's own, as another process has it; the server knows it by this name.
fn pool(bed: &Bed, name: &str) -> PgPool {
    let Pool::Postgres(pool) = &bed.pool else { panic!("PostgreSQL was asked for") };
    PgPool::connect_lazy_with((*pool.connect_options()).clone().application_name(name))
}

/// A relay with short pauses.
fn relay(bed: &Bed, name: &str, broker: Arc<dyn posthaste::Broker>) -> RelayBuilder {
    Relay::builder(pool(bed, name)).route("transactions", TOPICS, broker).settings(|settings| {
        settings.poll = Duration::from_millis(20);
    })
}

/// Creates transfers, many at a time; their ids.
async fn create(api: &Api, count: i64) -> BTreeSet<String> {
    let bodies = stream::iter(1..=count).map(|n| transfer("user-a", "user-b", n));
    bodies.map(async |body| api.create(&body).await).buffer_unordered(16).collect().await
}

/// The transfers that messages in memory speak of.
fn received(broker: &MemoryBroker) -> Vec<String> {
    broker.received().into_iter().map(|message| message.key.unwrap()).collect()
}

/// Waits until that many rows are found.
async fn until_rows(bed: &Bed, sql: &str, count: usize) {
    eventually(sql, async || {
        let found = bed.texts(sql).await.len();
        if found == count { Ok(()) } else { Err(found) }
    })
    .await;
}

const HELD: &str = "SELECT DISTINCT relay::text FROM posthaste.lease WHERE relay IS NOT NULL";

/// An exchange of a test's own on RabbitMQ.
struct Exchange {
    config: rabbitmq::Config,
}

impl Exchange {
    fn on(url: &str) -> Self {
        let mut config = rabbitmq::Config::new(url);
        config.exchange = format!("transaction.events.{}", Uuid::new_v4().simple());
        Self { config }
    }

    fn broker(&self) -> Arc<dyn posthaste::Broker> {
        Arc::new(rabbitmq::RabbitMqBroker::open(self.config.clone()).unwrap())
    }

    /// A durable queue, and who reads it.
    async fn queue(&self) -> rabbitmq::RabbitMqSubscriber {
        let subscription = Subscription {
            name: Some(self.config.exchange.clone()),
            topics: vec!["transaction.created".parse().unwrap()],
            start: Start::New,
            sharing: Sharing::Competing,
        };
        rabbitmq::subscribe(&self.config, &subscription).await.unwrap()
    }
}

/// The next messages: how often each transfer's came, by message id and transfer.
async fn receive(
    subscriber: &mut rabbitmq::RabbitMqSubscriber,
    count: usize,
) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    let all = async {
        while counts.values().sum::<usize>() < count {
            // An error is a lost connection; the next call opens another.
            let Ok(incoming) = subscriber.receive().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let message = incoming.message;
            *counts.entry((message.id.to_string(), message.key.unwrap())).or_default() += 1;
            // Not acknowledged means that it comes again, which the test would see.
            let _ = subscriber.acknowledge(incoming.receipt).await;
        }
    };
    // A broker that has just started is slow on a machine that has other work.
    tokio::time::timeout(3 * PATIENCE, all).await.expect("the messages arrive");
    counts
}

fn transfers(counts: &BTreeMap<(String, String), usize>) -> BTreeSet<String> {
    counts.keys().map(|(_, transfer)| transfer.clone()).collect()
}

/// Ten thousand of them, with everything failing, are `transfers-chaos`'s.
#[tokio::test]
async fn r2_01_of_three_relays_one_sends_each_event() {
    let api = Api::on(Bed::postgres().await).await;
    let exchange = Exchange::on(server(Kind::RabbitMq).url());
    let mut queue = exchange.queue().await;
    let relays: Vec<_> = ["one", "two", "three"]
        .into_iter()
        .map(|name| relay(&api.bed, name, exchange.broker()).shards(3).build().unwrap().spawn())
        .collect();
    until_rows(&api.bed, HELD, 3).await;
    let created = create(&api, 300).await;
    let arrived = receive(&mut queue, 300).await;
    assert_eq!(transfers(&arrived), created);
    for relay in relays {
        relay.shutdown().await.unwrap();
    }
    // A queue keeps its order: if there were a copy, it would come before this one.
    let last = create(&api, 1).await;
    relay(&api.bed, "last", exchange.broker()).shards(3).build().unwrap().run_once().await.unwrap();
    assert_eq!(transfers(&receive(&mut queue, 1).await), last, "none was sent twice");
}

/// D3-24: with a full batch there is more, and it is asked for at once. Waiting for the next look would
/// take hours here.
#[tokio::test]
async fn r2_02_a_full_batch_is_followed_by_the_next_one_at_once() {
    let api = Api::on(Bed::postgres().await).await;
    let created = create(&api, 220).await;
    let broker = MemoryBroker::new();
    let worker = relay(&api.bed, "worker", Arc::new(broker.clone()))
        .retry(policy(3))
        .publish_timeout(Duration::from_secs(5))
        .settings(|settings| {
            settings.poll = Duration::from_secs(3600);
            settings.batch = 50;
        });
    let worker = worker.build().unwrap().spawn();
    tokio::time::timeout(PATIENCE, broker.wait_for(220)).await.expect("everything is sent");
    worker.shutdown().await.unwrap();
    let sent = received(&broker);
    assert_eq!((sent.len(), sent.into_iter().collect::<BTreeSet<_>>()), (220, created));
}

fn policy(attempts_max: u32) -> RetryPolicy {
    let backoff = Backoff { initial: Duration::from_millis(10), max: Duration::from_millis(20) };
    RetryPolicy { attempts_max, backoff, age_max: None, on_dead: OnDead::Continue }
}

/// While the broker stalls, both have begun.
#[tokio::test]
async fn r2_03_two_relays_claim_different_events_and_both_go_on() {
    let api = Api::on(Bed::postgres().await).await;
    let brokers = [MemoryBroker::new(), MemoryBroker::new()];
    let mut relays = Vec::new();
    for broker in &brokers {
        broker.set_rule(|_| Script::Hang);
        let relay = relay(&api.bed, "one of two", Arc::new(broker.clone()))
            .shards(2)
            .publish_timeout(Duration::from_secs(2));
        relays.push(relay.build().unwrap().spawn());
    }
    until_rows(&api.bed, HELD, 2).await;
    let created = create(&api, 100).await;
    eventually("both have claimed", async || {
        let calls = [brokers[0].calls(), brokers[1].calls()];
        if calls.contains(&0) { Err(calls) } else { Ok(()) }
    })
    .await;
    brokers.iter().for_each(MemoryBroker::clear_rule);
    eventually("everything is sent", async || {
        let sent = brokers.each_ref().map(|broker| received(broker).len());
        if sent.iter().sum::<usize>() < 100 { Err(sent) } else { Ok(()) }
    })
    .await;
    for relay in relays {
        relay.shutdown().await.unwrap();
    }
    let [one, two] = brokers.each_ref().map(received);
    assert!(!one.is_empty() && !two.is_empty());
    let sent: BTreeSet<String> = one.iter().chain(&two).cloned().collect();
    assert_eq!((one.len() + two.len(), sent), (100, created), "each by one of them");
}

/// And R2.10: nobody has bound a queue, so nothing was delivered. D3-20: RabbitMQ takes what it cannot
/// route, and only says so to who listens. D3-25: the reason is kept, and people can send it again.
#[tokio::test]
async fn r2_04_after_three_refusals_an_event_has_failed_and_r2_08_it_can_be_sent_again() {
    let api = Api::on(Bed::postgres().await).await;
    let exchange = Exchange::on(server(Kind::RabbitMq).url());
    let created = create(&api, 5).await;
    let builder = || relay(&api.bed, "worker", exchange.broker()).retry(policy(3));
    let worker = builder().build().unwrap().spawn();
    let failed = "SELECT id::text FROM posthaste.parked WHERE state = 'dead' AND attempts = 3 \
                  AND next_attempt_at IS NULL AND last_error_class = 'unroutable'";
    until_rows(&api.bed, failed, 5).await;
    worker.shutdown().await.unwrap();
    let ids: BTreeSet<String> = api.bed.texts(failed).await.into_iter().collect();
    let store = PostgresStore::new(pool(&api.bed, "operator"));
    let dead = store.dead(&Default::default(), 10).await.unwrap();
    assert_eq!(dead.len(), 5);
    assert!(dead.iter().all(|view| view.last_error.is_some()));
    // Still refused: dead letters are not tried again by themselves.
    builder().build().unwrap().run_once().await.unwrap();
    assert_eq!(api.bed.texts(failed).await.len(), 5);
    let mut queue = exchange.queue().await;
    assert_eq!(store.redrive(&Default::default(), "operator").await.unwrap(), 5);
    builder().build().unwrap().run_once().await.unwrap();
    let arrived = receive(&mut queue, 5).await;
    assert_eq!(transfers(&arrived), created);
    assert_eq!(arrived.into_keys().map(|(id, _)| id).collect::<BTreeSet<_>>(), ids, "the same ids");
    assert_eq!(api.bed.count("posthaste.parked").await, 0);
}

/// D3-17: claimed by a relay that dies before it has published. Nobody has to unlock anything.
#[tokio::test]
async fn r2_06_what_a_dead_relay_had_claimed_is_sent_by_the_next() {
    let api = Api::on(Bed::postgres().await).await;
    let created = create(&api, 50).await;
    let brokers = [MemoryBroker::new(), MemoryBroker::new()];
    brokers[0].set_rule(|_| Script::Hang);
    let short = |settings: &mut posthaste::Settings| settings.lease = Duration::from_secs(10);
    let victim = relay(&api.bed, "victim", Arc::new(brokers[0].clone())).settings(short);
    let victim = victim.build().unwrap().spawn();
    eventually("claimed", async || if brokers[0].calls() > 0 { Ok(()) } else { Err(()) }).await;
    victim.kill();
    let next = relay(&api.bed, "next", Arc::new(brokers[1].clone())).settings(short);
    let next = next.build().unwrap().spawn();
    tokio::time::timeout(PATIENCE, brokers[1].wait_for(50)).await.expect("everything is sent");
    next.shutdown().await.unwrap();
    assert_eq!(received(&brokers[1]).into_iter().collect::<BTreeSet<_>>(), created);
    assert_eq!(received(&brokers[1]).len(), 50);
    assert!(received(&brokers[0]).is_empty());
}

/// D3-18, D3-39: published, and the relay dies before it has recorded that, because the database does
/// not let it. The next one sends them again under the same ids, by which a consumer knows them (R2.05).
#[tokio::test]
async fn r2_06_what_was_published_but_not_recorded_comes_again_with_its_id() {
    let api = Api::on(Bed::postgres().await).await;
    let broker = MemoryBroker::new();
    // It cannot be renewed from the lock on, so the victim has a part of it to publish everything.
    let lease = |settings: &mut posthaste::Settings| settings.lease = Duration::from_secs(30);
    let victim = relay(&api.bed, "victim", Arc::new(broker.clone())).settings(lease);
    let victim = victim.build().unwrap().spawn();
    until_rows(&api.bed, HELD, 1).await;
    let admin = pool(&api.bed, "admin");
    let mut lock = admin.begin().await.unwrap();
    sqlx::query("LOCK TABLE posthaste.lease IN EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let created = create(&api, 20).await;
    tokio::time::timeout(PATIENCE, broker.wait_for(20)).await.expect("everything is sent");
    victim.kill();
    // What the server still does for who is gone must not be done once the table is free again.
    let sessions = "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity \
                    WHERE application_name = 'victim' AND datname = current_database()";
    until_rows(&api.bed, sessions, 0).await;
    lock.rollback().await.unwrap();
    let first: BTreeSet<String> = ids(&broker).into_iter().collect();
    assert_eq!((first.len(), ids(&broker).len()), (20, 20));
    let next = relay(&api.bed, "next", Arc::new(broker.clone())).settings(lease);
    let next = next.build().unwrap().spawn();
    tokio::time::timeout(2 * PATIENCE, broker.wait_for(40)).await.expect("everything comes again");
    next.shutdown().await.unwrap();
    assert_eq!(ids(&broker).into_iter().skip(20).collect::<BTreeSet<_>>(), first);
    assert_eq!(received(&broker).into_iter().collect::<BTreeSet<_>>(), created);
}

fn ids(broker: &MemoryBroker) -> Vec<String> {
    broker.received().iter().map(|message| message.id.to_string()).collect()
}

/// And R1.16: transfers are created while there is no broker. D3-15, D3-19: neither program needs one to
/// start, and the relay finds it again by itself, as often as it goes.
#[tokio::test]
async fn r2_07_an_outage_fails_no_event_and_r2_11_the_relay_reconnects() {
    let rabbit = Server::private(Kind::RabbitMq, &Options::default()).unwrap();
    let exchange = Exchange::on(rabbit.url());
    let mut queue = exchange.queue().await;
    rabbit.stop().unwrap();
    let api = Api::on(Bed::postgres().await).await;
    let mut created = create(&api, 50).await;
    // One refusal would be the end of an event.
    let worker = relay(&api.bed, "worker", exchange.broker()).retry(policy(1));
    let worker = worker.build().unwrap().spawn();
    let mut arrived = BTreeMap::new();
    for round in 0..2 {
        eventually("the outage is noticed", async || {
            let health = worker.handle().health();
            if health.routes.iter().any(|it| it.reason.is_some()) { Ok(()) } else { Err(health) }
        })
        .await;
        rabbit.start_again().unwrap();
        // What was sent when the broker went may come twice.
        while transfers(&arrived).len() < created.len() {
            arrived.extend(receive(&mut queue, 1).await);
        }
        assert_eq!(transfers(&arrived), created);
        if round == 0 {
            rabbit.stop().unwrap();
            created.append(&mut create(&api, 50).await);
        }
    }
    worker.shutdown().await.unwrap();
    assert_eq!(arrived.len(), 100);
    assert_eq!(api.bed.count("posthaste.parked").await, 0, "no attempt was counted");
}

/// D3-21: told to stop with fifty events under way, a relay leaves none behind as taken.
#[tokio::test]
async fn r2_12_a_relay_that_stops_leaves_nothing_claimed() {
    let api = Api::on(Bed::postgres().await).await;
    let created = create(&api, 50).await;
    let broker = MemoryBroker::new();
    broker.set_rule(|_| Script::Hang);
    let build = || relay(&api.bed, "worker", Arc::new(broker.clone()));
    let worker = build().publish_timeout(Duration::from_secs(2)).build().unwrap().spawn();
    eventually("claimed", async || if broker.calls() > 0 { Ok(()) } else { Err(()) }).await;
    worker.shutdown().await.unwrap();
    assert_eq!(api.bed.texts(HELD).await, [] as [&str; 0]);
    broker.clear_rule();
    // A lease that was still held would be an error here.
    build().build().unwrap().run_once().await.unwrap();
    assert_eq!(received(&broker).len(), 50);
    assert_eq!(received(&broker).into_iter().collect::<BTreeSet<_>>(), created);
}

/// D3-43: delivered events go. What has not been delivered stays, however short the time.
#[tokio::test]
async fn r2_13_delivered_events_go_and_others_stay() {
    let api = Api::on(Bed::postgres().await).await;
    let broker = MemoryBroker::new();
    broker.set_down(true);
    let worker = relay(&api.bed, "worker", Arc::new(broker.clone())).settings(|settings| {
        settings.retention.delivered = Duration::from_millis(1);
    });
    create(&api, 5).await;
    let worker = worker.build().unwrap().spawn();
    eventually("the outage is noticed", async || {
        let health = worker.handle().health();
        if health.routes.iter().any(|it| it.reason.is_some()) { Ok(()) } else { Err(health) }
    })
    .await;
    assert_eq!(api.bed.count("posthaste.outbox").await, 5);
    broker.set_down(false);
    until_rows(&api.bed, "SELECT id::text FROM posthaste.outbox", 0).await;
    worker.shutdown().await.unwrap();
    assert_eq!(received(&broker).len(), 5);
}
