//! Topics that nobody asked for yet.

use posthaste::MessageId;
use posthaste_e2e::{Arrivals, Stage, eventually};
use posthaste_fixtures::postgres;

/// Routes of their own for two topics.
const TWO_ROUTES: &str = "[[route]]\nname = \"more\"\ntopics = [\"invoices\"]\n";

/// A stage whose only route takes `orders`, and which keeps nothing that was delivered.
async fn stage_for_orders() -> Stage {
    let stage = Stage::migrated(postgres()).await;
    configure(&stage, "[\"orders\"]", "");
    stage
}

fn configure(stage: &Stage, topics: &str, more: &str) {
    stage.configure(|config| {
        let config = config.replace("[\"*\"]", topics);
        format!("{config}\n{more}\n[retention]\ndelivered = \"0s\"\n")
    });
}

fn send(stage: &Stage, topic: &str) -> MessageId {
    let id = stage.run(&["send", "--topic", topic, "--payload", "{}"]).ok();
    id.trim().parse().expect("it prints the id")
}

/// Sends a message that no route takes and one that a route does, and waits until the latter was
/// delivered and cleaned away. Returns the former.
async fn deliver_all_but_one(stage: &Stage, arrivals: &mut Arrivals) -> MessageId {
    let orphan = send(stage, "invoices");
    let order = send(stage, "orders");
    arrivals.wait_for(&[order]).await;
    eventually("clean log", async || (rows(stage).await == 1).then_some(())).await;
    orphan
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_without_a_route_is_kept_and_reported_until_there_is_one() {
    let stage = stage_for_orders().await;
    let relay = stage.relay("first");
    let mut arrivals = stage.arrivals();
    let orphan = deliver_all_but_one(&stage, &mut arrivals).await;
    let line = relay.wait_log("invoices").await;
    assert!(line.contains("WARN"), "{line}");
    let status = stage.status();
    assert_eq!(status["unrouted"][0]["topic"], "invoices", "{status}");
    assert_eq!(status["unrouted"][0]["messages"], 1, "{status}");
    let doctor = stage.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("no route matches topic"), "{doctor:#?}");
    assert_eq!(relay.stop().await, 0);
    configure(&stage, "[\"orders\"]", TWO_ROUTES);
    let relay = stage.relay("second");
    arrivals.wait_for(&[orphan]).await;
    assert_eq!(arrivals.read().len(), 2, "nothing came twice");
    assert_eq!(relay.stop().await, 0);
}

/// What `doctor` proposes.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_added_to_a_route_is_delivered_from_its_beginning() {
    let stage = stage_for_orders().await;
    let relay = stage.relay("first");
    let mut arrivals = stage.arrivals();
    let orphan = deliver_all_but_one(&stage, &mut arrivals).await;
    assert_eq!(relay.stop().await, 0);
    configure(&stage, "[\"orders\", \"invoices\"]", "");
    let relay = stage.relay("second");
    eventually("clean log", async || (rows(&stage).await == 0).then_some(())).await;
    assert_eq!(relay.stop().await, 0);
    arrivals.wait("message that was kept", |all| all.iter().any(|one| one.id == orphan)).await;
}

/// Messages in the log.
pub(crate) async fn rows(stage: &Stage) -> i64 {
    let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(stage.url())
        .await
        .expect("the server is there");
    let count = sqlx::query_scalar("SELECT count(*) FROM posthaste.outbox");
    count.fetch_one(&mut connection).await.expect("the table is there")
}
