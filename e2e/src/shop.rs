//! An application on any database: writers of a few keys, each serialised by its key's row, in which
//! they count: that is the order of their commits, whoever records first.

use std::{sync::Arc, time::Duration};

use posthaste::{Message, Outbox};
use sqlx::{
    AssertSqlSafe, MySql, MySqlPool, PgPool, Postgres, Row, Sqlite, SqlitePool, Transaction,
    mysql::MySqlPoolOptions, postgres::PgPoolOptions,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{Fate, Ledger, TOPIC};

/// Keys that all writers share.
const KEYS: usize = 6;
/// Of a hundred transactions, so many are rolled back.
const ROLLED_BACK_PERCENT: u32 = 5;
/// Of a hundred transactions, so many stay open for a while.
const HELD_PERCENT: u32 = 2;
/// How long.
const HELD: Duration = Duration::from_millis(700);
/// Longest pause between two transactions of a writer.
const PAUSE_MS_MAX: u64 = 60;
/// Pause after the database has failed a writer.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Connections.
const WRITERS: usize = 3;

/// Tables of the application. `name` is no keyword anywhere.
const TABLES: &str = "CREATE TABLE account (name varchar(20) PRIMARY KEY, total bigint NOT NULL)";

/// Writers at work on a database.
#[derive(Debug)]
pub struct Shop {
    ledger: Arc<Ledger>,
    stop: CancellationToken,
    writers: JoinSet<()>,
}

impl Shop {
    /// Opens it on a migrated database.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn open(url: &str) -> anyhow::Result<Self> {
        if url.starts_with("postgres:") {
            let options = PgPoolOptions::new().max_connections(WRITERS as u32);
            Self::on(options.connect_lazy(url)?).await
        } else if url.starts_with("mysql:") {
            let options = MySqlPoolOptions::new().max_connections(WRITERS as u32);
            Self::on(options.connect_lazy(url)?).await
        } else {
            Self::on(posthaste::sqlite::connect(url).await?).await
        }
    }

    async fn on<D: Desk>(desk: D) -> anyhow::Result<Self> {
        desk.run(TABLES.to_owned()).await?;
        for key in 0..KEYS {
            desk.run(format!("INSERT INTO account (name, total) VALUES ('key-{key}', 0)")).await?;
        }
        let ledger = Arc::new(Ledger::default());
        let stop = CancellationToken::new();
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let writer =
                Writer { desk: desk.clone(), ledger: Arc::clone(&ledger), stop: stop.clone() };
            writers.spawn(writer.write());
        }
        Ok(Self { ledger, stop, writers })
    }

    /// What was written so far.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Closes it; returns all that was written.
    ///
    /// # Panics
    /// When a writer did.
    pub async fn close(self) -> Arc<Ledger> {
        self.stop.cancel();
        self.writers.join_all().await;
        self.ledger
    }
}

struct Writer<D> {
    desk: D,
    ledger: Arc<Ledger>,
    stop: CancellationToken,
}

impl<D: Desk> Writer<D> {
    async fn write(self) {
        while !self.stop.is_cancelled() {
            let key = format!("key-{}", fastrand::usize(..KEYS));
            match self.transaction(&key).await {
                Ok(()) => self.pause(Duration::from_millis(fastrand::u64(..=PAUSE_MS_MAX))).await,
                Err(_) => self.pause(AFTER_FAILURE).await,
            }
        }
    }

    /// One to three messages of a key, and sometimes one without. What fails before its commit was
    /// asked for has surely not committed, and its messages are nowhere.
    async fn transaction(&self, key: &str) -> anyhow::Result<()> {
        let mut open = self.desk.open().await?;
        let place = D::lock(&mut open, key).await?;
        let mut messages = Vec::new();
        for _ in 0..fastrand::usize(1..=3) {
            messages.push(Message::from_bytes(TOPIC, Some(key), format!("payload {place}")));
        }
        if fastrand::u32(..4) == 0 {
            messages.push(Message::from_bytes(TOPIC, None, "payload"));
        }
        D::enqueue(&mut open, &messages).await?;
        if fastrand::u32(..100) < HELD_PERCENT {
            self.pause(HELD).await;
        }
        let fate = if fastrand::u32(..100) < ROLLED_BACK_PERCENT {
            // A connection that cannot be told is lost, which rolls back, too.
            let _ = D::undo(open).await;
            Fate::RolledBack
        } else {
            match D::commit(open).await {
                Ok(()) => Fate::Committed,
                Err(_) => Fate::Unknown,
            }
        };
        self.ledger.record(place, messages, fate);
        Ok(())
    }

    async fn pause(&self, time: Duration) {
        // The end of the pause and the end of the test are the same to a writer.
        let _ = self.stop.run_until_cancelled(tokio::time::sleep(time)).await;
    }
}

/// What a writer does with a database.
trait Desk: Clone + Send + Sync + 'static {
    /// A transaction.
    type Open: Send;

    fn run(&self, sql: String) -> impl Future<Output = anyhow::Result<()>> + Send;
    fn open(&self) -> impl Future<Output = anyhow::Result<Self::Open>> + Send;
    /// Takes the lock of a key, and with it the place among the key's transactions.
    fn lock(open: &mut Self::Open, key: &str) -> impl Future<Output = anyhow::Result<i64>> + Send;
    fn enqueue(
        open: &mut Self::Open,
        messages: &[Message],
    ) -> impl Future<Output = anyhow::Result<()>> + Send;
    fn commit(open: Self::Open) -> impl Future<Output = anyhow::Result<()>> + Send;
    fn undo(open: Self::Open) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The same for all of them, but for the types of the driver.
macro_rules! desk {
    ($pool:ty, $database:ty) => {
        impl Desk for $pool {
            type Open = Transaction<'static, $database>;

            async fn run(&self, sql: String) -> anyhow::Result<()> {
                // Not user input: it is written here.
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(self).await?;
                Ok(())
            }

            async fn open(&self) -> anyhow::Result<Self::Open> {
                Ok(self.begin().await?)
            }

            async fn lock(open: &mut Self::Open, key: &str) -> anyhow::Result<i64> {
                let sql = format!("UPDATE account SET total = total + 1 WHERE name = '{key}'");
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **open).await?;
                let sql = format!("SELECT total FROM account WHERE name = '{key}'");
                let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut **open).await?;
                Ok(row.try_get(0)?)
            }

            async fn enqueue(open: &mut Self::Open, messages: &[Message]) -> anyhow::Result<()> {
                let outbox = Outbox::<$database>::new();
                outbox.enqueue_all(&mut *open, messages.iter().cloned()).await?;
                Ok(())
            }

            async fn commit(open: Self::Open) -> anyhow::Result<()> {
                Ok(open.commit().await?)
            }

            async fn undo(open: Self::Open) -> anyhow::Result<()> {
                Ok(open.rollback().await?)
            }
        }
    };
}

desk!(PgPool, Postgres);
desk!(MySqlPool, MySql);
desk!(SqlitePool, Sqlite);
