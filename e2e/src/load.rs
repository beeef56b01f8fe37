//! Writers that do what applications do to an outbox, and what an outbox read carelessly gets
//! wrong.
//!
//! Writers of one key are serialised by the lock on the key's row, in which they count: that is the
//! order of their commits, whoever records first.

use std::{sync::Arc, time::Duration};

use posthaste::{Message, MessageId, postgres::Outbox};
use posthaste_fixtures::fresh_database;
use sqlx::{PgConnection, PgPool, Postgres, Transaction, postgres::PgPoolOptions};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{Fate, Ledger, execute};

/// Keys that all steady writers share.
const KEYS: usize = 8;
/// Writers that write all the time.
const STEADY: usize = 4;
/// Of a hundred transactions, so many are rolled back.
const ROLLED_BACK_PERCENT: u32 = 5;
/// Longest pause between two transactions of a steady writer.
const PAUSE_MS_MAX: u64 = 15;
/// How long some transactions stay open.
const HELD: Duration = Duration::from_millis(2500);
/// Pause after a server has failed a writer.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Writers at work.
#[derive(Debug)]
pub struct Load {
    ledger: Arc<Ledger>,
    stop: CancellationToken,
    writers: JoinSet<()>,
}

impl Load {
    /// Starts all kinds of writers on a database, and one in another database of the server.
    ///
    /// # Panics
    /// When the server cannot be used.
    pub async fn start(url: &str) -> Self {
        let (rows, held) = (KEYS - 1, KEYS);
        let tables = format!(
            "CREATE TABLE account (key text PRIMARY KEY, count bigint NOT NULL DEFAULT 0);
             INSERT INTO account (key) SELECT 'key-' || k FROM generate_series(0, {rows}) AS k;
             INSERT INTO account (key) VALUES ('key-{held}');"
        );
        execute(url, &tables).await;
        let pool = PgPoolOptions::new().max_connections(10).connect_lazy(url);
        let pool = pool.expect("the URL is right");
        let elsewhere = fresh_database(url).await.expect("the server makes databases");
        let elsewhere = PgPoolOptions::new().max_connections(1).connect_lazy(&elsewhere);
        let elsewhere = elsewhere.expect("the URL is right");
        let ledger = Arc::new(Ledger::default());
        let stop = CancellationToken::new();
        let writer = Writer { pool, ledger: Arc::clone(&ledger), stop: stop.clone() };
        let mut writers = JoinSet::new();
        for _ in 0..STEADY {
            writers.spawn(writer.clone().steady());
        }
        writers.spawn(writer.clone().held_open());
        writers.spawn(writer.clone().opened_early());
        writers.spawn(Writer { pool: elsewhere, ..writer }.elsewhere());
        Self { ledger, stop, writers }
    }

    /// What they did so far.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Lets them finish; returns what they did.
    ///
    /// # Panics
    /// When one of them did.
    pub async fn stop(self) -> Arc<Ledger> {
        self.stop.cancel();
        self.writers.join_all().await;
        self.ledger
    }
}

#[derive(Clone, Debug)]
struct Writer {
    pool: PgPool,
    ledger: Arc<Ledger>,
    stop: CancellationToken,
}

/// A transaction of a writer and what it enqueued.
struct Open {
    transaction: Transaction<'static, Postgres>,
    place: i64,
    messages: Vec<Message>,
}

impl Writer {
    /// Short transactions with one to three messages of a key, some rolled back.
    async fn steady(self) {
        while !self.stop.is_cancelled() {
            let key = format!("key-{}", fastrand::usize(..KEYS));
            self.attempt(async || {
                let mut open = self.begin().await?;
                open.lock(&key).await?;
                for _ in 0..fastrand::usize(1..=3) {
                    open.enqueue(Some(&key)).await?;
                }
                if fastrand::u32(..4) == 0 {
                    open.enqueue(None).await?;
                }
                Ok(open)
            })
            .await;
            self.pause(Duration::from_millis(fastrand::u64(..=PAUSE_MS_MAX))).await;
        }
    }

