//! A server that is moved by `pg_upgrade`.

use posthaste_e2e::{Load, Stage};
use posthaste_fixtures::{Durability, Postgres};

/// `pg_upgrade` makes a cluster with a system identifier of its own, so positions are of another
/// server.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_moved_by_pg_upgrade_is_served_after_it_was_adopted_without_loss() {
    let old = Postgres::private(Durability::Fast).unwrap();
    let mut stage = Stage::migrated(old.url()).await;
    let relay = stage.relay("before");
    let load = Load::start(stage.url()).await;
    let mut arrivals = stage.arrivals();
    arrivals.wait_more(500).await;
    assert_eq!(relay.stop().await, 0);
    // Some messages are delivered, and some are not, when everybody stops for the upgrade.
    let ledger = load.stop().await;
    let delivered = arrivals.read().len();
    assert!(delivered < ledger.committed().len(), "nothing is left to deliver");
    let new = old.upgraded().unwrap();
    let database = stage.url().rsplit_once('/').map(|(_, name)| name.to_owned()).unwrap();
    let server = new.url().rsplit_once('/').map(|(server, _)| server).unwrap();
    stage.connect_to(&format!("{server}/{database}"));
    stage.run(&["relay"]).fails(1, &["PH-1007", "posthaste migrate --adopt"]);
    stage.run(&["migrate", "--adopt"]).ok();
    let relay = stage.relay("after");
    arrivals.wait_for(&ledger.committed()).await;
    assert_eq!(relay.stop().await, 0);
    let report = ledger.check(arrivals.read());
    assert!(report.is_sound(), "{report}");
}
