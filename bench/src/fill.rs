//! Databases filled on the server's side, so that the bench's own memory stays small.

use anyhow::Result;
use posthaste_fixtures::fresh_database;
use sqlx::{Executor, PgPool, postgres::PgPoolOptions};

/// A fresh, migrated database.
pub(crate) async fn database(server: &str) -> Result<(String, PgPool)> {
    let url = fresh_database(server).await?;
    let pool = PgPoolOptions::new().max_connections(40).connect(&url).await?;
    posthaste::migrate(&pool).await?;
    Ok((url, pool))
}

/// Enqueues messages of 256 bytes with 1,000 different keys, in transactions of 1,000.
pub(crate) async fn outbox(pool: &PgPool, messages: i64) -> Result<()> {
    for _ in 0..messages / 1000 {
        pool.execute(
            "INSERT INTO posthaste.outbox (topic, key, payload_binary)
             SELECT 'orders', 'customer-' || n, decode(repeat('ab', 256), 'hex') FROM generate_series(1, 1000) n",
        )
        .await?;
    }
    pool.execute("VACUUM ANALYZE posthaste.outbox").await?;
    pool.execute("CHECKPOINT").await?;
    Ok(())
}
