//! The tables: migrations, constraints, and what errors say.

mod bed;

use bed::{Bed, fetch_after, message, payloads, serve};
use posthaste_conformance::store::TestBed;
use posthaste_core::{
    InboxConnection, Message, MessageId, Position, Store, StoreErrorKind as Kind,
};
use posthaste_fixtures::{Kind as Servers, Options, Server};
use posthaste_store_mysql::{
    Inbox, MIGRATIONS, MySqlStore, Namespace, adopt, enqueue, migrate, print_migrations,
};
use sqlx::{AssertSqlSafe, Executor, Row};

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

/// Tables are changed one by one: a migration that was cut short must be able to go on.
#[tokio::test]
async fn migration_that_was_cut_short_goes_on() {
    let bed = Bed::bare().await;
    let up = MIGRATIONS[0].up;
    let cut = up.find("CREATE TABLE IF NOT EXISTS posthaste_route").expect("a table in the middle");
    bed.pool.execute(sqlx::raw_sql(AssertSqlSafe(up[..cut].to_owned()))).await.unwrap();
    assert_eq!(bed.store.check().await.unwrap_err().kind, Kind::SchemaMissing);
    assert_eq!(migrate(&bed.pool).await.unwrap().len(), MIGRATIONS.len());
    bed.store.check().await.unwrap();
    bed.remove().await;
}

#[tokio::test]
async fn newer_tables_are_refused() {
    let bed = Bed::fresh().await;
    bed.run("INSERT INTO posthaste_migration (number, name) VALUES (999, 'tomorrow')").await;
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

/// Two outboxes in one database: neither sees tables, messages, leases or handled ids of the other.
#[tokio::test]
async fn namespaces_share_a_database_and_nothing_else() {
    let bed = Bed::fresh().await;
    let shop = Namespace::new("shop").unwrap();
    let store = MySqlStore::connect_in(&bed.url, &shop).await.unwrap();
    assert_eq!(store.check().await.unwrap_err().kind, Kind::SchemaMissing);
    assert_eq!(store.migrate().await.unwrap().len(), MIGRATIONS.len());
    let stores = [(&bed.store, "default"), (&store, "shop")];
    let handled = MessageId::fresh();
    for (store, text) in stores {
        store.check().await.unwrap();
        store.examine().await.unwrap();
        store.register(&bed::spec(1)).await.unwrap();
        let mut transaction = bed.pool.begin().await.unwrap();
        store.dialect().enqueue(&mut transaction, &[message(text)]).await.unwrap();
        let mut inbox = Inbox::of(store.dialect(), &mut transaction).unwrap();
        assert_eq!(inbox.record("consumer", &[handled]).await.unwrap(), 1, "{text}");
        transaction.commit().await.unwrap();
    }
    for (store, text) in stores {
        let grant = store.acquire(&bed::claim()).await.unwrap().expect("a free lease");
        let batch = store.fetch(&fetch_after(grant.position.clone())).await.unwrap();
        assert_eq!(payloads(&batch), [text.as_bytes()]);
        let passed = grant.position.passed(batch.end, &batch.snapshot);
        store.settle(&grant.lease, &bed::settlement(passed.clone())).await.unwrap();
        let batch = store.fetch(&fetch_after(passed)).await.unwrap();
        assert!(batch.messages.is_empty(), "{text}");
        assert_eq!(store.status().await.unwrap().routes.len(), 1);
    }
    store.adopt().await.unwrap();
    assert!(bed.store.acquire(&bed::claim()).await.unwrap().is_none(), "its lease is held on");
    assert!(store.acquire(&bed::claim()).await.unwrap().is_some());
    store.pool().close().await;
    bed.remove().await;
}

#[tokio::test]
async fn adopted_data_is_another_log() {
    let bed = Bed::fresh().await;
    let before = serve(&bed).await;
    adopt(&bed.pool).await.unwrap();
    let fenced = bed.store.settle(&before.lease, &bed::settlement(Position::at(1, ""))).await;
    assert_eq!(fenced.unwrap_err().kind, Kind::Fenced);
    let after = serve(&bed).await;
    assert_ne!(after.log, before.log, "seqs are handed out a second time");
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
        Message::from_bytes("a\0b", None, ""),
        key(""),
        key("a\tb"),
        key("trailing "),
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
        plain().header("a", "").header("a ", ""),
        plain().header("a\\", ":,{}[]\"\\").header("\":\"", "\\n\\u0000"),
        plain().header("", "b"),
        plain().header("n".repeat(255), ""),
        plain().header("n".repeat(256), ""),
        plain().header("é".repeat(127), ""),
        plain().header("é".repeat(128), ""),
        plain().header("\"".repeat(255), ""),
        plain().header("\"".repeat(256), ""),
        plain().header("n\r", ""),
        plain().header("n", "v\n"),
        plain().header("n", "v\u{7f}"),
        plain().header("n", "v".repeat(65_535)),
        plain().header("n", "v".repeat(65_536)),
        plain().header("n", "\"".repeat(65_535)),
        plain().header("n", "\"".repeat(65_536)),
        plain().header("n", "é".repeat(32_767)),
        plain().header("n", "é".repeat(32_768)),
    ]
}

