//! Payloads are stored as they are given, by every way to enqueue that the documentation shows.

mod bed;

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use bed::{Bed, server};
use posthaste_conformance::store::TestBed;
use posthaste_fixtures::python;
use posthaste_store_postgres::migrate;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Row};

/// Texts that some way from a program to a table could change.
const TEXTS: &[&str] = &[
    "",
    "{\"state\":\"placed\"}",
    r#"{"path":"C:\\dir\\new"}"#,
    r#"{"text":"line\nnext\ttab \u00e4 \" \/ \b"}"#,
    r"a\101b",
    r"\\",
    r"\",
    r"\x",
    r"\x00ff",
    r"\xzz",
    "line\nnext\r\n\ttab",
    "it's $1 and $$ and %s and ? and :name",
    "ä € 𝄞 \u{feff}",
    "'); DROP TABLE posthaste.outbox; --",
];

/// What is stored, in the order of enqueueing.
async fn stored(pool: &PgPool) -> Vec<Vec<u8>> {
    let sql = "SELECT coalesce(payload_binary, convert_to(payload, 'UTF8')) \
               FROM posthaste.outbox ORDER BY seq";
    sqlx::query_scalar(sql).fetch_all(pool).await.expect("a valid statement")
}

fn texts() -> Vec<Vec<u8>> {
    TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A literal as people write it, with nothing but its quotes doubled.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[tokio::test]
async fn a_literal_is_text_and_stored_as_it_is() {
    let bed = Bed::fresh().await;
    for text in TEXTS {
        let sql = format!("SELECT posthaste.enqueue('orders', '42', {})", literal(text));
        bed.pool.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.unwrap();
    }
    assert_eq!(stored(&bed.pool).await, texts());
    bed.remove().await;
}

#[tokio::test]
async fn a_plain_insert_stores_text_as_it_is_or_refuses_it() {
    let bed = Bed::fresh().await;
    let mut expected = Vec::new();
    for text in TEXTS {
        let sql = format!(
            "INSERT INTO posthaste.outbox (topic, key, payload) VALUES ('orders', '42', {})",
            literal(text)
        );
        let by_literal = bed.pool.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await;
        let sql = "INSERT INTO posthaste.outbox (topic, payload) VALUES ('orders', $1)";
        let by_parameter = sqlx::query(sql).bind(text).execute(&bed.pool).await;
        for done in [by_literal, by_parameter] {
            match done {
                Ok(_) => expected.push(text.as_bytes().to_vec()),
                Err(error) => {
                    assert!(text.starts_with(r"\x"), "{text}: {error}");
                    assert!(error.to_string().contains("payload_is_text_and_no_bytea"), "{error}");
                }
            }
        }
    }
    assert!(expected.len() >= TEXTS.len(), "few were taken: {}", expected.len());
    assert_eq!(stored(&bed.pool).await, expected);
    bed.remove().await;
}

/// Bytes are refused where text belongs, rather than read as something else.
#[tokio::test]
async fn a_plain_insert_takes_either_text_or_bytes() {
    let bed = Bed::fresh().await;
    for (columns, values, said) in [
        ("payload", r"'\x00ff'::bytea", "payload_is_text_and_no_bytea"),
        ("payload", r"'a'::bytea", "payload_is_text_and_no_bytea"),
        ("payload, payload_binary", "'a', 'b'", "payload_or_payload_binary_is_given_and_not_both"),
        ("payload", "NULL", "payload_or_payload_binary_is_given_and_not_both"),
        ("payload", "repeat('x', 8388609)", "payload_is_at_most_8_mib"),
        ("payload_binary", "decode(repeat('00', 8388609), 'hex')", "payload_binary_is_at_most"),
    ] {
        let sql = format!("INSERT INTO posthaste.outbox (topic, {columns}) VALUES ('t', {values})");
        let error = bed.pool.execute(AssertSqlSafe(sql)).await.unwrap_err();
        assert!(error.to_string().contains(said), "{values}: {error}");
    }
    let bytes = r"INSERT INTO posthaste.outbox (topic, payload_binary) VALUES ('t', '\x00ff')";
    bed.run(bytes).await;
    assert_eq!(stored(&bed.pool).await, [[0, 255]]);
    bed.remove().await;
}

#[tokio::test]
async fn psql_stores_literals_and_variables_as_they_are() {
    let bed = Bed::fresh().await;
    let mut script = String::new();
    for text in TEXTS.iter().filter(|text| !text.contains(['\n', '\r'])) {
        let literal = literal(text);
        script += &format!("SELECT posthaste.enqueue('orders', NULL, {literal});\n");
        script += &format!("\\set payload {}\n", literal.replace('\\', r"\\"));
        script += "SELECT posthaste.enqueue('orders', NULL, :'payload');\n";
    }
    let mut psql = Command::new("psql")
        .args(["-q", "-X", "-v", "ON_ERROR_STOP=1", &bed.url])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("psql, of Debian's package postgresql-client");
    psql.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(psql.wait().unwrap().success());
    let expected: Vec<Vec<u8>> = texts()
        .into_iter()
        .filter(|text| !text.contains(&b'\n'))
        .flat_map(|text| [text.clone(), text])
        .collect();
    assert_eq!(stored(&bed.pool).await, expected);
    bed.remove().await;
}

/// psycopg leaves the type of strings open, as most drivers do; binds on the server and by itself;
/// and has types of its own for JSON.
#[tokio::test]
async fn psycopg_stores_payloads_as_they_are() {
    let bed = Bed::fresh().await;
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let python = python(&["psycopg[binary]==3.2.3"], cache).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/enqueue.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let request = json!({ "url": bed.url, "texts": TEXTS });
    child.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let ways: BTreeMap<String, Vec<Option<String>>> =
        serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(ways.len(), 17, "{:?}", ways.keys());
    for (way, payloads) in ways {
        assert_eq!(payloads.len(), TEXTS.len(), "{way}");
        for (payload, text) in payloads.iter().zip(TEXTS) {
            let refused = way.ends_with(" INSERT") && text.starts_with(r"\x");
            assert_eq!(payload.is_none(), refused, "{way}: {text:?}");
            let Some(payload) = payload else { continue };
            if way.contains("json") {
                let document: Value = serde_json::from_slice(&bytes(payload)).unwrap();
                assert_eq!(document, json!({ "text": text }), "{way}");
            } else {
                assert_eq!(bytes(payload), text.as_bytes(), "{way}: {text:?}");
            }
        }
    }
    bed.remove().await;
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().collect();
    let byte =
        |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).expect("two digits");
    digits.chunks(2).map(byte).collect()
}

