//! The file: its tables and their versions, and files that cannot be used.

use std::time::Duration;

use posthaste_core::{Claim, Message, RelayId, Shard, Store, StoreErrorKind};
use posthaste_store_sqlite::{
    MIGRATIONS, SqliteStore, adopt, connect_options, migrate, print_migrations,
};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection, SqlitePool, sqlite::SqliteSynchronous};

use crate::{bed::Bed, route, url};

#[tokio::test]
async fn five_programs_open_and_migrate_one_new_file() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/outbox.db", directory.path().display());
    let programs = (0..5).map(|_| {
        let url = url.clone();
        tokio::spawn(async move {
            let store = SqliteStore::connect(&url).await.unwrap();
            migrate(store.pool()).await.unwrap()
        })
    });
    let mut applied = Vec::new();
    for program in programs.collect::<Vec<_>>() {
        applied.extend(program.await.unwrap());
    }
    let every: Vec<&str> = MIGRATIONS.iter().map(|migration| migration.name).collect();
    assert_eq!(applied, every, "each by one of them, once");
}

/// Every table, index and trigger of ours, with its text.
async fn schema(conn: &mut SqliteConnection) -> Vec<(String, String)> {
    let sql = "SELECT name, sql FROM sqlite_schema WHERE name LIKE 'posthaste%' ORDER BY name";
    sqlx::query_as(sql).fetch_all(conn).await.unwrap()
}

#[tokio::test]
async fn printed_script_makes_the_same_tables_and_down_removes_them() {
    let migrated = Bed::fresh().await;
    let printed = Bed::empty().await;
    sqlx::raw_sql(AssertSqlSafe(print_migrations())).execute(&printed.app).await.unwrap();
    printed.store.check().await.unwrap();
    let mut conn = migrated.app.acquire().await.unwrap();
    let expected = schema(&mut conn).await;
    assert_eq!(schema(&mut printed.app.acquire().await.unwrap()).await, expected);

    for migration in MIGRATIONS.iter().rev() {
        sqlx::raw_sql(migration.down).execute(&mut *conn).await.unwrap();
    }
    let left: Vec<String> = schema(&mut conn).await.into_iter().map(|(n, _)| n).collect();
    assert_eq!(left, ["posthaste_migration"]);
}

#[tokio::test]
async fn adopted_file_is_another_log() {
    let bed = Bed::fresh().await;
    bed.store.register(&route(&["*"])).await.unwrap();
    let claim = Claim {
        route: "route".to_owned(),
        shard: Shard::WHOLE,
        relay: RelayId::fresh(),
        ttl: Duration::from_secs(60),
        rewound: None,
    };
    let before = bed.store.acquire(&claim).await.unwrap().unwrap();
    adopt(bed.store.pool()).await.unwrap();
    let fenced = bed.store.renew(&before.lease, claim.ttl).await.unwrap_err();
    assert_eq!(fenced.kind, StoreErrorKind::Fenced);
    let after = bed.store.acquire(&claim).await.unwrap().unwrap();
    assert_ne!(after.log, before.log, "seqs are handed out a second time");
    let empty = Bed::empty().await;
    let missing = adopt(empty.store.pool()).await.unwrap_err();
    assert_eq!(missing.kind, StoreErrorKind::SchemaMissing);
}

#[tokio::test]
async fn missing_and_newer_tables_are_told_apart() {
    let bed = Bed::empty().await;
    let missing = bed.store.check().await.unwrap_err();
    assert_eq!(missing.kind, StoreErrorKind::SchemaMissing);
    assert!(missing.message.contains("`posthaste migrate`"));
    let missing = bed.store.status().await.unwrap_err();
    assert_eq!(missing.kind, StoreErrorKind::SchemaMissing);

    migrate(bed.store.pool()).await.unwrap();
    bed.store.check().await.unwrap();
    sqlx::raw_sql("INSERT INTO posthaste_migration (version, name) VALUES (999, 'future')")
        .execute(&bed.app)
        .await
        .unwrap();
    let newer = bed.store.check().await.unwrap_err();
    assert_eq!(newer.kind, StoreErrorKind::SchemaTooNew);
    let newer = migrate(bed.store.pool()).await.unwrap_err();
    assert_eq!(newer.kind, StoreErrorKind::SchemaTooNew);

    sqlx::raw_sql("UPDATE posthaste_migration SET version = version - 1000")
        .execute(&bed.app)
        .await
        .unwrap();
    let older = bed.store.check().await.unwrap_err();
    assert_eq!(older.kind, StoreErrorKind::SchemaTooOld);
}

#[tokio::test]
async fn text_that_is_not_stored_as_utf8_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/outbox.db", directory.path().display());
    let options = connect_options(&url).unwrap();
    let mut conn =
        SqliteConnection::connect_with(&options.pragma("encoding", "'UTF-16'")).await.unwrap();
    sqlx::raw_sql("CREATE TABLE business (id INTEGER PRIMARY KEY)")
        .execute(&mut conn)
        .await
        .unwrap();
    let store = SqliteStore::connect(&url).await.unwrap();
    let refused = migrate(store.pool()).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Refused);
    assert!(refused.message.contains("UTF-16"), "{refused}");
}

#[tokio::test]
async fn read_only_file_is_recognised() {
    let bed = Bed::fresh().await;
    let store = SqliteStore::connect(&format!("{}?mode=ro", url(&bed))).await;
    let store = store.unwrap();
    assert_eq!(store.check().await.unwrap_err().kind, StoreErrorKind::ReadOnly);
    let message = Message::from_bytes("t", None, "");
    let refused = store.append(&[message]).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::ReadOnly);
}

#[tokio::test]
async fn files_and_urls_that_cannot_be_used_say_so() {
    let url = SqliteStore::connect("postgres://localhost/x").await;
    assert_eq!(url.unwrap_err().kind, StoreErrorKind::Refused);
    let path = SqliteStore::connect("sqlite:///no/such/folder/outbox.db").await;
    assert_eq!(path.unwrap_err().kind, StoreErrorKind::Unavailable);
}

#[tokio::test]
async fn examine_finds_bad_settings_and_none_in_ours() {
    let bed = Bed::fresh().await;
    let findings = bed.store.examine().await.unwrap();
    assert!(findings.iter().all(|f| f.ok && f.fix.is_none()), "{findings:?}");

    let options = connect_options(&url(&bed))
        .unwrap()
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(Duration::from_millis(3));
    let store = SqliteStore::new(SqlitePool::connect_lazy_with(options));
    let findings = store.examine().await.unwrap();
    let bad = findings.iter().filter(|f| !f.ok && f.fix.is_some());
    assert_eq!(bad.count(), 2, "{findings:?}");
}
