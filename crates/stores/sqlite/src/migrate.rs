//! The tables: numbered migrations, safe when several programs start at once.

use posthaste_core::{StoreError, StoreErrorKind};
use sqlx::{SqliteConnection, SqlitePool};

use crate::{
    error::Fault,
    task::{Tasks, Work},
};

const CREATE: &str = include_str!("../sql/create_migration.sql");

/// One change of the tables. Never edited once released.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number, counted from 1 without gaps; the same in every store.
    pub version: i64,
    /// What it is about.
    pub name: &'static str,
    /// The statements that make the change.
    pub up: &'static str,
    /// The statements that undo it.
    pub down: &'static str,
}

/// Every migration, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "0001_outbox",
        up: include_str!("../migrations/0001_outbox.up.sql"),
        down: include_str!("../migrations/0001_outbox.down.sql"),
    },
    Migration {
        version: 2,
        name: "0002_log_identity",
        up: include_str!("../migrations/0002_log_identity.up.sql"),
        down: include_str!("../migrations/0002_log_identity.down.sql"),
    },
    Migration {
        version: 3,
        name: "0003_inbox",
        up: include_str!("../migrations/0003_inbox.up.sql"),
        down: include_str!("../migrations/0003_inbox.down.sql"),
    },
    Migration {
        version: 4,
        name: "0004_exact_enqueue_bounded_calls",
        up: include_str!("../migrations/0004_exact_enqueue_bounded_calls.up.sql"),
        down: include_str!("../migrations/0004_exact_enqueue_bounded_calls.down.sql"),
    },
    Migration {
        version: 5,
        name: "0005_inbox_page",
        up: include_str!("../migrations/0005_inbox_page.up.sql"),
        down: include_str!("../migrations/0005_inbox_page.down.sql"),
    },
    Migration {
        version: 6,
        name: "0006_trouble",
        up: include_str!("../migrations/0006_trouble.up.sql"),
        down: include_str!("../migrations/0006_trouble.down.sql"),
    },
    Migration {
        version: 7,
        name: "0007_rewind",
        up: include_str!("../migrations/0007_rewind.up.sql"),
        down: include_str!("../migrations/0007_rewind.down.sql"),
    },
    Migration {
        version: 8,
        name: "0008_exact_text",
        up: include_str!("../migrations/0008_exact_text.up.sql"),
        down: include_str!("../migrations/0008_exact_text.down.sql"),
    },
];

/// Brings the tables to this program's version and returns the names of the migrations it applied.
/// Any number of programs may do so at once: one works, the others wait and find nothing to do.
///
/// # Errors
/// Kind `SchemaTooNew` when a newer program has been here; then nothing changes.
pub async fn migrate(pool: &SqlitePool) -> Result<Vec<&'static str>, StoreError> {
    // Without a lock first: most starts have nothing to do, and may not even be allowed to write.
    let tasks = Tasks::new(pool.clone());
    let is_current =
        tasks.run("migrate", |conn| Box::pin(async move { Ok(applied(conn).await? == latest()) }));
    if is_current.await? {
        return Ok(Vec::new());
    }
    tasks.write("migrate", |conn| Box::pin(apply(conn))).await
}

/// Goes on with a file that was restored from a backup. Positions mean what they meant, but seqs
/// are handed out a second time: every route's log gets another identity, so that no consumer takes
/// new messages for copies of old ones, and all leases end.
///
/// # Errors
/// As for any call; then nothing was changed.
pub async fn adopt(pool: &SqlitePool) -> Result<(), StoreError> {
    fn work(conn: &mut SqliteConnection) -> Work<'_, ()> {
        Box::pin(async move {
            check(conn).await?;
            sqlx::query(include_str!("../sql/adopt_leases.sql")).execute(&mut *conn).await?;
            sqlx::query(include_str!("../sql/adopt_logs.sql")).execute(conn).await?;
            Ok(())
        })
    }
    Tasks::new(pool.clone()).write("adopt", work).await
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
    for Migration { version, name, up, .. } in MIGRATIONS {
        script.push_str(&format!(
            "\n{up}\nINSERT INTO posthaste_migration (version, name) VALUES ({version}, '{name}');\n"
        ));
    }
    script.push_str("\nCOMMIT;\n");
    script
}

/// Fails unless the tables are of this program's version.
pub(crate) async fn check(conn: &mut SqliteConnection) -> Result<(), Fault> {
    let fault = match applied(conn).await? {
        version if version == latest() => return Ok(()),
        0 => Fault::Store(
            StoreErrorKind::SchemaMissing,
            "the tables of Posthaste are not there; run `posthaste migrate`".to_owned(),
        ),
        version if version > latest() => too_new(version),
        version => Fault::Store(
            StoreErrorKind::SchemaTooOld,
            format!(
                "the tables are at version {version}, this program needs {}; run `posthaste \
                 migrate`",
                latest()
            ),
        ),
    };
    Err(fault)
}

async fn apply(conn: &mut SqliteConnection) -> Result<Vec<&'static str>, Fault> {
    let encoding: String =
        sqlx::query_scalar(include_str!("../sql/read_encoding.sql")).fetch_one(&mut *conn).await?;
    if encoding != "UTF-8" {
        return Err(Fault::refused(format!(
            "the database stores text as {encoding}, where bytes in would not be bytes out; make \
             one with `PRAGMA encoding = 'UTF-8'` and run `posthaste migrate` again"
        )));
    }
    let version = applied(conn).await?;
    if version > latest() {
        return Err(too_new(version));
    }
    sqlx::raw_sql(CREATE).execute(&mut *conn).await?;
    let mut names = Vec::new();
    for migration in MIGRATIONS.iter().filter(|each| each.version > version) {
        sqlx::raw_sql(migration.up).execute(&mut *conn).await?;
        sqlx::query(include_str!("../sql/record_migration.sql"))
            .bind(migration.version)
            .bind(migration.name)
            .execute(&mut *conn)
            .await?;
        names.push(migration.name);
    }
    Ok(names)
}

/// The newest applied version; 0 where there is none.
async fn applied(conn: &mut SqliteConnection) -> Result<i64, Fault> {
    let tables: i64 =
        sqlx::query_scalar(include_str!("../sql/find_migration.sql")).fetch_one(&mut *conn).await?;
    if tables == 0 {
        return Ok(0);
    }
    Ok(sqlx::query_scalar(include_str!("../sql/read_migration.sql")).fetch_one(conn).await?)
}

fn latest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

fn too_new(version: i64) -> Fault {
    Fault::Store(
        StoreErrorKind::SchemaTooNew,
        format!(
            "the tables are at version {version}, this program knows {}; run the newer program",
            latest()
        ),
    )
}