/// A plain INSERT and the library accept and refuse the same messages, whatever the mode of the
/// application's session.
#[tokio::test]
async fn checks_of_the_table_equal_those_of_the_library() {
    let bed = Bed::fresh().await;
    for mode in ["STRICT_ALL_TABLES", ""] {
        let mut connection = bed.connect().await;
        let set = sqlx::query("SET SESSION sql_mode = ?").bind(mode);
        set.execute(&mut connection).await.unwrap();
        for message in messages_at_the_limits() {
            let headers: serde_json::Map<_, _> = message
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), value.clone().into()))
                .collect();
            let headers = serde_json::Value::Object(headers).to_string();
            let by_hand = sqlx::query(
                "INSERT INTO posthaste_outbox \
                     (topic, `key`, `type`, payload, headers, content_type) \
                 VALUES (?, ?, ?, ?, ?, ?)",
            )
            .bind(&message.topic)
            .bind(&message.key)
            .bind(&message.event_type)
            .bind(&message.payload[..])
            .bind((!message.headers.is_empty()).then_some(headers))
            .bind(&message.content_type)
            .execute(&mut connection)
            .await;
            let valid = message.validate();
            let headers = &message.headers;
            assert_eq!(
                by_hand.is_ok(),
                valid.is_ok(),
                "{message:?} {headers:.60?}: {valid:?}, {by_hand:?}"
            );
        }
    }
    bed.remove().await;
}

