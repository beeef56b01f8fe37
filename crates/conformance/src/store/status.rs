//! The picture for people and monitors, and the checks before serving.

use std::time::Duration;

use posthaste_core::{
    Message, Next, Pause, Position, RelayBeat, RelayId, RouteStatus, Settlement, Shard, StoreError,
};

use super::{
    case::cases,
    kit::{Kit, ROUTE, Reader, TTL, keyed, keyless_many, park, refused, waiting},
};

cases! { "status";
    Nothing: [
        fresh_store_can_be_served,
        every_problem_names_its_fix,
        route_is_described,
        pending_counts_down_to_nothing,
        pending_is_of_the_shard_furthest_behind,
        oldest_age_is_of_the_routes_own_messages,
        parked_messages_are_counted_by_state,
        oldest_retrying_age_counts_from_parking_or_redriving,
        leases_tell_their_holders,
        relays_are_named,
        paused_routes_are_told_while_the_relay_that_paused_them_is_there,
        unrouted_topics_are_named,
    ],
}

async fn route(kit: &Kit, name: &str) -> Result<RouteStatus, StoreError> {
    let routes = kit.store.status().await?.routes;
    let route = routes.into_iter().find(|route| route.name == name);
    Ok(route.unwrap_or_else(|| panic!("route {name} is not in the status")))
}

async fn fresh_store_can_be_served(kit: Kit) -> Result<(), StoreError> {
    kit.store.check().await?;
    let status = kit.store.status().await?;
    assert!(status.routes.is_empty() && status.relays.is_empty() && status.unrouted.is_empty());
    Ok(())
}

async fn every_problem_names_its_fix(kit: Kit) -> Result<(), StoreError> {
    for finding in kit.store.examine().await? {
        assert!(!finding.what.is_empty() && !finding.what.contains('\n'));
        assert_eq!(finding.fix.is_none(), finding.ok, "{finding:?}");
    }
    Ok(())
}

async fn route_is_described(kit: Kit) -> Result<(), StoreError> {
    kit.register("b", &["orders", "it's.*"], 3).await?;
    kit.register("a", &["*"], 1).await?;
    let mut names: Vec<String> =
        kit.store.status().await?.routes.into_iter().map(|r| r.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
    let route = route(&kit, "b").await?;
    assert_eq!(route.topics, ["orders", "it's.*"]);
    let shards: Vec<u16> = route.leases.iter().map(|lease| lease.shard).collect();
    assert_eq!(shards, [0, 1, 2]);
    assert_eq!((route.pending, route.retrying, route.dead), (0, 0, 0));
    Ok(())
}

async fn pending_counts_down_to_nothing(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.commit(&keyless_many(10)).await?;
    let pending = route(&kit, ROUTE).await?.pending;
    assert!(pending >= 10, "{pending} is no upper bound of 10");
    let mut reader = Reader::paging(&kit, 4);
    reader.page().await?;
    kit.settle_at(&lease, reader.position()).await?;
    let fewer = route(&kit, ROUTE).await?.pending;
    assert!((6..pending).contains(&fewer), "{fewer} of {pending} after 4");
    reader.read_all().await?;
    kit.settle_at(&lease, reader.position()).await?;
    assert_eq!(route(&kit, ROUTE).await?.pending, 0);
    Ok(())
}

async fn pending_is_of_the_shard_furthest_behind(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["*"], 2).await?;
    kit.commit(&keyless_many(10)).await?;
    let shard = Shard { index: 0, of: 2 };
    let lease = kit.granted(ROUTE, shard).await?.lease;
    let mut reader = Reader::new(&kit, ROUTE, shard, Position::default());
    reader.read_all().await?;
    kit.settle_at(&lease, reader.position()).await?;
    assert!(route(&kit, ROUTE).await?.pending >= 5);
    Ok(())
}

