//! How statements, values and transactions reach SQLite.

use std::{sync::LazyLock, time::Duration};

use async_trait::async_trait;
use futures::TryStreamExt;
use posthaste_core::{Finding, Lineage, Message, StoreCapabilities, StoreError};
use posthaste_store_sql::{
    Cell, Dialect, Fault, Migration, Namespace, Notation, Outcome, Reuse, Row, Scope, Session,
    Text, Texts, Value, json_array, sql_files, statement_files,
};
use sqlx::{
    Arguments, AssertSqlSafe, Column, Connection, Either, Executor, Row as _, SqliteConnection,
    SqlitePool, TypeInfo, ValueRef, pool::PoolConnection, sqlite::SqliteArguments,
    sqlite::SqliteRow,
};

use crate::{connect, enqueue, error::fault, examine, file::File, migrate};

/// Longest that a call may take, waiting for the one writer included.
const DEADLINE: Duration = Duration::from_secs(15);

/// Statements that other databases do not have, or that other databases do in another way.
const OWN: &[posthaste_store_sql::File] = sql_files![
    adopt_leases,
    adopt_logs,
    check_write,
    create_migration,
    due_followers,
    due_heads,
    enqueue,
    examine,
    fetch_payloads,
    fetch_route,
    fetch_scan,
    lock_all_leases,
    purge_floor,
    purge_lock_routes,
    purge_messages,
    purge_scan,
    read_encoding,
    read_end,
];

/// SQLite, for the engine.
#[derive(Clone, Debug)]
pub struct Sqlite {
    texts: &'static Texts,
    /// The file that the pool's connections are to have open; `None` without a pool.
    file: Option<File>,
}

/// A connection of the pool.
#[derive(Debug)]
pub struct Lent(PoolConnection<sqlx::Sqlite>);

impl AsMut<SqliteConnection> for Lent {
    fn as_mut(&mut self) -> &mut SqliteConnection {
        &mut self.0
    }
}

#[async_trait]
impl Dialect for Sqlite {
    type Connection = SqliteConnection;
    type Pool = SqlitePool;
    type Lent = Lent;

    const DEADLINE: Duration = DEADLINE;
    const CAPABILITIES: StoreCapabilities = StoreCapabilities { concurrent_writers: false };
    const MIGRATIONS: &'static [Migration] = migrate::MIGRATIONS;

    fn of(namespace: &Namespace) -> Self {
        let files = [statement_files!(), OWN];
        let texts = Texts::of(Notation::NumberedQuestionWithPrefix, namespace, &files);
        Self { texts, file: None }
    }

