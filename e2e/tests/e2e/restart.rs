//! A server that goes away and comes back.

use posthaste_e2e::{Load, Stage};
use posthaste_fixtures::{Durability, Postgres};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_and_comes_back_is_served_on_by_the_same_relay() {
    let server = Postgres::private(Durability::Durable).unwrap();
    let stage = Stage::migrated(server.url()).await;
    let relay = stage.relay("patient");
    let load = Load::start(stage.url()).await;
    let mut arrivals = stage.arrivals();
    for _ in 0..2 {
        arrivals.wait_more(200).await;
        server.stop().unwrap();
        relay.wait_log("PH-1001").await;
        server.start_again().unwrap();
        // What was read before the crash may still come; more than that is read after it.
        arrivals.wait_more(500).await;
    }
    let ledger = load.stop().await;
    arrivals.wait_for(&ledger.committed()).await;
    assert_eq!(relay.stop().await, 0);
    let report = ledger.check(arrivals.read());
    assert!(report.is_sound(), "{report}");
}