#[tokio::test]
async fn every_form_stores_what_it_was_given_and_returns_the_id() {
    let bed = Bed::fresh().await;
    let id = uuid::Uuid::from_u128(7);
    for (payload, expected) in [
        (r#"'{"b" :1,  "a":"\\n"}'::json"#, r#"{"b" :1,  "a":"\\n"}"#),
        (r#"'{"b" :1,  "a":"\\n"}'::jsonb"#, r#"{"a": "\\n", "b": 1}"#),
        (r"'\x5c6e'::bytea", r"\n"),
        (r"'a\101b'::varchar", r"a\101b"),
        (r"'a\101b'", r"a\101b"),
    ] {
        let sql = format!(
            "SELECT posthaste.enqueue('t', payload => {payload}, key => 'k', type => 'T', \
                 headers => '{{\"a\": \"b\"}}', content_type => 'c', id => $1)"
        );
        let returned: uuid::Uuid =
            sqlx::query_scalar(AssertSqlSafe(sql)).bind(id).fetch_one(&bed.pool).await.unwrap();
        assert_eq!(returned, id);
        let row = sqlx::query(
            "DELETE FROM posthaste.outbox \
             RETURNING coalesce(payload_binary, convert_to(payload, 'UTF8')), id, key, type, headers::text, content_type",
        );
        let row = row.fetch_one(&bed.pool).await.unwrap();
        assert_eq!(row.get::<&[u8], _>(0), expected.as_bytes(), "{payload}");
        assert_eq!(row.get::<uuid::Uuid, _>(1), id);
        let texts: [&str; 4] = [2, 3, 4, 5].map(|column| row.get(column));
        assert_eq!(texts, ["k", "T", r#"{"a": "b"}"#, "c"]);
    }
    let returned: uuid::Uuid = sqlx::query_scalar("SELECT posthaste.enqueue('t', NULL, 'x')")
        .fetch_one(&bed.pool)
        .await
        .unwrap();
    let row =
        sqlx::query("SELECT id, key, type, headers::text, content_type FROM posthaste.outbox");
    let row = row.fetch_one(&bed.pool).await.unwrap();
    assert_eq!(row.get::<uuid::Uuid, _>(0), returned);
    for column in 1..=3 {
        assert_eq!(row.get::<Option<&str>, _>(column), None);
    }
    assert_eq!(row.get::<&str, _>(4), "application/json", "as for a plain INSERT");
    bed.remove().await;
}

#[tokio::test]
async fn the_function_obeys_the_limits_of_the_table() {
    let bed = Bed::fresh().await;
    for (call, constraint) in [
        ("enqueue('', NULL, 'x')", "topic_is_1_to_255"),
        ("enqueue('t', '', 'x')", "key_is_null_or"),
        ("enqueue('t', NULL, repeat('x', 8388609))", "payload_binary_is_at_most"),
        ("enqueue('t', NULL, 'x', headers => '{\"a\": 1}')", "headers_is_an_object"),
        ("enqueue('t', NULL, NULL::text)", "payload"),
    ] {
        let sql = format!("SELECT posthaste.{call}");
        let error = bed.pool.execute(AssertSqlSafe(sql)).await.unwrap_err();
        assert!(error.to_string().contains(constraint), "{call}: {error}");
    }
    assert!(stored(&bed.pool).await.is_empty());
    bed.remove().await;
}

/// Whatever the database stores text in, the payload is its UTF-8; what is no text is refused.
#[tokio::test]
async fn payloads_are_utf_8_in_databases_of_other_encodings() {
    let mut admin = PgConnection::connect(server()).await.unwrap();
    for (encoding, text) in [("LATIN1", "ä\\n"), ("SQL_ASCII", "ä\\n"), ("EUC_JP", "漢字\\n")] {
        let name = format!("{}_{}", encoding.to_lowercase(), std::process::id());
        let create =
            format!("CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'");
        admin.execute(AssertSqlSafe(create)).await.unwrap();
        let (root, _) = server().rsplit_once('/').unwrap();
        let pool = PgPool::connect(&format!("{root}/{name}")).await.unwrap();
        migrate(&pool).await.unwrap();
        for enqueue in [
            "SELECT posthaste.enqueue('t', NULL, $1)",
            "INSERT INTO posthaste.outbox (topic, payload) VALUES ('t', $1)",
        ] {
            sqlx::query(enqueue).bind(text).execute(&pool).await.unwrap();
        }
        assert_eq!(stored(&pool).await, [text.as_bytes(); 2], "{encoding}");
        if encoding == "SQL_ASCII" {
            // Bytes that are no UTF-8, which such a database takes for text.
            let sql = "INSERT INTO posthaste.outbox (topic, payload) VALUES ('t', E'\\xff')";
            let error = pool.execute(sql).await.unwrap_err();
            assert!(error.to_string().contains("UTF8"), "{error}");
        }
        pool.close().await;
        let drop = format!("DROP DATABASE {name}");
        admin.execute(AssertSqlSafe(drop)).await.unwrap();
    }
}
