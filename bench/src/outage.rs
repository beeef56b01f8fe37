//! What the first fetch costs after an outage, by what has been committed meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use posthaste_core::{Claim, Fetch, Position, RelayId, RouteSpec, Settlement, Shard, Store};
use posthaste_store_postgres::PostgresStore;

use crate::{fill, report};

const ROUTE: &str = "all";
const MILLION: i64 = 1_000_000;
/// Millions of messages that wait. The last one only with `--messages 50000000`: it takes 25 GB.
const MILLIONS: [i64; 4] = [0, 1, 10, 50];
const MILLIONS_DEFAULT: i64 = 10;

/// From taking the lease to the first batch in hand, with more and more messages waiting.
pub(crate) async fn run(server: &str, messages: Option<i64>, rounds: usize) -> Result<()> {
    let (url, pool) = fill::database(server).await?;
    let store = PostgresStore::connect(&url).await?;
    let spec = RouteSpec { name: ROUTE.to_owned(), topics: vec!["*".parse()?], shards: 1 };
    store.register(&spec).await?;
    fill::outbox(&pool, 1_000).await?;
    pass(&store).await?;
    let millions_max = messages.map_or(MILLIONS_DEFAULT, |messages| messages / MILLION);
    let mut rows = Vec::new();
    let mut waiting = 0;
    for millions in MILLIONS.into_iter().filter(|millions| *millions <= millions_max) {
        fill::outbox(&pool, (millions - waiting) * MILLION + 1_000).await?;
        waiting = millions;
        let mut times = Vec::new();
        for _ in 0..rounds {
            times.push(first_batch(&store).await?.as_secs_f64() * 1000.0);
        }
        rows.push(vec![millions.to_string(), format!("{:.1}", report::median(&times))]);
    }
    report::table(
        "After an outage: from the claim to the first 1,000 messages",
        &["million messages waiting", "ms"],
        &rows,
    );
    Ok(())
}

fn claim() -> Claim {
    let ttl = Duration::from_secs(600);
    Claim {
        route: ROUTE.to_owned(),
        shard: Shard::WHOLE,
        relay: RelayId::fresh(),
        ttl,
        rewound: None,
    }
}

fn fetch(after: Position, epoch: i64) -> Fetch {
    Fetch {
        route: ROUTE.to_owned(),
        shard: Shard::WHOLE,
        after,
        until: None,
        rows_max: 1_000,
        bytes_max: 1 << 20,
        epoch: Some(epoch),
        evidence: None,
    }
}

/// Reads what is there and writes down that it was delivered: the last thing before the outage.
async fn pass(store: &PostgresStore) -> Result<()> {
    let grant = store.acquire(&claim()).await?.context("a free lease")?;
    let batch = store.fetch(&fetch(grant.position.clone(), grant.lease.epoch)).await?;
    let position = Some(grant.position.passed(batch.end, &batch.snapshot));
    store.settle(&grant.lease, &Settlement { position, ..Settlement::default() }).await?;
    store.release(&grant.lease).await?;
    Ok(())
}

async fn first_batch(store: &PostgresStore) -> Result<Duration> {
    let start = Instant::now();
    let grant = store.acquire(&claim()).await?.context("a free lease")?;
    let batch = store.fetch(&fetch(grant.position, grant.lease.epoch)).await?;
    let time = start.elapsed();
    anyhow::ensure!(batch.messages.len() == 1_000, "{} messages", batch.messages.len());
    store.release(&grant.lease).await?;
    Ok(time)
}
