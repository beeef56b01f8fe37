//! Roles that may do what they must, and nothing else.

use posthaste_e2e::{Stage, execute};
use posthaste_fixtures::postgres;

/// Roles are the server's, not the database's: their names carry the database's.
struct Roles {
    application: String,
    relay: String,
}

fn name(stage: &Stage) -> &str {
    stage.url().rsplit('/').next().expect("the URL ends with the database")
}

/// Makes an application's role and a relay's role.
async fn grant(stage: &Stage) -> Roles {
    let name = name(stage);
    let (application, relay) = (format!("app_{name}"), format!("relay_{name}"));
    let sql = format!(
        "CREATE ROLE {application} LOGIN;
         GRANT USAGE ON SCHEMA posthaste TO {application};
         GRANT INSERT ON posthaste.outbox TO {application};
         CREATE ROLE {relay} LOGIN;
         GRANT USAGE ON SCHEMA posthaste TO {relay};
         GRANT SELECT ON ALL TABLES IN SCHEMA posthaste TO {relay};
         GRANT DELETE ON posthaste.outbox TO {relay};
         GRANT INSERT, UPDATE, DELETE ON posthaste.route, posthaste.lease, posthaste.progress,
             posthaste.relay, posthaste.parked, posthaste.identity TO {relay};"
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
    stage.arrivals().wait("arrival", |all| !all.is_empty()).await;
    stage.run(&["status"]).ok();
    stage.run(&["dead", "list"]).ok();
    assert_eq!(relay.stop().await, 0);
    let doctor = stage.run(&["doctor"]);
    assert!(doctor.out.contains("tables and server are as they should be"), "{doctor:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_role_may_not_do_is_named() {
    let mut stage = Stage::migrated(postgres()).await;
    let roles = grant(&stage).await;
    let owner = stage.url().to_owned();
    stage.connect_to(&roles.application);
    stage.run(&["relay"]).fails(77, &["PH-1008", "permission denied", "grant it"]);
    stage.connect_to(&roles.relay);
    let send = ["send", "--topic", "orders", "--payload", "{}"];
    stage.run(&send).fails(77, &["PH-1008", "permission denied for table outbox"]);
    let role = roles.relay.split(['/', '@']).nth(2).unwrap();
    execute(&owner, &format!("REVOKE INSERT ON posthaste.progress FROM {role}")).await;
    execute(&owner, "INSERT INTO posthaste.outbox (topic, payload) VALUES ('orders', '{}')").await;
    let relay = stage.relay("denied");
    let line = relay.wait_log("PH-1008").await;
    assert!(line.contains("permission denied for table progress"), "{line}");
}
