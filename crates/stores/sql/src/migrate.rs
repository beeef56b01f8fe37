//! The tables: numbered migrations, safe when several programs start at once.

use std::time::Duration;

use posthaste_core::{StoreError, StoreErrorKind as Kind};

use crate::{Dialect, Fault, Scope, Session, SqlStore, Statement, call, params};

/// Migrations wait for each other, and changing a big table takes its time.
pub const DEADLINE: Duration = Duration::from_secs(3600);

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

/// Migrations by the names of their files: `migrations!["0001_outbox", "0002_log_identity"]`.
#[macro_export]
macro_rules! migrations {
    ($($name:literal),* $(,)?) => {
        $crate::numbered(&[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $name, ".up.sql")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $name, ".down.sql")),
        )),*])
    };
}

/// Numbers migrations, given as their names and the texts that make and undo them.
#[doc(hidden)]
#[must_use]
pub const fn numbered<const N: usize>(
    files: &[(&'static str, &'static str, &'static str); N],
) -> [Migration; N] {
    let mut migrations = [Migration { number: 0, name: "", up: "", down: "" }; N];
    let mut index = 0;
    while index < N {
        let (name, up, down) = files[index];
        migrations[index] = Migration { number: index as i64 + 1, name, up, down };
        index += 1;
    }
    migrations
}

impl<D: Dialect> SqlStore<D> {
    /// Brings the tables to the version of this program and returns the names of the migrations that ran.
    /// Any number of processes may do so at once: one does the work, the others wait for it and find it
    /// done.
    ///
    /// # Errors
    /// Kind `SchemaTooNew` for tables of a later version, `Refused` for a server that cannot hold the
    /// tables, `Denied` where the user may not create them.
    pub async fn migrate(&self) -> Result<Vec<&'static str>, StoreError> {
        // Without a lock first: most starts have nothing to do, and may not even be allowed to write.
        let found = call!(self, "migrate", Statements, (), |session, ()| version(session));
        if found.await? == latest::<D>() {
            return Ok(Vec::new());
        }
        D::migrate(self).await
    }

    /// Goes on with data that was restored from a backup: seqs are handed out a second time, so every
    /// route's log gets another identity, that no consumer takes new messages for copies of old ones, and
    /// all leases end. The dialect says what else it does.
    ///
    /// # Errors
    /// As for any call; then nothing was changed.
    pub async fn adopt(&self) -> Result<(), StoreError> {
        self.call_within(DEADLINE, "adopt", Scope::Transaction, (), |session, _| {
            Box::pin(async move {
                check(session).await?;
                D::adopt(session).await
            })
        })
        .await
    }
}

/// Migrates in one transaction.
pub(crate) async fn in_a_transaction<D: Dialect>(
    store: &SqlStore<D>,
) -> Result<Vec<&'static str>, StoreError> {
    store
        .call_within(DEADLINE, "migrate", Scope::Transaction, (), |session, _| {
            Box::pin(async move {
                D::before_migrating(session).await?;
                apply(session).await
            })
        })
        .await
}

/// Runs the migrations that have not run, and returns their names. Whoever calls this keeps all others
/// out.
///
/// # Errors
/// Kind `SchemaTooNew` for tables of a later version.
pub async fn apply<D: Dialect>(session: &mut Session<'_, D>) -> Result<Vec<&'static str>, Fault> {
    let found = version(session).await?;
    if found > latest::<D>() {
        return Err(too_new::<D>(found));
    }
    let mut ran = Vec::new();
    for migration in D::MIGRATIONS.iter().filter(|migration| migration.number > found) {
        session.script(migration.up).await?;
        let record = params![number: migration.number, name: migration.name];
        session.execute(Statement::RecordMigration, &record).await?;
        ran.push(migration.name);
    }
    Ok(ran)
}

/// Fails unless the tables are of this program's version.
pub(crate) async fn check<D: Dialect>(session: &mut Session<'_, D>) -> Result<(), Fault> {
    let (found, known) = (version(session).await?, latest::<D>());
    if found == 0 {
        return Err(Fault::schema_missing());
    }
    if found < known {
        return Err(Fault::new(
            Kind::SchemaTooOld,
            format!(
                "the tables are of version {found}, this program needs {known}; \
                 run `posthaste migrate`"
            ),
        ));
    }
    if found > known {
        return Err(too_new::<D>(found));
    }
    Ok(())
}

fn too_new<D: Dialect>(found: i64) -> Fault {
    let known = latest::<D>();
    Fault::new(
        Kind::SchemaTooNew,
        format!(
            "the tables are of version {found}, this program knows {known}; \
             run the newer program (`posthaste migrate` does not go back)"
        ),
    )
}

/// The number of the latest migration that ran; 0 where there are no tables.
async fn version<D: Dialect>(session: &mut Session<'_, D>) -> Result<i64, Fault> {
    let tables = session.row(Statement::FindMigration, &[]).await?;
    if !tables.map(|row| row.bool(0)).transpose()?.unwrap_or(false) {
        return Ok(0);
    }
    let latest = session.row(Statement::ReadMigration, &[]).await?;
    Ok(latest.map(|row| row.int(0)).transpose()?.flatten().unwrap_or(0))
}

/// The number of the newest migration that this program knows.
fn latest<D: Dialect>() -> i64 {
    D::MIGRATIONS.last().map_or(0, |migration| migration.number)
}
