//! Settings worth a look, and whether the database can be written.

use posthaste_core::Finding;
use posthaste_store_sql::{Fault, Session};

use crate::Sqlite;

/// Below this, a writer that meets another gives up too soon.
const BUSY_TIMEOUT_MILLIS_MIN: i64 = 5000;

/// `PRAGMA synchronous` from which on a commit is on the disk when it returns.
const SYNCHRONOUS_FULL: i64 = 2;

/// Fails unless the file can be written. Only writing tells: permissions, the URL and the file system all
/// have a say.
pub(crate) async fn check(session: &mut Session<'_, Sqlite>) -> Result<(), Fault> {
    session.own("check_write", &[]).await?;
    Ok(())
}

pub(crate) async fn examine(session: &mut Session<'_, Sqlite>) -> Result<Vec<Finding>, Fault> {
    let settings = session.own("examine", &[]).await?;
    let settings = settings.rows.first().ok_or_else(|| Fault::internal("no settings"))?;
    let (journal_mode, synchronous) = (settings.string(0)?, settings.number::<i64>(1)?);
    let busy_timeout_millis: i64 = settings.number(2)?;
    let (file_bytes, free_bytes) = (settings.number::<i64>(3)?, settings.number::<i64>(4)?);
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
