//! Articles in PostgreSQL, in one transaction with the outbox in the same database.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste::{IntoStore, Outbox, Store};
use services_web::database::{self, Work};
use sqlx::{PgConnection, PgPool, Postgres, postgres::PgPoolOptions};

use super::{
    Change, Changed, Storage, StorageError, fresh_source, messages,
    sql::{Columns, Row, statements},
};
use crate::{
    domain::{Article, ArticleId, AuthorId, nanoseconds},
    series::{Count, Window, second},
};

statements!(Postgres);

/// Connections for requests.
const CONNECTIONS_MAX: u32 = 16;
/// Connections for the relay: its work never waits behind a crowd of requests.
const OUTBOX_CONNECTIONS_MAX: u32 = 6;
/// Longest statement of a request: likes of one article wait for each other.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest wait of a request, for a connection and for the server: less than its own time.
const CALL_TIMEOUT: Duration = Duration::from_secs(50);

/// See the module documentation.
pub struct PostgresStorage {
    pool: PgPool,
    outbox_pool: PgPool,
    source: String,
}

impl PostgresStorage {
    /// Connects to the database of a `postgres://` URL; creates the tables where there are none.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn open(url: &str) -> Result<Self, StorageError> {
        // Making the tables takes the time it needs.
        let unlimited = PgPoolOptions::new().max_connections(1).connect(url).await?;
        posthaste::migrate(&unlimited).await?;
        let mut tx = unlimited.begin().await?;
        let lock = sqlx::query::<Postgres>(include_str!("../../sql/postgres/lock_tables.sql"));
        lock.execute(&mut *tx).await?;
        let source = create(&mut tx).await?;
        tx.commit().await?;
        unlimited.close().await;
        let options = database::limited(url.parse()?, STATEMENT_TIMEOUT);
        let pool =
            PgPoolOptions::new().max_connections(CONNECTIONS_MAX).acquire_timeout(CALL_TIMEOUT);
        let pool = pool.connect_with(options).await?;
        let outbox_pool = PgPoolOptions::new().max_connections(OUTBOX_CONNECTIONS_MAX);
        let outbox_pool = outbox_pool.connect(url).await?;
        Ok(Self { pool, outbox_pool, source })
    }

    async fn call<T, F>(&self, work: F) -> Result<T, StorageError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> Work<'c, T, StorageError> + Send + 'static,
    {
        database::call(&self.pool, CALL_TIMEOUT, work).await
    }
}

#[async_trait]
impl Storage for PostgresStorage {
    async fn insert(&self, article: Article) -> Result<(), StorageError> {
        self.call(move |connection| Box::pin(async move { insert(connection, &article).await }))
            .await
    }

    async fn get(&self, id: ArticleId) -> Result<Article, StorageError> {
        let statement = include_str!("../../sql/select_article.sql");
        self.call(move |connection| Box::pin(select(connection, statement, id))).await
    }

    async fn update(&self, id: ArticleId, change: Change) -> Result<Changed, StorageError> {
        let statement = include_str!("../../sql/postgres/lock_article.sql");
        database::transaction(&self.pool, CALL_TIMEOUT, move |connection| {
            Box::pin(async move {
                let mut article = select(connection, statement, id).await?;
                change(&mut article)?;
                save(connection, article).await
            })
        })
        .await
    }

    async fn bounds(&self, author: AuthorId) -> Result<Option<(i64, i64)>, StorageError> {
        self.call(move |connection| Box::pin(bounds(connection, author))).await
    }

    async fn count(&self, author: AuthorId, window: Window) -> Result<Vec<Count>, StorageError> {
        self.call(move |connection| Box::pin(count(connection, author, window))).await
    }

    async fn check(&self) -> Result<(), StorageError> {
        let check =
            sqlx::query_scalar::<Postgres, String>(include_str!("../../sql/select_source.sql"));
        self.call(|connection| {
            Box::pin(async move {
                check.fetch_one(connection).await?;
                Ok(())
            })
        })
        .await
    }

    fn outbox(&self) -> Arc<dyn Store> {
        self.outbox_pool.clone().into_store()
    }

    fn source(&self) -> &str {
        &self.source
    }
}
