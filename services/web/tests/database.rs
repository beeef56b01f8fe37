//! Calls on a real PostgreSQL: given up half-way, held up, and on a network that swallows everything.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::time::Duration;

use posthaste_fixtures::Proxy;
use services_web::database::{self, CALL_TIMEOUT, Failure};
use sqlx::{PgPool, postgres::PgConnectOptions, query, query_scalar, raw_sql};

/// A table on a database of a test's own: by a proxy as services do, and straight.
struct Bed {
    proxy: Proxy,
    pool: PgPool,
    straight: PgPool,
}

impl Bed {
    async fn new() -> Self {
        let url = posthaste_fixtures::fresh_database(posthaste_fixtures::postgres()).await.unwrap();
        let options: PgConnectOptions = url.parse().unwrap();
        let server = format!("{}:{}", options.get_host(), options.get_port());
        let proxy = Proxy::start(&server).await.unwrap();
        let address = proxy.address();
        let proxied = options.clone().host(&address.ip().to_string()).port(address.port());
        let straight = PgPool::connect_with(options).await.unwrap();
        raw_sql("CREATE TABLE t (n int PRIMARY KEY)").execute(&straight).await.unwrap();
        Self { proxy, pool: database::postgres(proxied), straight }
    }

    async fn insert(&self, n: i32) -> Result<(), Failure> {
        insert(&self.pool, n).await
    }

    async fn count(&self) -> i64 {
        query_scalar("SELECT count(*) FROM t").fetch_one(&self.straight).await.unwrap()
    }
}

async fn insert(pool: &PgPool, n: i32) -> Result<(), Failure> {
    database::transaction(pool, CALL_TIMEOUT, move |connection| {
        Box::pin(async move {
            query("INSERT INTO t VALUES ($1)").bind(n).execute(connection).await?;
            Ok(())
        })
    })
    .await
}

/// A client that goes at any moment: whatever was told to be done by those who come after it is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_given_up_leaves_no_transaction_behind() {
    let bed = Bed::new().await;
    bed.insert(0).await.unwrap();
    bed.proxy.delay(Duration::from_millis(20));
    for n in 1..=20 {
        let pool = bed.pool.clone();
        let call = tokio::spawn(async move { insert(&pool, n).await });
        tokio::time::sleep(Duration::from_millis(10 * n as u64)).await;
        call.abort();
        let _ = call.await;
    }
    bed.proxy.heal();
    // On every connection there is.
    let calls = (101..=150).map(|n| {
        let pool = bed.pool.clone();
        tokio::spawn(async move { insert(&pool, n).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    let kept: i64 = query_scalar("SELECT count(*) FROM t WHERE n > 100")
        .fetch_one(&bed.straight)
        .await
        .unwrap();
    assert_eq!(kept, 50);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND state LIKE 'idle in transaction%'";
    let open: i64 = query_scalar(open).fetch_one(&bed.straight).await.unwrap();
    assert_eq!(open, 0);
}

#[tokio::test]
async fn what_somebody_holds_ends_in_time_and_works_when_it_is_free() {
    let bed = Bed::new().await;
    let mut holder = bed.straight.begin().await.unwrap();
    query("INSERT INTO t VALUES (1)").execute(&mut *holder).await.unwrap();
    let held = bed.insert(1).await;
    assert!(matches!(held, Err(Failure::Unavailable(_))), "{held:?}");
    bed.insert(2).await.unwrap();
    holder.rollback().await.unwrap();
    bed.insert(1).await.unwrap();
    assert_eq!(bed.count().await, 2);
}

/// More calls than there are connections: none may stay behind with one.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_without_a_word_is_used_again_when_it_is_back() {
    let bed = Bed::new().await;
    bed.insert(0).await.unwrap();
    bed.proxy.black_hole();
    for round in 0..2 {
        let calls = (1..=40).map(|n| {
            let pool = bed.pool.clone();
            tokio::spawn(async move { insert(&pool, 100 * round + n).await })
        });
        for call in calls.collect::<Vec<_>>() {
            let gone = call.await.unwrap();
            assert!(matches!(gone, Err(Failure::Unavailable(_))), "{gone:?}");
        }
    }
    bed.proxy.heal();
    for n in 1001..=1030 {
        bed.insert(n).await.unwrap();
    }
    assert_eq!(bed.count().await, 31, "nothing of what was swallowed");
}
