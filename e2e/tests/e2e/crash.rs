//! Relays that are killed.

use posthaste_e2e::{Load, Stage};
use posthaste_fixtures::postgres;

/// Times the relay is killed.
const KILLS: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_killed_at_any_moment_loses_nothing_and_keeps_order() {
    let stage = Stage::migrated(postgres()).await;
    stage.configure(|config| config.replace("lease = \"2s\"", "lease = \"1s\""));
    let load = Load::start(stage.url()).await;
    let mut arrivals = stage.arrivals();
    for _ in 0..KILLS {
        let relay = stage.relay("victim");
        arrivals.wait_more(fastrand::usize(1..1000)).await;
        relay.kill();
    }
    let relay = stage.relay("survivor");
    let ledger = load.stop().await;
    arrivals.wait_for(&ledger.committed()).await;
    assert_eq!(relay.stop().await, 0);
    let report = ledger.check(arrivals.read());
    println!("{report}");
    assert!(report.is_sound(), "{report}");
    assert!(report.committed > 1000, "there was no load: {report}");
}
