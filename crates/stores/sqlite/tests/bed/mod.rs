//! A fresh file with the tables in it, the store on it, and an application's own connections to it.

use std::sync::Arc;

use posthaste_store_sqlite::{SqliteStore, connect_options, migrate};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tempfile::TempDir;

/// One outbox; the file goes when this does.
pub(crate) struct Bed {
    pub(crate) store: Arc<SqliteStore>,
    /// The application's connections, outside the store's pool.
    pub(crate) app: SqlitePool,
    _directory: TempDir,
}

impl Bed {
    /// An outbox with its tables.
    pub(crate) async fn fresh() -> Self {
        let bed = Self::empty().await;
        migrate(bed.store.pool()).await.unwrap();
        bed
    }

    /// A file without tables.
    pub(crate) async fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/outbox.db", directory.path().display());
        Self {
            store: Arc::new(SqliteStore::connect(&url).await.unwrap()),
            app: SqlitePool::connect_lazy_with(connect_options(&url).unwrap()),
            _directory: directory,
        }
    }

    /// An application's transaction.
    pub(crate) async fn begin(&self) -> Transaction<'static, Sqlite> {
        self.app.begin_with("BEGIN IMMEDIATE").await.unwrap()
    }
}
