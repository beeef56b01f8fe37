//! Users on PostgreSQL and in an SQLite file: two statements and the difference between two drivers.

use async_trait::async_trait;
use services_web::database::{self, CALL_TIMEOUT};
use sqlx::{PgPool, SqlitePool, query};

use super::created;
use crate::{
    application::{Added, Directory, PortError},
    domain::User,
};

/// Changes of PostgreSQL's tables, in order.
pub(super) const POSTGRES_MIGRATIONS: &[(&str, &str)] =
    &[("users", include_str!("../../migrations/postgres/0001_users.sql"))];
/// Changes of SQLite's tables, in order.
pub(super) const SQLITE_MIGRATIONS: &[(&str, &str)] =
    &[("users", include_str!("../../migrations/sqlite/0001_users.sql"))];

/// Users in PostgreSQL.
#[derive(Debug)]
pub struct PostgresDirectory {
    pool: PgPool,
}

impl PostgresDirectory {
    /// In the pool's database.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }
}

#[async_trait]
impl Directory for PostgresDirectory {
    async fn add(&self, user: &User) -> Result<Added, PortError> {
        let message = created(user)?;
        let insert = query(include_str!("../../sql/postgres/add.sql"))
            .bind(user.id)
            .bind(user.email.as_str().to_owned())
            .bind(user.password.0.clone());
        database::transaction(&self.pool, CALL_TIMEOUT, |connection| {
            Box::pin(async move {
                if insert.execute(&mut *connection).await?.rows_affected() == 0 {
                    return Ok(Added::EmailTaken);
                }
                posthaste::postgres::Outbox::new().enqueue(connection, message).await?;
                Ok(Added::New)
            })
        })
        .await
    }

    async fn check(&self) -> Result<(), PortError> {
        let check = query(include_str!("../../sql/postgres/check.sql"));
        database::call(&self.pool, CALL_TIMEOUT, |connection| {
            Box::pin(async move {
                check.execute(connection).await?;
                Ok(())
            })
        })
        .await
    }
}

/// Users in SQLite.
#[derive(Debug)]
pub struct SqliteDirectory {
    pool: SqlitePool,
}

impl SqliteDirectory {
    /// In the pool's file.
    #[must_use]
    pub fn new(pool: SqlitePool) -> Self {
        Self { pool }
    }
}

#[async_trait]
impl Directory for SqliteDirectory {
    async fn add(&self, user: &User) -> Result<Added, PortError> {
        // With the write lock from the start: it cannot fail half-way because another one wrote.
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        let inserted = query(include_str!("../../sql/sqlite/add.sql"))
            .bind(user.id.to_string())
            .bind(user.email.as_str())
            .bind(&user.password.0)
            .execute(&mut *tx)
            .await?;
        if inserted.rows_affected() == 0 {
            tx.rollback().await?;
            return Ok(Added::EmailTaken);
        }
        posthaste::sqlite::Outbox::new().enqueue(&mut tx, created(user)?).await?;
        tx.commit().await?;
        Ok(Added::New)
    }

    async fn check(&self) -> Result<(), PortError> {
        query(include_str!("../../sql/sqlite/check.sql")).execute(&self.pool).await?;
        Ok(())
    }
}
