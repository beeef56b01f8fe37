//! What the proofs need of a database, the same for each: a counter, and text in and out.

use std::{future::Future, str::FromStr, time::Duration};

use posthaste::{Database, HandlerError, IntoStore, Message, Outbox};
use sqlx::{PgConnection, PgPool, Postgres, Sqlite, SqliteConnection, SqlitePool};

/// How long anything may take on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// What handlers change here: an entity with a number in it, and whatever else a test tells.
const TABLES: &str = "CREATE TABLE entity (name TEXT PRIMARY KEY, n BIGINT NOT NULL);
    CREATE TABLE told (what TEXT NOT NULL)";

/// A database that handlers work in. Every value goes in and comes out as text.
pub(crate) trait Base: Database<Pool: IntoStore> + 'static {
    /// Where the inbox, its lanes and the leases of relays are.
    const INBOX: &'static str;
    const LANES: &'static str;
    const LETTERS: &'static str;
    /// Whether two handlers may be at work at the same time.
    const HAS_CONCURRENT_WRITERS: bool;
    /// Ends every lease, as time would.
    const EXPIRE: &'static str;
    /// Makes ids recorded look a year older.
    const AGE: &'static str;
    /// Bytes of the entity's row, or of what is in it.
    const ROW_BYTES: &'static str;

    /// An empty database, gone with the guard: its URL.
    fn fresh() -> impl Future<Output = (String, Option<tempfile::TempDir>)> + Send;

    fn connect(url: &str) -> impl Future<Output = Self::Pool> + Send;

    fn execute(
        connection: &mut Self::Connection,
        sql: &'static str,
        values: &[&str],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// The first column of every row.
    fn texts(
        connection: &mut Self::Connection,
        sql: &'static str,
        values: &[&str],
    ) -> impl Future<Output = Result<Vec<String>, sqlx::Error>> + Send;

    /// The same, on a connection of its own.
    fn look(pool: &Self::Pool, sql: &'static str) -> impl Future<Output = Vec<String>> + Send {
        async move {
            let mut transaction = Self::begin(pool).await.expect("a transaction");
            let texts = Self::texts(&mut transaction, sql, &[]).await.expect("rows");
            Self::commit(transaction).await.expect("a commit");
            texts
        }
    }

    /// One number.
    fn number<N: FromStr>(pool: &Self::Pool, sql: &'static str) -> impl Future<Output = N> + Send {
        async move {
            let texts = Self::look(pool, sql).await;
            texts[0].parse().ok().expect("a number")
        }
    }

    /// One statement in a transaction of its own.
    fn act(pool: &Self::Pool, sql: &'static str) -> impl Future<Output = ()> + Send {
        async move {
            let mut transaction = Self::begin(pool).await.expect("a transaction");
            Self::execute(&mut transaction, sql, &[]).await.expect("a statement");
            Self::commit(transaction).await.expect("a commit");
        }
    }
}

macro_rules! base {
    ($database:ty, $connection:ty, $pool:ty, { $($item:item)* }) => {
        impl Base for $database {
            $($item)*

            async fn execute(
                connection: &mut $connection,
                sql: &'static str,
                values: &[&str],
            ) -> Result<u64, sqlx::Error> {
                let query = values.iter().fold(sqlx::query(sql), |query, value| query.bind(*value));
                Ok(query.execute(connection).await?.rows_affected())
            }

            async fn texts(
                connection: &mut $connection,
                sql: &'static str,
                values: &[&str],
            ) -> Result<Vec<String>, sqlx::Error> {
                let query = sqlx::query_scalar(sql);
                let query = values.iter().fold(query, |query, value| query.bind(*value));
                query.fetch_all(connection).await
            }
        }
    };
}

