//! Database pools from the environment, migrations at the start, and the classification of database
//! errors. The database is PostgreSQL if one of the `DB_*` variables is set; otherwise it is an
//! SQLite file in the working directory.

mod call;

use std::{fmt, future::Future, io, path::PathBuf, time::Duration};

use anyhow::Context;
use sqlx::{
    ConnectOptions, Connection, PgPool, SqlSafeStr, SqlitePool,
    migrate::{Migration, MigrationType, Migrator},
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
    sqlite::SqlitePoolOptions,
};
use tokio::time::{Instant, sleep, timeout};

pub use call::{Work, call, transaction};

use crate::Environment;

/// The pool on PostgreSQL: how many connections, how many of them kept, and for how long.
const CONNECTIONS_MAX: u32 = 25;
const CONNECTIONS_MIN: u32 = 5;
const LIFETIME_MAX: Duration = Duration::from_secs(5 * 60);
const IDLE_MAX: Duration = Duration::from_secs(60);
/// A connection that was idle for longer may have been closed by the server, so it is tested before
/// use.
pub const RESTED_MAX: Duration = Duration::from_secs(1);

/// How long a request waits for a connection before it fails.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the test of an idle connection may take.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest statement of a request on PostgreSQL: the server ends a statement that waits for a lock
/// for longer.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);

/// PostgreSQL ends a session that is idle in a transaction for longer: the service has lost its
/// connection, and other sessions wait for the locks.
const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest call, from the wait for a connection to the commit. A server that is gone from the
/// network ends no statement, so this is counted here; it is less than a request's time, whose
/// answer can then still be given.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(6);

/// How long a migration waits for a lock before its attempt counts as failed. Its statements take
/// the time they need.
const MIGRATION_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections to a file: one may write, a few may read.
const FILE_CONNECTIONS_MAX: u32 = 4;

/// Pauses between two tries to reach the database at the start.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long the database may be out of reach at the start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Which database, read from the environment.
pub enum Settings {
    /// `DB_HOST`, `DB_PORT`, `DB_USER`, `DB_PASSWORD`, `DB_NAME`, `DB_SSLMODE`, `DB_SSLROOTCERT`.
    Postgres(Box<PgConnectOptions>),
    /// `SQLITE_FILE`.
    Sqlite(PathBuf),
}

/// Without the password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(options) => {
                write!(f, "PostgreSQL at {}:{}", options.get_host(), options.get_port())
            }
            Self::Sqlite(file) => write!(f, "SQLite in {}", file.display()),
        }
    }
}

impl Settings {
    /// Reads them; `name` and `file` are the defaults of `DB_NAME` and `SQLITE_FILE`.
    pub fn read(environment: &mut Environment, name: &str, file: &str) -> Self {
        let variables = ["DB_HOST", "DB_PORT", "DB_USER", "DB_PASSWORD", "DB_NAME"];
        if !variables.iter().any(|variable| environment.has(variable)) {
            return Self::Sqlite(environment.text("SQLITE_FILE", file).into());
        }
        let port = environment.parse_with("DB_PORT", 5432, "a port, 1 to 65535", |text| {
            text.parse().ok().filter(|port| *port != 0)
        });
        let modes = "disable, allow, prefer, require, verify-ca or verify-full";
        let mode = environment.parse("DB_SSLMODE", PgSslMode::Prefer, modes);
        let mut options = PgConnectOptions::new_without_pgpass()
            .host(&environment.text("DB_HOST", "localhost"))
            .port(port)
            .username(&environment.text("DB_USER", "postgres"))
            .password(&environment.text("DB_PASSWORD", "postgres"))
            .database(&environment.text("DB_NAME", name))
            .ssl_mode(mode)
            // Its slow statements would be logged as they are.
            .disable_statement_logging();
        if let Some(file) = environment.optional("DB_SSLROOTCERT") {
            options = options.ssl_root_cert(file);
        }
        Self::Postgres(Box::new(options))
    }
}

