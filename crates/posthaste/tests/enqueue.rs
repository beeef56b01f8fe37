//! The library as an application uses it, on both databases.

use posthaste::{Event, Message, StoreErrorKind, assert_enqueued, testing};
use sqlx::{PgPool, SqlitePool};

#[derive(serde::Serialize)]
struct OrderPlaced {
    order_id: u64,
    total_cents: i64,
}

impl Event for OrderPlaced {
    const TOPIC: &'static str = "orders";
    const TYPE: &'static str = "OrderPlaced";

    fn key(&self) -> Option<String> {
        Some(self.order_id.to_string())
    }
}

async fn postgres() -> PgPool {
    let url = posthaste_fixtures::fresh_database(posthaste_fixtures::postgres())
        .await
        .expect("a database for the test");
    let pool = PgPool::connect(&url).await.expect("a database for the test");
    posthaste::migrate(&pool).await.expect("a database for the test");
    pool
}

async fn sqlite() -> (tempfile::TempDir, SqlitePool) {
    let folder = tempfile::tempdir().expect("a database for the test");
    let url = format!("sqlite:{}", folder.path().join("outbox.db").display());
    let pool = posthaste::sqlite::connect(&url).await.expect("a database for the test");
    posthaste::migrate(&pool).await.expect("a database for the test");
    (folder, pool)
}

/// The same test body for each database: they share no type but the facade's.
macro_rules! on_each_database {
    ($name:ident, |$pool:ident, $outbox:ident| $body:expr) => {
        mod $name {
            use super::*;

            #[tokio::test]
            async fn on_postgres() {
                let ($pool, $outbox) = (postgres().await, posthaste::postgres::Outbox::new());
                $body
            }

            #[tokio::test]
            async fn on_sqlite() {
                let (_folder, $pool) = sqlite().await;
                let $outbox = posthaste::sqlite::Outbox::new();
                $body
            }
        }
    };
}

on_each_database!(a_rolled_back_message_never_existed, |pool, outbox| {
    let mut tx = pool.begin().await.unwrap();
    outbox.enqueue(&mut tx, &OrderPlaced { order_id: 1, total_cents: 5 }).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let id = outbox.enqueue(&mut tx, &OrderPlaced { order_id: 2, total_cents: 5 }).await.unwrap();
    tx.commit().await.unwrap();
    let sent = testing::drain(pool).await.unwrap();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].id, id);
    assert_eq!(sent[0].key.as_deref(), Some("2"));
    assert_eq!(sent[0].event_type.as_deref(), Some("OrderPlaced"));
    assert_eq!(&sent[0].payload[..], br#"{"order_id":2,"total_cents":5}"#);
});

on_each_database!(a_connection_outside_a_transaction_is_refused, |pool, outbox| {
    let mut connection = pool.acquire().await.unwrap();
    let message = Message::new("orders", 1, "x").unwrap();
    let error = outbox.enqueue(&mut connection, message).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Refused);
    assert!(error.to_string().contains("transaction"), "{error}");
    drop(connection);
    assert_eq!(testing::enqueued(pool).await.unwrap(), []);
});

on_each_database!(many_messages_keep_their_order_and_ids, |pool, outbox| {
    let mut tx = pool.begin().await.unwrap();
    let orders: Vec<_> = (0..2500).map(|n| OrderPlaced { order_id: n, total_cents: 1 }).collect();
    let ids = outbox.enqueue_all(&mut tx, &orders).await.unwrap();
    tx.commit().await.unwrap();
    let sent = testing::drain(pool.clone()).await.unwrap();
    assert_eq!(sent.iter().map(|message| message.id).collect::<Vec<_>>(), ids);
    assert_eq!(testing::drain(pool).await.unwrap(), [], "a second drain has nothing to send");
});

on_each_database!(one_bad_message_refuses_them_all, |pool, outbox| {
    let mut tx = pool.begin().await.unwrap();
    let good = Message::new("orders", 1, "x").unwrap();
    let bad = Message::from_bytes("orders\n", Some("1"), "x");
    let error = outbox.enqueue_all(&mut tx, [good, bad]).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Refused);
    assert!(error.to_string().contains("topic"), "{error}");
    tx.commit().await.unwrap();
    assert_eq!(testing::enqueued(pool).await.unwrap(), []);
});

on_each_database!(assert_enqueued_finds_by_topic_and_key, |pool, outbox| {
    let mut tx = pool.begin().await.unwrap();
    outbox.enqueue(&mut tx, &OrderPlaced { order_id: 42, total_cents: 4200 }).await.unwrap();
    tx.commit().await.unwrap();
    let message = assert_enqueued!(pool.clone(), "orders", "42");
    assert!(message.payload.ends_with(b"4200}"));
    let missing = tokio::spawn(async move { assert_enqueued!(pool, "orders", "43") }).await;
    let panic = missing.unwrap_err().into_panic();
    let text = panic.downcast_ref::<String>().expect("a message");
    assert!(text.contains("key=Some(\"42\")"), "says what is there: {text}");
});
