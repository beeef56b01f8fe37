//! A database of its own for each test, on the shared server of the fixtures or on a private one.

// Each test program uses its part of this.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_conformance::store::{TestBed, Writer};
use posthaste_core::{
    Batch, Claim, Fetch, Grant, Message, Position, RelayId, RouteSpec, Settlement, Shard, Store,
    StoreError,
};
use posthaste_fixtures::{self as fixtures, Durability, drop_database, fresh_database, postgres};
use posthaste_store_postgres::{PostgresStore, enqueue, migrate};
use posthaste_store_sql::{Dialect, Param, Reuse, Text};
use sqlx::{
    Connection, Executor, PgConnection, PgPool, Postgres, Transaction, postgres::PgPoolOptions,
};

pub struct Bed {
    pub url: String,
    pub store: PostgresStore,
    /// For applications; outside the store's pool.
    pub pool: PgPool,
    /// The private server of [`alone`](Self::alone); stops when the bed is dropped.
    private: Option<fixtures::Postgres>,
}

impl Bed {
    /// An empty database, migrated.
    pub async fn fresh() -> Self {
        let bed = Self::bare().await;
        migrate(&bed.pool).await.expect("an empty database migrates");
        bed
    }

    /// A migrated database on a server that nobody else uses, for tests that count transaction ids:
    /// ids are handed out to all databases of a server from one counter.
    pub async fn alone() -> Self {
        let private = fixtures::Postgres::private(Durability::Fast).expect("a private server");
        let url = fresh_database(private.url()).await.expect("a database can be created");
        let mut bed = Self::over(&url, url.clone()).await;
        bed.private = Some(private);
        migrate(&bed.pool).await.expect("an empty database migrates");
        bed
    }

    /// An empty database.
    pub async fn bare() -> Self {
        let url = fresh_database(server()).await.expect("a database can be created");
        Self::over(&store_url(&url), url).await
    }

    async fn over(store_url: &str, url: String) -> Self {
        let pool = PgPoolOptions::new().max_connections(50).connect_lazy(&url);
        let pool = pool.expect("a valid URL");
        let store = PostgresStore::connect(store_url).await;
        let store = store.expect("a server to connect to");
        Self { url, store, pool, private: None }
    }

    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("one more connection")
    }

    /// Runs statements as a user would in psql.
    pub async fn run(&self, sql: &'static str) {
        self.pool.execute(sql).await.expect("valid statements");
    }
}

/// The store's way to a database: through the pooler (transaction mode) that
/// `POSTHASTE_TEST_PGBOUNCER_URL` names (`postgres://user@host:port`), or straight.
fn store_url(database: &str) -> String {
    let name = database.rsplit('/').next().unwrap_or_default();
    let pooler = std::env::var("POSTHASTE_TEST_PGBOUNCER_URL");
    pooler.map_or_else(|_| database.to_owned(), |pooler| format!("{pooler}/{name}"))
}

pub fn server() -> &'static str {
    postgres()
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
        let text = str::from_utf8(payload).ok().filter(|text| !text.contains('\0'));
        let done = match text {
            Some(text) => {
                let sql = "INSERT INTO posthaste.outbox (topic, key, payload) VALUES ($1, $2, $3)";
                sqlx::query(sql).bind(topic).bind(key).bind(text)
            }
            None => {
                let sql =
                    "INSERT INTO posthaste.outbox (topic, key, payload_binary) VALUES ($1, $2, $3)";
                sqlx::query(sql).bind(topic).bind(key).bind(payload)
            }
        };
        done.execute(&self.pool).await.map(drop).map_err(|error| error.to_string())
    }

    async fn advance(&self, by: Duration) {
        for sql in [
            "UPDATE posthaste.outbox SET created_at = created_at - make_interval(secs => $1)",
            "UPDATE posthaste.lease SET expires_at = expires_at - make_interval(secs => $1)",
            "UPDATE posthaste.progress SET at = at - make_interval(secs => $1)",
            "UPDATE posthaste.relay SET started_at = started_at - make_interval(secs => $1), \
             seen_at = seen_at - make_interval(secs => $1), \
             expires_at = expires_at - make_interval(secs => $1)",
            "UPDATE posthaste.parked SET created_at = created_at - make_interval(secs => $1), \
             parked_at = parked_at - make_interval(secs => $1), \
             state_at = state_at - make_interval(secs => $1), \
             next_attempt_at = next_attempt_at - make_interval(secs => $1)",
        ] {
            let moved = sqlx::query(sql).bind(by.as_secs_f64()).execute(&self.pool);
            moved.await.expect("times can be moved");
        }
    }

    async fn remove(&self) {
        self.store.pool().close().await;
        self.pool.close().await;
        if self.private.is_none() {
            drop_database(server(), &self.url).await.expect("the database can be dropped");
        }
    }
}

struct Application(Transaction<'static, Postgres>);

#[async_trait]
impl Writer for Application {
    async fn touch(&mut self) {
        let touched = self.0.execute("SELECT pg_current_xact_id()").await;
        touched.expect("a transaction can get its id");
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

/// The lines that `EXPLAIN` with these options says of a statement as it is shipped.
pub async fn explain(
    bed: &Bed,
    options: &str,
    statement: &str,
    params: &[Param<'_>],
) -> Vec<String> {
    let dialect = bed.store.dialect();
    let shipped = dialect.texts().get(statement).expect("a statement of that name");
    let sql = format!("EXPLAIN {options} {}", shipped.sql);
    // The dialect wants texts that stay.
    let text: &'static Text =
        Box::leak(Box::new(Text { name: "explain", sql, params: shipped.params.clone() }));
    let values = text.bound(params).expect("every parameter has a value");
    let mut connection = bed.pool.acquire().await.expect("a connection");
    let told = dialect.run(&mut connection, text, &values, Reuse::Unnamed).await;
    let told = told.expect("a valid statement");
    told.rows.iter().map(|row| row.string(0).expect("a line of text")).collect()
}

/// Registers the route and takes its only lease.
pub async fn serve(bed: &Bed) -> Grant {
    let spec = RouteSpec {
        name: ROUTE.to_owned(),
        topics: vec!["*".parse().expect("a valid pattern")],
        shards: 1,
    };
    bed.store.register(&spec).await.expect("a route");
    bed.store.acquire(&claim()).await.expect("a claim").expect("a free lease")
}
