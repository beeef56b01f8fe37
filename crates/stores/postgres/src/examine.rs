//! Whether the store can be served, and settings worth a look.

use std::time::Duration;

use posthaste_core::{Finding, StoreErrorKind as Kind};
use posthaste_store_sql::{Dialect, Fault, Row, Session};

use crate::Postgres;

/// A transaction this old holds back vacuum, and late messages with it.
const OLD: Duration = Duration::from_secs(300);
/// So many dead rows in one of our tables mean that vacuum does not keep up.
const DEAD_ROWS_MANY: u64 = 1_000_000;

/// The check port, behind the check of the tables' version.
pub(crate) async fn check(session: &mut Session<'_, Postgres>) -> Result<(), Fault> {
    let row = only(session, "check_server").await?;
    if row.bool(0)? {
        return Err(Fault::new(
            Kind::ReadOnly,
            "the server refuses writes (a standby, or default_transaction_read_only is on); \
             connect to the primary",
        ));
    }
    if !row.bool(1)? {
        return Err(Fault::new(
            Kind::OtherServer,
            "the data was restored into another server, where recorded positions mean nothing; \
             run `posthaste migrate --adopt`, which may send some messages again but skips none",
        ));
    }
    Ok(())
}

/// The examine port.
pub(crate) async fn examine(session: &mut Session<'_, Postgres>) -> Result<Vec<Finding>, Fault> {
    let row = only(session, "examine").await?;
    let log = format!("{}.outbox", session.dialect.texts().namespace().as_str());
    let mut findings = server(&row)?;
    findings.extend(durability(&row, &log)?);
    findings.extend(circumstances(&row, &log)?);
    Ok(findings)
}

/// The row of a statement that returns one.
async fn only(session: &mut Session<'_, Postgres>, name: &'static str) -> Result<Row, Fault> {
    let row = session.own(name, &[]).await?.rows.pop();
    row.ok_or_else(|| Fault::internal(format!("statement `{name}` returned no row")))
}

fn finding(ok: bool, what: String, fix: &str) -> Finding {
    Finding { ok, what, fix: (!ok).then(|| fix.to_owned()) }
}

fn server(row: &Row) -> Result<Vec<Finding>, Fault> {
    let number: i64 = row.number(0)?;
    let version = row.string(1)?;
    let encoding = row.string(2)?;
    let isolation = row.string(6)?;
    let standby = row.bool(7)?;
    Ok(vec![
        finding(
            number >= 130_000,
            format!("server version {version}"),
            "upgrade to PostgreSQL 13 or later",
        ),
        finding(
            encoding == "UTF8",
            format!("server encoding {encoding}"),
            "move to a database with encoding UTF8; keys are hashed as UTF-8 bytes",
        ),
        finding(
            !standby,
            format!("the server is a {}", if standby { "standby" } else { "primary" }),
            "connect to the primary",
        ),
        // Ours are explicit; an application whose writers of one key are not serialised by a row
        // lock gets errors instead of order under stricter levels.
        finding(
            isolation == "read committed",
            format!("default isolation {isolation}"),
            "nothing to do for the relay; the application must retry serialization failures",
        ),
    ])
}

fn durability(row: &Row, log: &str) -> Result<Vec<Finding>, Fault> {
    let fsync = row.bool(3)?;
    let pages = row.bool(4)?;
    let commit = row.string(5)?;
    let logged = row.int(8)? != Some(0);
    let on = |on: bool| if on { "on" } else { "off" };
    Ok(vec![
        finding(
            fsync,
            format!("fsync {}", on(fsync)),
            "set fsync = on; a crash can lose messages that were sent, or corrupt the log",
        ),
        finding(
            pages,
            format!("full_page_writes {}", on(pages)),
            "set full_page_writes = on; a crash can corrupt the log",
        ),
        finding(
            commit != "off",
            format!("synchronous_commit {commit}"),
            "set synchronous_commit = on; a crash can lose commits whose messages were sent",
        ),
        finding(
            logged,
            format!("{log} is {}", if logged { "logged" } else { "unlogged" }),
            &format!("ALTER TABLE {log} SET LOGGED; a crash empties unlogged tables"),
        ),
    ])
}

fn circumstances(row: &Row, log: &str) -> Result<Vec<Finding>, Fault> {
    let cache = row.int(9)?.unwrap_or(1);
    let oldest = row.duration(10)?.unwrap_or_default();
    let prepared = row.duration(11)?.unwrap_or_default();
    let dead = row.count(12)?;
    let whole = |age: Duration| Duration::from_secs(age.as_secs());
    Ok(vec![
        finding(
            cache == 1,
            format!("the sequence of {log} caches {cache}"),
            &format!(
                "ALTER TABLE {log} ALTER COLUMN seq SET CACHE 1; \
                 cached numbers break the order of a key"
            ),
        ),
        finding(
            oldest <= OLD,
            format!("oldest open transaction {:?}", whole(oldest)),
            "end it (pg_stat_activity shows it); it holds back vacuum and what it enqueued",
        ),
        finding(
            prepared <= OLD,
            format!("oldest prepared transaction {:?}", whole(prepared)),
            "COMMIT PREPARED or ROLLBACK PREPARED it (pg_prepared_xacts shows it)",
        ),
        finding(
            dead <= DEAD_ROWS_MANY,
            format!("at most {dead} dead rows in a table of ours"),
            "look for what keeps autovacuum from working: an old transaction, a replication slot",
        ),
    ])
}
