//! Behind PgBouncer in transaction mode, with fewer connections than anyone would like.

use posthaste_e2e::{Arrival, Stage, execute};
use posthaste_fixtures::{Durability, PgBouncer, Postgres};

/// Fewer than one relay alone would use.
const CONNECTIONS: u32 = 2;

#[tokio::test(flavor = "multi_thread")]
async fn everything_works_through_a_pooler_in_transaction_mode() {
    let server = Postgres::private(Durability::Fast).unwrap();
    let pooler = PgBouncer::start(server.url(), CONNECTIONS).unwrap();
    let mut stage = Stage::empty(server.url()).await;
    let url = pooler.url(stage.url());
    assert_ne!(url, stage.url());
    stage.connect_to(&url);
    // Longer than a relay can be kept from renewing: then what another sends again is no mistake.
    stage.configure(|config| {
        format!("{}shards = 4\n", config.replace("lease = \"2s\"", "lease = \"30s\""))
    });
    stage.run(&["migrate"]).ok();
    let relays = [stage.relay("one"), stage.relay("two")];
    for relay in &relays {
        relay.wait_log("serving shard").await;
    }
    let mut arrivals = stage.arrivals();
    let send = ["send", "--topic", "orders", "--key", "a", "--payload", "1", "--count", "500"];
    stage.run(&send).ok();
    // What an application that knows nothing of us does, through the same pooler.
    let insert = "INSERT INTO posthaste.outbox (topic, key, payload)
        SELECT 'orders', 'key-' || n % 10, n::text FROM generate_series(1, 1000) AS n";
    execute(&url, insert).await;
    let all = arrivals.wait("last of 1500 messages", |all| all.len() >= 1500).await;
    assert_eq!(all.len(), 1500, "nothing came twice");
    for key in 0..10 {
        let key = format!("key-{key}");
        let of_key = all.iter().filter(|arrival| arrival.key.as_ref() == Some(&key));
        let seqs: Vec<i64> = of_key.map(|arrival: &Arrival| arrival.seq).collect();
        assert!(seqs.len() == 100 && seqs.is_sorted(), "{key}: {seqs:?}");
    }
    let status = stage.status();
    assert_eq!(status["relays"].as_array().unwrap().len(), 2, "{status}");
    assert_eq!(status["routes"][0]["leases"].as_array().unwrap().len(), 4, "{status}");
    stage.run(&["dead", "list"]).ok();
    let doctor = stage.run(&["doctor"]);
    assert!(doctor.out.contains("tables and server are valid"), "{doctor:#?}");
    for relay in relays {
        assert_eq!(relay.stop().await, 0);
    }
}
