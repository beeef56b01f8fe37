//! Opening the file with the settings an outbox needs.

use std::{
    str::FromStr,
    time::{Duration, Instant},
};

use posthaste_core::{Invalid, StoreError, UrlParameter, UrlValues, check_parameters, refused_url};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use url::form_urlencoded;

use crate::{
    error::{is_busy, store_error},
    file::File,
};

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

/// Every parameter that the driver honours.
const PARAMETERS: &[UrlParameter] = &[
    parameter(&["mode"], UrlValues::Words(&["ro", "rw", "rwc", "memory"])),
    parameter(&["cache"], UrlValues::Words(&["private", "shared"])),
    parameter(&["immutable"], UrlValues::Words(&["true", "false", "1", "0"])),
    parameter(&["vfs"], UrlValues::Any),
];

const fn parameter(names: &'static [&'static str], values: UrlValues) -> UrlParameter {
    UrlParameter { names, values }
}

/// The form of a URL, for errors.
const FORM: &str = "must be of the form sqlite:path/to/file.db";

/// Checks a URL as [`SqliteStore::connect`](crate::SqliteStore::connect) does, without touching the
/// file: its form, a file, and parameters that are known and have values that they take.
///
/// # Errors
/// `url`, with the part that is wrong and what would be right.
pub fn check_url(url: &str) -> Result<(), Invalid> {
    let options = options(url)?;
    // SQLite would open a database of its own, which is gone with the connection.
    if options.get_filename().as_os_str().is_empty() && !url.contains("mode=memory") {
        return Err(Invalid::new("url", url, &format!("names no file: it {FORM}")));
    }
    Ok(())
}

fn options(url: &str) -> Result<SqliteConnectOptions, Invalid> {
    // The driver would take any text for a path.
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return Err(Invalid::new("url", "…", FORM));
    };
    let (_, query) = rest.split_once('?').unwrap_or((rest, ""));
    let parameters: Vec<(String, String)> =
        form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    check_parameters(parameters.iter().map(|(n, v)| (n.as_str(), v.as_str())), PARAMETERS)?;
    let unreadable = |_| Invalid::new("url", url, "must have a path in UTF-8");
    SqliteConnectOptions::from_str(url).map_err(unreadable)
}

/// Options with the settings an outbox needs, for applications that make their own pool: write-ahead
/// logging, `synchronous = FULL`, a busy timeout of 10 s, foreign keys on; the file is created where
/// there is none.
///
/// # Errors
/// Kind `Refused` for a URL that [`check_url`] refuses, save that the file may be left for the
/// caller to name.
pub fn connect_options(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    let options = options(url).map_err(|invalid| refused_url(&invalid))?;
    Ok(options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true))
}

/// A small pool with these options, which closes connections whose file was replaced by another.
pub(crate) async fn open(url: &str) -> Result<(SqlitePool, File), StoreError> {
    check_url(url).map_err(|invalid| refused_url(&invalid))?;
    let options = connect_options(url)?.row_buffer_size(ROWS_BUFFERED);
    let mut attempts = 1;
    loop {
        let file = File::at(&options);
        let watched = file.clone();
        let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS_MAX).before_acquire(
            move |_, meta| {
                let opened_at = Instant::now().checked_sub(meta.age);
                let is_current = opened_at.is_none_or(|at| watched.is_open_since(at));
                Box::pin(async move { Ok(is_current) })
            },
        );
        match pool.connect_with(options.clone()).await {
            Ok(pool) => return Ok((pool, file)),
            // The switch to write-ahead logging is the one thing SQLite does not wait for.
            Err(error) if is_busy(&error) && attempts < OPEN_ATTEMPTS_MAX => {
                attempts += 1;
                tokio::time::sleep(OPEN_PAUSE).await;
            }
            Err(error) => return Err(store_error("connect", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_the_driver_can_use_pass() {
        for url in [
            "sqlite:outbox.db",
            "sqlite:///var/lib/shop/outbox.db?mode=rwc&cache=private",
            "sqlite:a#b@c.db",
            "sqlite::memory:",
            "sqlite:?mode=memory",
            "sqlite:a.db?immutable=0&vfs=unix-none",
        ] {
            assert_eq!(check_url(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        for (url, value, part) in [
            ("postgres://app:hunter2@db/shop", "…", "sqlite:path"),
            ("sqlite:a.db?mode=wr", "…?mode=wr", "`mode` as one of ro, rw, rwc, memory"),
            ("sqlite:a.db?cash=shared", "…?cash=…", "did you mean `cache`?"),
            ("sqlite:a.db?key=hunter2", "…?key=…", "known: mode, cache, immutable, vfs"),
            ("sqlite:", "sqlite:", "names no file"),
            ("sqlite:?mode=rwc", "sqlite:?mode=rwc", "names no file"),
        ] {
            let invalid = check_url(url).expect_err(url);
            assert_eq!((invalid.field, invalid.value.as_str()), ("url", value));
            assert!(invalid.rule.contains(part), "{url}: {invalid}");
            assert!(!refused_url(&invalid).to_string().contains("hunter2"), "{url}");
        }
    }
}
