//! Transactions with very many messages.

use posthaste_e2e::{Arrival, Stage};
use posthaste_fixtures::postgres;
use sqlx::{Connection, PgConnection};

/// Messages of one transaction.
const MANY: usize = 100_000;
/// Messages that are delivered while it is open.
const FEW: usize = 1000;
/// The most memory a relay may ever have had: it needs some 45 MiB and its window; the payloads of
/// all those messages alone would be 95 MiB more.
const PEAK_KIB_MAX: u64 = 96 * 1024;

const INSERT: &str = "INSERT INTO posthaste.outbox (topic, key, payload)
    SELECT 'orders', $1 || n % 100, repeat('x', 1000)
    FROM generate_series(1, $2) AS n";

async fn insert(connection: &mut PgConnection, key: &str, count: usize) {
    let count = i32::try_from(count).expect("small numbers");
    let insert = sqlx::query(INSERT).bind(key).bind(count).execute(connection).await;
    insert.expect("rows are right");
}

/// Asserts that so many arrived, each once, in the order of the log: there is one shard, and the
/// broker keeps the order of what it is given.
#[track_caller]
fn assert_once_and_in_order(arrivals: &[Arrival], count: usize) {
    assert_eq!(arrivals.len(), count);
    for pair in arrivals.windows(2) {
        assert!(pair[0].seq < pair[1].seq, "{:?} before {:?}", pair[0], pair[1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_100_000_messages_needs_no_more_memory_than_any_other() {
    let stage = Stage::migrated(postgres()).await;
    let mut writer = PgConnection::connect(stage.url()).await.unwrap();
    insert(&mut writer, "key-", MANY).await;
    let relay = stage.relay("small");
    let mut arrivals = stage.arrivals();
    let all = arrivals.wait("last of 100,000", |all| all.len() >= MANY).await;
    assert_once_and_in_order(all, MANY);
    let peak_kib = relay.peak_kib();
    println!("peak {peak_kib} KiB");
    assert!(peak_kib < PEAK_KIB_MAX, "{peak_kib} KiB");
    assert_eq!(relay.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_transaction_of_100_000_messages_is_delivered_whole_once_and_in_order() {
    let stage = Stage::migrated(postgres()).await;
    let relay = stage.relay("small");
    let mut arrivals = stage.arrivals();
    let mut late = PgConnection::connect(stage.url()).await.unwrap();
    let mut late = late.begin().await.unwrap();
    insert(&mut late, "late-", MANY).await;
    let mut writer = PgConnection::connect(stage.url()).await.unwrap();
    insert(&mut writer, "early-", FEW).await;
    arrivals.wait("last of 1000", |all| all.len() >= FEW).await;
    late.commit().await.unwrap();
    let all = arrivals.wait("last late one", |all| all.len() >= FEW + MANY).await;
    let (early, late) = all.split_at(FEW);
    assert_once_and_in_order(early, FEW);
    assert_once_and_in_order(late, MANY);
    let peak_kib = relay.peak_kib();
    println!("peak {peak_kib} KiB");
    assert!(peak_kib < PEAK_KIB_MAX, "{peak_kib} KiB");
    assert_eq!(relay.stop().await, 0);
}