/// A pool that connects when it is needed: the service starts, and answers, without its database.
#[must_use]
pub fn postgres(options: PgConnectOptions) -> PgPool {
    PgPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .min_connections(CONNECTIONS_MIN)
        .max_lifetime(LIFETIME_MAX)
        .idle_timeout(IDLE_MAX)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .before_acquire(|connection, it| {
            Box::pin(async move {
                if it.idle_for > RESTED_MAX {
                    timeout(PING_TIMEOUT, connection.ping()).await.map_err(|_| late())??;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(limited(options, STATEMENT_TIMEOUT))
}

/// Options of sessions whose statements may take so long, and which do not stay in a transaction
/// after their connection is lost.
#[must_use]
pub fn limited(options: PgConnectOptions, statement: Duration) -> PgConnectOptions {
    options.options([
        ("statement_timeout", statement.as_millis()),
        ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION_TIMEOUT.as_millis()),
    ])
}

/// What a call that was given up has come to.
fn late() -> sqlx::Error {
    sqlx::Error::Io(io::ErrorKind::TimedOut.into())
}

/// A pool on a file, which is created where there is none.
///
/// # Errors
/// When the file cannot be used.
pub async fn sqlite(file: &std::path::Path) -> anyhow::Result<SqlitePool> {
    let options =
        posthaste::sqlite::connect_options("sqlite:")?.filename(file).disable_statement_logging();
    SqlitePoolOptions::new()
        .max_connections(FILE_CONNECTIONS_MAX)
        .connect_with(options)
        .await
        .with_context(|| format!("SQLITE_FILE is {}", file.display()))
}

/// Numbered changes of the service's own tables, counted from 1, with their names. Any number of
/// processes may run them at once.
#[must_use]
pub fn migrator(migrations: &[(&'static str, &'static str)]) -> Migrator {
    let of = |(number, (name, sql)): (i64, &(&'static str, &'static str))| {
        let sql = sql.into_sql_str();
        Migration::new(number, (*name).into(), MigrationType::Simple, sql, false)
    };
    Migrator::with_migrations((1..).zip(migrations).map(of).collect())
}

/// Creates or updates tables on PostgreSQL, the outbox's tables first: if the service's own tables
/// exist, the outbox can be used. The sessions have no statement limits; a migration that waits too
/// long for a lock is tried again.
///
/// # Errors
/// When the database is out of reach, or does not permit it.
pub async fn migrate(
    pool: &PgPool,
    migrations: &[(&'static str, &'static str)],
) -> Result<(), Failure> {
    let options = (*pool.connect_options()).clone().options([
        ("statement_timeout", 0),
        ("idle_in_transaction_session_timeout", 0),
        ("lock_timeout", MIGRATION_LOCK_TIMEOUT.as_millis()),
    ]);
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(ACQUIRE_TIMEOUT);
    let pool = pool.connect_lazy_with(options);
    let made = async {
        posthaste::migrate(&pool).await?;
        Ok(migrator(migrations).run(&pool).await?)
    };
    let made = made.await;
    pool.close().await;
    made
}

/// Repeats a call until it succeeds, with growing pauses, for at most `DB_START_TIMEOUT`.
#[derive(Clone, Copy, Debug)]
pub struct Patiently {
    limit: Duration,
}

impl Patiently {
    /// Reads the limit.
    pub fn read(environment: &mut Environment) -> Self {
        let read = |text: &str| humantime::parse_duration(text).ok();
        let rule = "a duration like 60s or 5m";
        Self { limit: environment.parse_with("DB_START_TIMEOUT", START_TIMEOUT, rule, read) }
    }

    /// Makes the tables, or whatever else needs the database at the start.
    ///
    /// # Errors
    /// The last failure, when the time is up.
    pub async fn until_done<F>(self, mut attempt: impl FnMut() -> F) -> anyhow::Result<()>
    where
        F: Future<Output = Result<(), Failure>>,
    {
        let deadline = Instant::now() + self.limit;
        let mut pause = PAUSE_MIN;
        loop {
            let failure = match attempt().await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            if Instant::now() + pause > deadline {
                anyhow::bail!("the database could not be used for {:?}: {failure}", self.limit);
            }
            tracing::warn!(reason = %failure, "waiting for the database");
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// The classification of a failed call. The text is for logs: it never holds SQL, a secret or a
/// value.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The call may succeed later: the database is down, overloaded, or not ready.
    #[error("{0}")]
    Unavailable(String),
    /// The call will not succeed later.
    #[error("{0}")]
    Internal(String),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error as E;
        match error {
            E::Database(error) => {
                Self::of_code(error.code().as_deref().unwrap_or_default(), error.message())
            }
            E::Io(error) => {
                Self::Unavailable(format!("the database cannot be reached: {}", error.kind()))
            }
            E::Tls(_) => Self::Unavailable("no secure connection to the database".to_owned()),
            E::PoolTimedOut => Self::Unavailable("no connection in time".to_owned()),
            E::PoolClosed | E::WorkerCrashed | E::BeginFailed | E::Protocol(_) => {
                Self::Unavailable("the connection to the database was lost".to_owned())
            }
            _ => Self::Internal("the driver failed in an unforeseen way".to_owned()),
        }
    }
}

impl Failure {
    /// By SQLSTATE, five characters, or SQLite's result code, a number. A missing table is one that
    /// is just being made; SQLite has no code for it.
    fn of_code(code: &str, message: &str) -> Self {
        let text = format!("the database reports an error of code {code}");
        let passes = if code.len() < 5 {
            // Busy, locked, read-only, input or output, full, cannot open.
            let code = code.parse::<u32>().unwrap_or_default();
            matches!(code & 0xff, 5 | 6 | 8 | 10 | 13 | 14)
                || (code == 1 && message.starts_with("no such table"))
        } else {
            // 25006 is a standby, 55P03 somebody who holds a lock, 25P03 a transaction that stood
            // still.
            matches!(code, "42P01" | "3F000" | "25006" | "3D000" | "55P03" | "25P03")
                || matches!(code.get(..2), Some("08" | "28" | "40" | "53" | "57" | "58"))
        };
        if passes { Self::Unavailable(text) } else { Self::Internal(text) }
    }
}

impl From<posthaste::StoreError> for Failure {
    fn from(error: posthaste::StoreError) -> Self {
        use posthaste::StoreErrorKind as Kind;
        let text = format!("outbox: {}", error.kind.code());
        match error.kind {
            Kind::Unavailable | Kind::ReadOnly | Kind::SchemaMissing => Self::Unavailable(text),
            _ => Self::Internal(text),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for Failure {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        match error {
            sqlx::migrate::MigrateError::Execute(error) => error.into(),
            sqlx::migrate::MigrateError::ExecuteMigration(error, number) => {
                Self::Internal(format!("migration {number}: {}", Self::from(error)))
            }
            error => Self::Internal(error.to_string()),
        }
    }
}
