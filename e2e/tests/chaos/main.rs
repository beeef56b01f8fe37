//! Everything around relays goes wrong, on real servers. What goes wrong is decided by fixed seeds
//! here; `cargo xtask soak` draws fresh ones, for every store with every broker.

mod disk;

use posthaste_e2e::{Broker, Store, chaos::Run};

/// How often something goes wrong in a run.
const FAULTS: usize = 8;

async fn keeps_its_promises(run: Run) {
    let record = run.run().await.unwrap_or_else(|error| panic!("{error:#}"));
    println!("{record:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_to_rabbitmq_keeps_its_promises_whatever_goes_wrong() {
    let (store, broker) = (Store::Postgres, Broker::Rabbitmq);
    keeps_its_promises(Run { store, broker, seed: 1, faults: Some(FAULTS) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_to_nats_keeps_its_promises_whatever_goes_wrong() {
    let (store, broker) = (Store::Mariadb, Broker::Nats);
    keeps_its_promises(Run { store, broker, seed: 2, faults: Some(FAULTS) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_to_kafka_keeps_its_promises_whatever_goes_wrong() {
    let (store, broker) = (Store::Sqlite, Broker::Kafka);
    keeps_its_promises(Run { store, broker, seed: 3, faults: Some(FAULTS) }).await;
}

/// Before the server is asked, before it commits, before the relay is told.
#[tokio::test(flavor = "multi_thread")]
async fn relays_killed_at_every_point_of_every_step_keep_their_promises() {
    let (store, broker) = (Store::Pgbouncer, Broker::Nats);
    keeps_its_promises(Run { store, broker, seed: 4, faults: None }).await;
}
