//! What the engine has to know of MySQL and MariaDB.

use std::{
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_trait::async_trait;
use futures::TryStreamExt;
use posthaste_core::{Batch, Fetch, Finding, Message, StoreCapabilities, StoreError, refused_url};
use posthaste_store_sql::{
    Dialect, Fault, File, Migration, Namespace, Notation, Outcome, Reuse, Scope, Session, Text,
    Texts, Value, sql_files, statement_files,
};
use sqlx::{
    AssertSqlSafe, Connection, Either, Executor, MySqlConnection, MySqlPool, pool::PoolConnection,
};

use crate::{
    DEADLINE_DEFAULT, MIGRATIONS, MySqlStore, connect, enqueue,
    error::fault,
    examine, migrate,
    sequence::{self, Sequencer},
    value,
};

/// Statements that every dialect has.
const FILES: &[File] = statement_files!();

/// Statements of a log that is in the order of commits, and of clusters.
const OPTIONAL_FILES: &[File] = sql_files![
    adopt_leases,
    adopt_logs,
    due_followers,
    due_heads,
    fetch_payloads,
    fetch_route,
    fetch_scan,
    lock_all_leases,
    mark_lease,
    mark_leases,
    mark_routes,
    purge_floor,
    purge_lock_routes,
    purge_messages,
    purge_scan,
    read_end,
];

/// Statements that only this crate runs.
const OWN_FILES: &[File] = sql_files![
    enqueue,
    examine,
    examine_engines,
    fetch_more,
    heal_sequencer,
    lock_migration,
    read_version,
    sequence,
    sequence_run,
];

/// MySQL and MariaDB, for the tables of one namespace. Clones share the sequencer.
#[derive(Clone)]
pub struct MySql {
    texts: &'static Texts,
    /// Written by every step that moves messages to the log; forgotten when a lease is asked for.
    pub(crate) sequencer: Arc<Sequencer>,
}

impl MySql {
    /// The text of one of this crate's own files.
    pub(crate) fn own_text(&self, file: &'static str) -> Result<&'static str, Fault> {
        let text = self.texts.get(file).map(|text| text.sql.as_str());
        text.ok_or_else(|| Fault::internal(format!("no statement `{file}`")))
    }
}

/// Without the texts, which are long and known.
impl fmt::Debug for MySql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySql").field("namespace", self.texts.namespace()).finish_non_exhaustive()
    }
}

/// A connection that the pool has lent.
#[derive(Debug)]
pub struct Lent(PoolConnection<sqlx::MySql>);

impl AsMut<MySqlConnection> for Lent {
    fn as_mut(&mut self) -> &mut MySqlConnection {
        &mut self.0
    }
}

#[async_trait]
impl Dialect for MySql {
    type Connection = MySqlConnection;
    type Pool = MySqlPool;
    type Lent = Lent;

    const DEADLINE: Duration = DEADLINE_DEFAULT;
    const CAPABILITIES: StoreCapabilities = StoreCapabilities { concurrent_writers: true };
    const MIGRATIONS: &'static [Migration] = MIGRATIONS;

    fn of(namespace: &Namespace) -> Self {
        let files = [FILES, OPTIONAL_FILES, OWN_FILES];
        let texts = Texts::of(Notation::QuestionWithPrefix, namespace, &files);
        Self { texts, sequencer: Arc::default() }
    }

