//! A database of its own for each test, on the server of the fixtures.

// Each test program uses its part of this.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_conformance::store::{TestBed, Writer};
use posthaste_core::{
    Batch, Claim, Fetch, Grant, Message, Position, RelayId, RouteSpec, Settlement, Shard, Store,
    StoreError,
};
use posthaste_fixtures::{Kind, server};
use posthaste_store_mysql::{MySqlStore, enqueue, migrate};
use sqlx::{
    AssertSqlSafe, Connection, Executor, MySql, MySqlConnection, MySqlPool, Transaction,
    mysql::MySqlPoolOptions,
};
use uuid::Uuid;

pub struct Bed {
    pub url: String,
    pub store: MySqlStore,
    /// For applications; outside the store's pool, and with the server's default settings.
    pub pool: MySqlPool,
    server: String,
}

impl Bed {
    /// An empty database, migrated.
    pub async fn fresh() -> Self {
        Self::fresh_on(server(Kind::MariaDb).url()).await
    }

    /// An empty database.
    pub async fn bare() -> Self {
        Self::bare_on(server(Kind::MariaDb).url()).await
    }

    /// An empty database on a server, migrated.
    pub async fn fresh_on(server: &str) -> Self {
        let bed = Self::bare_on(server).await;
        migrate(&bed.pool).await.expect("an empty database migrates");
        bed
    }

    /// An empty database on a server.
    pub async fn bare_on(server: &str) -> Self {
        let name = format!("ph_{}", Uuid::new_v4().simple());
        let mut connection = MySqlConnection::connect(server).await.expect("a server");
        // Not user input: the only variable part is a name made here.
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        connection.execute(create).await.expect("a database can be created");
        connection.close().await.expect("a connection can be closed");
        let url = format!("{}/{name}", server.trim_end_matches('/'));
        let pool = MySqlPoolOptions::new().max_connections(50).connect_lazy(&url);
        let store = MySqlStore::connect(&url).await.expect("a server to connect to");
        let server = server.to_owned();
        Self { url, store, pool: pool.expect("a valid URL"), server }
    }

    pub async fn connect(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.url).await.expect("one more connection")
    }

    /// Runs statements as a user would in the command line client.
    pub async fn run(&self, sql: &'static str) {
        self.pool.execute(sqlx::raw_sql(sql)).await.expect("valid statements");
    }

    async fn move_times(&self, table: &str, columns: &[&str], by: Duration, which: &str) {
        let back =
            |column| format!("{column} = {column} - INTERVAL {} MICROSECOND", by.as_micros());
        let moves: Vec<String> = columns.iter().map(back).collect();
        let sql = format!("UPDATE posthaste_{table} SET {} {which}", moves.join(", "));
        self.pool.execute(AssertSqlSafe(sql)).await.expect("times can be moved");
    }

    /// The one number a statement returns.
    pub async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.expect("one number")
    }
}

/// A connection to a database of the fixtures' server.
pub async fn connect_to(database: &str) -> MySqlConnection {
    let server = server(Kind::MariaDb).url().trim_end_matches('/');
    MySqlConnection::connect(&format!("{server}/{database}")).await.expect("one more connection")
}

#[async_trait]
impl TestBed for Bed {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn begin(&self) -> Box<dyn Writer> {
        let transaction = self.pool.begin().await.expect("a transaction can begin");
        Box::new(Application(transaction))
    }

    async fn insert_by_hand(
        &self,
        topic: &str,
        key: Option<&str>,
        payload: &[u8],
    ) -> Result<(), String> {
        let insert = "INSERT INTO posthaste_outbox (topic, `key`, payload) VALUES (?, ?, ?)";
        let done = sqlx::query(insert).bind(topic).bind(key).bind(payload);
        done.execute(&self.pool).await.map(drop).map_err(|error| error.to_string())
    }

    async fn advance(&self, by: Duration) {
        for (table, columns) in [
            ("log", &["created_at"] as &[_]),
            ("lease", &["expires_at"]),
            ("progress", &["at"]),
            ("relay", &["started_at", "seen_at", "expires_at"]),
            ("parked", &["created_at", "parked_at", "state_at", "next_attempt_at"]),
        ] {
            self.move_times(table, columns, by, "").await;
        }
        // Row by row, because those of open transactions are locked.
        let seqs = sqlx::query_scalar("SELECT seq FROM posthaste_outbox").fetch_all(&self.pool);
        let seqs: Vec<i64> = seqs.await.expect("the outbox can be read");
        for seq in seqs {
            let this = format!("WHERE seq = {seq}");
            self.move_times("outbox", &["created_at"], by, &this).await;
        }
    }

    async fn remove(&self) {
        self.store.pool().close().await;
        self.pool.close().await;
        let (_, name) = self.url.rsplit_once('/').expect("a database in the URL");
        let mut connection = MySqlConnection::connect(&self.server).await.expect("a server");
        let drop = AssertSqlSafe(format!("DROP DATABASE {name}"));
        connection.execute(drop).await.expect("the database can be dropped");
    }
}

struct Application(Transaction<'static, MySql>);

#[async_trait]
impl Writer for Application {
    /// What comes closest: the transaction's view of the data is fixed from here on.
    async fn touch(&mut self) {
        let looked = self.0.execute("SELECT seq FROM posthaste_outbox LIMIT 1").await;
        looked.expect("the outbox can be read");
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        enqueue(&mut self.0, messages).await
    }

    async fn commit(self: Box<Self>) {
        self.0.commit().await.expect("a commit");
    }

    async fn rollback(self: Box<Self>) {
        self.0.rollback().await.expect("a rollback");
    }
}

pub const ROUTE: &str = "all";
pub const TTL: Duration = Duration::from_secs(3600);

pub fn message(text: &'static str) -> Message {
    Message::from_bytes("orders", Some("k"), text)
}

pub fn spec(shards: u16) -> RouteSpec {
    let topics = vec!["*".parse().expect("a valid pattern")];
    RouteSpec { name: ROUTE.to_owned(), topics, shards }
}

pub fn claim() -> Claim {
    Claim {
        route: ROUTE.to_owned(),
        shard: Shard::WHOLE,
        relay: RelayId::fresh(),
        ttl: TTL,
        rewound: None,
    }
}

pub fn fetch_after(after: Position) -> Fetch {
    Fetch {
        route: ROUTE.to_owned(),
        shard: Shard::WHOLE,
        after,
        until: None,
        rows_max: 1000,
        bytes_max: 1 << 20,
        epoch: None,
        evidence: None,
    }
}

pub fn settlement(position: Position) -> Settlement {
    Settlement { position: Some(position), ..Settlement::default() }
}

pub fn payloads(batch: &Batch) -> Vec<&[u8]> {
    batch.messages.iter().map(|fetched| &fetched.message.payload[..]).collect()
}

/// Registers the route and takes its only lease.
pub async fn serve(bed: &Bed) -> Grant {
    bed.store.register(&spec(1)).await.expect("a route");
    bed.store.acquire(&claim()).await.expect("a claim").expect("a free lease")
}
