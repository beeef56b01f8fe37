//! Connections by URL on a real server: sessions that take writes, and names of sessions.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod bed;

use std::time::Duration;

use bed::Bed;
use posthaste_core::{Store, StoreErrorKind};
use posthaste_store_postgres::PostgresStore;
use sqlx::{AssertSqlSafe, Executor};

/// New sessions of the bed's database refuse writes, or take them again.
async fn read_only(bed: &Bed, setting: &str) {
    let name = bed.url.rsplit('/').next().unwrap();
    let sql = format!(r#"ALTER DATABASE "{name}" {setting} default_transaction_read_only"#);
    let sql = if setting == "SET" { format!("{sql} = on") } else { sql };
    // A session of its own may be one that refuses writes.
    let sql = format!("BEGIN READ WRITE; {sql}; COMMIT");
    bed.connect().await.execute(AssertSqlSafe(sql)).await.unwrap();
}

#[tokio::test]
async fn a_url_that_asks_for_writable_sessions_gets_no_other() {
    let bed = Bed::fresh().await;
    read_only(&bed, "SET").await;
    for attribute in ["read-write", "primary", "READ-WRITE"] {
        let url = format!("{}?target_session_attrs={attribute}", bed.url);
        let refused = PostgresStore::connect(&url).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::ReadOnly, "{attribute}: {refused}");
        assert!(refused.message.contains("target_session_attrs"), "{refused}");
    }
    // Without the parameter, and with `any`, what the session refuses is found out when it is used.
    for query in ["", "?target_session_attrs=any"] {
        let store = PostgresStore::connect(&format!("{}{query}", bed.url)).await.unwrap();
        assert!(store.status().await.is_ok(), "{query}");
    }
}

#[tokio::test]
async fn a_session_opened_later_is_looked_at_too() {
    let bed = Bed::fresh().await;
    let url = format!("{}?target_session_attrs=read-write", bed.url);
    let store = PostgresStore::connect(&url).await.unwrap().deadline(Duration::from_secs(2));
    read_only(&bed, "SET").await;
    let failed = store.status().await.unwrap_err();
    assert_eq!(failed.kind, StoreErrorKind::Unavailable, "{failed}");
    read_only(&bed, "RESET").await;
    let store = store.deadline(Duration::from_secs(10));
    assert!(store.status().await.is_ok());
}

#[tokio::test]
async fn the_server_sees_the_name_that_the_url_gives() {
    let bed = Bed::fresh().await;
    for (query, name) in [("", "posthaste"), ("?application_name=relay-7", "relay-7")] {
        let store = PostgresStore::connect(&format!("{}{query}", bed.url)).await.unwrap();
        let shown: String = sqlx::query_scalar("SELECT current_setting('application_name')")
            .fetch_one(store.pool())
            .await
            .unwrap();
        assert_eq!(shown, name);
    }
}

#[tokio::test]
async fn a_url_that_breaks_a_rule_is_refused_before_anything_is_dialled() {
    let refused = PostgresStore::connect("postgres://app:hunter2@db/shop?sslmode=on").await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Refused);
    assert!(refused.message.contains("…?sslmode=on must have `sslmode` as one of"), "{refused}");
}