#[tokio::test]
async fn headers_are_an_object_of_strings() {
    let bed = Bed::fresh().await;
    let insert = "INSERT INTO posthaste_outbox (topic, payload, headers) VALUES ('t', '', ?)";
    for (headers, is_taken) in [
        ("{}", true),
        (" {\n\t\"a\" : \"b\" , \"c\" : \"\" } ", true),
        (r#"{"a":"\\n"}"#, true),
        (r#"{"a":"\u00e9"}"#, true),
        ("", false),
        ("[]", false),
        ("1", false),
        ("null", false),
        (r#""text""#, false),
        (r#"{"a":1}"#, false),
        (r#"{"a":null}"#, false),
        (r#"{"a":true}"#, false),
        (r#"{"a":["b"]}"#, false),
        (r#"{"a":{"b":"c"}}"#, false),
        (r#"{"a":"1","a":"2"}"#, false),
        (r#"{"":"1"}"#, false),
        (r#"{ "" :"1"}"#, false),
        (r#"{"a":"\n"}"#, false),
        (r#"{"a":"\u0000"}"#, false),
        (r#"{"a\u007F":""}"#, false),
        ("{\"a\":\"raw\nbreak\"}", false),
        (r#"{"a":"b"} trailing"#, false),
    ] {
        let done = sqlx::query(insert).bind(headers).execute(&bed.pool).await;
        assert_eq!(done.is_ok(), is_taken, "{headers}: {done:?}");
    }
    for id in ["", "x", "00000000-0000-0000-0000-00000000000g", "00000000000000000000000000000000"]
    {
        let insert = "INSERT INTO posthaste_outbox (topic, payload, id) VALUES ('t', '', ?)";
        assert!(sqlx::query(insert).bind(id).execute(&bed.pool).await.is_err(), "{id}");
    }
    bed.remove().await;
}

/// Every column, not only those that a message has.
#[tokio::test]
async fn plain_insert_equals_the_library_in_every_column() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    bed.insert_by_hand("orders", Some("k"), b"\0\xff").await.unwrap();
    let mut transaction = bed.pool.begin().await.unwrap();
    let message = Message::from_bytes("orders", Some("k"), vec![0, 255]);
    enqueue(&mut transaction, &[message]).await.unwrap();
    transaction.commit().await.unwrap();
    let columns = "SELECT topic, `key`, `type`, headers, content_type, payload, payload_bytes, \
                   OCTET_LENGTH(id), \
                   ABS(TIMESTAMPDIFF(SECOND, created_at, UTC_TIMESTAMP(6))) < 60 FROM ";
    for table in ["posthaste_outbox", "posthaste_log"] {
        let rows = sqlx::query(AssertSqlSafe(format!("{columns}{table}")));
        let rows = rows.fetch_all(&bed.pool).await.unwrap();
        assert_eq!(rows.len(), 2, "{table}");
        for column in 0..9 {
            let value = |row: usize| rows[row].try_get_unchecked::<Option<Vec<u8>>, _>(column);
            assert_eq!(value(0).unwrap(), value(1).unwrap(), "column {column} of {table}");
        }
        let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
        assert_eq!(batch.messages.len(), 2);
    }
    bed.remove().await;
}

/// Headers that someone forced past the CHECK stop neither their message nor others.
#[tokio::test]
async fn forced_headers_stop_nobody() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    bed.run(
        "ALTER TABLE posthaste_outbox \
             DROP CONSTRAINT posthaste_outbox_headers, \
             DROP CONSTRAINT posthaste_outbox_headers_names; \
         INSERT INTO posthaste_outbox (topic, payload, headers) \
             VALUES ('t', '1', '[1]'), ('t', '2', '{\"n\": 1}'), ('t', '3', NULL)",
    )
    .await;
    let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(payloads(&batch), [b"1", b"2", b"3"]);
    assert_eq!(batch.messages[1].message.headers, [("n".to_owned(), "1".to_owned())]);
    bed.remove().await;
}

/// Root may write to a server that is read-only, so the setting is looked at.
#[tokio::test]
async fn read_only_server_is_refused() {
    let server = Server::private(Servers::MariaDb, &Options::default()).expect("a MariaDB");
    let bed = Bed::fresh_on(server.url()).await;
    bed.run("SET GLOBAL read_only = 1; CREATE USER app@'127.0.0.1'; GRANT ALL ON *.* TO app@'127.0.0.1'; REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM app@'127.0.0.1'").await;
    assert_eq!(bed.store.check().await.unwrap_err().kind, Kind::ReadOnly);
    let app = MySqlStore::connect(&bed.url.replacen("root@", "app@", 1)).await.unwrap();
    let write = app.append(&[message("1")]).await.unwrap_err();
    assert_eq!(write.kind, Kind::ReadOnly, "{write:?}");
    bed.run("SET GLOBAL read_only = 0").await;
    bed.store.check().await.unwrap();
}

/// A dump that was not taken in one transaction may hold an end of the log below what was read.
#[tokio::test]
async fn end_of_the_log_is_never_below_progress() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    let position = Position::at(40, "");
    bed.store.settle(&grant.lease, &bed::settlement(position.clone())).await.unwrap();
    bed.store.check().await.unwrap();
    bed.store.append(&[message("1")]).await.unwrap();
    let batch = bed.store.fetch(&fetch_after(position)).await.unwrap();
    assert_eq!(payloads(&batch), [b"1"]);
    assert_eq!(batch.messages[0].seq, 41);
    bed.remove().await;
}

#[tokio::test]
async fn errors_say_what_to_do_and_quote_nothing() {
    let bed = Bed::fresh().await;
    let text = |error: posthaste_core::StoreError| format!("{error} {error:?}");
    bed.run(
        "ALTER TABLE posthaste_outbox ADD CONSTRAINT payload_is_not_secret \
             CHECK (payload <> 'hunter2')",
    )
    .await;
    let refused = bed.store.append(&[message("hunter2")]).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    assert!(refused.message.contains("payload_is_not_secret"), "{refused}");
    let shown = text(refused);
    assert!(!shown.contains("hunter2") && !shown.contains("INSERT"), "{shown}");
    assert!(!format!("{:?}", bed.store).contains("127.0.0.1"));

    let denied = bed.url.replacen("root@", "nobody:hunter2@", 1);
    let nowhere = bed.url.replacen("/ph_", "/nowhere_", 1);
    for (url, kind) in [
        (denied.as_str(), Kind::Denied),
        (nowhere.as_str(), Kind::Refused),
        ("mysql://u:hunter2@h:port/db", Kind::Refused),
        ("postgres://u:hunter2@h/db", Kind::Refused),
        ("mysql://u:hunter2@127.0.0.1:1/db", Kind::Unavailable),
    ] {
        let failed = MySqlStore::connect(url).await.unwrap_err();
        assert_eq!(failed.kind, kind, "{failed:?}");
        assert!(!text(failed).contains("hunter2"));
    }
    bed.remove().await;
}
