//! Relays that take over from each other.

use std::time::Duration;

use posthaste_e2e::{Load, Running, Stage, eventually};
use posthaste_fixtures::postgres;
use serde_json::Value;
use sqlx::{Connection, PgConnection};

/// Times a relay is told to stop.
const STOPS: usize = 100;

/// Tries to stop a relay at a certain moment.
const FREEZES_MAX: usize = 300;

/// Two of one name, and a third.
const NAMES: [&str; 3] = ["twin", "twin", "third"];

/// A stage whose leases end only where a test has a relay killed or stopped: longer than a loaded
/// machine keeps a relay from renewing.
async fn unhurried() -> Stage {
    let stage = Stage::migrated(postgres()).await;
    stage.configure(|config| config.replace("lease = \"2s\"", "lease = \"15s\""));
    stage
}

/// Waits until one of them serves; returns which.
async fn serving(relays: &[Running]) -> usize {
    eventually("relay that serves", async || relays.iter().position(Running::is_serving)).await
}

fn lease(status: &Value) -> &Value {
    &status["routes"][0]["leases"][0]
}

#[tokio::test(flavor = "multi_thread")]
async fn of_three_relays_one_serves_and_another_takes_over_when_it_is_killed() {
    let stage = unhurried().await;
    let mut relays: Vec<Running> = NAMES.iter().map(|name| stage.relay(name)).collect();
    let mut arrivals = stage.arrivals();
    let load = Load::start(stage.url()).await;
    arrivals.wait_more(100).await;
    eventually("third relay", async || {
        (stage.status()["relays"].as_array().map(Vec::len) == Some(3)).then_some(())
    })
    .await;
    let epoch = lease(&stage.status())["epoch"].as_i64().unwrap();
    let first = relays.remove(serving(&relays).await);
    assert!(!relays.iter().any(Running::is_serving), "one shard is served by one");
    first.kill();
    serving(&relays).await;
    arrivals.wait_more(100).await;
    assert_eq!(lease(&stage.status())["epoch"], epoch + 1);
    let ledger = load.stop().await;
    arrivals.wait_for(&ledger.committed()).await;
    for relay in relays {
        assert_eq!(relay.stop().await, 0);
    }
    let report = ledger.check(arrivals.read());
    assert!(report.is_sound(), "{report}");
}

/// The lease is longer than anyone waits here, so that nobody could take over by its end.
#[tokio::test(flavor = "multi_thread")]
async fn relays_told_to_stop_hand_over_at_once_and_send_nothing_twice() {
    let stage = Stage::migrated(postgres()).await;
    stage.configure(|config| config.replace("lease = \"2s\"", "lease = \"10m\""));
    let mut relays: Vec<Running> = NAMES.iter().map(|name| stage.relay(name)).collect();
    let load = Load::start(stage.url()).await;
    let mut arrivals = stage.arrivals();
    for _ in 0..STOPS {
        arrivals.wait_more(fastrand::usize(1..40)).await;
        let stopped = relays.remove(serving(&relays).await);
        assert_eq!(stopped.stop().await, 0);
        relays.push(stage.relay("twin"));
    }
    let ledger = load.stop().await;
    arrivals.wait_for(&ledger.committed()).await;
    for relay in relays {
        assert_eq!(relay.stop().await, 0);
    }
    let status = stage.status();
    assert_eq!(lease(&status)["relay"], Value::Null, "{status}");
    assert_eq!(status["relays"], Value::Array(Vec::new()));
    let report = ledger.check(arrivals.read());
    assert!(report.is_exact(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_wakes_up_after_its_lease_stops_before_it_harms_order() {
    let stage = unhurried().await;
    let sleeper = stage.relay("sleeper");
    sleeper.wait_log("serving shard").await;
    let other = stage.relay("other");
    let load = Load::start(stage.url()).await;
    let mut arrivals = stage.arrivals();
    arrivals.wait_more(200).await;
    sleeper.signal("STOP");
    // The sleeper's lease has passed, by the one clock that both have.
    other.wait_log("serving shard").await;
    arrivals.wait_more(500).await;
    sleeper.signal("CONT");
    sleeper.wait_log("stopped serving shard").await;
    arrivals.wait_more(200).await;
    assert!(other.is_serving() && !sleeper.is_serving());
    let ledger = load.stop().await;
    arrivals.wait_for(&ledger.committed()).await;
    assert_eq!(sleeper.stop().await, 0);
    assert_eq!(other.stop().await, 0);
    let report = ledger.check(arrivals.read());
    assert!(report.is_sound(), "{report}");
}

/// The session of a relay that holds a lock on a lease and waits for the relay to go on.
const HOLDING: &str = "SELECT pid::text || ' ' || xact_start FROM pg_stat_activity
    JOIN pg_locks USING (pid)
    WHERE application_name = 'posthaste' AND state = 'idle in transaction'
        AND relation = 'posthaste.lease'::regclass
        AND mode IN ('RowShareLock', 'RowExclusiveLock')";

/// Stops the relay again and again until it is between a statement and its commit; after many tries
/// wherever it is.
async fn freeze_inside_a_transaction(relay: &Running, url: &str) {
    let mut connection = PgConnection::connect(url).await.expect("the server is there");
    let mut holding = async || -> Option<String> {
        // The server finishes what it was told before, and what is seen twice is there to stay.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let holding = sqlx::query_scalar(HOLDING).fetch_optional(&mut connection).await;
        holding.expect("the views are there")
    };
    for _ in 0..FREEZES_MAX {
        relay.signal("STOP");
        let frozen = holding().await;
        if frozen.is_some() && holding().await == frozen {
            return;
        }
        relay.signal("CONT");
    }
    println!("not caught inside a transaction");
    relay.signal("STOP");
}

/// As a machine that is suspended, or gone from the network: its connection stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_frozen_inside_a_transaction_keeps_nobody_from_taking_over() {
    let stage = Stage::migrated(postgres()).await;
    // Many shards settle often.
    stage.configure(|config| format!("{config}shards = 16\n"));
    let sleeper = stage.relay("sleeper");
    let load = Load::start(stage.url()).await;
    let mut arrivals = stage.arrivals();
    arrivals.wait_more(100).await;
    freeze_inside_a_transaction(&sleeper, stage.url()).await;
    let other = stage.relay("other");
    eventually("relay that serves all shards", async || {
        (other.log().matches(" serving shard").count() >= 16).then_some(())
    })
    .await;
    arrivals.wait_more(100).await;
    sleeper.signal("CONT");
    sleeper.wait_log("stopped serving shard").await;
    let ledger = load.stop().await;
    arrivals.wait_for(&ledger.committed()).await;
    assert_eq!(sleeper.stop().await, 0);
    assert_eq!(other.stop().await, 0);
    let report = ledger.check(arrivals.read());
    assert!(report.is_sound(), "{report}");
}
