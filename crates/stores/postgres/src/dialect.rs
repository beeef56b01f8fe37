//! What the engine asks of PostgreSQL.
//!
//! - Every call is one transaction with explicit `READ COMMITTED`, whatever the server's default is.
//! - Unnamed statements and no session state, so a pooler in transaction mode may stand in between.
//! - `BEGIN`, `COMMIT` and savepoints are texts of our own: the driver does not count them, so nothing of the
//!   driver that begins a transaction may be used inside a call.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_trait::async_trait;
use futures::TryStreamExt;
use posthaste_core::{
    Batch, Fetch, Finding, Horizon, Lease, Message, Position, Retention, Seq, Snapshot,
    StoreCapabilities, StoreError, refused_url,
};
use posthaste_store_sql::{
    Fault, Migration, Namespace, Notation, Outcome, Reuse, Scope, Session, Sized, SqlStore, Text,
    Texts, Value, params, sql_files, statement_files,
};
use sqlx::{
    AssertSqlSafe, Connection, Either, Executor, PgConnection, PgPool, pool::PoolConnection,
};

use crate::{
    connect, enqueue, error, examine,
    fetch::{self, WholeRoutes},
    migrate,
    purge::{self, Sweep},
    snapshot::{self, Seen},
    value,
};

/// Time a call may take, unless set otherwise: well below any sensible lease.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(10);

/// Starts a transaction. On a big table the estimates for late rows are high enough to have the
/// server compile each fetch to machine code, which takes longer than running it. A relay that is
/// frozen, or gone from the network, between a statement and its commit would keep its locks, and
/// with them its shards, for as long as its connection stays: hence the timeout.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL jit = off; \
    SET LOCAL idle_in_transaction_session_timeout = '5s'";

/// PostgreSQL, for the tables of one namespace.
#[derive(Clone, Debug)]
pub struct Postgres {
    texts: &'static Texts,
    /// Where a purge of the log goes on.
    pub(crate) sweep: Arc<Sweep>,
    /// Which statement reads a route best.
    pub(crate) whole_routes: Arc<WholeRoutes>,
}

static SHARED: LazyLock<Postgres> =
    LazyLock::new(|| Postgres::for_namespace(&Namespace::default()));

impl Postgres {
    fn for_namespace(namespace: &Namespace) -> Self {
        // Beside the engine's statements: those it runs where a dialect has them, and our own.
        let own = sql_files![
            adopt_barriers,
            adopt_identity,
            adopt_lease,
            adopt_lock,
            adopt_logs,
            adopt_positions,
            adopt_rows,
            adopt_unread,
            check_server,
            draw_xid,
            due,
            endless_patience,
            enqueue_many,
            enqueue_one,
            examine,
            fetch,
            fetch_payloads,
            fetch_some,
            inbox_lock_logs,
            lock_all_leases,
            migrate_lock,
            purge_hold_log,
            purge_hold_routes,
            purge_patience,
            purge_sweep,
            read_head,
            read_snapshot,
        ];
        let files: [&[_]; 2] = [statement_files!(), own];
        Self {
            texts: Texts::of(Notation::DollarInSchema, namespace, &files),
            sweep: Arc::default(),
            whole_routes: Arc::default(),
        }
    }

    /// The statement in the file of that name.
    pub(crate) fn text(&self, name: &str) -> Result<&'static Text, Fault> {
        let text = self.texts.get(name);
        text.ok_or_else(|| Fault::internal(format!("no statement `{name}`")))
    }
}

/// A connection that the pool has lent.
#[derive(Debug)]
pub struct Lent(PoolConnection<sqlx::Postgres>);

impl AsMut<PgConnection> for Lent {
    fn as_mut(&mut self) -> &mut PgConnection {
        &mut self.0
    }
}

#[async_trait]
impl posthaste_store_sql::Dialect for Postgres {
    type Connection = PgConnection;
    type Pool = PgPool;
    type Lent = Lent;

    const DEADLINE: Duration = DEADLINE_DEFAULT;
    const CAPABILITIES: StoreCapabilities = StoreCapabilities { concurrent_writers: true };
    const MIGRATIONS: &'static [Migration] = migrate::MIGRATIONS;

    fn of(namespace: &Namespace) -> Self {
        Self::for_namespace(namespace)
    }