    /// Transactions that enqueue at their beginning and at their end, seconds later.
    async fn held_open(self) {
        let key = format!("key-{KEYS}");
        while !self.stop.is_cancelled() {
            self.attempt(async || {
                let mut open = self.begin().await?;
                open.lock(&key).await?;
                open.enqueue(Some(&key)).await?;
                open.enqueue(None).await?;
                self.pause(HELD).await;
                open.enqueue(Some(&key)).await?;
                Ok(open)
            })
            .await;
        }
    }

    /// Transactions that have their id long before they enqueue anything, for keys that others
    /// wrote meanwhile: by transaction id they come first, by commit last.
    async fn opened_early(self) {
        while !self.stop.is_cancelled() {
            let key = format!("key-{}", fastrand::usize(..KEYS));
            self.attempt(async || {
                let mut open = self.begin().await?;
                draw_id(&mut open.transaction).await?;
                self.pause(HELD / 2).await;
                open.lock(&key).await?;
                open.enqueue(Some(&key)).await?;
                Ok(open)
            })
            .await;
        }
    }

    /// One transaction of another database that stays open all the time.
    async fn elsewhere(self) {
        while !self.stop.is_cancelled() {
            let Ok(mut transaction) = self.pool.begin().await else {
                self.pause(AFTER_FAILURE).await;
                continue;
            };
            if draw_id(&mut transaction).await.is_ok() {
                self.stop.cancelled().await;
            }
        }
    }

    async fn begin(&self) -> Result<Open, sqlx::Error> {
        let transaction = self.pool.begin().await?;
        Ok(Open { transaction, place: 0, messages: Vec::new() })
    }

    /// Does the work, ends its transaction and records how it ended. What fails before its commit
    /// was asked for has surely not committed, and its messages are nowhere.
    async fn attempt(&self, work: impl AsyncFnOnce() -> Result<Open, sqlx::Error>) {
        let Ok(Open { transaction, place, messages }) = work().await else {
            return self.pause(AFTER_FAILURE).await;
        };
        let fate = if fastrand::u32(..100) < ROLLED_BACK_PERCENT {
            // A connection that cannot be told is lost, which rolls back, too.
            let _ = transaction.rollback().await;
            Fate::RolledBack
        } else {
            match transaction.commit().await {
                Ok(()) => Fate::Committed,
                Err(_) => Fate::Unknown,
            }
        };
        self.ledger.record(place, messages, fate);
    }

    async fn pause(&self, time: Duration) {
        // The end of the pause and the end of the test are the same to a writer.
        let _ = self.stop.run_until_cancelled(tokio::time::sleep(time)).await;
    }
}

impl Open {
    /// Takes the lock of a key, and with it the place among the key's transactions.
    async fn lock(&mut self, key: &str) -> Result<(), sqlx::Error> {
        let sql = "UPDATE account SET count = count + 1 WHERE key = $1 RETURNING count";
        let query = sqlx::query_scalar(sql).bind(key);
        self.place = query.fetch_one(&mut *self.transaction).await?;
        Ok(())
    }

    /// Enqueues, by the library or by hand: both are the same message.
    async fn enqueue(&mut self, key: Option<&str>) -> Result<(), sqlx::Error> {
        let message = Message::from_bytes("orders", key, format!("{}", self.place));
        if fastrand::bool() {
            let outbox = Outbox::new();
            let enqueued = outbox.enqueue(&mut self.transaction, message.clone()).await;
            enqueued.map_err(sqlx::Error::decode)?;
        } else {
            insert(&mut self.transaction, &message).await?;
        }
        self.messages.push(message);
        Ok(())
    }
}

/// What an application in any language does.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    message: &Message,
) -> Result<(), sqlx::Error> {
    let MessageId(id) = message.id;
    let sql =
        "INSERT INTO posthaste.outbox (id, topic, key, payload_binary) VALUES ($1, $2, $3, $4)";
    sqlx::query(sql)
        .bind(id)
        .bind(&message.topic)
        .bind(&message.key)
        .bind(&message.payload[..])
        .execute(connection)
        .await?;
    Ok(())
}

async fn draw_id(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_current_xact_id()::text").execute(connection).await?;
    Ok(())
}