    fn shared() -> &'static Self {
        static SHARED: LazyLock<MySql> = LazyLock::new(|| MySql::of(&Namespace::default()));
        &SHARED
    }

    fn texts(&self) -> &'static Texts {
        self.texts
    }

    async fn connect(url: &str, namespace: &Namespace) -> Result<(Self, MySqlPool), StoreError> {
        let options = connect::options(url).map_err(|invalid| refused_url(&invalid))?;
        connect::probe(&options).await?;
        Ok((Self::of(namespace), connect::pool(options)))
    }

    /// A pool of the store's own: its sessions need settings that the application's may not have.
    fn adopt_pool(self, pool: MySqlPool) -> (Self, MySqlPool) {
        (self, connect::pool((*pool.connect_options()).clone()))
    }

    async fn lend(&self, pool: &MySqlPool) -> Result<Lent, Fault> {
        pool.acquire().await.map(Lent).map_err(fault)
    }

    fn discard(lent: Lent) {
        drop(lent.0.detach());
    }

    async fn begin(
        &self,
        connection: &mut MySqlConnection,
        scope: Scope,
        _: Duration,
    ) -> Result<(), Fault> {
        match scope {
            Scope::Statements => Ok(()),
            Scope::Transaction => send(connection, include_str!("../sql/begin_call.sql")).await,
            Scope::Ranges => send(connection, include_str!("../sql/begin_ranges.sql")).await,
        }
    }

    async fn commit(&self, connection: &mut MySqlConnection, scope: Scope) -> Result<(), Fault> {
        match scope {
            Scope::Statements => Ok(()),
            _ => send(connection, include_str!("../sql/commit_call.sql")).await,
        }
    }

    async fn rollback(&self, connection: &mut MySqlConnection, scope: Scope) -> Result<(), Fault> {
        match scope {
            Scope::Statements => Ok(()),
            _ => send(connection, include_str!("../sql/rollback_call.sql")).await,
        }
    }

    fn is_in_transaction(connection: &MySqlConnection) -> bool {
        connection.is_in_transaction()
    }

    /// Every statement is prepared once for each connection: nothing stands between that could not bear
    /// it, and preparing costs a round trip.
    async fn run(
        &self,
        connection: &mut MySqlConnection,
        text: &'static Text,
        values: &[&Value<'_>],
        _: Reuse,
    ) -> Result<Outcome, Fault> {
        let query = values
            .iter()
            .fold(sqlx::query(text.sql.as_str()), |query, value| value::bind(query, value));
        let mut answers = connection.fetch_many(query);
        let mut outcome = Outcome::default();
        let mut readings = Vec::new();
        while let Some(answer) = answers.try_next().await.map_err(fault)? {
            match answer {
                Either::Left(done) => outcome.affected += done.rows_affected(),
                Either::Right(row) => {
                    if outcome.rows.is_empty() {
                        readings = value::Reading::of(&row);
                    }
                    outcome.rows.push(value::row(&row, &readings)?);
                }
            }
        }
        Ok(outcome)
    }

    async fn script(&self, connection: &mut MySqlConnection, script: &str) -> Result<(), Fault> {
        // Ours, with the namespace's name in it.
        let script = sqlx::raw_sql(AssertSqlSafe(script));
        connection.execute(script).await.map(drop).map_err(fault)
    }

    /// A row that is there counts twice; see `sql/inbox_record.sql`.
    fn inserted(&self, affected: u64, given: usize) -> u64 {
        (2 * given as u64).saturating_sub(affected)
    }

    async fn check(session: &mut Session<'_, Self>) -> Result<(), Fault> {
        examine::check(session).await
    }

    async fn examine(session: &mut Session<'_, Self>) -> Result<Vec<Finding>, Fault> {
        examine::examine(session).await
    }

    async fn insert(session: &mut Session<'_, Self>, messages: &[Message]) -> Result<(), Fault> {
        enqueue::insert(session, messages).await
    }

    async fn fetch(store: &MySqlStore, fetch: &Fetch) -> Result<Batch, StoreError> {
        sequence::fetch(store, fetch).await
    }

    async fn before_register(store: &MySqlStore) -> Result<(), StoreError> {
        sequence::catch_up(store).await
    }

    async fn after_acquire(store: &MySqlStore) {
        store.dialect().sequencer.forget().await;
    }

    async fn migrate(store: &MySqlStore) -> Result<Vec<&'static str>, StoreError> {
        migrate::run(store).await
    }
}

async fn send(connection: &mut MySqlConnection, text: &'static str) -> Result<(), Fault> {
    connection.execute(sqlx::raw_sql(text)).await.map(drop).map_err(fault)
}
