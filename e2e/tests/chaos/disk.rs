//! A disk that is full: what cannot be written down is not sent, and nothing is lost.

use std::{collections::HashSet, env};

use posthaste::MessageId;
use posthaste_e2e::{Arrival, Running, Stage, blocking, execute};
use posthaste_fixtures::{Disk, Durability, Postgres};
use sqlx::AssertSqlSafe;

/// Leaves these tests out where nothing can be mounted. Without it they fail there.
const WITHOUT_MOUNT: &str = "POSTHASTE_TEST_WITHOUT_MOUNT";

/// Messages that wait when the disk is full: many more than the room of a page can settle.
const BACKLOG: usize = 30_000;

/// Messages a relay may have sent and not settled.
const WINDOW: usize = 200;

fn small_window(config: String) -> String {
    config.replace("[relay]", &format!("[relay]\nwindow_messages = {WINDOW}"))
}

fn disk(size_kib: u32) -> Option<Disk> {
    if env::var_os(WITHOUT_MOUNT).is_some() {
        println!("left out because {WITHOUT_MOUNT} is set: a full disk is not tested");
        return None;
    }
    let disk = Disk::small(size_kib);
    Some(disk.unwrap_or_else(|error| panic!("{error:#}; or set {WITHOUT_MOUNT}=1")))
}

fn distinct(arrivals: &[Arrival]) -> usize {
    arrivals.iter().map(|arrival| arrival.id).collect::<HashSet<MessageId>>().len()
}

/// The relay meets the full disk and stays; once there is room again all of it has arrived, in order.
async fn survives(stage: &Stage, disk: &Disk, relay: Running, error: &str) {
    relay.wait_log(error).await;
    let mut arrivals = stage.arrivals();
    let sent = distinct(arrivals.read());
    assert!(sent < BACKLOG, "everything was sent without a note of it");
    disk.free().expect("the ballast is there");
    arrivals.wait("last of the backlog", |all| distinct(all) >= BACKLOG).await;
    let mut newest = 0;
    let mut seen = HashSet::new();
    for arrival in arrivals.read() {
        if seen.insert(arrival.id) {
            assert!(arrival.seq > newest, "{arrival:?} came after {newest}");
            newest = arrival.seq;
        }
    }
    let repeated = arrivals.read().len() - BACKLOG;
    println!("{sent} sent while it was full, {repeated} repeated");
    assert_eq!(relay.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_with_a_full_disk_gets_nothing_sent_that_it_cannot_note() {
    let Some(disk) = disk(48 * 1024) else { return };
    let server = blocking(|| Postgres::private(Durability::Fast)).unwrap();
    let space = format!("CREATE TABLESPACE small LOCATION '{}'", disk.folder().display());
    execute(server.url(), &space).await;
    execute(server.url(), "CREATE DATABASE shop TEMPLATE template0 TABLESPACE small").await;
    let (host, _) = server.url().rsplit_once('/').unwrap();
    let stage = Stage::on(&format!("{host}/shop"));
    stage.configure(small_window);
    blocking(|| stage.run(&["migrate"])).ok();
    // The first relay of all makes rows in every table.
    blocking(|| stage.run(&["relay", "--once"])).ok();
    let insert = format!(
        "INSERT INTO posthaste.outbox (topic, key, payload)
         SELECT 'orders', 'key-' || n % 10, 'x' FROM generate_series(1, {BACKLOG}) AS n"
    );
    stage.sql(&insert).await;
    disk.fill(0).unwrap();
    let relay = stage.relay("thrifty");
    survives(&stage, &disk, relay, "No space left").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_with_a_full_disk_gets_nothing_sent_that_it_cannot_note() {
    let Some(disk) = disk(16 * 1024) else { return };
    let url = format!("sqlite:{}", disk.folder().join("shop.db").display());
    let stage = Stage::on(&url);
    stage.configure(small_window);
    blocking(|| stage.run(&["migrate"])).ok();
    let pool = posthaste::sqlite::connect(&url).await.unwrap();
    let insert = format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {BACKLOG})
         INSERT INTO posthaste_outbox (topic, key, payload)
         SELECT 'orders', 'key-' || n % 10, 'x' FROM n"
    );
    sqlx::raw_sql(AssertSqlSafe(insert)).execute(&pool).await.unwrap();
    // The last to leave removes the write-ahead log, so that the next one needs room for it.
    pool.close().await;
    disk.fill(64 * 1024).unwrap();
    let relay = stage.relay("thrifty");
    survives(&stage, &disk, relay, "disk").await;
}
