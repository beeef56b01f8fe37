//! The tables: numbered migrations, safe when several programs start at once.
//!
//! MySQL commits every change of a table by itself. So the lock that keeps migrations apart is held
//! by a second connection, and every statement of a migration may run again: one that was cut short
//! is simply repeated.

use std::fmt::Write as _;

use posthaste_core::StoreError;
use posthaste_store_sql::{Fault, MIGRATE_DEADLINE, Migration, Reuse, Session, apply, migrations};
use sqlx::{Connection, Executor, MySqlPool};
use tokio::time::timeout;

use crate::{MySql, MySqlStore, connect, error::fault, examine::Server};

/// Settings that the printed script needs, and the table of migrations that it starts from.
const SCRIPT_HEAD: &str = "SET sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';\n\n";

const CREATE: &str = include_str!("../sql/create_migration.sql");

/// Every change, in order.
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

/// As [`MySqlStore::migrate`], with the pool of an application.
///
/// # Errors
/// As [`MySqlStore::migrate`].
pub async fn migrate(pool: &MySqlPool) -> Result<Vec<&'static str>, StoreError> {
    let store = MySqlStore::new(pool.clone());
    let ran = store.migrate().await;
    store.pool().close().await;
    ran
}

/// As [`MySqlStore::adopt`], with the pool of an application.
///
/// # Errors
/// As [`MySqlStore::adopt`].
pub async fn adopt(pool: &MySqlPool) -> Result<(), StoreError> {
    let store = MySqlStore::new(pool.clone());
    let adopted = store.adopt().await;
    store.pool().close().await;
    adopted
}

/// Migrates on two connections of its own, in a task that no dropped caller can cancel.
pub(crate) async fn run(store: &MySqlStore) -> Result<Vec<&'static str>, StoreError> {
    let (dialect, pool) = (store.dialect().clone(), store.pool().clone());
    let task = tokio::spawn(async move {
        let migrated = timeout(MIGRATE_DEADLINE, on_two_connections(&dialect, &pool)).await;
        migrated.unwrap_or_else(|_| Err(Fault::timed_out(MIGRATE_DEADLINE)))
    });
    let outcome = task.await.unwrap_or_else(|panic| Err(Fault::internal(panic)));
    outcome.map_err(|fault| fault.of("migrate"))
}

async fn on_two_connections(dialect: &MySql, pool: &MySqlPool) -> Result<Vec<&'static str>, Fault> {
    let options = pool.connect_options();
    let mut connection = connect::connect(&options).await.map_err(fault)?;
    let mut session = Session { dialect, connection: &mut connection, reuse: Reuse::Unnamed };
    Server::read(&mut session).await?.check()?;
    session.script(CREATE).await?;
    let mut lock = connect::connect(&options).await.map_err(fault)?;
    let patience = sqlx::raw_sql(include_str!("../sql/wait_migration.sql"));
    lock.execute(patience).await.map_err(fault)?;
    let mut holding = lock.begin().await.map_err(fault)?;
    let mut holder = Session { dialect, connection: &mut holding, reuse: Reuse::Unnamed };
    holder.own("lock_migration", &[]).await?;
    let ran = apply(&mut session).await?;
    holding.rollback().await.map_err(fault)?;
    // Both are done with; what closing says matters to nobody.
    let _ = (lock.close().await, connection.close().await);
    Ok(ran)
}

/// Every migration as one script for the command line client, for those who run such things by hand:
/// what [`migrate`] does to an empty database.
#[must_use]
pub fn print_migrations() -> String {
    let mut script = format!("{SCRIPT_HEAD}{};\n", CREATE.trim_end());
    for Migration { number, name, up, .. } in MIGRATIONS {
        let record = "INSERT INTO posthaste_migration (number, name) VALUES";
        // Writing into a String cannot fail.
        let _ = writeln!(script, "\n{up}\n{record} ({number}, '{name}');");
    }
    script
}