base!(Postgres, PgConnection, PgPool, {
    const INBOX: &'static str = "SELECT count(*)::text FROM posthaste.inbox";
    const LANES: &'static str = "SELECT watermark FROM posthaste.inbox_lane";
    const HAS_CONCURRENT_WRITERS: bool = true;
    const LETTERS: &'static str = "SELECT count(*)::text FROM posthaste.inbox_dead";
    const EXPIRE: &'static str =
        "UPDATE posthaste.lease SET expires_at = now() - interval '1 hour' WHERE relay IS NOT NULL";
    const AGE: &'static str = "UPDATE posthaste.inbox SET at = at - interval '365 days'";
    const ROW_BYTES: &'static str = "SELECT pg_column_size(entity.*)::text FROM entity";

    async fn fresh() -> (String, Option<tempfile::TempDir>) {
        let server = posthaste_fixtures::postgres();
        (posthaste_fixtures::fresh_database(server).await.expect("a database"), None)
    }

    async fn connect(url: &str) -> PgPool {
        let options = sqlx::postgres::PgPoolOptions::new().max_connections(20);
        options.connect(url).await.expect("the database")
    }
});

base!(Sqlite, SqliteConnection, SqlitePool, {
    const INBOX: &'static str = "SELECT CAST(count(*) AS TEXT) FROM posthaste_inbox";
    const LANES: &'static str = "SELECT watermark FROM posthaste_inbox_lane";
    const HAS_CONCURRENT_WRITERS: bool = false;
    const LETTERS: &'static str = "SELECT CAST(count(*) AS TEXT) FROM posthaste_inbox_dead";
    const EXPIRE: &'static str =
        "UPDATE posthaste_lease SET expires_at = 0 WHERE relay IS NOT NULL";
    const AGE: &'static str = "UPDATE posthaste_inbox SET at = at - 365 * 86400.0";
    const ROW_BYTES: &'static str = "SELECT CAST(length(name) + length(n) AS TEXT) FROM entity";

    async fn fresh() -> (String, Option<tempfile::TempDir>) {
        let folder = tempfile::tempdir().expect("a folder");
        (format!("sqlite:{}", folder.path().join("r8.db").display()), Some(folder))
    }

    async fn connect(url: &str) -> SqlitePool {
        posthaste::sqlite::connect(url).await.expect("the database")
    }
});

/// A database of a test, with its tables.
pub(crate) struct Bed<DB: Base> {
    pub(crate) url: String,
    pub(crate) pool: DB::Pool,
    _folder: Option<tempfile::TempDir>,
}

impl<DB: Base> Bed<DB> {
    pub(crate) async fn new() -> Self {
        let (url, folder) = DB::fresh().await;
        let pool = DB::connect(&url).await;
        DB::migrate(&pool).await.expect("tables");
        for table in TABLES.split(';') {
            DB::act(&pool, table).await;
        }
        Self { url, pool, _folder: folder }
    }

    /// The number of an entity.
    pub(crate) async fn count(&self) -> i64 {
        DB::number(&self.pool, "SELECT CAST(coalesce(sum(n), 0) AS TEXT) FROM entity").await
    }

    pub(crate) async fn told(&self) -> Vec<String> {
        DB::look(&self.pool, "SELECT what FROM told ORDER BY what").await
    }
}

/// What most handlers do: the entity's number goes up by one. The row is made where there is none,
/// by one statement: two who make it at once wait for each other.
pub(crate) async fn bump<DB: Base>(
    connection: &mut DB::Connection,
    name: &str,
) -> Result<(), HandlerError> {
    let upsert = "INSERT INTO entity (name, n) VALUES ($1, 1) \
                  ON CONFLICT (name) DO UPDATE SET n = entity.n + 1";
    DB::execute(connection, upsert, &[name]).await?;
    Ok(())
}

pub(crate) async fn tell<DB: Base>(
    connection: &mut DB::Connection,
    what: &str,
) -> Result<(), HandlerError> {
    DB::execute(connection, "INSERT INTO told (what) VALUES ($1)", &[what]).await?;
    Ok(())
}

pub(crate) async fn emit<DB: Base>(
    connection: &mut DB::Connection,
    message: Message,
) -> Result<(), HandlerError> {
    Outbox::<DB>::new().enqueue(connection, message).await?;
    Ok(())
}

/// The same test for each database.
macro_rules! on_each_database {
    ($($name:ident),* $(,)?) => {
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
            async fn $name() {
                super::$name::<sqlx::Postgres>().await;
            })*
        }

        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
            async fn $name() {
                super::$name::<sqlx::Sqlite>().await;
            })*
        }
    };
}
pub(crate) use on_each_database;
