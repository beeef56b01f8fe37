//! Whether the store can be served, and settings worth a look.

use posthaste_core::{Finding, StoreErrorKind as Kind};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::{error::Fault, migrate::version, row::duration, transaction::query};

/// A transaction this old holds back vacuum, and late messages with it.
const OLD_SECONDS: f64 = 300.0;
/// So many dead rows in one of our tables mean that vacuum does not keep up.
const DEAD_ROWS_MANY: i64 = 1_000_000;

/// The check port.
pub(crate) async fn check(connection: &mut PgConnection) -> Result<(), Fault> {
    let found = version(connection).await?;
    let known = crate::MIGRATIONS.last().map_or(0, |last| last.number);
    if found == 0 {
        return Err(Fault::Store(
            Kind::SchemaMissing,
            "the tables are not there; run `posthaste migrate`".to_owned(),
        ));
    }
    if found < known {
        return Err(Fault::Store(
            Kind::SchemaTooOld,
            format!(
                "the tables are of version {found}, this program needs {known}; \
                 run `posthaste migrate`"
            ),
        ));
    }
    if found > known {
        return Err(too_new(found, known));
    }
    let row = query(include_str!("../sql/check_server.sql")).fetch_one(connection).await?;
    if row.try_get(0)? {
        return Err(Fault::Store(
            Kind::ReadOnly,
            "the server refuses writes (a standby, or default_transaction_read_only is on); \
             connect to the primary"
                .to_owned(),
        ));
    }
    if !row.try_get::<bool, _>(1)? {
        return Err(Fault::Store(
            Kind::OtherServer,
            "the data was restored into another server, where recorded positions mean nothing; \
             run `posthaste migrate --adopt`, which may send some messages again but skips none"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Tables of a version that does not exist yet.
pub(crate) fn too_new(found: i32, known: i32) -> Fault {
    Fault::Store(
        Kind::SchemaTooNew,
        format!(
            "the tables are of version {found}, this program knows {known}; \
             run the newer program (`posthaste migrate` does not go back)"
        ),
    )
}

/// The examine port.
pub(crate) async fn examine(connection: &mut PgConnection) -> Result<Vec<Finding>, Fault> {
    let row = query(include_str!("../sql/examine.sql")).fetch_one(connection).await?;
    let mut findings = server(&row)?;
    findings.extend(durability(&row)?);
    findings.extend(circumstances(&row)?);
    Ok(findings)
}

fn finding(ok: bool, what: String, fix: &str) -> Finding {
    Finding { ok, what, fix: (!ok).then(|| fix.to_owned()) }
}

fn server(row: &PgRow) -> Result<Vec<Finding>, sqlx::Error> {
    let number: i32 = row.try_get(0)?;
    let version: &str = row.try_get(1)?;
    let encoding: &str = row.try_get(2)?;
    let isolation: &str = row.try_get(6)?;
    let standby: bool = row.try_get(7)?;
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

fn durability(row: &PgRow) -> Result<Vec<Finding>, sqlx::Error> {
    let fsync: bool = row.try_get(3)?;
    let pages: bool = row.try_get(4)?;
    let commit: &str = row.try_get(5)?;
    let logged: bool = row.try_get::<Option<bool>, _>(8)?.unwrap_or(true);
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
            format!("posthaste.outbox is {}", if logged { "logged" } else { "unlogged" }),
            "ALTER TABLE posthaste.outbox SET LOGGED; a crash empties unlogged tables",
        ),
    ])
}

fn circumstances(row: &PgRow) -> Result<Vec<Finding>, sqlx::Error> {
    let cache: i64 = row.try_get::<Option<i64>, _>(9)?.unwrap_or(1);
    let oldest: f64 = row.try_get(10)?;
    let prepared: f64 = row.try_get(11)?;
    let dead: i64 = row.try_get(12)?;
    Ok(vec![
        finding(
            cache == 1,
            format!("the sequence of posthaste.outbox caches {cache}"),
            "ALTER TABLE posthaste.outbox ALTER COLUMN seq SET CACHE 1; \
             cached numbers break the order of a key",
        ),
        finding(
            oldest <= OLD_SECONDS,
            format!("oldest open transaction {:?}", duration(oldest.floor())),
            "end it (pg_stat_activity shows it); it holds back vacuum and what it enqueued",
        ),
        finding(
            prepared <= OLD_SECONDS,
            format!("oldest prepared transaction {:?}", duration(prepared.floor())),
            "COMMIT PREPARED or ROLLBACK PREPARED it (pg_prepared_xacts shows it)",
        ),
        finding(
            dead <= DEAD_ROWS_MANY,
            format!("at most {dead} dead rows in a table of ours"),
            "look for what keeps autovacuum from working: an old transaction, a replication slot",
        ),
    ])
}
