//! The tables: migrations, constraints, taking over another server's, and what errors say.

mod bed;

use bed::{Bed, TTL, claim, fetch_after, message, payloads, serve, settlement};
use posthaste_conformance::store::TestBed;
use posthaste_core::{Message, Position, Store, StoreErrorKind as Kind};
use posthaste_fixtures::eventually;
use posthaste_store_postgres::{MIGRATIONS, enqueue, migrate, print_migrations};
use sqlx::{AssertSqlSafe, Executor, postgres::PgPoolOptions};
use tokio::io::AsyncReadExt;

#[tokio::test]
async fn enqueue_outside_a_transaction_is_refused() {
    let bed = Bed::fresh().await;
    let mut connection = bed.connect().await;
    let refused = enqueue(&mut connection, &[message("1")]).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    assert!(refused.message.starts_with("not inside a transaction: "), "{refused}");
    bed.remove().await;
}

#[tokio::test]
async fn five_migrations_at_once_make_one() {
    let bed = Bed::bare().await;
    let missing = bed.store.check().await.unwrap_err();
    assert_eq!(missing.kind, Kind::SchemaMissing);
    assert!(missing.message.contains("`posthaste migrate`"));
    let runs: Vec<_> = (0..5)
        .map(|_| {
            let pool = bed.pool.clone();
            tokio::spawn(async move { migrate(&pool).await.unwrap().len() })
        })
        .collect();
    let mut ran = 0;
    for run in runs {
        ran += run.await.unwrap();
    }
    assert_eq!(ran, MIGRATIONS.len());
    bed.store.check().await.unwrap();
    bed.remove().await;
}

/// The session that waits has looked for the tables before, and has kept in its cache that there are none.
#[tokio::test]
async fn migration_that_waited_for_another_finds_it_done() {
    let bed = Bed::bare().await;
    let mut holder = bed.connect().await;
    let lock = "BEGIN; SELECT pg_advisory_xact_lock(5791024680135)";
    holder.execute(sqlx::raw_sql(lock)).await.unwrap();
    let pool = PgPoolOptions::new().max_connections(1).connect(&bed.url).await.unwrap();
    let waiting = tokio::spawn(async move { migrate(&pool).await });
    eventually("migration that waits for another", async || {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                     AND wait_event = 'advisory'";
        let waits: i64 = sqlx::query_scalar(waits).fetch_one(&bed.pool).await.unwrap();
        (waits > 0).then_some(())
    })
    .await;
    // Few changes of the catalogue: many would have the server empty the caches of sessions.
    let latest = MIGRATIONS.len();
    let migrate = format!(
        "CREATE SCHEMA posthaste; CREATE TABLE posthaste.migration (number int); \
         INSERT INTO posthaste.migration VALUES ({latest}); COMMIT"
    );
    holder.execute(sqlx::raw_sql(AssertSqlSafe(migrate))).await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_empty());
    bed.remove().await;
}

#[tokio::test]
async fn newer_tables_are_refused() {
    let bed = Bed::fresh().await;
    bed.run("INSERT INTO posthaste.migration (number, name) VALUES (999, 'tomorrow')").await;
    assert_eq!(bed.store.check().await.unwrap_err().kind, Kind::SchemaTooNew);
    assert_eq!(migrate(&bed.pool).await.unwrap_err().kind, Kind::SchemaTooNew);
    bed.remove().await;
}

#[tokio::test]
async fn printed_script_migrates_and_down_undoes_it() {
    let bed = Bed::bare().await;
    for _ in 0..2 {
        let script = print_migrations();
        bed.pool.execute(sqlx::raw_sql(AssertSqlSafe(script))).await.unwrap();
        bed.store.check().await.unwrap();
        assert!(migrate(&bed.pool).await.unwrap().is_empty());
        for migration in MIGRATIONS.iter().rev() {
            bed.pool.execute(sqlx::raw_sql(migration.down)).await.unwrap();
        }
        assert_eq!(bed.store.check().await.unwrap_err().kind, Kind::SchemaMissing);
    }
    bed.remove().await;
}

