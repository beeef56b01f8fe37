//! The ledger on real databases, and the outbox beside it.

mod line;
mod postgres;
mod sqlite;
mod together;

use std::sync::Arc;

use posthaste::Message;
use services_web::database::{self, Failure, Settings};
use sqlx::{PgConnection, PgPool, SqliteConnection, SqlitePool};
use uuid::Uuid;

pub use self::{postgres::PostgresLedger, sqlite::SqliteLedger};
use crate::{
    application::{Ledger, LedgerError},
    domain::{Overdraft, Status, TransactionCreated, Transfer},
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
            Settings::Postgres(options) => {
                // Every statement here finds its rows by an index. A plan that was made while a
                // table was empty would read all of it until the server has looked at the table's
                // size again.
                let options = options.options([("enable_seqscan", "off")]);
                Self::Postgres(database::postgres(options))
            }
            Settings::Sqlite(file) => Self::Sqlite(database::sqlite(&file).await?),
        })
    }

    /// The ledger in it.
    #[must_use]
    pub fn ledger(&self) -> Arc<dyn Ledger> {
        match self {
            Self::Postgres(pool) => Arc::new(PostgresLedger::new(pool.clone())),
            Self::Sqlite(pool) => Arc::new(SqliteLedger::new(pool.clone())),
        }
    }

    /// Creates or updates the tables, the outbox's tables first: if the service's own tables exist,
    /// the outbox can be used. Any number of instances may call it at once.
    ///
    /// # Errors
    /// When the database is out of reach, or does not permit it.
    pub async fn migrate(&self) -> Result<(), Failure> {
        match self {
            Self::Postgres(pool) => database::migrate(pool, postgres::MIGRATIONS).await?,
            Self::Sqlite(pool) => {
                posthaste::migrate(pool).await?;
                database::migrator(sqlite::MIGRATIONS).run(pool).await?;
            }
        }
        Ok(())
    }
}

/// A database in which transfers can be settled.
pub trait Settles: posthaste::Database {
    /// Whether an open transaction blocks all other writers. Then no other transaction can commit
    /// in the middle of it.
    const IS_ONE_WRITER: bool;

    /// Settles the transfers that are not final yet, in the given order, and moves their amounts,
    /// in the caller's transaction: the inbox record of their events commits together with it, or
    /// neither does. Returns the status of each transfer; a further call returns the same status
    /// and moves nothing. `None` if there is no such transfer.
    ///
    /// # Errors
    /// Any error of the database: roll back.
    fn settle(
        connection: &mut Self::Connection,
        ids: &[Uuid],
        overdraft: Overdraft,
    ) -> impl Future<Output = Result<Vec<Option<Status>>, LedgerError>> + Send;
}

impl Settles for sqlx::Postgres {
    const IS_ONE_WRITER: bool = false;

    async fn settle(
        connection: &mut PgConnection,
        ids: &[Uuid],
        overdraft: Overdraft,
    ) -> Result<Vec<Option<Status>>, LedgerError> {
        postgres::settle(connection, ids, overdraft).await
    }
}

impl Settles for sqlx::Sqlite {
    const IS_ONE_WRITER: bool = true;

    async fn settle(
        connection: &mut SqliteConnection,
        ids: &[Uuid],
        overdraft: Overdraft,
    ) -> Result<Vec<Option<Status>>, LedgerError> {
        sqlite::settle(connection, ids, overdraft).await
    }
}

/// The message of a new transfer: ordered by the transfer, with the headers consumers filter by.
fn created(transfer: &Transfer) -> Result<Message, LedgerError> {
    let event = TransactionCreated::of(transfer);
    let message = Message::new(TransactionCreated::TOPIC, transfer.id, &event);
    let message = message.map_err(|invalid| LedgerError::Internal(invalid.field.to_owned()))?;
    Ok(message
        .event_type(TransactionCreated::TYPE)
        .header("event_type", TransactionCreated::TYPE)
        .header("aggregate_id", transfer.id.to_string()))
}

impl From<Failure> for LedgerError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(why) => Self::Unavailable(why),
            Failure::Internal(why) => Self::Internal(why),
        }
    }
}

impl From<sqlx::Error> for LedgerError {
    fn from(error: sqlx::Error) -> Self {
        // A statement that the server has ended because of its time.
        let is_held =
            error.as_database_error().and_then(|it| it.code()).is_some_and(|it| it == "57014");
        match Failure::from(error).into() {
            Self::Unavailable(why) if is_held => Self::Held(why),
            other => other,
        }
    }
}

impl From<posthaste::StoreError> for LedgerError {
    fn from(error: posthaste::StoreError) -> Self {
        Failure::from(error).into()
    }
}

/// A value that this program cannot have written.
fn unreadable(what: &str) -> LedgerError {
    LedgerError::Internal(format!("the stored {what} cannot be read"))
}

fn status(text: &str) -> Result<Status, LedgerError> {
    text.parse().map_err(|()| unreadable("status"))
}

fn number(text: &str) -> Result<i128, LedgerError> {
    text.parse().map_err(|_| unreadable("balance"))
}
