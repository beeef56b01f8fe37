//! The tables.

use posthaste_core::StoreError;
use posthaste_store_sql::{Fault, Migration, Session, migrations};
use sqlx::SqlitePool;

use crate::{Sqlite, SqliteStore};

const CREATE: &str = include_str!("../sql/create_migration.sql");

/// Every migration, in order.
pub const MIGRATIONS: &[Migration] = &migrations![
    "0001_outbox",
    "0002_log_identity",
    "0003_inbox",
    "0004_exact_enqueue_bounded_calls",
    "0005_inbox_page",
    "0006_trouble",
    "0007_rewind",
    "0008_exact_text",
];

/// Brings the tables to this program's version; see [`SqlStore::migrate`](posthaste_store_sql::SqlStore).
///
/// # Errors
/// Kind `SchemaTooNew` when a newer program has been here; then nothing changes.
pub async fn migrate(pool: &SqlitePool) -> Result<Vec<&'static str>, StoreError> {
    SqliteStore::new(pool.clone()).migrate().await
}

/// Goes on with a file that was restored from a backup. Positions mean what they meant, but seqs
/// are handed out a second time: every route's log gets another identity, so that no consumer takes
/// new messages for copies of old ones, and all leases end.
///
/// # Errors
/// As for any call; then nothing was changed.
pub async fn adopt(pool: &SqlitePool) -> Result<(), StoreError> {
    SqliteStore::new(pool.clone()).adopt().await
}

/// All of it as one script, for those who let nobody else change their tables.
#[must_use]
pub fn print_migrations() -> String {
    let mut script = format!(
        "-- Posthaste {}, SQLite. Text must be stored as UTF-8, SQLite's default.\n\
         BEGIN IMMEDIATE;\n\n{};\n",
        env!("CARGO_PKG_VERSION"),
        CREATE.trim_end(),
    );
    for Migration { number, name, up, .. } in MIGRATIONS {
        script.push_str(&format!(
            "\n{up}\nINSERT INTO posthaste_migration (version, name) VALUES ({number}, '{name}');\n"
        ));
    }
    script.push_str("\nCOMMIT;\n");
    script
}

/// What comes before the first migration.
pub(crate) async fn prepare(session: &mut Session<'_, Sqlite>) -> Result<(), Fault> {
    let encoding = session.own("read_encoding", &[]).await?;
    let encoding = encoding.rows.first().map_or_else(|| Ok(String::new()), |row| row.string(0))?;
    if encoding != "UTF-8" {
        return Err(Fault::refused(format!(
            "the database stores text as {encoding}, where bytes in would not be bytes out; make \
             one with `PRAGMA encoding = 'UTF-8'` and run `posthaste migrate` again"
        )));
    }
    session.own("create_migration", &[]).await?;
    Ok(())
}
