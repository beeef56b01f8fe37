//! Transactions whose commit fails if PostgreSQL rolled them back, through a pooler.

// The bed is shared with programs that use more of it.
mod bed;

use std::str::FromStr;

use bed::Bed;
use posthaste_conformance::store::TestBed;
use posthaste_core::StoreErrorKind as Kind;
use posthaste_fixtures::PgBouncer;
use posthaste_store_postgres::begin;
use sqlx::{
    Executor,
    postgres::{PgConnectOptions, PgPoolOptions},
};

const WRITE: &str = "INSERT INTO posthaste.outbox (topic, payload) VALUES ('t', '')";

#[tokio::test]
async fn a_pooler_that_loses_its_server_is_noticed_at_the_commit() {
    let bed = Bed::fresh().await;
    let pooler = PgBouncer::start(bed::server(), 2).expect("a pooler");
    let options = PgConnectOptions::from_str(&pooler.url(&bed.url)).unwrap();
    // What PgBouncer does not carry.
    let options = options.extra_float_digits(None).statement_cache_capacity(0);
    let pool = PgPoolOptions::new().connect_with(options).await.unwrap();
    let count = async || {
        let count = "SELECT count(*) FROM posthaste.outbox";
        sqlx::query_scalar::<_, i64>(count).fetch_one(&bed.pool).await.unwrap()
    };
    // More often than the pool has connections, which are as they were after each.
    for round in 1..=20 {
        let mut tx = begin(&pool).await.unwrap();
        tx.execute(sqlx::raw_sql(WRITE)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(count().await, round);
    }
    let mut tx = begin(&pool).await.unwrap();
    tx.execute(sqlx::raw_sql(WRITE)).await.unwrap();
    let lost = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND state = 'idle in transaction'";
    bed.run(lost).await;
    // As a handler does that does not mind.
    let _ = tx.execute(sqlx::raw_sql(WRITE)).await;
    let _ = tx.execute(sqlx::raw_sql(WRITE)).await;
    let error = tx.commit().await.expect_err("nothing was committed");
    assert!(matches!(error.kind, Kind::NotCommitted | Kind::Unavailable), "{error:?}");
    assert_eq!(count().await, 20, "nothing is kept");
    pool.close().await;
    bed.remove().await;
}
