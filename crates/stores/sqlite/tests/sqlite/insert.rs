//! Enqueueing by plain `INSERT`: the same limits and the same message as through the library.

use posthaste_core::{Message, PAYLOAD_BYTES_MAX, Store};
use posthaste_store_sqlite::enqueue;
use sqlx::{AssertSqlSafe, SqlitePool};

use crate::{bed::Bed, read_messages};

const PLAIN_INSERT: &str = "INSERT INTO posthaste_outbox (topic, key, payload) VALUES (?1, ?2, ?3)";

#[tokio::test]
async fn plain_insert_and_library_give_the_same_message() {
    let bed = Bed::fresh().await;
    sqlx::raw_sql(
        r#"INSERT INTO posthaste_outbox (topic, key, payload) VALUES ('t', 'k', '{"a":"é"}')"#,
    )
    .execute(&bed.app)
    .await
    .unwrap();
    let mut tx = bed.begin().await;
    let message = Message::from_bytes("t", Some("k"), r#"{"a":"é"}"#);
    enqueue(&mut tx, &[message]).await.unwrap();
    tx.commit().await.unwrap();

    let mut messages = read_messages(&bed.store).await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0].id.0.get_version_num(), 4);
    assert_ne!(messages[0].id, messages[1].id);
    messages[0].id = messages[1].id;
    assert_eq!(messages[0], messages[1]);
}

#[tokio::test]
async fn headers_keep_their_order_on_both_ways_in() {
    let bed = Bed::fresh().await;
    sqlx::raw_sql(
        r#"INSERT INTO posthaste_outbox (topic, payload, headers)
           VALUES ('t', '', '{"z": "1", "a": "\ud83d\ude42", "\\u0000": ""}')"#,
    )
    .execute(&bed.app)
    .await
    .unwrap();
    let message =
        Message::from_bytes("t", None, "").header("z", "1").header("a", "🙂").header("\\u0000", "");
    bed.store.append(&[message]).await.unwrap();
    let messages = read_messages(&bed.store).await;
    assert_eq!(messages[0].headers, messages[1].headers);
}

/// The table's constraints against `Message::validate`, each limit from both sides.
#[tokio::test]
async fn table_refuses_exactly_what_the_library_refuses() {
    let bed = Bed::fresh().await;
    let plain = || Message::from_bytes("t", Some("k"), "{}");
    let mut cases = vec![plain()];
    let odd_names = ["", "a\nb", "a\0b", "\0", "\u{7f}", "\u{1f}", "é\u{80}", "[^]*?"];
    let lengths = [255, 256, 1024, 1025].map(|length| "x".repeat(length));
    let wide = ["é".repeat(127), "é".repeat(128)];
    let names = odd_names.map(str::to_owned).into_iter();
    for name in names.chain(lengths).chain(wide) {
        cases.push(Message { topic: name.clone(), ..plain() });
        cases.push(Message { key: Some(name.clone()), ..plain() });
        cases.push(plain().event_type(&name));
        cases.push(plain().content_type(&name));
        cases.push(plain().header(&name, "value"));
        cases.push(plain().header("name", &name));
        cases.push(plain().header("same", "1").header("same", name));
    }
    for bytes in [65_536 - 4, 65_536 - 3] {
        cases.push(plain().header("name", "v".repeat(bytes)));
    }
    for bytes in [PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 1] {
        cases.push(Message::from_bytes("t", None, vec![0xff; bytes]));
    }
    for message in cases {
        let by_hand = insert_all_columns(&bed.app, &message).await;
        let by_library = message.validate();
        assert_eq!(by_hand.is_ok(), by_library.is_ok(), "{message:?}: {by_hand:?}, {by_library:?}");
    }
}

/// What `enqueue` would write, without its validation.
async fn insert_all_columns(pool: &SqlitePool, message: &Message) -> Result<(), sqlx::Error> {
    let members: Vec<String> = message
        .headers
        .iter()
        .map(|(name, value)| {
            let quote = |text: &String| serde_json::Value::from(text.as_str()).to_string();
            format!("{}:{}", quote(name), quote(value))
        })
        .collect();
    sqlx::query(
        "INSERT INTO posthaste_outbox (topic, key, type, headers, content_type, payload)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .bind(&message.topic)
    .bind(&message.key)
    .bind(&message.event_type)
    .bind(format!("{{{}}}", members.join(",")))
    .bind(&message.content_type)
    .bind(message.payload.as_ref())
    .execute(pool)
    .await
    .map(drop)
}

#[tokio::test]
async fn table_refuses_what_the_library_cannot_even_say() {
    let bed = Bed::fresh().await;
    bed.store.append(&[Message::from_bytes("t", None, "")]).await.unwrap();
    sqlx::raw_sql("DELETE FROM posthaste_outbox").execute(&bed.app).await.unwrap();
    for (columns, values) in [
        ("seq, topic, payload", "1, 't', ''"),
        ("seq, topic, payload", "-5, 't', ''"),
        ("id, topic, payload", "'no-uuid', 't', ''"),
        ("topic, payload", "'t', 7"),
        ("topic, payload", "'t', NULL"),
        ("topic, payload", "x'ff', ''"),
        ("topic, payload, created_at", "'t', '', -1"),
        ("topic, payload, headers", "'t', '', '[]'"),
        ("topic, payload, headers", "'t', '', 'no json'"),
        ("topic, payload, headers", r#"'t', '', '{"a": 1}'"#),
        ("topic, payload, headers", r#"'t', '', '{"a": null}'"#),
        ("topic, payload, headers", r#"'t', '', '{"a": {"b": "c"}}'"#),
        ("topic, payload, headers", r#"'t', '', '{"a": "\ud800"}'"#),
    ] {
        let sql = format!("INSERT INTO posthaste_outbox ({columns}) VALUES ({values})");
        let inserted = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&bed.app).await;
        assert!(inserted.is_err(), "({columns}) VALUES ({values})");
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_does_not_stop_the_log() {
    let bed = Bed::fresh().await;
    sqlx::raw_sql(
        "INSERT INTO posthaste_outbox (topic, key, payload)
         VALUES (CAST(x'74ff' AS TEXT), CAST(x'80' AS TEXT), CAST(x'ff' AS TEXT))",
    )
    .execute(&bed.app)
    .await
    .unwrap();
    let messages = read_messages(&bed.store).await;
    assert_eq!(messages[0].topic, "t\u{fffd}");
    assert_eq!(messages[0].payload.as_ref(), [0xff]);
}

#[tokio::test]
async fn any_bytes_come_back_as_they_went_in() {
    let bed = Bed::fresh().await;
    let payloads = [
        vec![],
        vec![0],
        vec![0xff, 0, 0xfe, b'\r', b'\n'],
        (0..=255).collect(),
        vec![0xab; PAYLOAD_BYTES_MAX],
    ];
    for payload in &payloads {
        let message = Message::from_bytes("t", Some("k"), payload.clone());
        bed.store.append(&[message]).await.unwrap();
        let insert = sqlx::query(PLAIN_INSERT).bind("t").bind("k").bind(payload);
        insert.execute(&bed.app).await.unwrap();
    }
    let read = read_messages(&bed.store).await;
    for (index, payload) in payloads.iter().enumerate() {
        assert_eq!(&read[2 * index].payload, payload, "by the library");
        assert_eq!(&read[2 * index + 1].payload, payload, "by hand");
    }
}
