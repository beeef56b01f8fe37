//! The tables: making them, moving them forward, and taking over those of another server.

use std::{fmt::Write as _, time::Duration};

use posthaste_core::{Position, StoreError};
use sqlx::{Executor, PgConnection, PgPool, Row};

use crate::{
    error::Fault,
    examine::too_new,
    fetch::steps,
    route,
    transaction::{Patience, query, run, scalar},
};

/// Migrations wait for each other, and rewriting a big log takes its time.
const DEADLINE: Duration = Duration::from_secs(3600);

/// One change of the tables.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Counted from 1, in the order they run; the same in every store.
    pub number: i32,
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

/// Brings the tables to the version of this program, in one transaction, and returns the names of
/// the migrations that ran. Any number of processes may do so at once: one does the work, the
/// others wait for it and find it done.
///
/// # Errors
/// Kind `SchemaTooNew` for tables of a later version, `Denied` where the role may not create them.
pub async fn migrate(pool: &PgPool) -> Result<Vec<&'static str>, StoreError> {
    run(pool, "migrate", DEADLINE, Patience::Endless, |connection| Box::pin(advance(connection)))
        .await
}

async fn advance(connection: &mut PgConnection) -> Result<Vec<&'static str>, Fault> {
    query(include_str!("../sql/migrate_lock.sql")).execute(&mut *connection).await?;
    let found = version(connection).await?;
    let known = MIGRATIONS.last().map_or(0, |last| last.number);
    if found > known {
        return Err(too_new(found, known));
    }
    let mut ran = Vec::new();
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > found) {
        connection.execute(sqlx::raw_sql(migration.up)).await?;
        query(include_str!("../sql/migrate_record.sql"))
            .bind(migration.number)
            .bind(migration.name)
            .execute(&mut *connection)
            .await?;
        ran.push(migration.name);
    }
    Ok(ran)
}

/// The number of the latest migration that ran; 0 where there are no tables.
pub(crate) async fn version(connection: &mut PgConnection) -> Result<i32, Fault> {
    let exists: bool =
        scalar(include_str!("../sql/schema_exists.sql")).fetch_one(&mut *connection).await?;
    if !exists {
        return Ok(0);
    }
    Ok(scalar(include_str!("../sql/schema_version.sql")).fetch_one(connection).await?)
}

/// Every migration as one script for `psql`, for those who run such things by hand: what
/// [`migrate`] does to an empty database.
#[must_use]
pub fn print_migrations() -> String {
    let mut script = String::from("BEGIN;\n\n");
    for migration in MIGRATIONS {
        let Migration { number, name, up, .. } = migration;
        let record = "INSERT INTO posthaste.migration (number, name) VALUES";
        // Writing into a String cannot fail.
        let _ = writeln!(script, "{up}\n{record} ({number}, '{name}');\n");
    }
    script.push_str("COMMIT;\n");
    script
}

/// Makes a database that was restored from another server's dump servable: transaction ids start
/// anew there, so what positions say of them means nothing. Every row is made visible to all, every
/// shard gets a position of this server that skips nothing it had not read (what it had read since
/// the oldest unread row is sent again), and all leases end. Writers wait while it runs.
///
/// # Errors
/// As for any call; then nothing was changed.
pub async fn adopt(pool: &PgPool) -> Result<(), StoreError> {
    run(pool, "adopt", DEADLINE, Patience::Endless, |connection| Box::pin(take_over(connection)))
        .await
}

async fn take_over(connection: &mut PgConnection) -> Result<(), Fault> {
    query(include_str!("../sql/adopt_lock.sql")).execute(&mut *connection).await?;
    let shards = route::positions(connection, None).await?;
    let mut ends = Vec::with_capacity(shards.len());
    for shard in &shards {
        ends.push(passed(connection, &shard.position).await?);
    }
    query(include_str!("../sql/adopt_rows.sql")).execute(&mut *connection).await?;
    let head = route::head(connection).await?;
    let snapshot = head.steps().last().map_or_else(String::new, |step| step.snapshot.to_string());
    for (shard, end) in shards.iter().zip(ends) {
        let position = Position::at(end, snapshot.as_str());
        query(include_str!("../sql/adopt_lease.sql"))
            .bind(&shard.route)
            .bind(shard.shard)
            .bind(position.to_string())
            .bind(position.seq())
            .execute(&mut *connection)
            .await?;
    }
    query(include_str!("../sql/adopt_barriers.sql"))
        .bind(head.to_string())
        .execute(&mut *connection)
        .await?;
    query(include_str!("../sql/adopt_identity.sql")).execute(&mut *connection).await?;
    query(include_str!("../sql/forget_log.sql")).bind(None::<&str>).execute(connection).await?;
    Ok(())
}

/// The seq up to which a position leaves nothing unread.
async fn passed(connection: &mut PgConnection, position: &Position) -> Result<i64, Fault> {
    let (seqs, snapshots) = steps(position);
    let row = query(include_str!("../sql/adopt_unread.sql"))
        .bind(seqs)
        .bind(snapshots)
        .bind(position.seq())
        .fetch_one(connection)
        .await?;
    let unread: Option<i64> = row.try_get(0)?;
    Ok(unread.map_or(position.seq(), |seq| seq - 1))
}
