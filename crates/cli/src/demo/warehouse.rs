//! The consuming side: records messages in the order of their arrival, in its own database.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result};
use posthaste_broker_memory::MemorySubscriber;
use posthaste_core::Subscriber;
use sqlx::SqlitePool;

/// Opens the warehouse's database and creates its table.
pub(super) async fn open(url: &str) -> Result<SqlitePool> {
    let pool = posthaste::sqlite::connect(url).await?;
    sqlx::raw_sql(
        "CREATE TABLE received (at INTEGER PRIMARY KEY AUTOINCREMENT, message TEXT NOT NULL,
                                customer INTEGER NOT NULL, number INTEGER NOT NULL);
         CREATE INDEX received_message ON received (message);",
    )
    .execute(&pool)
    .await?;
    Ok(pool)
}

/// Records messages for ever. The message numbered `lose` (counted from 1) is acknowledged and not
/// recorded: a consumer with a bug, which the verdict must notice.
pub(super) async fn receive(
    pool: SqlitePool,
    mut subscriber: MemorySubscriber,
    received: Arc<AtomicU64>,
    lose: Option<u64>,
) -> Result<()> {
    let mut count = 0;
    loop {
        let incoming = subscriber.receive().await?;
        count += 1;
        if lose != Some(count) {
            let order: serde_json::Value = serde_json::from_slice(&incoming.message.payload)?;
            let number = |name: &str| order[name].as_i64().context("a number in the order");
            sqlx::query("INSERT INTO received (message, customer, number) VALUES (?, ?, ?)")
                .bind(incoming.message.id.to_string())
                .bind(number("customer")?)
                .bind(number("number")?)
                .execute(&pool)
                .await?;
        }
        subscriber.acknowledge(incoming.receipt).await?;
        received.fetch_add(1, Ordering::Relaxed);
    }
}
