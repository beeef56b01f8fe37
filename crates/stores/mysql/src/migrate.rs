//! The tables: numbered migrations, safe when several programs start at once.
//!
//! MySQL commits every change of a table by itself. So the lock that keeps migrations apart is held
//! by a second connection, and every statement of a migration may run again: one that was cut short
//! is simply repeated.

use std::{fmt::Write as _, time::Duration};

use posthaste_core::StoreError;
use sqlx::{Connection, Executor, MySqlConnection, MySqlPool};
use tokio::time::timeout;

use crate::{
    connect,
    error::Fault,
    examine::{Server, too_new},
    route,
    transaction::{self, Scope},
};

/// Migrations wait for each other, and changing a big table takes its time.
const DEADLINE: Duration = Duration::from_secs(3600);

/// Settings that the printed script needs, and the table of migrations that it starts from.
const SCRIPT_HEAD: &str = "SET sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';\n\n";

const CREATE: &str = include_str!("../sql/create_migration.sql");

/// One change of the tables. Never edited once released.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Counted from 1, in the order they run; the same in every store.
    pub number: i64,
    /// What it is about.
    pub name: &'static str,
    /// The statements that make it.
    pub up: &'static str,
    /// The statements that undo it.
    pub down: &'static str,
}

/// Every change, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        name: "0001_outbox",
        up: include_str!("../migrations/0001_outbox.up.sql"),
        down: include_str!("../migrations/0001_outbox.down.sql"),
    },
    Migration {
        number: 2,
        name: "0002_log_identity",
        up: include_str!("../migrations/0002_log_identity.up.sql"),
        down: include_str!("../migrations/0002_log_identity.down.sql"),
    },
    Migration {
        number: 3,
        name: "0003_inbox",
        up: include_str!("../migrations/0003_inbox.up.sql"),
        down: include_str!("../migrations/0003_inbox.down.sql"),
    },
    Migration {
        number: 4,
        name: "0004_exact_enqueue_bounded_calls",
        up: include_str!("../migrations/0004_exact_enqueue_bounded_calls.up.sql"),
        down: include_str!("../migrations/0004_exact_enqueue_bounded_calls.down.sql"),
    },
    Migration {
        number: 5,
        name: "0005_inbox_page",
        up: include_str!("../migrations/0005_inbox_page.up.sql"),
        down: include_str!("../migrations/0005_inbox_page.down.sql"),
    },
    Migration {
        number: 6,
        name: "0006_trouble",
        up: include_str!("../migrations/0006_trouble.up.sql"),
        down: include_str!("../migrations/0006_trouble.down.sql"),
    },
    Migration {
        number: 7,
        name: "0007_rewind",
        up: include_str!("../migrations/0007_rewind.up.sql"),
        down: include_str!("../migrations/0007_rewind.down.sql"),
    },
    Migration {
        number: 8,
        name: "0008_exact_text",
        up: include_str!("../migrations/0008_exact_text.up.sql"),
        down: include_str!("../migrations/0008_exact_text.down.sql"),
    },
];

/// Brings the tables to the version of this program and returns the names of the migrations that
/// ran. Any number of processes may do so at once: one does the work, the others wait for it and
/// find it done.
///
/// # Errors
/// Kind `SchemaTooNew` for tables of a later version, `Refused` for a server that is too old,
/// `Denied` where the user may not create tables.
pub async fn migrate(pool: &MySqlPool) -> Result<Vec<&'static str>, StoreError> {
    let options = pool.connect_options();
    // In a task of its own, so that a dropped caller does not cut it in two.
    let task = tokio::spawn(async move {
        timeout(DEADLINE, async {
            let mut connection = connect::connect(&options).await?;
            if version(&mut connection).await? == latest() {
                return Ok(Vec::new());
            }
            Server::read(&mut connection).await?.check()?;
            connection.execute(sqlx::raw_sql(CREATE)).await?;
            let mut lock = connect::connect(&options).await?;
            let ran = locked(&mut lock, &mut connection).await?;
            // Both are done with; what closing says matters to nobody.
            let _ = (lock.close().await, connection.close().await);
            Ok(ran)
        })
        .await
        .unwrap_or_else(|_| Err(Fault::TimedOut(DEADLINE)))
    });
    let outcome = task.await.unwrap_or_else(|panic| Err(Fault::internal(panic)));
    outcome.map_err(|fault: Fault| fault.of("migrate"))
}

/// Migrates while `lock` holds everybody else off.
async fn locked(
    lock: &mut MySqlConnection,
    connection: &mut MySqlConnection,
) -> Result<Vec<&'static str>, Fault> {
    lock.execute(sqlx::raw_sql(include_str!("../sql/wait_migration.sql"))).await?;
    let mut holding = lock.begin().await?;
    sqlx::query(include_str!("../sql/lock_migration.sql")).fetch_one(&mut *holding).await?;
    let found = version(connection).await?;
    if found > latest() {
        return Err(too_new(found, latest()));
    }
    let mut ran = Vec::new();
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > found) {
        connection.execute(sqlx::raw_sql(migration.up)).await?;
        sqlx::query(include_str!("../sql/record_migration.sql"))
            .bind(migration.number)
            .bind(migration.name)
            .execute(&mut *connection)
            .await?;
        ran.push(migration.name);
    }
    holding.rollback().await?;
    Ok(ran)
}

/// Goes on with data that was restored from a backup. Positions mean what they meant, but seqs are
/// handed out a second time: every route's log gets another identity, so that no consumer takes new
/// messages for copies of old ones, and all leases end.
///
/// # Errors
/// As for any call; then nothing was changed.
pub async fn adopt(pool: &MySqlPool) -> Result<(), StoreError> {
    transaction::run(pool, "adopt", DEADLINE, Scope::Transaction, (), |connection, _| {
        Box::pin(async move {
            route::lock_all_leases(connection).await?;
            for sql in
                [include_str!("../sql/adopt_leases.sql"), include_str!("../sql/adopt_logs.sql")]
            {
                sqlx::query(sql).execute(&mut *connection).await?;
            }
            Ok(())
        })
    })
    .await
}

/// Every migration as one script for the command line client, for those who run such things by
/// hand: what [`migrate`] does to an empty database.
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

/// The number of the latest migration that ran; 0 where there are no tables.
pub(crate) async fn version(connection: &mut MySqlConnection) -> Result<i64, Fault> {
    let tables: i64 = sqlx::query_scalar(include_str!("../sql/find_migration.sql"))
        .fetch_one(&mut *connection)
        .await?;
    if tables == 0 {
        return Ok(0);
    }
    Ok(sqlx::query_scalar(include_str!("../sql/read_migration.sql")).fetch_one(connection).await?)
}

/// The number of the newest migration this program knows.
pub(crate) fn latest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}
