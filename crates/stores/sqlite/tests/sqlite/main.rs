//! What SQLite alone needs: its constraints, its one writer, its file, its plans. The rest is the
//! suite's (`conformance.rs`).

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../bed/mod.rs"]
mod bed;

mod file;
mod insert;
mod statements;
mod writers;

use bed::Bed;
use posthaste_core::{Batch, Fetch, Message, Position, RouteSpec, Shard, Store};
use posthaste_store_sqlite::SqliteStore;

fn route(topics: &[&str]) -> RouteSpec {
    RouteSpec {
        name: "route".to_owned(),
        topics: topics.iter().map(|topic| topic.parse().unwrap()).collect(),
        shards: 1,
    }
}

fn url(bed: &Bed) -> String {
    let options = bed.store.pool().connect_options();
    format!("sqlite://{}", options.get_filename().display())
}

async fn read_log(store: &SqliteStore) -> Batch {
    store.register(&route(&["*"])).await.unwrap();
    let fetch = Fetch {
        route: "route".to_owned(),
        shard: Shard::WHOLE,
        after: Position::default(),
        until: None,
        rows_max: 100_000,
        bytes_max: usize::MAX,
        epoch: None,
        evidence: None,
    };
    store.fetch(&fetch).await.unwrap()
}

async fn read_messages(store: &SqliteStore) -> Vec<Message> {
    let batch = read_log(store).await;
    batch.messages.into_iter().map(|m| m.message).collect()
}