async fn oldest_age_is_of_the_routes_own_messages(kit: Kit) -> Result<(), StoreError> {
    kit.register("orders", &["orders"], 1).await?;
    let lease = kit.granted("orders", Shard::WHOLE).await?.lease;
    let age = async || -> Result<f64, StoreError> {
        Ok(route(&kit, "orders").await?.oldest_pending_age_seconds)
    };
    assert!(age().await?.abs() < f64::EPSILON, "nothing is pending");
    kit.commit(&[Message::from_bytes("other", None, "")]).await?;
    kit.bed.advance(Duration::from_secs(1_000)).await;
    kit.commit(&keyless_many(1)).await?;
    kit.bed.advance(Duration::from_secs(100)).await;
    kit.commit(&keyless_many(1)).await?;
    let oldest = age().await?;
    assert!((100.0..900.0).contains(&oldest), "{oldest} seconds");
    let mut reader = Reader::new(&kit, "orders", Shard::WHOLE, Position::default());
    reader.read_all().await?;
    kit.settle_at(&lease, reader.position()).await?;
    assert!(age().await?.abs() < f64::EPSILON, "everything is passed");
    Ok(())
}

async fn parked_messages_are_counted_by_state(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.register("other", &["*"], 1).await?;
    let discarded = keyed("e", 6);
    let settlement = Settlement {
        park: vec![
            park(1, &keyed("a", 1), refused(1, Next::Retry(TTL))),
            park(2, &keyed("a", 2), waiting),
            park(3, &keyed("b", 3), refused(9, Next::Dead)),
            park(4, &keyed("c", 4), refused(9, Next::DeadAndBlock)),
            park(5, &keyed("d", 5), refused(9, Next::Dead)),
            park(6, &discarded, refused(9, Next::Dead)),
        ],
        ..Settlement::default()
    };
    kit.store.settle(&lease, &settlement).await?;
    let this = posthaste_core::ParkedFilter { ids: vec![discarded.id], ..Default::default() };
    kit.store.discard(&this, "ada", "test").await?;
    let status = route(&kit, ROUTE).await?;
    assert_eq!((status.retrying, status.dead), (2, 3));
    let other = route(&kit, "other").await?;
    assert_eq!((other.retrying, other.dead), (0, 0));
    Ok(())
}

async fn oldest_retrying_age_counts_from_parking_or_redriving(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let age = async || -> Result<f64, StoreError> {
        Ok(route(&kit, ROUTE).await?.oldest_retrying_age_seconds)
    };
    let settle = async |park| {
        let settlement = Settlement { park, ..Settlement::default() };
        kit.store.settle(&lease, &settlement).await.map(drop)
    };
    settle(vec![park(1, &keyed("a", 1), refused(9, Next::Dead))]).await?;
    kit.bed.advance(Duration::from_secs(1_000)).await;
    assert!(age().await?.abs() < f64::EPSILON, "a dead letter is not retrying");
    settle(vec![
        park(2, &keyed("b", 2), refused(1, Next::Retry(TTL))),
        park(3, &keyed("b", 3), waiting),
    ])
    .await?;
    kit.bed.advance(Duration::from_secs(100)).await;
    settle(vec![park(4, &keyed("c", 4), refused(1, Next::Retry(TTL)))]).await?;
    let oldest = age().await?;
    assert!((100.0..900.0).contains(&oldest), "{oldest} seconds");
    let settlement = Settlement { delivered: vec![2], ..Settlement::default() };
    kit.store.settle(&lease, &settlement).await?;
    let oldest = age().await?;
    assert!((100.0..900.0).contains(&oldest), "{oldest} seconds: what waited behind it is as old");
    let settlement = Settlement { delivered: vec![3, 4], ..Settlement::default() };
    kit.store.settle(&lease, &settlement).await?;
    assert!(age().await?.abs() < f64::EPSILON, "nothing is retrying");
    kit.store.redrive(&posthaste_core::ParkedFilter::default(), "ada").await?;
    kit.bed.advance(Duration::from_secs(10)).await;
    let oldest = age().await?;
    assert!((10.0..90.0).contains(&oldest), "{oldest} seconds, counted from the redrive");
    Ok(())
}

