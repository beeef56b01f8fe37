//! The tables: making them, moving them forward, and taking over those of another server.

use std::fmt::Write as _;

use posthaste_core::{Position, Seq, StoreError};
use posthaste_store_sql::{Dialect, Fault, Migration, Session, migrations, params};
use sqlx::PgPool;

use crate::{Postgres, PostgresStore, fetch::steps};

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

/// Brings the tables to the version of this program, in one transaction, and returns the names of
/// the migrations that ran. Any number of processes may do so at once: one does the work, the
/// others wait for it and find it done.
///
/// # Errors
/// Kind `SchemaTooNew` for tables of a later version, `Denied` where the role may not create them.
pub async fn migrate(pool: &PgPool) -> Result<Vec<&'static str>, StoreError> {
    PostgresStore::new(pool.clone()).migrate().await
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
    PostgresStore::new(pool.clone()).adopt().await
}

/// What [`adopt`] does in its transaction.
pub(crate) async fn take_over(session: &mut Session<'_, Postgres>) -> Result<(), Fault> {
    for name in ["endless_patience", "adopt_lock", "lock_all_leases"] {
        session.own(name, &[]).await?;
    }
    let shards = session.own("adopt_positions", &[]).await?.rows;
    let mut ends = Vec::with_capacity(shards.len());
    for shard in &shards {
        ends.push(passed(session, &shard.position(2)?).await?);
    }
    session.own("adopt_rows", &[]).await?;
    let head = Postgres::head(session, "").await?;
    let snapshot = head.steps().last().map_or("", |step| &*step.snapshot);
    for (shard, end) in shards.iter().zip(ends) {
        let lease = params![
            route: shard.string(0)?,
            shard: shard.int(1)?,
            position: &Position::at(end, snapshot),
            seq: end,
        ];
        session.own("adopt_lease", &lease).await?;
    }
    session.own("adopt_barriers", &params![barrier: &head]).await?;
    session.own("adopt_identity", &[]).await?;
    session.own("adopt_logs", &[]).await?;
    Ok(())
}

/// The seq up to which a position leaves nothing unread.
async fn passed(session: &mut Session<'_, Postgres>, position: &Position) -> Result<Seq, Fault> {
    let (seqs, snapshots) = steps(position);
    let end = position.seq();
    let look = params![seqs: seqs, snapshots: snapshots.as_slice(), end: end];
    let unread = session.own("adopt_unread", &look).await?;
    let unread = unread.rows.first().map(|row| row.int(0)).transpose()?.flatten();
    Ok(unread.map_or(end, |seq| seq - 1))
}
