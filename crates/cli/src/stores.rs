//! The only file that names all stores: one `match`, by the scheme of the URL.

use std::sync::Arc;

use posthaste_core::{InboxStore, Invalid, Store, StoreError, StoreErrorKind};
use posthaste_store_mysql::MySqlStore;
use posthaste_store_postgres::PostgresStore;
use posthaste_store_sqlite::SqliteStore;
use sqlx::sqlite::SqliteConnectOptions;

use crate::{
    args::Dialect,
    config::{SecretUrl, secrets},
};

/// Schemes of stores.
pub(crate) const SCHEMES: &[&str] = &["postgres", "postgresql", "mysql", "mariadb", "sqlite"];

/// An open database, with operations beyond the port that only tools need.
#[derive(Clone)]
pub(crate) enum Database {
    /// PostgreSQL.
    Postgres(Arc<PostgresStore>),
    /// MySQL or MariaDB.
    MySql(Arc<MySqlStore>),
    /// SQLite.
    Sqlite(Arc<SqliteStore>),
}

impl Database {
    /// Opens the database of the URL if it exists: a misspelt path creates no file.
    ///
    /// # Errors
    /// When the database does not exist, cannot be reached or refuses the login.
    pub(crate) async fn open(url: &SecretUrl) -> Result<Self, StoreError> {
        if let Some(path) = missing_file(url) {
            let message = format!("there is no file {path}; `posthaste migrate` creates it");
            return Err(StoreError::new(StoreErrorKind::SchemaMissing, "open", message));
        }
        Self::open_or_create(url).await
    }

    /// Opens the database of the URL; creates a missing SQLite file.
    ///
    /// # Errors
    /// When the database cannot be reached or refuses the login.
    pub(crate) async fn open_or_create(url: &SecretUrl) -> Result<Self, StoreError> {
        let opened = match dialect(url) {
            Dialect::Postgres => {
                PostgresStore::connect(&url.0).await.map(|store| Self::Postgres(Arc::new(store)))
            }
            Dialect::Mysql => {
                MySqlStore::connect(&url.0).await.map(|store| Self::MySql(Arc::new(store)))
            }
            Dialect::Sqlite => {
                SqliteStore::connect(&url.0).await.map(|store| Self::Sqlite(Arc::new(store)))
            }
        };
        opened.map_err(|error| scrub(error, url))
    }

    /// The store port.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Postgres(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::MySql(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// The inbox port.
    pub(crate) fn inbox(&self) -> Arc<dyn InboxStore> {
        match self {
            Self::Postgres(store) => Arc::clone(store) as Arc<dyn InboxStore>,
            Self::MySql(store) => Arc::clone(store) as Arc<dyn InboxStore>,
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn InboxStore>,
        }
    }

    /// Migrates the tables; returns the names of the applied migrations.
    ///
    /// # Errors
    /// When the database refuses.
    pub(crate) async fn migrate(&self) -> Result<Vec<&'static str>, StoreError> {
        match self {
            Self::Postgres(store) => posthaste_store_postgres::migrate(store.pool()).await,
            Self::MySql(store) => posthaste_store_mysql::migrate(store.pool()).await,
            Self::Sqlite(store) => posthaste_store_sqlite::migrate(store.pool()).await,
        }
    }

    /// Continues with data restored from a backup, perhaps of another server.
    ///
    /// # Errors
    /// When the database refuses.
    pub(crate) async fn adopt(&self) -> Result<(), StoreError> {
        match self {
            Self::Postgres(store) => posthaste_store_postgres::adopt(store.pool()).await,
            Self::MySql(store) => posthaste_store_mysql::adopt(store.pool()).await,
            Self::Sqlite(store) => posthaste_store_sqlite::adopt(store.pool()).await,
        }
    }
}

/// The SQL of all migrations.
pub(crate) fn print_migrations(dialect: Dialect) -> String {
    match dialect {
        Dialect::Postgres => posthaste_store_postgres::print_migrations(),
        Dialect::Mysql => posthaste_store_mysql::print_migrations(),
        Dialect::Sqlite => posthaste_store_sqlite::print_migrations(),
    }
}

/// Checks a store's URL, whose scheme has been checked, by the rules of its database. Connects to
/// nothing.
///
/// # Errors
/// The wrong part and the rule, without secrets.
pub(crate) fn check_url(url: &SecretUrl) -> Result<(), Invalid> {
    match dialect(url) {
        Dialect::Postgres => posthaste_store_postgres::check_url(&url.0),
        Dialect::Mysql => posthaste_store_mysql::check_url(&url.0),
        Dialect::Sqlite => posthaste_store_sqlite::check_url(&url.0),
    }
}

/// The dialect of a store's URL, whose scheme has been checked.
pub(crate) fn dialect(url: &SecretUrl) -> Dialect {
    match url.scheme() {
        "mysql" | "mariadb" => Dialect::Mysql,
        "sqlite" => Dialect::Sqlite,
        _ => Dialect::Postgres,
    }
}

/// The path of a SQLite file that does not exist.
fn missing_file(url: &SecretUrl) -> Option<String> {
    if dialect(url) != Dialect::Sqlite
        || (url.0.contains(":memory:") || url.0.contains("mode=memory"))
    {
        return None;
    }
    let options: SqliteConnectOptions = url.0.parse().ok()?;
    let path = options.get_filename();
    (!path.exists()).then(|| path.display().to_string())
}

/// Removes passwords from an error: drivers quote URLs that they cannot parse. Drops the source
/// too, because its text cannot be changed.
fn scrub(error: StoreError, url: &SecretUrl) -> StoreError {
    let mut text = error.message.clone();
    // Errors of all other kinds have a complete message.
    if error.kind == StoreErrorKind::Internal
        && let Some(source) = std::error::Error::source(&error)
    {
        text = format!("{text}: {source}");
    }
    for secret in secrets(&url.0) {
        text = text.replace(&secret, "***");
    }
    StoreError::new(error.kind, error.operation, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_quotes_the_url_gives_no_password_away() {
        let url = SecretUrl("postgres://app:hunter2@db/shop".to_owned());
        let source = std::io::Error::other("bad URL postgres://app:hunter2@db/shop");
        let error = StoreError::new(StoreErrorKind::Internal, "connect", "cannot connect");
        let shown = scrub(error.with_source(source), &url).to_string();
        assert!(shown.contains("app:***@db"), "{shown}");
    }
}
