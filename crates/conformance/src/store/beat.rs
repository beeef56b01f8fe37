//! Relays that say they are there, so that others can tell their fair share.

use std::time::Duration;

use posthaste_core::{RelayBeat, RelayId, StoreError};

use super::{
    case::cases,
    kit::{Kit, TTL},
};

cases! { "beat";
    Nothing: [
        relays_count_each_other_per_route,
        beating_again_counts_once,
        relay_that_is_silent_no_longer_counts,
        retired_relay_is_gone_at_once,
        relay_may_serve_other_routes_than_before,
    ],
}

fn relay(routes: &[&str]) -> RelayBeat {
    RelayBeat {
        id: RelayId::fresh(),
        name: "relay".to_owned(),
        version: "1.2.3".to_owned(),
        routes: routes.iter().map(|&route| route.to_owned()).collect(),
        paused: Vec::new(),
    }
}

/// The routes need not be registered to be served, but they are, as in life.
async fn register(kit: &Kit) -> Result<(), StoreError> {
    for route in ["one", "two", "three"] {
        kit.register(route, &["*"], 1).await?;
    }
    Ok(())
}

async fn relays_count_each_other_per_route(kit: Kit) -> Result<(), StoreError> {
    register(&kit).await?;
    let first = relay(&["one", "two"]);
    assert_eq!(kit.store.beat(&first, TTL).await?, [1, 1]);
    let second = relay(&["three", "two"]);
    assert_eq!(kit.store.beat(&second, TTL).await?, [1, 2]);
    assert_eq!(kit.store.beat(&first, TTL).await?, [1, 2]);
    assert!(kit.store.beat(&relay(&[]), TTL).await?.is_empty());
    Ok(())
}

async fn beating_again_counts_once(kit: Kit) -> Result<(), StoreError> {
    register(&kit).await?;
    let relay = relay(&["one"]);
    for _ in 0..3 {
        assert_eq!(kit.store.beat(&relay, TTL).await?, [1]);
        kit.bed.advance(TTL * 2 / 3).await;
    }
    Ok(())
}

async fn relay_that_is_silent_no_longer_counts(kit: Kit) -> Result<(), StoreError> {
    register(&kit).await?;
    let (silent, alive) = (relay(&["one"]), relay(&["one"]));
    kit.store.beat(&silent, Duration::from_secs(600)).await?;
    assert_eq!(kit.store.beat(&alive, TTL).await?, [2]);
    kit.bed.advance(Duration::from_secs(1200)).await;
    assert_eq!(kit.store.beat(&alive, TTL).await?, [1]);
    assert_eq!(kit.store.beat(&silent, TTL).await?, [2], "it is back");
    Ok(())
}

async fn retired_relay_is_gone_at_once(kit: Kit) -> Result<(), StoreError> {
    register(&kit).await?;
    let (leaving, staying) = (relay(&["one"]), relay(&["one"]));
    kit.store.beat(&leaving, TTL).await?;
    kit.store.beat(&staying, TTL).await?;
    kit.store.retire(&leaving).await?;
    assert_eq!(kit.store.beat(&staying, TTL).await?, [1]);
    kit.store.retire(&leaving).await?;
    let names = kit.store.status().await?.relays;
    assert_eq!(names.len(), 1, "a retired relay is forgotten");
    Ok(())
}

async fn relay_may_serve_other_routes_than_before(kit: Kit) -> Result<(), StoreError> {
    register(&kit).await?;
    let mut moving = relay(&["one"]);
    let watching = relay(&["one", "two"]);
    kit.store.beat(&moving, TTL).await?;
    assert_eq!(kit.store.beat(&watching, TTL).await?, [2, 1]);
    moving.routes = vec!["two".to_owned()];
    kit.store.beat(&moving, TTL).await?;
    assert_eq!(kit.store.beat(&watching, TTL).await?, [1, 2]);
    Ok(())
}
