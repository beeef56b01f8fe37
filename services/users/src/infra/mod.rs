//! The directory on real databases, the outbox beside it, and Argon2.

mod directory;
mod hasher;

use std::sync::Arc;

use posthaste::Message;
use services_web::database::{self, Failure, Settings};
use sqlx::{PgPool, SqlitePool};

pub use self::{
    directory::{PostgresDirectory, SqliteDirectory},
    hasher::Argon2Hasher,
};
use crate::{
    application::{Directory, PortError},
    domain::{User, UserCreated},
};

/// The database that the environment names.
#[derive(Clone, Debug)]
pub enum Database {
    /// PostgreSQL.
    Postgres(PgPool),
    /// A file.
    Sqlite(SqlitePool),
}

impl Database {
    /// Opens it. PostgreSQL need not be there yet.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub async fn open(settings: Settings) -> anyhow::Result<Self> {
        Ok(match settings {
            Settings::Postgres(options) => Self::Postgres(database::postgres(*options)),
            Settings::Sqlite(file) => Self::Sqlite(database::sqlite(&file).await?),
        })
    }

    /// The directory in it.
    #[must_use]
    pub fn directory(&self) -> Arc<dyn Directory> {
        match self {
            Self::Postgres(pool) => Arc::new(PostgresDirectory::new(pool.clone())),
            Self::Sqlite(pool) => Arc::new(SqliteDirectory::new(pool.clone())),
        }
    }

    /// Creates or updates the tables, the outbox's tables first: if the service's own tables exist,
    /// the outbox can be used. Any number of instances may call it at once.
    ///
    /// # Errors
    /// When the database is out of reach, or does not permit it.
    pub async fn migrate(&self) -> Result<(), Failure> {
        match self {
            Self::Postgres(pool) => database::migrate(pool, directory::POSTGRES_MIGRATIONS).await?,
            Self::Sqlite(pool) => {
                posthaste::migrate(pool).await?;
                database::migrator(directory::SQLITE_MIGRATIONS).run(pool).await?;
            }
        }
        Ok(())
    }
}

/// The message of a new user: ordered by the user, with the headers consumers filter by.
fn created(user: &User) -> Result<Message, PortError> {
    let message = Message::new(UserCreated::TOPIC, user.id, &UserCreated { user_id: user.id });
    let message = message.map_err(|invalid| PortError::Internal(invalid.field.to_owned()))?;
    Ok(message
        .event_type(UserCreated::TYPE)
        .header("event_type", UserCreated::TYPE)
        .header("event_version", UserCreated::VERSION)
        .header("aggregate_id", user.id.to_string()))
}

impl From<Failure> for PortError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(why) => Self::Unavailable(why),
            Failure::Internal(why) => Self::Internal(why),
        }
    }
}

impl From<sqlx::Error> for PortError {
    fn from(error: sqlx::Error) -> Self {
        Failure::from(error).into()
    }
}

impl From<posthaste::StoreError> for PortError {
    fn from(error: posthaste::StoreError) -> Self {
        Failure::from(error).into()
    }
}