/// Messages at every limit and just past it.
fn messages_at_the_limits() -> Vec<Message> {
    let plain = || Message::from_bytes("t", Some("k"), "p");
    let topic = |length: usize| Message::from_bytes("t".repeat(length), None, "p");
    let key = |key: &str| Message::from_bytes("t", Some(key), "p");
    let big = |length: usize| Message::from_bytes("t", None, vec![0; length]);
    vec![
        plain(),
        topic(0),
        topic(255),
        topic(256),
        Message::from_bytes("é".repeat(128), None, ""),
        Message::from_bytes("a\u{7f}", None, ""),
        Message::from_bytes("a\u{80}b", None, ""),
        key(""),
        key("a\tb"),
        key(&"k".repeat(1024)),
        key(&"k".repeat(1025)),
        plain().event_type(""),
        plain().event_type("x".repeat(255)),
        plain().event_type("x".repeat(256)),
        plain().event_type("x\n"),
        plain().content_type(""),
        plain().content_type("c".repeat(256)),
        plain().content_type("c\u{1f}"),
        big(8 << 20),
        big((8 << 20) + 1),
        plain().header("a", "b").header("A", ""),
        plain().header("", "b"),
        plain().header("n".repeat(255), ""),
        plain().header("n".repeat(256), ""),
        plain().header("n\r", ""),
        plain().header("n", "v\n"),
        plain().header("n", "v".repeat(65_535)),
        plain().header("n", "v".repeat(65_536)),
        plain().header("n", "\"".repeat(65_535)),
    ]
}

/// A plain INSERT and the library accept and refuse the same messages.
#[tokio::test]
async fn checks_of_the_table_equal_those_of_the_library() {
    let bed = Bed::fresh().await;
    for message in messages_at_the_limits() {
        let headers: serde_json::Map<_, _> = message
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.clone().into()))
            .collect();
        let by_hand = sqlx::query(
            "INSERT INTO posthaste.outbox (topic, key, type, payload_binary, headers, content_type) \
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(&message.topic)
        .bind(&message.key)
        .bind(&message.event_type)
        .bind(&message.payload[..])
        .bind((!headers.is_empty()).then_some(sqlx::types::Json(headers)))
        .bind(&message.content_type)
        .execute(&bed.pool)
        .await;
        let valid = message.validate();
        assert_eq!(by_hand.is_ok(), valid.is_ok(), "{message:?}: {valid:?}, {by_hand:?}");
    }
    for headers in ["[]", "1", "null", r#"{"a":1}"#, r#"{"a":null}"#, r#"{"a":"1","a":"2"}"#] {
        let insert =
            "INSERT INTO posthaste.outbox (topic, payload, headers) VALUES ('t', '', $1::json)";
        let refused = sqlx::query(insert).bind(headers).execute(&bed.pool).await;
        assert!(refused.is_err(), "{headers}");
    }
    bed.remove().await;
}

/// Headers that someone forced past the CHECK stop neither their message nor others.
#[tokio::test]
async fn forced_headers_stop_nobody() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    bed.run(
        "ALTER TABLE posthaste.outbox \
             DROP CONSTRAINT headers_is_an_object_of_strings_within_limits; \
         INSERT INTO posthaste.outbox (topic, payload, headers) \
             VALUES ('t', '1', '[1]'), ('t', '2', '{\"n\": 1}'), ('t', '3', NULL)",
    )
    .await;
    let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(payloads(&batch), [b"1", b"2", b"3"]);
    assert_eq!(batch.messages[1].message.headers, [("n".to_owned(), "1".to_owned())]);
    bed.remove().await;
}