    fn shared() -> &'static Self {
        &SHARED
    }

    fn texts(&self) -> &'static Texts {
        self.texts
    }

    async fn connect(url: &str, namespace: &Namespace) -> Result<(Self, PgPool), StoreError> {
        let target = connect::target(url).map_err(|invalid| refused_url(&invalid))?;
        Ok((Self::for_namespace(namespace), connect::pool(target).await?))
    }

    async fn lend(&self, pool: &PgPool) -> Result<Lent, Fault> {
        pool.acquire().await.map(Lent).map_err(error::fault)
    }

    fn discard(lent: Lent) {
        drop(lent.0.detach());
    }

    /// A row that somebody keeps locked costs the one call that needs it a fifth of the deadline, and the pool
    /// a connection for no longer.
    async fn begin(
        &self,
        connection: &mut PgConnection,
        _scope: Scope,
        deadline: Duration,
    ) -> Result<(), Fault> {
        let begin = format!("{BEGIN}; SET LOCAL lock_timeout = {}", (deadline / 5).as_millis());
        self.script(connection, &begin).await
    }

    async fn commit(&self, connection: &mut PgConnection, _scope: Scope) -> Result<(), Fault> {
        self.script(connection, "COMMIT").await
    }

    async fn rollback(&self, connection: &mut PgConnection, _scope: Scope) -> Result<(), Fault> {
        self.script(connection, "ROLLBACK").await
    }

    fn is_in_transaction(connection: &PgConnection) -> bool {
        connection.is_in_transaction()
    }

    async fn run(
        &self,
        connection: &mut PgConnection,
        text: &'static Text,
        values: &[&Value<'_>],
        reuse: Reuse,
    ) -> Result<Outcome, Fault> {
        let query = value::query(text, value::arguments(values)?, reuse);
        let mut results = connection.fetch_many(query);
        let mut outcome = Outcome::default();
        while let Some(result) = results.try_next().await.map_err(error::fault)? {
            match result {
                Either::Left(done) => outcome.affected += done.rows_affected(),
                Either::Right(row) => outcome.rows.push(value::row(&row).map_err(error::fault)?),
            }
        }
        Ok(outcome)
    }

    /// One statement for all rows: each parameter is an array with an item for each row.
    async fn run_each(
        &self,
        connection: &mut PgConnection,
        text: &'static Text,
        rows: &[Vec<&Value<'_>>],
        reuse: Reuse,
    ) -> Result<(), Fault> {
        let query = value::query(text, value::columns(rows)?, reuse);
        query.execute(connection).await.map_err(error::fault)?;
        Ok(())
    }

    async fn script(&self, connection: &mut PgConnection, script: &str) -> Result<(), Fault> {
        // No user input: files of ours, the name of a namespace, and numbers.
        let script = sqlx::raw_sql(AssertSqlSafe(script));
        connection.execute(script).await.map_err(error::fault)?;
        Ok(())
    }

    fn reach(&self, position: &Position) -> String {
        snapshot::xmax(position).to_string()
    }

    fn has_reached(&self, position: &Position, snapshot: &str) -> bool {
        snapshot::is_reached(position, snapshot)
    }

    fn is_within(&self, position: &Position, limit: &Position) -> bool {
        snapshot::is_within(position, limit)
    }

    fn covers(&self, position: &Position, seq: Seq, version: Option<&str>) -> bool {
        version.is_some_and(|xid| snapshot::covers(position, seq, xid))
    }

    fn is_past(&self, horizon: &Horizon, snapshot: &Snapshot) -> bool {
        snapshot::is_past(horizon, snapshot)
    }

    /// With a listed snapshot (ADR 12).
    ///
    /// Other than in a fetch, the transaction may have an id of its own, and then the server does not
    /// tell which one is the next. So between the two reads an id is drawn, and given up again: all who
    /// drew a seq up to the head have lower ids, and all of these are below the snapshot's `xmax`.
    async fn head(session: &mut Session<'_, Self>, _route: &str) -> Result<Position, Fault> {
        let unreadable = || Fault::internal("the server's snapshot cannot be read");
        let head = session.own("read_head", &[]).await?;
        fetch::draw_xid(session).await?;
        let plain = session.own("read_snapshot", &[]).await?;
        let seq = head.rows.first().ok_or_else(unreadable)?.number(0)?;
        let plain = plain.rows.first().ok_or_else(unreadable)?.string(0)?;
        match snapshot::listed(&format!("{plain}+0")) {
            Some(Seen::Listed(snapshot)) => Ok(Position::at(seq, snapshot)),
            _ => Err(unreadable()),
        }
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

    async fn fetch(store: &SqlStore<Self>, fetch: &Fetch) -> Result<Batch, StoreError> {
        fetch::fetch(store, fetch).await
    }

    async fn due_seqs(
        session: &mut Session<'_, Self>,
        lease: &Lease,
        limit: u32,
    ) -> Result<Vec<Sized>, Fault> {
        let Lease { route, shard, .. } = lease;
        let look = params![route: route, of: shard.of, index: shard.index, limit: limit];
        let due = session.own("due", &look).await?;
        due.rows.iter().map(|row| Ok((row.number(0)?, row.count(1)?))).collect()
    }

    async fn purge_log(
        store: &SqlStore<Self>,
        retention: Retention,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        purge::sweep(store, retention, rows_max).await
    }

    async fn before_migrating(session: &mut Session<'_, Self>) -> Result<(), Fault> {
        session.own("endless_patience", &[]).await?;
        session.own("migrate_lock", &[]).await?;
        Ok(())
    }

    async fn adopt(session: &mut Session<'_, Self>) -> Result<(), Fault> {
        migrate::take_over(session).await
    }
}
