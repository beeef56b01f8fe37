//! Articles in an SQLite file, in one transaction with the outbox in the same file.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{IntoStore, Outbox, Store};
use sqlx::{Sqlite, SqlitePool};
use tokio::sync::Mutex;

use super::{
    Change, Changed, Storage, StorageError, fresh_source, messages,
    sql::{Columns, Row, statements},
};
use crate::{
    domain::{Article, ArticleId, AuthorId, nanoseconds},
    series::{Count, Window, second},
};

statements!(Sqlite);

/// SQLite lets one connection write at a time. Saying so when the transaction begins makes others
/// wait there, and makes its first read a locked one.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// See the module documentation.
pub struct SqliteStorage {
    pool: SqlitePool,
    /// The relay's connections: its work never waits behind a crowd of requests.
    outbox_pool: SqlitePool,
    /// Held for a write transaction: writers of this process queue here, first come first served,
    /// where SQLite would have them ask again and again until some give up.
    turn: Mutex<()>,
    source: String,
}

impl SqliteStorage {
    /// Opens the file of a `sqlite:` URL; creates it, and the tables, where there are none.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub async fn open(url: &str) -> Result<Self, StorageError> {
        let pool = posthaste::sqlite::connect(url).await?;
        posthaste::migrate(&pool).await?;
        let mut tx = pool.begin_with(BEGIN).await?;
        let source = create(&mut tx).await?;
        tx.commit().await?;
        let outbox_pool = posthaste::sqlite::connect(url).await?;
        Ok(Self { pool, outbox_pool, turn: Mutex::default(), source })
    }
}

#[async_trait]
impl Storage for SqliteStorage {
    async fn insert(&self, article: Article) -> Result<(), StorageError> {
        let _turn = self.turn.lock().await;
        let mut tx = self.pool.begin_with(BEGIN).await?;
        insert(&mut tx, &article).await?;
        Ok(tx.commit().await?)
    }

    async fn get(&self, id: ArticleId) -> Result<Article, StorageError> {
        let mut connection = self.pool.acquire().await?;
        select(&mut connection, include_str!("../../sql/select_article.sql"), id).await
    }

    async fn update(&self, id: ArticleId, change: Change) -> Result<Changed, StorageError> {
        let _turn = self.turn.lock().await;
        let mut tx = self.pool.begin_with(BEGIN).await?;
        let statement = include_str!("../../sql/select_article.sql");
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
            sqlx::query_scalar::<Sqlite, String>(include_str!("../../sql/select_source.sql"));
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
