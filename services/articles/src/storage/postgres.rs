//! Articles in PostgreSQL, in one transaction with the outbox in the same database.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{IntoStore, Outbox, Store};
use sqlx::{PgPool, Postgres, postgres::PgPoolOptions};

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
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS_MAX).connect(url).await?;
        posthaste::migrate(&pool).await?;
        let mut tx = pool.begin().await?;
        let lock = sqlx::query::<Postgres>(include_str!("../../sql/postgres/lock_tables.sql"));
        lock.execute(&mut *tx).await?;
        let source = create(&mut tx).await?;
        tx.commit().await?;
        let outbox_pool = PgPoolOptions::new().max_connections(OUTBOX_CONNECTIONS_MAX);
        let outbox_pool = outbox_pool.connect(url).await?;
        Ok(Self { pool, outbox_pool, source })
    }
}

#[async_trait]
impl Storage for PostgresStorage {
    async fn insert(&self, article: Article) -> Result<(), StorageError> {
        insert(&mut *self.pool.acquire().await?, &article).await
    }

    async fn get(&self, id: ArticleId) -> Result<Article, StorageError> {
        let mut connection = self.pool.acquire().await?;
        select(&mut connection, include_str!("../../sql/select_article.sql"), id).await
    }

    async fn update(&self, id: ArticleId, change: Change) -> Result<Changed, StorageError> {
        let mut tx = self.pool.begin().await?;
        let statement = include_str!("../../sql/postgres/lock_article.sql");
        let mut article = select(&mut tx, statement, id).await?;
        change(&mut article)?;
        let changed = save(&mut tx, article).await?;
        tx.commit().await?;
        Ok(changed)
    }

    async fn bounds(&self, author: AuthorId) -> Result<Option<(i64, i64)>, StorageError> {
        bounds(&mut *self.pool.acquire().await?, author).await
    }

    async fn count(&self, author: AuthorId, window: Window) -> Result<Vec<Count>, StorageError> {
        count(&mut *self.pool.acquire().await?, author, window).await
    }

    async fn check(&self) -> Result<(), StorageError> {
        let check =
            sqlx::query_scalar::<Postgres, String>(include_str!("../../sql/select_source.sql"));
        check.fetch_one(&self.pool).await?;
        Ok(())
    }

    fn outbox(&self) -> Arc<dyn Store> {
        self.outbox_pool.clone().into_store()
    }

    fn source(&self) -> &str {
        &self.source
    }
}
