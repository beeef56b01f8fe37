//! A cluster whose nodes all take writes: locks are local to a node, and a node may lag behind.

mod bed;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use bed::{Bed, TTL, claim, fetch_after, message, serve, settlement, spec};
use futures::{StreamExt, stream};
use posthaste_conformance::store::{Case, StoreFixture, TestBed, Verdict, cases};
use posthaste_core::{Lease, Position, Retention, Store, StoreErrorKind as Kind};
use posthaste_fixtures::{Galera, PATIENCE, eventually};
use posthaste_store_mysql::{MySql, MySqlStore};
use posthaste_store_sql::{Dialect, Reuse, Session, Statement, params};
use sqlx::{Connection, Executor, MySqlConnection, mysql::MySqlPoolOptions};
use tokio::sync::{Mutex, MutexGuard};
use uuid::Uuid;

/// Times that a take-over and a settlement meet.
const ROUNDS: i64 = 3;

/// One cluster for all tests here.
fn cluster() -> &'static Galera {
    static CLUSTER: OnceLock<Galera> = OnceLock::new();
    CLUSTER.get_or_init(|| Galera::start().unwrap_or_else(|error| panic!("{error:#}")))
}

/// One test at a time: a node that is held up holds up others in the end.
async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

/// The address of a bed's database on another node.
fn url_on(bed: &Bed, node: usize) -> String {
    let (_, name) = bed.url.rsplit_once('/').expect("a database in the URL");
    format!("{}/{name}", cluster().node(node).url().trim_end_matches('/'))
}

