//! The producing side: writers that place orders and enqueue their messages in one transaction.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::Result;
use posthaste::{Event, sqlite::Outbox};
use sqlx::SqlitePool;
use tokio_util::sync::CancellationToken;

/// Writers that run at once.
pub(super) const WRITERS: u64 = 4;
/// Number of customers, which are the keys of the messages.
const CUSTOMERS: u64 = 40;
/// Of this many orders one is rolled back after its message was enqueued.
const ROLLBACK_EVERY: u64 = 10;

/// Counts of orders for the display. The verdict does not use them.
#[derive(Default)]
pub(super) struct Tally {
    /// Orders committed.
    pub(super) committed: AtomicU64,
    /// Orders rolled back.
    pub(super) rolled_back: AtomicU64,
}

#[derive(serde::Serialize)]
struct OrderPlaced {
    order: String,
    customer: u64,
    /// Number of the order among the customer's orders; the verdict checks the order by it.
    number: i64,
}

impl Event for OrderPlaced {
    const TOPIC: &'static str = "shop.orders";
    const TYPE: &'static str = "OrderPlaced";

    fn key(&self) -> Option<String> {
        Some(format!("customer-{}", self.customer))
    }
}

/// Opens the shop's database and creates its tables and the outbox.
pub(super) async fn open(url: &str) -> Result<SqlitePool> {
    let pool = posthaste::sqlite::connect(url).await?;
    posthaste::migrate(&pool).await?;
    sqlx::raw_sql(
        "CREATE TABLE customer (id INTEGER PRIMARY KEY, orders INTEGER NOT NULL);
         CREATE TABLE orders (id TEXT PRIMARY KEY, customer INTEGER NOT NULL, number INTEGER NOT NULL,
                              message TEXT NOT NULL);",
    )
    .execute(&pool)
    .await?;
    for id in 0..CUSTOMERS {
        sqlx::query("INSERT INTO customer VALUES (?, 0)")
            .bind(id.cast_signed())
            .execute(&pool)
            .await?;
    }
    Ok(pool)
}

/// Places orders until told to stop.
pub(super) async fn place_orders(
    pool: SqlitePool,
    tally: Arc<Tally>,
    stop: CancellationToken,
) -> Result<()> {
    while !stop.is_cancelled() {
        let customer = fastrand::u64(..CUSTOMERS);
        let is_rolled_back = fastrand::u64(..ROLLBACK_EVERY) == 0;
        place_order(&pool, customer, is_rolled_back).await?;
        let count = if is_rolled_back { &tally.rolled_back } else { &tally.committed };
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn place_order(pool: &SqlitePool, customer: u64, is_rolled_back: bool) -> Result<()> {
    // IMMEDIATE: a writing transaction takes the write lock first, and waits for it.
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let number: i64 =
        sqlx::query_scalar("UPDATE customer SET orders = orders + 1 WHERE id = ? RETURNING orders")
            .bind(customer.cast_signed())
            .fetch_one(&mut *tx)
            .await?;
    let order = uuid::Uuid::now_v7().to_string();
    let event = OrderPlaced { order: order.clone(), customer, number };
    let message = Outbox::new().enqueue(&mut tx, &event).await?;
    sqlx::query("INSERT INTO orders VALUES (?, ?, ?, ?)")
        .bind(order)
        .bind(customer.cast_signed())
        .bind(number)
        .bind(message.to_string())
        .execute(&mut *tx)
        .await?;
    if is_rolled_back {
        tx.rollback().await?;
    } else {
        tx.commit().await?;
    }
    Ok(())
}
