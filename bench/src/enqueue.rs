//! What enqueueing adds to a business transaction (an UPDATE and an INSERT).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use posthaste::{Message, postgres::Outbox};
use sqlx::{Executor, PgPool};

use crate::{fill, report};

#[derive(Clone, Copy)]
enum Variant {
    /// The business transaction alone.
    Without,
    /// With a plain INSERT into the outbox.
    PlainInsert,
    /// With `SELECT posthaste.enqueue(...)`.
    Function,
    /// With `Outbox::enqueue`.
    Enqueue,
}

async fn transaction(pool: &PgPool, variant: Variant, payload: &str) -> Result<()> {
    let account = fastrand::i32(0..10_000);
    let mut tx = pool.begin().await?;
    sqlx::query("UPDATE account SET balance = balance + 1 WHERE id = $1")
        .bind(account)
        .execute(&mut *tx)
        .await?;
    sqlx::query("INSERT INTO movement (account, amount) VALUES ($1, 1)")
        .bind(account)
        .execute(&mut *tx)
        .await?;
    match variant {
        Variant::Without => {}
        Variant::PlainInsert => {
            sqlx::query(
                "INSERT INTO posthaste.outbox (topic, key, payload) VALUES ('movements', $1, $2)",
            )
            .bind(account.to_string())
            .bind(payload)
            .execute(&mut *tx)
            .await?;
        }
        Variant::Function => {
            sqlx::query("SELECT posthaste.enqueue('movements', $1, $2)")
                .bind(account.to_string())
                .bind(payload)
                .execute(&mut *tx)
                .await?;
        }
        Variant::Enqueue => {
            Outbox::new().enqueue(&mut tx, Message::new("movements", account, payload)?).await?;
        }
    }
    tx.commit().await?;
    Ok(())
}

async fn rate(pool: &PgPool, variant: Variant, connections: usize, time: Duration) -> Result<f64> {
    let done = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let workers = (0..connections).map(|_| {
        let (pool, done) = (pool.clone(), done.clone());
        tokio::spawn(async move {
            let payload = "x".repeat(256);
            while start.elapsed() < time {
                transaction(&pool, variant, &payload).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        })
    });
    for worker in futures::future::join_all(workers).await {
        worker??;
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = done.load(Ordering::Relaxed) as f64;
    Ok(count / start.elapsed().as_secs_f64())
}

/// Transactions a second with 1, 8 and 32 connections.
pub(crate) async fn run(server: &str, seconds: u64, rounds: usize) -> Result<()> {
    let (_, pool) = fill::database(server).await?;
    pool.execute(
        "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL);
         INSERT INTO account SELECT n, 0 FROM generate_series(0, 9999) n;
         CREATE TABLE movement (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int, amount bigint);",
    )
    .await?;
    let time = Duration::from_secs(seconds.div_ceil(2));
    let mut rows = Vec::new();
    for connections in [1, 8, 32] {
        let variants =
            [Variant::Without, Variant::PlainInsert, Variant::Function, Variant::Enqueue];
        let mut rates = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            for (variant, rates) in variants.into_iter().zip(&mut rates) {
                rates.push(rate(&pool, variant, connections, time).await?);
            }
        }
        let [without, plain, function, enqueue] =
            rates.each_ref().map(|rates| report::median(rates));
        rows.push(vec![
            connections.to_string(),
            format!("{without:.0}"),
            format!("{plain:.0}"),
            format!("{function:.0}"),
            format!("{enqueue:.0}"),
            format!("{:.2}", plain / without),
            format!("{:.2}", function / plain),
            format!("{:.2}", enqueue / plain),
        ]);
    }
    report::table(
        "Business transactions a second (UPDATE + INSERT)",
        &[
            "connections",
            "without",
            "+ plain INSERT",
            "+ function",
            "+ enqueue",
            "INSERT / without",
            "function / INSERT",
            "enqueue / INSERT",
        ],
        &rows,
    );
    Ok(())
}
