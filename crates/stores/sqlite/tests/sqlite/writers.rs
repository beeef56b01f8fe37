//! Transactions: one writer at a time, many waiting, none left open.

use std::{process::Command, time::Duration};

use posthaste_core::{Message, Store, StoreErrorKind};
use posthaste_store_sql::Scope;
use posthaste_store_sqlite::{SqliteStore, connect_options, enqueue};
use sqlx::{Connection, SqlitePool};

use crate::{bed::Bed, read_messages, route, url};

#[tokio::test]
async fn enqueue_needs_a_transaction() {
    let bed = Bed::fresh().await;
    let mut conn = bed.app.acquire().await.unwrap();
    let refused = enqueue(&mut conn, &[Message::from_bytes("t", None, "")]).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Refused);
    assert!(refused.message.starts_with("not inside a transaction: "));
}

#[tokio::test]
async fn more_messages_than_one_statement_holds_stay_in_order() {
    let bed = Bed::fresh().await;
    let messages: Vec<Message> =
        (0..10_000).map(|n| Message::from_bytes("t", Some("k"), n.to_string())).collect();
    let mut tx = bed.begin().await;
    enqueue(&mut tx, &messages).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(read_messages(&bed.store).await, []);
    bed.store.append(&messages).await.unwrap();
    assert_eq!(read_messages(&bed.store).await, messages);
}

const CHILD_URL: &str = "POSTHASTE_TEST_CHILD_URL";
const CHILD_MESSAGES: usize = 100;

/// Not a fact but the second process of the next one: idle unless that starts it.
#[tokio::test]
async fn child_writes_alongside() {
    let Ok(url) = std::env::var(CHILD_URL) else {
        return;
    };
    let store = SqliteStore::connect(&url).await.unwrap();
    write_alone(&store, "child").await;
}

async fn write_alone(store: &SqliteStore, key: &str) {
    for n in 0..CHILD_MESSAGES {
        let message = Message::from_bytes("t", Some(key), n.to_string());
        store.append(&[message]).await.unwrap();
    }
}

#[tokio::test]
async fn two_processes_write_and_neither_fails_nor_loses_its_order() {
    let bed = Bed::fresh().await;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writers::child_writes_alongside"])
        .env(CHILD_URL, url(&bed))
        .spawn()
        .unwrap();
    let second = SqliteStore::connect(&url(&bed)).await.unwrap();
    tokio::join!(write_alone(&bed.store, "parent"), write_alone(&second, "second pool"));
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap());
    assert!(ended.await.unwrap().success());

    let messages = read_messages(&bed.store).await;
    assert_eq!(messages.len(), 3 * CHILD_MESSAGES);
    for key in ["parent", "second pool", "child"] {
        let of_key = messages.iter().filter(|m| m.key.as_deref() == Some(key));
        let payloads: Vec<_> = of_key.map(|m| m.payload.clone()).collect();
        let expected: Vec<_> = (0..CHILD_MESSAGES).map(|n| n.to_string()).collect();
        assert_eq!(payloads, expected, "{key}");
    }
}

#[tokio::test]
async fn calls_that_are_dropped_halfway_leave_no_transaction_open() {
    let bed = Bed::fresh().await;
    for n in 0..50 {
        let messages = [Message::from_bytes("t", None, n.to_string())];
        let append = bed.store.append(&messages);
        let _ = tokio::time::timeout(Duration::ZERO, append).await;
    }
    let last = Message::from_bytes("t", None, "last");
    bed.store.append(std::slice::from_ref(&last)).await.unwrap();
    let mut connections = Vec::new();
    for _ in 0..4 {
        let conn = bed.store.pool().acquire().await.unwrap();
        assert!(!conn.is_in_transaction());
        connections.push(conn);
    }
    drop(connections);
    assert!(read_messages(&bed.store).await.contains(&last));
}

#[tokio::test]
async fn locked_database_is_unavailable_and_reading_goes_on() {
    let bed = Bed::fresh().await;
    let options = connect_options(&url(&bed)).unwrap();
    let impatient = options.busy_timeout(Duration::from_millis(1));
    let store = SqliteStore::new(SqlitePool::connect_lazy_with(impatient));
    store.register(&route(&["*"])).await.unwrap();

    let mut writer = bed.begin().await;
    enqueue(&mut writer, &[Message::from_bytes("t", None, "")]).await.unwrap();
    let message = Message::from_bytes("t", None, "");
    let busy = store.append(&[message]).await.unwrap_err();
    assert_eq!(busy.kind, StoreErrorKind::Unavailable);
    assert!(busy.is_retryable());
    assert_eq!(read_messages(&store).await, [], "nothing uncommitted");
}

#[tokio::test]
async fn transaction_that_read_too_early_is_told_what_to_do() {
    let bed = Bed::fresh().await;
    let mut deferred = bed.app.begin().await.unwrap();
    let read = sqlx::query("SELECT count(*) FROM posthaste_outbox");
    read.fetch_one(&mut *deferred).await.unwrap();
    let message = Message::from_bytes("t", None, "");
    bed.store.append(std::slice::from_ref(&message)).await.unwrap();
    let stale = enqueue(&mut deferred, &[message]).await.unwrap_err();
    assert_eq!(stale.kind, StoreErrorKind::Unavailable);
    assert!(stale.message.contains("BEGIN IMMEDIATE"), "{stale}");
}

#[tokio::test]
async fn call_ends_at_its_deadline_and_its_connection_with_it() {
    let bed = Bed::fresh().await;
    let store = SqliteStore::connect(&url(&bed)).await.unwrap();
    let store = store.deadline(Duration::from_millis(100));
    let message = Message::from_bytes("t", None, "");

    let writer = bed.begin().await;
    let late = store.append(std::slice::from_ref(&message)).await;
    assert_eq!(late.unwrap_err().kind, StoreErrorKind::Unavailable);
    drop(writer);
    let store = store.deadline(Duration::from_secs(60));
    store.append(&[message]).await.unwrap();
    assert_eq!(read_messages(&store).await.len(), 1, "the late one is undone");
}

/// The driver does not know of the transaction, so it would not roll it back.
#[tokio::test]
async fn call_that_panics_closes_its_connection() {
    let bed = Bed::fresh().await;
    let call = bed.store.call::<(), ()>("test", Scope::Transaction, (), |_, _| {
        Box::pin(async { panic!("as it should") })
    });
    assert_eq!(call.await.unwrap_err().kind, StoreErrorKind::Internal);
    // It would keep the write lock.
    bed.store.append(&[Message::from_bytes("t", None, "")]).await.unwrap();
}
