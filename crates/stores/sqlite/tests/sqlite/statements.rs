//! What statements cost: their plans, and rows that are not looked at twice.

use std::time::Duration;

use posthaste_core::{Claim, Message, Position, RelayId, Retention, Settlement, Shard, Store};
use posthaste_store_sql::Dialect;
use posthaste_store_sqlite::{Sqlite, SqliteStore};
use sqlx::{AssertSqlSafe, Row};

use crate::{bed::Bed, route};

#[tokio::test]
async fn sweep_starts_again_when_a_route_takes_what_nobody_took() {
    let bed = Bed::fresh().await;
    let messages = ["a", "b", "a"].map(|topic| Message::from_bytes(topic, None, ""));
    bed.store.append(&messages).await.unwrap();
    let at_once = Retention { delivered: Duration::ZERO, discarded: Duration::ZERO };
    for (topics, removed, left) in [(["a"].as_slice(), 2, 1), (&["a", "b"], 1, 0)] {
        bed.store.register(&route(topics)).await.unwrap();
        pass_everything(&bed.store).await;
        let purged = bed.store.purge(at_once, 100).await.unwrap();
        assert_eq!(purged.messages, removed);
        let rows = sqlx::query("SELECT count(*) FROM posthaste_outbox");
        let rows = rows.fetch_one(&bed.app).await.unwrap();
        assert_eq!(rows.get::<i64, _>(0), left);
    }
}

async fn pass_everything(store: &SqliteStore) {
    let claim = Claim {
        route: "route".to_owned(),
        shard: Shard::WHOLE,
        relay: RelayId::fresh(),
        ttl: Duration::from_secs(60),
        rewound: None,
    };
    let grant = store.acquire(&claim).await.unwrap().unwrap();
    let settlement = Settlement { position: Some(Position::at(3, "")), ..Settlement::default() };
    store.settle(&grant.lease, &settlement).await.unwrap();
    store.release(&grant.lease).await.unwrap();
}

/// Plans of what runs all the time: a range or a lookup, never the whole table.
#[tokio::test]
async fn statements_use_their_indexes() {
    let bed = Bed::fresh().await;
    for (statement, index) in [
        ("fetch_scan", "INTEGER PRIMARY KEY"),
        ("fetch_payloads", "INTEGER PRIMARY KEY"),
        ("waiting_scan", "INTEGER PRIMARY KEY"),
        ("park_waiting", "INTEGER PRIMARY KEY"),
        ("hold_followers", "posthaste_parked_head"),
        ("promote_heads", "posthaste_parked_key"),
        ("settle_unblocked", "posthaste_parked_key"),
        ("due_heads", "posthaste_parked_due"),
        ("due_next", "posthaste_parked_due"),
        ("due_followers", "posthaste_parked_key"),
        ("blocked_keys", "posthaste_parked_key"),
        ("undelivered", "sqlite_autoindex_posthaste_parked"),
        ("status_parked", "posthaste_parked_state"),
        ("status_owners", "sqlite_autoindex_posthaste_parked"),
        ("status_oldest", "INTEGER PRIMARY KEY"),
        ("purge_scan", "INTEGER PRIMARY KEY"),
        ("purge_discarded_scan", "posthaste_parked_state"),
    ] {
        let text = Sqlite::shared().texts().get(statement).expect("a statement of that name");
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", text.sql));
        let rows = sqlx::query(explain).fetch_all(&bed.app).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        assert!(plan.iter().any(|step| step.contains(index)), "{plan:#?}");
        let scan = plan.iter().find(|step| {
            step.starts_with("SCAN posthaste_")
                || step.starts_with("SCAN follower")
                || step.starts_with("SCAN held")
                || step.starts_with("SCAN head")
        });
        assert_eq!(scan, None, "{statement}\n{plan:#?}");
    }
}
