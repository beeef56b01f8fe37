//! The same questions on MariaDB: draining a backlog against the row-state design on the same server
//! in the same run, and what a relay costs those who insert.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use posthaste_broker_null::NullBroker;
use posthaste_core::RouteSpec;
use posthaste_fixtures::{Kind, Options, Server};
use posthaste_relay::{Relay, Route, Settings};
use posthaste_store_mysql::{MySqlStore, migrate};
use sqlx::{AssertSqlSafe, Executor, MySqlPool, Row, mysql::MySqlPoolOptions};
use tokio_util::sync::CancellationToken;

use crate::{baseline::rate, report};

/// Connections that insert at the same time.
const WRITERS: usize = 4;

/// Starts a server as durable as shipped, with memory for the backlog, and measures on it.
pub(crate) async fn run(messages: i64, rounds: usize, seconds: u64) -> Result<()> {
    let settings = [("innodb_buffer_pool_size", "1G"), ("innodb_log_file_size", "1G")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = Options { settings: settings.to_vec(), ..Options::default() };
    let server = Server::private(Kind::MariaDb, &options).context("no MariaDB to measure on")?;
    println!("{}\n", server.origin());
    drain(server.url(), messages, rounds).await?;
    insert(server.url(), rounds, Duration::from_secs(seconds)).await
}

/// A fresh, migrated database.
async fn database(server: &str) -> Result<(String, MySqlPool)> {
    let name = format!("bench_{}", fastrand::u64(..));
    let url = format!("{}/{name}", server.trim_end_matches('/'));
    let pool = MySqlPoolOptions::new().connect(server).await?;
    pool.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
    pool.close().await;
    let pool = MySqlPoolOptions::new().max_connections(20).connect(&url).await?;
    migrate(&pool).await?;
    Ok((url, pool))
}

async fn remove(pool: MySqlPool) -> Result<()> {
    let name: String = sqlx::query_scalar("SELECT DATABASE()").fetch_one(&pool).await?;
    pool.execute(AssertSqlSafe(format!("DROP DATABASE {name}"))).await?;
    pool.close().await;
    Ok(())
}

/// Messages of 256 bytes with 1,000 different keys, in transactions of 1,000, each one statement as the
/// library makes it.
async fn fill(pool: &MySqlPool, table: &str, messages: i64) -> Result<()> {
    let row = |key| format!("('orders', 'customer-{key}', REPEAT('ab', 128))");
    let rows: Vec<String> = (0..1000).map(row).collect();
    let insert = format!("INSERT INTO {table} (topic, `key`, payload) VALUES {}", rows.join(","));
    for _ in 0..messages / 1000 {
        pool.execute(AssertSqlSafe(insert.as_str())).await?;
    }
    Ok(())
}

/// The relay, the bare read of what it read, and the row-state relay.
async fn drain(server: &str, messages: i64, rounds: usize) -> Result<()> {
    let (mut relays, mut selects, mut states) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (url, pool) = database(server).await?;
        fill(&pool, "posthaste_outbox", messages).await?;
        relays.push(relay(&url, messages).await?);
        selects.push(select(&pool, messages).await?);
        create_row_state(&pool).await?;
        fill(&pool, "row_state", messages).await?;
        states.push(row_state(&pool, messages).await?);
        remove(pool).await?;
    }
    let [relay, select, state] = [&relays, &selects, &states].map(|rates| report::median(rates));
    let row = |name: &str, rate: f64| {
        vec![name.to_owned(), report::thousands(rate), format!("{:.1}", rate / state)]
    };
    report::table(
        &format!("MariaDB: drain of {messages} messages of 256 B, median of {rounds} rounds"),
        &["what", "messages/s", "of row-state"],
        &[
            row("SELECT of the log in batches of 1,000", select),
            row("relay, null broker, moving included", relay),
            row("row-state relay, batch 500", state),
        ],
    );
    Ok(())
}

fn a_relay(store: MySqlStore) -> Result<Relay> {
    let spec = RouteSpec { name: "bench".to_owned(), topics: vec!["*".parse()?], shards: 1 };
    let route = Route::new(spec, Arc::new(NullBroker::new()));
    Ok(Relay::new(Arc::new(store), vec![route], Settings::default()))
}

async fn relay(url: &str, messages: i64) -> Result<f64> {
    let store = MySqlStore::connect(url).await?;
    let relay = a_relay(store.clone())?;
    let start = Instant::now();
    relay.run_once(CancellationToken::new()).await?;
    let rate = rate(messages, start);
    let passed: i64 = sqlx::query_scalar("SELECT MAX(seq) FROM posthaste_progress")
        .fetch_one(store.pool())
        .await?;
    anyhow::ensure!(passed == messages, "relayed {passed} of {messages}");
    Ok(rate)
}

