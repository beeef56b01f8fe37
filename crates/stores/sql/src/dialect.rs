//! What differs between databases, and how the engine talks to one.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use posthaste_core::{
    Batch, Fetch, Finding, Horizon, Lease, Lineage, Message, Position, Retention, Seq, Snapshot,
    StoreCapabilities, StoreError,
};

use crate::{
    Fault, Migration, Namespace, Optional, Outcome, Param, Row, SqlStore, Statement, Text, Texts,
    Value, fetch, migrate, parked, purge,
};

/// How the statements of a call belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each is a transaction of its own, or all of them only read.
    Statements,
    /// All of them are one transaction.
    Transaction,
    /// One transaction, in which no row appears between rows that it has locked.
    Ranges,
}

/// Whether the server may keep a statement for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It is prepared once for each connection, as the application's own are.
    Named,
    /// It leaves nothing behind: a pooler in transaction mode may stand in between.
    Unnamed,
}

/// A parked message and the size of its payload.
pub type Sized = (Seq, u64);

/// A database: its statements, its errors, its connections, and the places where it goes its own way.
///
/// What a method promises, it promises for [`SqlStore`]; the ports in `posthaste-core` say what that is for.
#[async_trait]
pub trait Dialect: Clone + fmt::Debug + Send + Sync + 'static {
    /// The driver's connection.
    type Connection: fmt::Debug + Send;
    /// The driver's pool.
    type Pool: Clone + Send + Sync;
    /// A connection that the pool has lent.
    type Lent: AsMut<Self::Connection> + Send;

    /// Time that a call may take, unless the store is told otherwise.
    const DEADLINE: Duration;
    /// What the store can do.
    const CAPABILITIES: StoreCapabilities;
    /// Every change of the tables, in order.
    const MIGRATIONS: &'static [Migration];

    /// The dialect for the tables of a namespace.
    fn of(namespace: &Namespace) -> Self;

    /// The dialect for the tables of the default namespace.
    fn shared() -> &'static Self;

    /// The texts of all statements.
    fn texts(&self) -> &'static Texts;

    // Connections.

    /// A pool for the URL, and the dialect that goes with it.
    ///
    /// # Errors
    /// Kinds `Refused`, `Denied`, `Unavailable`, `ReadOnly`, each saying what to do.
    async fn connect(url: &str, namespace: &Namespace) -> Result<(Self, Self::Pool), StoreError>;

    /// What a store uses in place of a pool that the application has, and the dialect that goes with it.
    fn adopt_pool(self, pool: Self::Pool) -> (Self, Self::Pool) {
        (self, pool)
    }

    /// A connection of the pool.
    ///
    /// # Errors
    /// When there is none to be had.
    async fn lend(&self, pool: &Self::Pool) -> Result<Self::Lent, Fault>;

    /// Closes a connection instead of giving it back.
    fn discard(lent: Self::Lent);

    /// Begins what the scope asks for. `deadline` is when the call ends.
    ///
    /// # Errors
    /// When the database fails.
    async fn begin(
        &self,
        connection: &mut Self::Connection,
        scope: Scope,
        deadline: Duration,
    ) -> Result<(), Fault>;

    /// Commits what [`begin`](Self::begin) began.
    ///
    /// # Errors
    /// When the database fails.
    async fn commit(&self, connection: &mut Self::Connection, scope: Scope) -> Result<(), Fault>;

    /// Rolls it back.
    ///
    /// # Errors
    /// When the database fails; the connection is closed then.
    async fn rollback(&self, connection: &mut Self::Connection, scope: Scope) -> Result<(), Fault>;

    /// Whether the driver has a transaction open on the connection.
    fn is_in_transaction(connection: &Self::Connection) -> bool;

    // Statements.

    /// Runs a statement with the values of its parameters, in the order of [`Text::params`].
    ///
    /// # Errors
    /// When the database fails.
    async fn run(
        &self,
        connection: &mut Self::Connection,
        text: &'static Text,
        values: &[&Value<'_>],
        reuse: Reuse,
    ) -> Result<Outcome, Fault>;

    /// Runs a statement for each of several rows of values.
    ///
    /// # Errors
    /// When the database fails.
    async fn run_each(
        &self,
        connection: &mut Self::Connection,
        text: &'static Text,
        rows: &[Vec<&Value<'_>>],
        reuse: Reuse,
    ) -> Result<(), Fault> {
        for values in rows {
            self.run(connection, text, values, reuse).await?;
        }
        Ok(())
    }

    /// Runs a script of several statements.
    ///
    /// # Errors
    /// When the database fails.
    async fn script(&self, connection: &mut Self::Connection, script: &str) -> Result<(), Fault>;

    /// How many of `given` rows an `INSERT` added, that counts as `affected` and leaves those that were
    /// there.
    fn inserted(&self, affected: u64, given: usize) -> u64 {
        affected.min(given as u64)
    }

    // Positions and histories. Defaults are for logs that are written in the order of commits.

    /// The server's line of history, where a statement cannot tell.
    fn lineage(&self) -> Option<Lineage> {
        None
    }

    /// What the server must have reached for a position to be from its past, as `settle_position` takes
    /// it.
    fn reach(&self, _position: &Position) -> String {
        String::new()
    }

    /// Whether everything that a position speaks of had begun when the snapshot was taken.
    fn has_reached(&self, _position: &Position, _snapshot: &str) -> bool {
        true
    }

    /// Whether a position covers nothing that `limit` does not.
    fn is_within(&self, position: &Position, limit: &Position) -> bool {
        position.seq() <= limit.seq()
    }

    /// Whether a position covers the row of that seq and version.
    fn covers(&self, position: &Position, seq: Seq, _version: Option<&str>) -> bool {
        seq <= position.seq()
    }

    /// As [`Store::is_past`](posthaste_core::Store::is_past).
    fn is_past(&self, _horizon: &Horizon, _snapshot: &Snapshot) -> bool {
        true
    }

    /// A position that covers all that is committed now. The transaction holds the route.
    ///
    /// # Errors
    /// When the database fails.
    async fn head(session: &mut Session<'_, Self>, route: &str) -> Result<Position, Fault> {
        let outcome = session.optional(Optional::ReadEnd, &crate::params![route: route]).await?;
        let row = outcome.rows.first().ok_or_else(|| Fault::internal("a log without an end"))?;
        Ok(Position::at(row.number(0)?, ""))
    }

    // Operations that databases do in ways of their own.

    /// The check port, behind the check of the tables' version.
    ///
    /// # Errors
    /// When the server cannot be used.
    async fn check(session: &mut Session<'_, Self>) -> Result<(), Fault>;

    /// The examine port.
    ///
    /// # Errors
    /// When the database fails.
    async fn examine(session: &mut Session<'_, Self>) -> Result<Vec<Finding>, Fault>;

    /// Inserts messages that are valid, in their order.
    ///
    /// # Errors
    /// When the database fails.
    async fn insert(session: &mut Session<'_, Self>, messages: &[Message]) -> Result<(), Fault>;

    /// The fetch port.
    ///
    /// # Errors
    /// As [`Store::fetch`](posthaste_core::Store::fetch).
    async fn fetch(store: &SqlStore<Self>, fetch: &Fetch) -> Result<Batch, StoreError> {
        fetch::in_order(store, fetch).await
    }

    /// Parked messages to try now, key by key, each key from its first message on; at most `limit`. Every
    /// key has its first one before others take what room is left.
    ///
    /// # Errors
    /// When the database fails.
    async fn due_seqs(
        session: &mut Session<'_, Self>,
        lease: &Lease,
        limit: u32,
    ) -> Result<Vec<Sized>, Fault> {
        parked::heads_and_followers(session, lease, limit).await
    }

    /// Removes messages that every route has passed; returns how many.
    ///
    /// # Errors
    /// As [`Store::purge`](posthaste_core::Store::purge).
    async fn purge_log(
        store: &SqlStore<Self>,
        retention: Retention,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        purge::sweep(store, retention, rows_max).await
    }

    /// What a registration that changes something does before its transaction.
    ///
    /// # Errors
    /// When the database fails.
    async fn before_register(_store: &SqlStore<Self>) -> Result<(), StoreError> {
        Ok(())
    }

    /// What is to be forgotten when a shard was asked for: the log may have gone back in time.
    async fn after_acquire(_store: &SqlStore<Self>) {}

    /// Brings the tables to the version of this program; returns the names of the migrations that ran.
    ///
    /// # Errors
    /// Kind `SchemaTooNew` for tables of a later version, `Refused` for a server that cannot hold them,
    /// `Denied` where the user may not create them.
    async fn migrate(store: &SqlStore<Self>) -> Result<Vec<&'static str>, StoreError> {
        migrate::in_a_transaction(store).await
    }

    /// What comes before the first migration, in its transaction: locks, and checks of the server.
    ///
    /// # Errors
    /// When the server cannot hold the tables.
    async fn before_migrating(_session: &mut Session<'_, Self>) -> Result<(), Fault> {
        Ok(())
    }

    /// Goes on with data that was restored from a backup, in a transaction.
    ///
    /// # Errors
    /// When the database fails.
    async fn adopt(session: &mut Session<'_, Self>) -> Result<(), Fault> {
        session.optional(Optional::LockAllLeases, &[]).await?;
        session.optional(Optional::AdoptLeases, &[]).await?;
        session.optional(Optional::AdoptLogs, &[]).await?;
        Ok(())
    }
}

/// A connection, and the dialect that it speaks.
#[derive(Debug)]
pub struct Session<'s, D: Dialect> {
    /// The dialect.
    pub dialect: &'s D,
    /// The connection.
    pub connection: &'s mut D::Connection,
    /// Whether statements are kept by the server.
    pub reuse: Reuse,
}

impl<D: Dialect> Session<'_, D> {
    /// Runs a statement.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run(
        &mut self,
        statement: Statement,
        params: &[Param<'_>],
    ) -> Result<Outcome, Fault> {
        self.run_text(self.text(statement)?, params).await
    }

    /// The rows that a statement returns.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rows(
        &mut self,
        statement: Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Fault> {
        Ok(self.run(statement, params).await?.rows)
    }

    /// The first row that a statement returns, if there is one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn row(
        &mut self,
        statement: Statement,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Fault> {
        Ok(self.rows(statement, params).await?.into_iter().next())
    }

    /// How many rows a statement changes.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn execute(
        &mut self,
        statement: Statement,
        params: &[Param<'_>],
    ) -> Result<u64, Fault> {
        Ok(self.run(statement, params).await?.affected)
    }

    /// Runs a statement if the dialect has it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn optional(
        &mut self,
        statement: Optional,
        params: &[Param<'_>],
    ) -> Result<Outcome, Fault> {
        match self.dialect.texts().get(statement.file()) {
            Some(text) => self.run_text(text, params).await,
            None => Ok(Outcome::default()),
        }
    }

    /// Runs a statement of the dialect's own.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn own(
        &mut self,
        name: &'static str,
        params: &[Param<'_>],
    ) -> Result<Outcome, Fault> {
        let text = self.dialect.texts().get(name);
        let text = text.ok_or_else(|| Fault::internal(format!("no statement `{name}`")))?;
        self.run_text(text, params).await
    }

    /// Runs a statement for each of several rows of parameters, all with the same names.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn each(
        &mut self,
        statement: Statement,
        rows: &[Vec<Param<'_>>],
    ) -> Result<(), Fault> {
        if rows.is_empty() {
            return Ok(());
        }
        let text = self.text(statement)?;
        let rows = rows.iter().map(|params| text.bound(params)).collect::<Result<Vec<_>, _>>()?;
        self.dialect.run_each(self.connection, text, &rows, self.reuse).await
    }

    /// Runs a script for the namespace of the tables.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn script(&mut self, script: &str) -> Result<(), Fault> {
        let script = self.dialect.texts().script(script);
        self.dialect.script(self.connection, &script).await
    }

    fn text(&self, statement: Statement) -> Result<&'static Text, Fault> {
        let text = self.dialect.texts().get(statement.file());
        text.ok_or_else(|| Fault::internal(format!("no statement `{}`", statement.file())))
    }

    async fn run_text(
        &mut self,
        text: &'static Text,
        params: &[Param<'_>],
    ) -> Result<Outcome, Fault> {
        let values = text.bound(params)?;
        self.dialect.run(self.connection, text, &values, self.reuse).await
    }
}
