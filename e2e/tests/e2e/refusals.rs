//! Databases that cannot be served: the program says why and what to do, and ends.

use posthaste_e2e::{Stage, eventually, execute};
use posthaste_fixtures::{Durability, Postgres, postgres};

#[tokio::test(flavor = "multi_thread")]
async fn missing_tables_name_the_command_that_makes_them() {
    let stage = Stage::empty(postgres()).await;
    for command in [&["relay"][..], &["status"], &["dead", "list"]] {
        stage.run(command).fails(1, &["PH-1003", "posthaste migrate"]);
    }
    let doctor = stage.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("posthaste migrate"), "{doctor:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn older_tables_name_the_command_that_moves_them_forward() {
    let stage = Stage::migrated(postgres()).await;
    stage.sql("UPDATE posthaste.migration SET number = number - 1").await;
    stage.run(&["relay"]).fails(1, &["posthaste migrate"]);
    stage.sql("DELETE FROM posthaste.migration").await;
    stage.run(&["relay"]).fails(1, &["posthaste migrate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_tables_are_left_alone() {
    let stage = Stage::migrated(postgres()).await;
    stage.sql("INSERT INTO posthaste.migration (number, name) VALUES (99, 'later')").await;
    for command in ["relay", "migrate", "status"] {
        stage.run(&[command]).fails(1, &["PH-1005", "99", "newer program"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_not_served() {
    let primary = Postgres::private(Durability::Fast).unwrap();
    let mut stage = Stage::migrated(primary.url()).await;
    let standby = primary.standby().unwrap();
    let port = |url: &str| url.split(['@', '/']).nth(3).unwrap().to_owned();
    let (here, there) = (port(primary.url()), port(standby.url()));
    let url = stage.url().replace(&here, &there);
    stage.connect_to(&url);
    stage.run(&["relay"]).fails(1, &["PH-1006", "standby", "connect to the primary"]);
    stage.run(&["relay", "--once"]).fails(1, &["PH-1006"]);
    let doctor = stage.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("connect to the primary"), "{doctor:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_free_connections_is_waited_for() {
    let options = "-c max_connections=12 -c superuser_reserved_connections=1 -c max_wal_senders=0";
    let server = Postgres::private_with(Durability::Fast, options).unwrap();
    let mut stage = Stage::migrated(server.url()).await;
    let grants = "CREATE ROLE common LOGIN;
        GRANT USAGE ON SCHEMA posthaste TO common;
        GRANT ALL ON ALL TABLES IN SCHEMA posthaste TO common;";
    stage.sql(grants).await;
    let url = stage.url().replace("postgres@", "common@");
    stage.connect_to(&url);
    let mut others = Vec::new();
    // Until a common role gets no more.
    while let Ok(connection) = <sqlx::PgConnection as sqlx::Connection>::connect(&url).await {
        others.push(connection);
    }
    stage.run(&["status"]).fails(69, &["PH-1001", "connection"]);
    let relay = stage.relay("patient");
    relay.wait_log("PH-1001").await;
    drop(others);
    relay.wait_log("serving shard").await;
    execute(&url, "INSERT INTO posthaste.outbox (topic, payload) VALUES ('orders', '{}')").await;
    stage.arrivals().wait("arrival", |all| !all.is_empty()).await;
    eventually("connection", async || (stage.run(&["status"]).code == 0).then_some(())).await;
    assert_eq!(relay.stop().await, 0);
}
