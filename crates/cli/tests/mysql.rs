//! The program on MariaDB.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use posthaste_fixtures::{Kind, server};
use sqlx::{Connection, Executor, MySqlConnection};
use support::Bundle;

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_insert_is_relayed_and_the_tools_work() {
    let url = server(Kind::MariaDb).url().trim_end_matches('/').to_owned();
    let database = format!("cli_{}", posthaste_core::MessageId::fresh().0.simple());
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    let create = format!("CREATE DATABASE `{database}`");
    connection.execute(sqlx::AssertSqlSafe(create)).await.unwrap();
    let t = Bundle::new(&format!(
        "[store]\nurl = \"{url}/{database}\"\n[http]\nlisten = \"off\"\n\
         [[broker]]\nname = \"out\"\nurl = \"stdout:\"\n\
         [[broker]]\nname = \"memory\"\nurl = \"memory:\"\n\
         [[route]]\nname = \"all\"\ntopics = [\"*\"]\nbroker = \"out\"\n\
         [[route]]\nname = \"probe\"\ntopics = [\"posthaste.*\"]\nbroker = \"memory\"\n"
    ));
    tokio::task::block_in_place(|| {
        assert!(t.run(&["relay", "--once"]).err.contains("posthaste migrate"));
        t.run(&["migrate"]).expect(0);
    });
    let insert = format!(
        "INSERT INTO `{database}`.posthaste_outbox (topic, `key`, payload) VALUES ('orders', '42', '{{}}')"
    );
    connection.execute(sqlx::AssertSqlSafe(insert)).await.unwrap();
    tokio::task::block_in_place(|| {
        let out = t.run(&["relay", "--once"]).expect(0);
        assert!(out.contains("\"topic\":\"orders\""), "{out}");
        assert!(out.contains("\"key\":\"42\""), "{out}");
        t.run(&["verify", "probe", "--count", "100"]).expect(0);
        assert!(t.run(&["status"]).expect(0).contains("all"));
        let doctor = t.run(&["doctor"]).out;
        assert!(doctor.contains("tables and server are valid"), "{doctor}");
        assert!(t.run(&["migrate", "--print", "mysql"]).expect(0).contains("posthaste_outbox"));
    });
    let drop = format!("DROP DATABASE `{database}`");
    connection.execute(sqlx::AssertSqlSafe(drop)).await.unwrap();
}
