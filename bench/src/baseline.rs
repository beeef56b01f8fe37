//! What the relay is compared with: the bare read, and a row-state relay as most outboxes have it.

use std::time::Instant;

use anyhow::Result;
use sqlx::{Executor, PgPool, Row};

/// Rows a second of a plain `SELECT` in batches of 1,000 with a cached statement.
pub(crate) async fn select(pool: &PgPool, messages: i64) -> Result<f64> {
    let mut connection = pool.acquire().await?;
    let start = Instant::now();
    let (mut seq, mut rows, mut bytes) = (0_i64, 0_i64, 0);
    loop {
        let batch = sqlx::query(
            "SELECT seq, id, topic, key, type, payload, headers, content_type, created_at
             FROM posthaste.outbox WHERE seq > $1 ORDER BY seq LIMIT 1000",
        )
        .bind(seq)
        .fetch_all(&mut *connection)
        .await?;
        for row in &batch {
            seq = row.get("seq");
            bytes += row.get::<&[u8], _>("payload").len();
            rows += 1;
        }
        if batch.is_empty() {
            break;
        }
    }
    anyhow::ensure!(rows == messages && bytes > 0, "read {rows} of {messages}");
    Ok(rate(messages, start))
}

/// Creates and fills the table of the row-state relay.
pub(crate) async fn fill_row_state(pool: &PgPool, messages: i64) -> Result<()> {
    pool.execute(
        "DROP TABLE IF EXISTS row_state;
         CREATE TABLE row_state (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id uuid NOT NULL
           DEFAULT gen_random_uuid(), topic text NOT NULL, key text, payload bytea NOT NULL,
           status text NOT NULL DEFAULT 'PENDING', created_at timestamptz NOT NULL DEFAULT now(),
           processed_at timestamptz);
         CREATE INDEX row_state_pending ON row_state (seq) WHERE status = 'PENDING';",
    )
    .await?;
    for _ in 0..messages / 1000 {
        pool.execute(
            "INSERT INTO row_state (topic, key, payload)
             SELECT 'orders', 'customer-' || n, decode(repeat('ab', 256), 'hex') FROM generate_series(1, 1000) n",
        )
        .await?;
    }
    pool.execute("VACUUM ANALYZE row_state").await?;
    pool.execute("CHECKPOINT").await?;
    Ok(())
}

/// Messages a second of a relay that claims 500 with SKIP LOCKED, marks them PROCESSING, publishes to
/// nowhere and marks them PROCESSED, set-based: the best form of the tutorials' design.
pub(crate) async fn row_state(pool: &PgPool, messages: i64) -> Result<f64> {
    let mut connection = pool.acquire().await?;
    let start = Instant::now();
    let mut done = 0_i64;
    loop {
        let batch = sqlx::query(
            "UPDATE row_state SET status = 'PROCESSING' WHERE seq IN (
               SELECT seq FROM row_state WHERE status = 'PENDING' ORDER BY seq LIMIT 500 FOR UPDATE SKIP LOCKED)
             RETURNING seq, id, topic, key, payload",
        )
        .fetch_all(&mut *connection)
        .await?;
        if batch.is_empty() {
            break;
        }
        let seqs: Vec<i64> = batch.iter().map(|row| row.get("seq")).collect();
        sqlx::query(
            "UPDATE row_state SET status = 'PROCESSED', processed_at = now() WHERE seq = ANY($1)",
        )
        .bind(&seqs)
        .execute(&mut *connection)
        .await?;
        done += i64::try_from(batch.len())?;
    }
    anyhow::ensure!(done == messages, "relayed {done} of {messages}");
    Ok(rate(messages, start))
}

/// Messages a second since `start`.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(crate) fn rate(messages: i64, start: Instant) -> f64 {
    messages as f64 / start.elapsed().as_secs_f64()
}
