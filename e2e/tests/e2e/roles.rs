//! Roles that may do what they must, and nothing else.

use posthaste_e2e::{Stage, eventually, execute};
use posthaste_fixtures::postgres;

use crate::routes::rows;

/// Roles are the server's, not the database's: their names carry the database's.
struct Roles {
    application: String,
    relay: String,
}

fn name(stage: &Stage) -> &str {
    stage.url().rsplit('/').next().expect("the URL ends with the database")
}

/// What the documentation tells people to run, for roles `app` and `relay`.
fn documented() -> &'static str {
    let page = include_str!("../../../docs/reference/outbox-table.md");
    let (_, grants) = page.split_once("## Grants").expect("the page has the section");
    let (_, grants) = grants.split_once("```sql\n").expect("the section has the statements");
    grants.split_once("```").expect("they end").0
}

/// Makes an application's role and a relay's role, with the grants of the documentation. Both look
/// for tables in a schema that has others of the same names, which fit nothing.
async fn grant(stage: &Stage) -> Roles {
    let name = name(stage);
    let (application, relay) = (format!("app_{name}"), format!("relay_{name}"));
    let grants = documented();
    assert!(grants.contains(" TO app;") && grants.contains(" TO relay;"), "{grants}");
    let grants = grants.replace(" TO app;", &format!(" TO {application};"));
    let grants = grants.replace(" TO relay;", &format!(" TO {relay};"));
    let sql = format!(
        "CREATE ROLE {application} LOGIN;
         CREATE ROLE {relay} LOGIN;
         {grants}
         CREATE SCHEMA decoy;
         DO $$
         DECLARE name text;
         BEGIN
             FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'posthaste' LOOP
                 EXECUTE format('CREATE TABLE decoy.%I ()', name);
             END LOOP;
         END $$;
         GRANT USAGE ON SCHEMA decoy TO {application}, {relay};
         GRANT ALL ON ALL TABLES IN SCHEMA decoy TO {application}, {relay};
         ALTER ROLE {application} SET search_path = decoy;
         ALTER ROLE {relay} SET search_path = decoy;"
    );
    stage.sql(&sql).await;
    let url = |role: &str| stage.url().replace("postgres@", &format!("{role}@"));
    Roles { application: url(&application), relay: url(&relay) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_needs_insert_only_and_a_relay_owns_nothing() {
    let mut stage = Stage::migrated(postgres()).await;
    let roles = grant(&stage).await;
    stage.connect_to(&roles.relay);
    stage.configure(|config| format!("{config}\n[retention]\ndelivered = \"0s\"\n"));
    let relay = stage.relay("humble");
    let insert = "INSERT INTO posthaste.outbox (topic, key, payload) VALUES ('orders', 'a', '{}')";
    execute(&roles.application, insert).await;
    execute(&roles.application, "SELECT posthaste.enqueue('orders', 'a', '{}')").await;
    stage.arrivals().wait("arrival", |all| all.len() == 2).await;
    eventually("clean log", async || (rows(&stage).await == 0).then_some(())).await;
    stage.run(&["status"]).ok();
    stage.run(&["dead", "list"]).ok();
    assert_eq!(relay.stop().await, 0);
    let doctor = stage.run(&["doctor"]);
    assert!(doctor.out.contains("tables and server are valid"), "{doctor:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_role_may_not_do_is_named() {
    let mut stage = Stage::migrated(postgres()).await;
    let roles = grant(&stage).await;
    let owner = stage.url().to_owned();
    stage.connect_to(&roles.application);
    stage.run(&["relay"]).fails(77, &["PH-1008", "permission denied", "grant it"]);
    stage.connect_to(&roles.relay);
    let role = roles.relay.split(['/', '@']).nth(2).unwrap();
    execute(&owner, &format!("REVOKE INSERT ON posthaste.outbox FROM {role}")).await;
    let send = ["send", "--topic", "orders", "--payload", "{}"];
    stage.run(&send).fails(77, &["PH-1008", "permission denied for table outbox"]);
    execute(&owner, &format!("REVOKE INSERT ON posthaste.progress FROM {role}")).await;
    execute(&owner, "INSERT INTO posthaste.outbox (topic, payload) VALUES ('orders', '{}')").await;
    let relay = stage.relay("denied");
    let line = relay.wait_log("PH-1008").await;
    assert!(line.contains("permission denied for table progress"), "{line}");
}