async fn leases_tell_their_holders(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["*"], 2).await?;
    kit.commit(&keyless_many(10)).await?;
    let shard = Shard { index: 1, of: 2 };
    let lease = kit.granted(ROUTE, shard).await?.lease;
    let mut reader = Reader::new(&kit, ROUTE, shard, Position::default());
    reader.read_all().await?;
    kit.settle_at(&lease, reader.position()).await?;
    let leases = route(&kit, ROUTE).await?.leases;
    assert_eq!(leases.len(), 2);
    assert!(leases[0].relay.is_none() && leases[0].expires_in_seconds.is_none());
    assert_eq!(leases[0].seq, 0);
    assert!(leases[1].relay.is_some());
    assert_eq!(leases[1].epoch, lease.epoch);
    assert_eq!(leases[1].seq, reader.position().seq());
    let expires_in = leases[1].expires_in_seconds.expect("it is held");
    assert!(expires_in > 0.0 && expires_in <= TTL.as_secs_f64());
    kit.store.release(&lease).await?;
    assert!(route(&kit, ROUTE).await?.leases[1].relay.is_none());
    Ok(())
}

async fn relays_are_named(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let beat = RelayBeat {
        id: RelayId::fresh(),
        name: "Zoë's relay".to_owned(),
        version: "1.2.3".to_owned(),
        routes: vec![ROUTE.to_owned()],
        paused: Vec::new(),
    };
    kit.store.beat(&beat, TTL).await?;
    kit.bed.advance(Duration::from_secs(60)).await;
    let relays = kit.store.status().await?.relays;
    let [relay] = relays.as_slice() else { panic!("{relays:?}") };
    assert_eq!(relay.id, beat.id.to_string());
    assert_eq!((&relay.name, &relay.version), (&beat.name, &beat.version));
    assert!((60.0..600.0).contains(&relay.seen_seconds_ago), "{relay:?}");
    Ok(())
}

async fn paused_routes_are_told_while_the_relay_that_paused_them_is_there(
    kit: Kit,
) -> Result<(), StoreError> {
    kit.register("a", &["*"], 1).await?;
    kit.register("b", &["*"], 1).await?;
    let pause = |seconds| Pause::new("a", "tls: \"no\" 'way' é", Duration::from_secs(seconds));
    let relay = |paused| RelayBeat {
        id: RelayId::fresh(),
        name: "relay".to_owned(),
        version: "1.2.3".to_owned(),
        routes: vec!["a".to_owned(), "b".to_owned()],
        paused,
    };
    let (mut first, second) = (relay(vec![pause(30)]), relay(vec![pause(300)]));
    kit.store.beat(&first, TTL).await?;
    kit.bed.advance(Duration::from_secs(60)).await;
    let paused = route(&kit, "a").await?.paused.expect("it is paused");
    assert_eq!(paused.reason, "tls: \"no\" 'way' é");
    assert_eq!(paused.relay, first.id.to_string());
    assert!((90.0..250.0).contains(&paused.seconds), "{paused:?}");
    assert!(route(&kit, "b").await?.paused.is_none());
    kit.store.beat(&second, Duration::from_secs(600)).await?;
    let paused = route(&kit, "a").await?.paused.expect("it is paused");
    assert_eq!(paused.relay, second.id.to_string(), "the longer pause is told");
    kit.bed.advance(Duration::from_secs(1_200)).await;
    let paused = route(&kit, "a").await?.paused.expect("it is paused");
    assert_eq!(paused.relay, first.id.to_string(), "the other fell silent");
    first.paused.clear();
    kit.store.beat(&first, TTL).await?;
    assert!(route(&kit, "a").await?.paused.is_none(), "it goes on");
    first.paused.push(pause(1));
    kit.store.beat(&first, TTL).await?;
    kit.store.retire(&first).await?;
    assert!(route(&kit, "a").await?.paused.is_none(), "the relay said goodbye");
    Ok(())
}

async fn unrouted_topics_are_named(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders", "users.*"], 1).await?;
    let topics = ["orders", "lost", "users.eu", "Orders", "lost", "users"];
    let sent = topics.map(|topic| Message::from_bytes(topic, None, ""));
    kit.commit(&sent).await?;
    let unrouted = kit.store.status().await?.unrouted;
    let mut unrouted: Vec<_> = unrouted.into_iter().map(|u| (u.topic, u.messages)).collect();
    unrouted.sort_unstable();
    let expected = [("Orders", 1), ("lost", 2), ("users", 1)];
    assert_eq!(unrouted, expected.map(|(topic, count)| (topic.to_owned(), count)));
    Ok(())
}
