//! The databases that can hold an outbox, named by their sqlx types.

use std::{error::Error, future::Future, ops::DerefMut, sync::Arc};

use posthaste_core::{InboxConnection, InboxStore, Message, Store, StoreError};

/// A database of sqlx that can hold an outbox. Implemented here, behind features.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot hold an outbox",
    note = "enable the feature `postgres`, `mysql` or `sqlite` of posthaste"
)]
pub trait Database: Sized {
    /// The connection of an open transaction.
    type Connection: Send;
    /// The pool.
    type Pool: Clone + Send + Sync + 'static;
    /// An open transaction; dropping it rolls back.
    type Transaction: DerefMut<Target = Self::Connection> + Send + 'static;

    #[doc(hidden)]
    fn insert(
        connection: &mut Self::Connection,
        messages: &[Message],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    #[doc(hidden)]
    fn migrate(
        pool: &Self::Pool,
    ) -> impl Future<Output = Result<Vec<&'static str>, StoreError>> + Send;

    #[doc(hidden)]
    fn begin(
        pool: &Self::Pool,
    ) -> impl Future<Output = Result<Self::Transaction, StoreError>> + Send;

    #[doc(hidden)]
    fn commit(
        transaction: Self::Transaction,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    #[doc(hidden)]
    fn rollback(transaction: Self::Transaction) -> impl Future<Output = ()> + Send;

    #[doc(hidden)]
    fn inbox(
        connection: &mut Self::Connection,
    ) -> Result<Box<dyn InboxConnection + '_>, StoreError>;

    #[doc(hidden)]
    fn inbox_store(pool: Self::Pool) -> Arc<dyn InboxStore>;

    /// The store error for a handler's error, if that error is one of this database's driver.
    #[doc(hidden)]
    fn handler_error(error: Box<dyn Error + Send + Sync>) -> Option<StoreError>;
}

/// A pool whose database is known.
pub trait Pool: Sized {
    /// The database.
    type Database: Database<Pool = Self>;
}

/// Creates or updates Posthaste's tables. Several processes may call it at once; nothing calls it
/// implicitly.
///
/// # Errors
/// When the database cannot be reached, does not permit it, or has newer tables.
pub async fn migrate<P: Pool>(pool: &P) -> Result<(), StoreError> {
    P::Database::migrate(pool).await.map(drop)
}

/// A pool or a store on which a relay can be built.
pub trait IntoStore {
    /// The store.
    fn into_store(self) -> Arc<dyn Store>;
}

impl IntoStore for Arc<dyn Store> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}

#[cfg(feature = "testing")]
impl IntoStore for posthaste_store_memory::MemoryStore {
    fn into_store(self) -> Arc<dyn Store> {
        Arc::new(self)
    }
}

/// Implements the traits for one database; the blocks differ in names only.
macro_rules! database {
    ($feature:literal, $database:ty, $connection:ty, $pool:ty, $store:ty, $krate:ident) => {
        #[cfg(feature = $feature)]
        impl Database for $database {
            type Connection = $connection;
            type Pool = $pool;
            type Transaction = $krate::Guarded;

            async fn insert(
                connection: &mut $connection,
                messages: &[Message],
            ) -> Result<(), StoreError> {
                $krate::enqueue(connection, messages).await
            }

            async fn migrate(pool: &$pool) -> Result<Vec<&'static str>, StoreError> {
                $krate::migrate(pool).await
            }

            async fn begin(pool: &$pool) -> Result<Self::Transaction, StoreError> {
                $krate::begin(pool).await
            }

            async fn commit(transaction: Self::Transaction) -> Result<(), StoreError> {
                transaction.commit().await
            }

            async fn rollback(transaction: Self::Transaction) {
                transaction.rollback().await;
            }

            fn inbox(
                connection: &mut $connection,
            ) -> Result<Box<dyn InboxConnection + '_>, StoreError> {
                Ok(Box::new($krate::Inbox::new(connection)?))
            }

            fn inbox_store(pool: $pool) -> Arc<dyn InboxStore> {
                Arc::new(<$store>::new(pool))
            }

            fn handler_error(error: Box<dyn Error + Send + Sync>) -> Option<StoreError> {
                let error = error.downcast::<sqlx::Error>().ok()?;
                Some($krate::handler_error(*error))
            }
        }

        #[cfg(feature = $feature)]
        impl Pool for $pool {
            type Database = $database;
        }

        #[cfg(feature = $feature)]
        impl IntoStore for $pool {
            fn into_store(self) -> Arc<dyn Store> {
                Arc::new(<$store>::new(self))
            }
        }
    };
}

database!(
    "postgres",
    sqlx::Postgres,
    sqlx::PgConnection,
    sqlx::PgPool,
    posthaste_store_postgres::PostgresStore,
    posthaste_store_postgres
);
database!(
    "mysql",
    sqlx::MySql,
    sqlx::MySqlConnection,
    sqlx::MySqlPool,
    posthaste_store_mysql::MySqlStore,
    posthaste_store_mysql
);
database!(
    "sqlite",
    sqlx::Sqlite,
    sqlx::SqliteConnection,
    sqlx::SqlitePool,
    posthaste_store_sqlite::SqliteStore,
    posthaste_store_sqlite
);
