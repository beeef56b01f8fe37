//! Opening the file with the settings an outbox needs.

use std::{str::FromStr, time::Duration};

use posthaste_core::StoreError;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::error::{is_busy, store_error};

/// Connections of a pool of our own: one may write, a few may read.
const CONNECTIONS_MAX: u32 = 4;

/// How long a writer waits for the one before it.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Rows that may wait between SQLite's thread and ours. The driver's 50 cost half of the speed of a
/// fetch in thread switches; memory is bounded by the statements, which read no more than is wanted.
const ROWS_BUFFERED: usize = 1000;

/// How often, and after what pause, a file that others are just creating is opened.
const OPEN_ATTEMPTS_MAX: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(50);

/// Options with the settings an outbox needs, for applications that make their own pool: write-ahead
/// logging, `synchronous = FULL`, a busy timeout of 10 s, foreign keys on; the file is created where
/// there is none.
///
/// # Errors
/// Kind `Refused` for a URL that is not of the form `sqlite://path/to/file.db`.
pub fn connect_options(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    // The driver would take any text for a path.
    let options = if url.starts_with("sqlite:") {
        SqliteConnectOptions::from_str(url)
    } else {
        Err(sqlx::Error::Configuration("the scheme is not sqlite".into()))
    };
    let options = options.map_err(|error| store_error("connect", error))?;
    Ok(options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true))
}

/// A small pool with these options.
pub(crate) async fn open(url: &str) -> Result<SqlitePool, StoreError> {
    let options = connect_options(url)?.row_buffer_size(ROWS_BUFFERED);
    let mut attempts = 1;
    loop {
        let pool =
            SqlitePoolOptions::new().max_connections(CONNECTIONS_MAX).connect_with(options.clone());
        match pool.await {
            Ok(pool) => return Ok(pool),
            // The switch to write-ahead logging is the one thing SQLite does not wait for.
            Err(error) if is_busy(&error) && attempts < OPEN_ATTEMPTS_MAX => {
                attempts += 1;
                tokio::time::sleep(OPEN_PAUSE).await;
            }
            Err(error) => return Err(store_error("connect", error)),
        }
    }
}