/// A connection to a node, once the bed's database has arrived there.
async fn connect(bed: &Bed, node: usize) -> MySqlConnection {
    let url = url_on(bed, node);
    let connecting = async {
        loop {
            if let Ok(connection) = MySqlConnection::connect(&url).await {
                return connection;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, connecting).await.expect("the database on another node")
}

async fn store_on(bed: &Bed, node: usize) -> MySqlStore {
    connect(bed, node).await.close().await.expect("a connection can be closed");
    let store = MySqlStore::connect(&url_on(bed, node)).await.expect("a node");
    store.deadline(PATIENCE)
}

/// A bed on node 0 with a table to hold node 1 up by.
async fn fresh() -> Bed {
    let bed = Bed::fresh_on(cluster().node(0).url()).await;
    bed.run("CREATE TABLE ballast (n BIGINT AUTO_INCREMENT PRIMARY KEY)").await;
    bed
}

/// Keeps node 1 from applying what other nodes commit, for as long as the connection is there.
async fn hold_up(bed: &Bed) -> MySqlConnection {
    let mut holding = connect(bed, 1).await;
    let lock = "LOCK TABLES ballast READ";
    eventually("the table on the other node", async || holding.execute(lock).await.ok()).await;
    bed.run("INSERT INTO ballast () VALUES ()").await;
    let mut looking = connect(bed, 1).await;
    let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                 WHERE USER = 'system user' AND STATE = 'Waiting for table metadata lock'";
    eventually("node that is held up", async || {
        let count: i64 = sqlx::query_scalar(waits).fetch_one(&mut looking).await.ok()?;
        (count > 0).then_some(())
    })
    .await;
    holding
}

/// The statement of the store, without its session: what a node lets pass that does not wait for
/// others.
async fn settle_by_hand(mut node: MySqlConnection, lease: Lease, position: Position) -> bool {
    let mut session =
        Session { dialect: MySql::shared(), connection: &mut node, reuse: Reuse::Named };
    let entry = params![
        route: &lease.route,
        shard: lease.shard.index,
        relay: lease.relay,
        epoch: lease.epoch,
        position: &position,
        seq: position.seq(),
        entry_epoch: None::<i64>,
        entry_n: None::<i64>,
        witness_seq: None::<i64>,
        witness_id: None::<Uuid>,
    ];
    let settled = session.run(Statement::SettlePosition, &entry).await;
    settled.is_ok_and(|done| done.affected > 0)
}

/// The old holder's node knows nothing of the take-over yet, and does not let the settlement pass.
#[tokio::test]
async fn settlement_of_an_old_epoch_is_refused_by_a_node_that_lags() {
    let _turn = turn().await;
    let bed = fresh().await;
    let mut grant = serve(&bed).await;
    let store = store_on(&bed, 1).await;
    for round in 1..=ROUNDS {
        let mut old = connect(&bed, 1).await;
        let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        old.execute(isolation).await.unwrap();
        let holding = hold_up(&bed).await;
        bed.advance(TTL * 2).await;
        let next = bed.store.acquire(&claim()).await.unwrap().expect("the lease had expired");
        assert!(next.lease.epoch > grant.lease.epoch);
        let settling =
            tokio::spawn(settle_by_hand(old, grant.lease.clone(), Position::at(round * 100, "")));
        let through = {
            let (store, lease) = (store.clone(), grant.lease.clone());
            let settlement = settlement(Position::at(round * 100, ""));
            tokio::spawn(async move { store.settle(&lease, &settlement).await })
        };
        let mut looking = connect(&bed, 1).await;
        let runs = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                    WHERE DB = DATABASE() AND INFO LIKE '%INSERT INTO posthaste_progress%' \
                    AND ID <> CONNECTION_ID()";
        eventually("settlement on its way", async || {
            let count: i64 = sqlx::query_scalar(runs).fetch_one(&mut looking).await.ok()?;
            (count > 0 || settling.is_finished()).then_some(())
        })
        .await;
        holding.close().await.unwrap();
        assert!(!settling.await.unwrap(), "round {round}: an old epoch has settled");
        let refused = through.await.unwrap().unwrap_err();
        assert_eq!(refused.kind, Kind::Fenced, "{refused:?}");
        assert_eq!(bed.number("SELECT MAX(seq) FROM posthaste_progress").await, 0);
        grant = next;
    }
    // The new holder settles, on any node.
    store.settle(&grant.lease, &settlement(Position::at(7, ""))).await.unwrap();
    bed.remove().await;
}

#[tokio::test]
async fn take_over_on_a_node_that_lags_knows_what_was_settled_elsewhere() {
    let _turn = turn().await;
    let bed = fresh().await;
    let grant = serve(&bed).await;
    let store = store_on(&bed, 1).await;
    let messages: Vec<_> = (0..9).map(|_| message("moved")).collect();
    bed.store.append(&messages).await.unwrap();
    bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    bed.advance(TTL * 2).await;
    let holding = hold_up(&bed).await;
    bed.store.settle(&grant.lease, &settlement(Position::at(7, ""))).await.unwrap();
    let taking = tokio::spawn(async move { store.acquire(&claim()).await });
    let mut looking = connect(&bed, 1).await;
    let asks = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                WHERE DB = DATABASE() AND USER <> 'system user' AND COMMAND <> 'Sleep' \
                AND ID <> CONNECTION_ID()";
    eventually("take-over on its way", async || {
        let count: i64 = sqlx::query_scalar(asks).fetch_one(&mut looking).await.ok()?;
        (count > 0 || taking.is_finished()).then_some(())
    })
    .await;
    holding.close().await.unwrap();
    let next = taking.await.unwrap().unwrap().expect("the lease had expired");
    assert_eq!(next.position, Position::at(7, ""));
    let late = bed.store.settle(&grant.lease, &settlement(Position::at(9, ""))).await.unwrap_err();
    assert_eq!(late.kind, Kind::Fenced, "{late:?}");
    bed.remove().await;
}

/// Registered on one node, cleaned up on another: nothing goes that the new route has not passed.
#[tokio::test]
async fn purge_on_a_node_that_lags_knows_routes_registered_elsewhere() {
    let _turn = turn().await;
    let bed = fresh().await;
    let grant = serve(&bed).await;
    bed.store.append(&["1", "2"].map(message)).await.unwrap();
    let store = store_on(&bed, 1).await;
    let batch = bed.store.fetch(&bed::fetch_after(Position::default())).await.unwrap();
    let passed = settlement(grant.position.passed(batch.end, &batch.snapshot));
    bed.store.settle(&grant.lease, &passed).await.unwrap();
    bed.advance(Duration::from_secs(1)).await;
    let holding = hold_up(&bed).await;
    let mut late = spec(1);
    late.name = "late".to_owned();
    bed.store.register(&late).await.unwrap();
    let at_once = Retention { delivered: Duration::ZERO, discarded: Duration::ZERO };
    let purging = tokio::spawn(async move { store.purge(at_once, 1000).await });
    tokio::task::yield_now().await;
    holding.close().await.unwrap();
    let purged = purging.await.unwrap();
    assert!(purged.is_err() || purged.is_ok_and(|purged| purged.messages == 0));
    assert_eq!(bed.number("SELECT COUNT(*) FROM posthaste_log").await, 2);
    bed.remove().await;
}

/// The application on one node, the relay on another.
struct TwoNodes;

#[async_trait]
impl StoreFixture for TwoNodes {
    async fn fresh(&self) -> Arc<dyn TestBed> {
        let mut bed = Bed::fresh_on(cluster().node(2).url()).await;
        bed.store = store_on(&bed, 0).await;
        // Moving times must find what the store has just written.
        let pool = MySqlPoolOptions::new().max_connections(50).after_connect(|session, _| {
            Box::pin(async { session.execute("SET SESSION wsrep_sync_wait = 7").await.map(drop) })
        });
        bed.pool = pool.connect_lazy(&bed.url).expect("a valid URL");
        Arc::new(bed)
    }
}

/// Who serves what, and what is settled, as on one server; of the rest what locks most.
#[tokio::test(flavor = "multi_thread")]
async fn the_suite_holds_with_writers_on_one_node_and_a_relay_on_another() {
    let _turn = turn().await;
    let is_chosen = |case: &Case| {
        let groups = ["lease::", "settle::", "resize::"];
        groups.iter().any(|group| case.name.starts_with(group)) || case.name.contains("meanwhile")
    };
    let chosen: Vec<Case> = cases().into_iter().filter(is_chosen).collect();
    assert!(!chosen.is_empty());
    let broken: Vec<String> = stream::iter(chosen)
        .map(|case| async move {
            match case.check(&TwoNodes).await {
                Verdict::Broken(why) => Some(format!("{}: {why}", case.name)),
                Verdict::Holds | Verdict::Skipped(_) => None,
            }
        })
        .buffer_unordered(4)
        .filter_map(|broken| async { broken })
        .collect()
        .await;
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