async fn select(pool: &MySqlPool, messages: i64) -> Result<f64> {
    let mut connection = pool.acquire().await?;
    let start = Instant::now();
    let (mut seq, mut rows) = (0_i64, 0_i64);
    loop {
        let batch = sqlx::query(
            "SELECT seq, id, topic, `key`, `type`, headers, content_type, created_at, payload
             FROM posthaste_log WHERE seq > ? ORDER BY seq LIMIT 1000",
        )
        .bind(seq)
        .fetch_all(&mut *connection)
        .await?;
        let Some(last) = batch.last() else { break };
        seq = last.get("seq");
        rows += i64::try_from(batch.len())?;
    }
    anyhow::ensure!(rows == messages, "read {rows} of {messages}");
    Ok(rate(messages, start))
}

async fn create_row_state(pool: &MySqlPool) -> Result<()> {
    pool.execute(
        "CREATE TABLE row_state (seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
           id CHAR(36) CHARACTER SET ascii NOT NULL DEFAULT (UUID()), topic VARCHAR(255) NOT NULL,
           `key` VARCHAR(255), payload LONGBLOB NOT NULL, status VARCHAR(10) NOT NULL DEFAULT 'PENDING',
           created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)), processed_at DATETIME(6),
           INDEX (status, seq)) ENGINE = InnoDB",
    )
    .await?;
    Ok(())
}

/// As the tutorials have it, set-based: claims 500 with SKIP LOCKED, marks them PROCESSING, publishes
/// to nowhere and marks them PROCESSED.
async fn row_state(pool: &MySqlPool, messages: i64) -> Result<f64> {
    let mut connection = pool.acquire().await?;
    connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
    let start = Instant::now();
    let mut done = 0_i64;
    loop {
        connection.execute("BEGIN").await?;
        let batch = connection
            .fetch_all(
                "SELECT seq, id, topic, `key`, payload FROM row_state WHERE status = 'PENDING'
                 ORDER BY seq LIMIT 500 FOR UPDATE SKIP LOCKED",
            )
            .await?;
        let seqs: Vec<String> =
            batch.iter().map(|row| row.get::<i64, _>("seq").to_string()).collect();
        if seqs.is_empty() {
            connection.execute("COMMIT").await?;
            break;
        }
        let seqs = seqs.join(",");
        let mark =
            |set: &str| AssertSqlSafe(format!("UPDATE row_state SET {set} WHERE seq IN ({seqs})"));
        connection.execute(mark("status = 'PROCESSING'")).await?;
        connection.execute("COMMIT").await?;
        let finished = "status = 'PROCESSED', processed_at = UTC_TIMESTAMP(6)";
        connection.execute(mark(finished)).await?;
        done += i64::try_from(batch.len())?;
    }
    anyhow::ensure!(done == messages, "relayed {done} of {messages}");
    Ok(rate(messages, start))
}

/// How long an INSERT takes, alone and while a relay moves and reads what is inserted.
async fn insert(server: &str, rounds: usize, time: Duration) -> Result<()> {
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (url, pool) = database(server).await?;
        off.extend(latencies(&pool, time).await?);
        let stop = CancellationToken::new();
        let running = tokio::spawn(a_relay(MySqlStore::connect(&url).await?)?.run(stop.clone()));
        on.extend(latencies(&pool, time).await?);
        stop.cancel();
        running.await??;
        remove(pool).await?;
    }
    let row = |name: &str, latencies: &mut Vec<f64>| {
        latencies.sort_by(f64::total_cmp);
        let at = |share| format!("{:.2} ms", report::quantile(latencies, share));
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let rate = latencies.len() as f64 / (time.as_secs_f64() * rounds as f64);
        vec![name.to_owned(), format!("{rate:.0}"), at(0.5), at(0.9), at(0.99), at(1.0)]
    };
    report::table(
        &format!("MariaDB: INSERT of 256 B with autocommit, {WRITERS} connections"),
        &["relay", "inserts/s", "p50", "p90", "p99", "max"],
        &[row("off", &mut off), row("on", &mut on)],
    );
    Ok(())
}

async fn latencies(pool: &MySqlPool, time: Duration) -> Result<Vec<f64>> {
    let start = Instant::now();
    let writers = (0..WRITERS).map(|writer| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            let mut latencies = Vec::new();
            while start.elapsed() < time {
                let begun = Instant::now();
                sqlx::query(
                    "INSERT INTO posthaste_outbox (topic, `key`, payload) VALUES ('t', ?, ?)",
                )
                .bind(format!("key-{writer}"))
                .bind([0_u8; 256].as_slice())
                .execute(&mut *connection)
                .await?;
                latencies.push(begun.elapsed().as_secs_f64() * 1000.0);
            }
            anyhow::Ok(latencies)
        })
    });
    let mut all = Vec::new();
    for writer in futures::future::join_all(writers).await {
        all.extend(writer??);
    }
    Ok(all)
}
