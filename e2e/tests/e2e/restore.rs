//! A dump that is restored into another server.

use std::process::{Command, Stdio};

use posthaste_e2e::{Load, Stage};
use posthaste_fixtures::{Durability, Postgres, fresh_database, postgres};

/// Dumps one database into another.
fn copy(server: &Postgres, from: &str, to: &str) {
    let program = |name: &str| Command::new(server.program_folder().expect("ours").join(name));
    let mut dump = program("pg_dump")
        .args(["--dbname", from])
        .stdout(Stdio::piped())
        .spawn()
        .expect("pg_dump comes with the server");
    let restored = program("psql")
        .args(["--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", to])
        .stdin(dump.stdout.take().expect("it is piped"))
        .stdout(Stdio::null())
        .status()
        .expect("psql comes with the server");
    assert!(restored.success() && dump.wait().is_ok_and(|status| status.success()));
}

#[tokio::test(flavor = "multi_thread")]
async fn data_restored_into_another_server_is_served_after_it_was_adopted_without_loss() {
    let other = Postgres::private(Durability::Fast).unwrap();
    let mut stage = Stage::migrated(postgres()).await;
    let relay = stage.relay("before");
    let load = Load::start(stage.url()).await;
    let mut arrivals = stage.arrivals();
    arrivals.wait_more(500).await;
    assert_eq!(relay.stop().await, 0);
    // Some messages are delivered, and some are not, when everybody stops for the move.
    let ledger = load.stop().await;
    let delivered = arrivals.read().len();
    assert!(delivered < ledger.committed().len(), "nothing is left to deliver");
    let restored = fresh_database(other.url()).await.unwrap();
    copy(&other, stage.url(), &restored);
    stage.connect_to(&restored);
    stage.run(&["relay"]).fails(1, &["PH-1007", "posthaste migrate --adopt"]);
    stage.run(&["migrate", "--adopt"]).ok();
    let relay = stage.relay("after");
    arrivals.wait_for(&ledger.committed()).await;
    assert_eq!(relay.stop().await, 0);
    let report = ledger.check(arrivals.read());
    assert!(report.is_sound(), "{report}");
}