/// A dump of another server brings transaction ids that mean nothing here: some seem to lie in the
/// future, and positions that were exact there skip or repeat.
#[tokio::test]
async fn adopted_database_skips_nothing() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    bed.store.append(&["1", "2", "3", "4"].map(message)).await.unwrap();
    // There, 2 was committed after the position was taken, and 4 lies ahead of it.
    bed.run(
        "UPDATE posthaste.outbox SET xid = (900000 + seq)::text::xid8; \
         UPDATE posthaste.meta SET value = 'elsewhere' WHERE key = 'system_identifier'",
    )
    .await;
    let there = Position::at(3, "900002:900005:900002");
    bed.store.settle(&grant.lease, &settlement(there)).await.unwrap();
    let other = bed.store.check().await.unwrap_err();
    assert_eq!(other.kind, Kind::OtherServer);
    assert!(other.message.contains("`posthaste migrate --adopt`"));

    posthaste_store_postgres::adopt(&bed.pool).await.unwrap();
    bed.store.check().await.unwrap();
    let fenced = bed.store.renew(&grant.lease, TTL).await.unwrap_err();
    assert_eq!(fenced.kind, Kind::Fenced);
    let before = grant.log;
    let grant = bed.store.acquire(&claim()).await.unwrap().expect("leases have ended");
    assert_ne!(grant.log, before, "seqs are handed out a second time");
    assert_eq!(grant.position.seq(), 1);
    let batch = bed.store.fetch(&fetch_after(grant.position.clone())).await.unwrap();
    assert_eq!(payloads(&batch), [b"2", b"3", b"4"]);
    let after = grant.position.passed(batch.end, &batch.snapshot);
    bed.store.append(&[message("5")]).await.unwrap();
    let batch = bed.store.fetch(&fetch_after(after)).await.unwrap();
    assert_eq!(payloads(&batch), [b"5"]);
    bed.remove().await;
}

#[tokio::test]
async fn read_only_server_is_refused() {
    let bed = Bed::fresh().await;
    bed.run(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', \
         current_database()); END $$",
    )
    .await;
    assert_eq!(bed.store.check().await.unwrap_err().kind, Kind::ReadOnly);
    let write = bed.store.append(&[message("1")]).await.unwrap_err();
    assert_eq!(write.kind, Kind::ReadOnly);
    bed.remove().await;
}

#[tokio::test]
async fn errors_say_what_to_do_and_quote_nothing() {
    let bed = Bed::fresh().await;
    let text = |error: posthaste_core::StoreError| format!("{error} {error:?}");
    bed.run(
        "ALTER TABLE posthaste.outbox ADD CONSTRAINT payload_is_not_secret \
             CHECK (payload_binary <> 'hunter2'); \
         REVOKE ALL ON SCHEMA posthaste FROM PUBLIC",
    )
    .await;
    let refused = bed.store.append(&[message("hunter2")]).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    assert!(refused.message.contains("payload is not secret"), "{refused}");
    let shown = text(refused);
    assert!(!shown.contains("hunter2") && !shown.contains("INSERT"), "{shown}");

    let denied = bed.url.replacen("postgres@", "pg_monitor@", 1);
    let failed = posthaste_store_postgres::PostgresStore::connect(&denied).await.unwrap_err();
    assert_eq!(failed.kind, Kind::Denied, "{failed:?}");
    for (url, kind) in [
        ("postgres://u:hunter2@h:port/db", Kind::Refused),
        ("postgres://u:hunter2@127.0.0.1:1/db", Kind::Unavailable),
    ] {
        let failed = posthaste_store_postgres::PostgresStore::connect(url).await.unwrap_err();
        assert_eq!(failed.kind, kind, "{failed:?}");
        assert!(!text(failed).contains("hunter2"));
    }
    bed.remove().await;
}

/// As a server does that is about to go, or a network in between.
#[tokio::test]
async fn a_connection_that_is_closed_at_once_is_an_outage() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://u@{}/db", listener.local_addr().unwrap());
    let closing = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            // What is closed unread is reset, which is another error.
            let mut question = [0; 8];
            let _ = client.read_exact(&mut question).await;
        }
    });
    let failed = posthaste_store_postgres::PostgresStore::connect(&url).await.unwrap_err();
    assert_eq!(failed.kind, Kind::Unavailable, "{failed:?}");
    closing.abort();
}
