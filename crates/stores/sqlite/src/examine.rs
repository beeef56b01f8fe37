//! Settings worth a look, and whether the database can be written.

use posthaste_core::Finding;
use sqlx::SqliteConnection;

use crate::{error::Fault, migrate};

/// Below this, a writer that meets another gives up too soon.
const BUSY_TIMEOUT_MILLIS_MIN: i64 = 5000;

/// `PRAGMA synchronous` from which on a commit is on the disk when it returns.
const SYNCHRONOUS_FULL: i64 = 2;

/// Fails unless the tables are of this program's version and can be written.
pub(crate) async fn check(conn: &mut SqliteConnection) -> Result<(), Fault> {
    migrate::check(conn).await?;
    // Only writing tells: permissions, the URL and the file system all have a say.
    sqlx::query(include_str!("../sql/check_write.sql")).execute(conn).await?;
    Ok(())
}

pub(crate) async fn examine(conn: &mut SqliteConnection) -> Result<Vec<Finding>, Fault> {
    type Settings = (String, i64, i64, i64, i64);
    let (journal_mode, synchronous, busy_timeout_millis, file_bytes, free_bytes): Settings =
        sqlx::query_as(include_str!("../sql/examine.sql")).fetch_one(conn).await?;
    Ok(vec![
        finding(
            journal_mode == "wal",
            format!("journal_mode is {journal_mode}"),
            "run `PRAGMA journal_mode = WAL` once: readers then wait for no writer, nor it for them",
        ),
        finding(
            synchronous >= SYNCHRONOUS_FULL,
            format!("synchronous is {synchronous} (0 off, 1 normal, 2 full, 3 extra)"),
            "set `synchronous = FULL` on every connection: a power cut may undo a commit whose \
             message was already sent",
        ),
        finding(
            busy_timeout_millis >= BUSY_TIMEOUT_MILLIS_MIN,
            format!("busy_timeout is {busy_timeout_millis} ms"),
            "set `busy_timeout` to 10000 ms on every connection: writers take turns",
        ),
        finding(
            free_bytes <= file_bytes / 2,
            format!("the file has {file_bytes} bytes, {free_bytes} of them free"),
            "run `VACUUM` in a quiet hour to give the space back; it is reused otherwise",
        ),
    ])
}

fn finding(ok: bool, what: String, fix: &str) -> Finding {
    Finding { ok, what, fix: (!ok).then(|| fix.to_owned()) }
}
