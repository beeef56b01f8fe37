//! Everything around relays goes wrong, on real servers: every fault there is, on every store and every
//! broker. `cargo xtask soak` draws faults at random, for every store with every broker.

mod disk;

use posthaste_e2e::{
    Broker, Store,
    chaos::{Faults, Run},
};

async fn keeps_its_promises(store: Store, broker: Broker, faults: Faults) {
    let run = Run { store, broker, seed: 1, faults };
    let record = Box::pin(run.run()).await.unwrap_or_else(|error| panic!("{error:#}"));
    println!("{record:?}");
}

fn listed(names: &[&str]) -> Faults {
    Faults::Listed(names.iter().map(|name| (*name).to_owned()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_to_rabbitmq_keeps_its_promises_whatever_goes_wrong() {
    let faults = [
        "kill-relay",
        "kill-store",
        "stop-relay",
        "freeze-broker",
        "cut-store",
        "no-answers-broker",
        "cut-in-mid-sentence-store",
        "half-open-store",
    ];
    keeps_its_promises(Store::Postgres, Broker::Rabbitmq, listed(&faults)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_to_nats_keeps_its_promises_whatever_goes_wrong() {
    let faults = [
        "freeze-relay",
        "kill-broker",
        "freeze-store",
        "cut-broker",
        "black-hole-store",
        "delay-store",
        "kill-store",
        "no-answers-store",
        "delay-broker",
    ];
    keeps_its_promises(Store::Mariadb, Broker::Nats, listed(&faults)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_to_kafka_keeps_its_promises_whatever_goes_wrong() {
    let faults = [
        "lock-file",
        "half-open-broker",
        "kill-relay",
        "stop-broker",
        "cut-in-mid-sentence-broker",
        "black-hole-broker",
    ];
    keeps_its_promises(Store::Sqlite, Broker::Kafka, listed(&faults)).await;
}

/// Before the server is asked, before it commits, before the relay is told.
#[tokio::test(flavor = "multi_thread")]
async fn relays_killed_at_every_point_of_every_step_keep_their_promises() {
    keeps_its_promises(Store::Pgbouncer, Broker::Nats, Faults::Steps).await;
}