    fn shared() -> &'static Self {
        static SHARED: LazyLock<Sqlite> = LazyLock::new(|| Sqlite::of(&Namespace::default()));
        &SHARED
    }

    fn texts(&self) -> &'static Texts {
        self.texts
    }

    async fn connect(url: &str, namespace: &Namespace) -> Result<(Self, SqlitePool), StoreError> {
        let (pool, file) = connect::open(url).await?;
        Ok((Self { file: Some(file), ..Self::of(namespace) }, pool))
    }

    fn adopt_pool(self, pool: SqlitePool) -> (Self, SqlitePool) {
        (Self { file: Some(File::of(&pool)), ..self }, pool)
    }

    async fn lend(&self, pool: &SqlitePool) -> Result<Lent, Fault> {
        self.file.as_ref().map_or(Ok(()), File::check)?;
        pool.acquire().await.map(Lent).map_err(fault)
    }

    fn discard(lent: Lent) {
        drop(lent.0.detach());
    }

    /// A transaction holds the write lock from its beginning: one that read first and then wrote could
    /// find that another had written in between, and would have to fail.
    async fn begin(
        &self,
        connection: &mut SqliteConnection,
        scope: Scope,
        _deadline: Duration,
    ) -> Result<(), Fault> {
        end(connection, scope, "BEGIN IMMEDIATE").await
    }

    async fn commit(&self, connection: &mut SqliteConnection, scope: Scope) -> Result<(), Fault> {
        end(connection, scope, "COMMIT").await
    }

    async fn rollback(&self, connection: &mut SqliteConnection, scope: Scope) -> Result<(), Fault> {
        end(connection, scope, "ROLLBACK").await
    }

    fn is_in_transaction(connection: &SqliteConnection) -> bool {
        connection.is_in_transaction()
    }

    async fn run(
        &self,
        connection: &mut SqliteConnection,
        text: &'static Text,
        values: &[&Value<'_>],
        _reuse: Reuse,
    ) -> Result<Outcome, Fault> {
        let query = sqlx::query_with(text.sql.as_str(), arguments(values)?);
        let mut answers = connection.fetch_many(query);
        let mut outcome = Outcome::default();
        while let Some(answer) = answers.try_next().await.map_err(fault)? {
            match answer {
                Either::Left(done) => outcome.affected += done.rows_affected(),
                Either::Right(row) => outcome.rows.push(decoded(&row)?),
            }
        }
        Ok(outcome)
    }

    async fn script(&self, connection: &mut SqliteConnection, script: &str) -> Result<(), Fault> {
        // Not user input: a migration of this program.
        let script = sqlx::raw_sql(AssertSqlSafe(script.to_owned()));
        connection.execute(script).await.map(drop).map_err(fault)
    }

    fn lineage(&self) -> Option<Lineage> {
        self.file.as_ref().map(File::lineage)
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

    async fn before_migrating(session: &mut Session<'_, Self>) -> Result<(), Fault> {
        migrate::prepare(session).await
    }
}

/// Begins or ends a transaction, where the scope is one.
async fn end(
    connection: &mut SqliteConnection,
    scope: Scope,
    statement: &'static str,
) -> Result<(), Fault> {
    match scope {
        Scope::Statements => Ok(()),
        Scope::Transaction | Scope::Ranges => {
            connection.execute(sqlx::raw_sql(statement)).await.map(drop).map_err(fault)
        }
    }
}

/// Lists are JSON arrays, UUIDs their text. Texts of a list are plain.
fn arguments(values: &[&Value<'_>]) -> Result<SqliteArguments, Fault> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        let added = match value {
            Value::Int(number) => arguments.add(*number),
            Value::Bool(truth) => arguments.add(i64::from(*truth)),
            Value::Text(text) => arguments.add(text.as_deref().map(str::to_owned)),
            Value::Bytes(bytes) => arguments.add(bytes.to_vec()),
            Value::Uuid(uuid) => arguments.add(uuid.map(|uuid| uuid.to_string())),
            Value::Ints(numbers) => arguments.add(json_array(numbers.iter().copied())),
            Value::Texts(texts) => arguments.add(json_array(texts.iter().map(String::as_str))),
            Value::Uuids(uuids) => arguments
                .add(uuids.as_ref().map(|uuids| json_array(uuids.iter().map(ToString::to_string)))),
            Value::Pairs(pairs) => arguments.add(Value::pairs_to_json(pairs)),
        };
        added.map_err(Fault::internal)?;
    }
    Ok(arguments)
}

/// The columns by the types that their values have. SQLite does not check that a TEXT made by a cast is
/// UTF-8.
fn decoded(row: &SqliteRow) -> Result<Row, Fault> {
    let cell = |index| {
        let value = row.try_get_raw(index)?;
        if value.is_null() {
            return Ok(Cell::Null);
        }
        let kind = value.type_info();
        Ok(match kind.name() {
            "INTEGER" | "BOOLEAN" => Cell::Int(row.try_get_unchecked(index)?),
            "TEXT" => {
                let bytes: Vec<u8> = row.try_get_unchecked(index)?;
                String::from_utf8(bytes).map_or_else(|e| Cell::Bytes(e.into_bytes()), Cell::Text)
            }
            _ => Cell::Bytes(row.try_get_unchecked(index)?),
        })
    };
    let columns = row.columns().iter().map(|column| cell(column.ordinal()));
    Ok(Row(columns.collect::<Result<_, sqlx::Error>>().map_err(fault)?))
}
