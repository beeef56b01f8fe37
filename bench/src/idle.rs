//! What a relay costs when nothing happens.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use posthaste_broker_null::NullBroker;
use posthaste_core::RouteSpec;
use posthaste_relay::{Relay, Route, Settings};
use posthaste_store_postgres::PostgresStore;
use sqlx::{Connection, PgConnection};
use tokio_util::sync::CancellationToken;

use crate::{fill, process, report};

/// Transactions a second and CPU share of a relay with one route on an empty outbox.
pub(crate) async fn run(server: &str, seconds: u64) -> Result<()> {
    let (url, pool) = fill::database(server).await?;
    pool.close().await;
    let store = Arc::new(PostgresStore::connect(&url).await?);
    let spec = RouteSpec { name: "idle".to_owned(), topics: vec!["*".parse()?], shards: 1 };
    let relay =
        Relay::new(store, vec![Route::new(spec, Arc::new(NullBroker))], Settings::default());
    let stop = CancellationToken::new();
    let running = tokio::spawn(relay.run(stop.clone()));
    // Past its start and its fast polls.
    tokio::time::sleep(Duration::from_secs(5)).await;
    // Asked from another database of the server, so that asking does not count.
    let database =
        url.rsplit('/').next().unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    let mut observer = PgConnection::connect(server).await?;
    let before = transactions(&mut observer, &database).await?;
    let cpu = process::cpu_ticks()?;
    let time = Duration::from_secs(seconds.max(20));
    tokio::time::sleep(time).await;
    let cpu = process::cpu_ticks()? - cpu;
    let after = transactions(&mut observer, &database).await?;
    stop.cancel();
    running.await??;
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let (rate, share) =
        ((after - before) as f64 / time.as_secs_f64(), cpu as f64 / time.as_secs_f64());
    report::table(
        &format!("An idle relay, one route, {} s", time.as_secs()),
        &["transactions/s", "CPU"],
        &[vec![format!("{rate:.2}"), format!("{share:.2} %")]],
    );
    Ok(())
}

async fn transactions(observer: &mut PgConnection, database: &str) -> Result<i64> {
    sqlx::query("SELECT pg_stat_clear_snapshot()").execute(&mut *observer).await?;
    let count = sqlx::query_scalar(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1",
    )
    .bind(database)
    .fetch_one(observer)
    .await?;
    Ok(count)
}
