//! Making routes known.

use std::{collections::BTreeMap, time::Duration};

use futures::future::try_join_all;
use posthaste_core::{
    Grant, Layout, Message, Next, Parked, Retention, Settlement, Shard, StoreError, StoreErrorKind,
};

use super::{
    case::cases,
    kit::{
        Kit, ROUTE, Reader, TTL, assert_kind, keyed, keyless, messages, park, refused, spec, texts,
    },
};

cases! { "register";
    Nothing: [
        layout_is_as_asked,
        same_registration_changes_nothing,
        registrations_at_once_agree,
        widened_topics_bring_messages_that_waited_for_a_route,
        widened_topics_bring_messages_to_their_shards,
        messages_that_waited_go_before_parked_ones_of_their_key,
        changes_of_topics_at_once_bring_messages_once,
        changed_topics_fence_the_holder,
        same_topics_change_nothing,
    ],
    ConcurrentWriters: [
        widened_topics_leave_late_commits_to_fetch,
    ],
}

async fn layout_is_as_asked(kit: Kit) -> Result<(), StoreError> {
    for shards in [1, 2, 256] {
        let layout = kit.register(&format!("of-{shards}"), &["*"], shards).await?;
        let expected = Layout { shards, resizing_to: None };
        assert_eq!(layout, expected);
    }
    Ok(())
}

async fn same_registration_changes_nothing(kit: Kit) -> Result<(), StoreError> {
    let before = kit.register(ROUTE, &["*"], 2).await?;
    let shard = Shard { index: 1, of: 2 };
    let lease = kit.granted(ROUTE, shard).await?.lease;
    assert_eq!(kit.register(ROUTE, &["*"], 2).await?, before);
    assert!(kit.claim(ROUTE, shard).await?.is_none(), "the lease was lost");
    kit.store.renew(&lease, TTL).await?;
    Ok(())
}

/// A fleet that starts all at once.
async fn registrations_at_once_agree(kit: Kit) -> Result<(), StoreError> {
    let layouts = try_join_all((0..8).map(|_| kit.register(ROUTE, &["*"], 3))).await?;
    assert!(layouts.iter().all(|layout| *layout == layouts[0]), "{layouts:?}");
    let claims = (0..3).map(|index| kit.claim(ROUTE, Shard { index, of: 3 }));
    let grants = try_join_all(claims).await?;
    assert_eq!(grants.iter().flatten().count(), 3);
    Ok(())
}

/// A message of a topic that has no route at first.
fn waiting(key: Option<&str>, number: usize) -> Message {
    Message::from_bytes("waiting", key, number.to_string())
}

/// Claims every shard of a route.
async fn granted_all(kit: &Kit, route: &str, of: u16) -> Result<Vec<Grant>, StoreError> {
    try_join_all((0..of).map(|index| kit.granted(route, Shard { index, of }))).await
}

/// Reads each shard to its end and writes that down; returns what was read.
async fn pass_all(kit: &Kit, grants: &[Grant]) -> Result<Vec<String>, StoreError> {
    let mut read = Vec::new();
    for Grant { lease, position, .. } in grants {
        let mut reader = Reader::new(kit, &lease.route, lease.shard, position.clone());
        read.extend(texts(&messages(reader.read_all().await?)));
        kit.settle_at(lease, reader.position()).await?;
    }
    read.sort_unstable();
    Ok(read)
}

async fn due(kit: &Kit, grant: &Grant) -> Result<Vec<Parked>, StoreError> {
    Ok(kit.store.due(&grant.lease, 100, usize::MAX >> 1).await?.messages)
}

async fn deliver(kit: &Kit, grant: &Grant, due: &[Parked]) -> Result<(), StoreError> {
    let delivered = due.iter().map(|parked| parked.seq).collect();
    let settlement = Settlement { delivered, ..Settlement::default() };
    kit.store.settle(&grant.lease, &settlement).await?;
    Ok(())
}

/// Payloads per key, in the order given.
fn by_key(due: &[Parked]) -> BTreeMap<Option<&str>, Vec<String>> {
    let mut keys: BTreeMap<Option<&str>, Vec<String>> = BTreeMap::new();
    for parked in due {
        let text = texts([&parked.message]);
        keys.entry(parked.message.key.as_deref()).or_default().extend(text);
    }
    keys
}

async fn widened_topics_bring_messages_that_waited_for_a_route(kit: Kit) -> Result<(), StoreError> {
    widen(&kit, 1).await
}

async fn widened_topics_bring_messages_to_their_shards(kit: Kit) -> Result<(), StoreError> {
    widen(&kit, 3).await
}

async fn widen(kit: &Kit, shards: u16) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders"], shards).await?;
    kit.register("other", &["users"], 1).await?;
    let header = Message { event_type: Some("t".to_owned()), ..waiting(Some("c"), 6) };
    let sent = [
        waiting(Some("a"), 1),
        keyed("a", 10),
        waiting(Some("b"), 2),
        Message::from_bytes("users", Some("a"), "20"),
        waiting(Some("a"), 3),
        waiting(None, 4),
        Message::from_bytes("nowhere", Some("a"), "30"),
        waiting(Some("a"), 5),
        header.header("name", "value"),
        keyless(11),
    ];
    kit.commit(&sent).await?;
    assert_eq!(pass_all(kit, &granted_all(kit, ROUTE, shards).await?).await?, ["10", "11"]);
    assert_eq!(pass_all(kit, &granted_all(kit, "other", 1).await?).await?, ["20"]);
    let wider = &["orders", "users", "wait*"];
    kit.register(ROUTE, wider, shards).await?;

    let grants = granted_all(kit, ROUTE, shards).await?;
    let mut came = Vec::new();
    for grant in &grants {
        let due = due(kit, grant).await?;
        for parked in &due {
            assert_eq!((parked.attempts, parked.unknowns, parked.redriven), (0, 0, 0));
        }
        let mut keys: Vec<&str> = by_key(&due).into_keys().flatten().collect();
        let mut blocked = grant.blocked.clone();
        blocked.sort_unstable();
        keys.sort_unstable();
        assert_eq!(blocked, keys, "keys wait for what is parked");
        came.extend(due);
    }
    let expected = [
        (None, &["4"] as &[&str]),
        (Some("a"), &["1", "3", "5"]),
        (Some("b"), &["2"]),
        (Some("c"), &["6"]),
    ];
    let expected = expected.map(|(key, all)| (key, all.iter().map(|&t| t.to_owned()).collect()));
    assert_eq!(by_key(&came), BTreeMap::from(expected));
    for parked in &came {
        assert!(sent.contains(&parked.message), "whole: {:?}", parked.message);
    }
    for grant in &grants {
        deliver(kit, grant, &due(kit, grant).await?).await?;
    }
    assert!(pass_all(kit, &grants).await?.is_empty(), "nothing came by fetch");

    kit.register(ROUTE, wider, shards).await?;
    for grant in &grants {
        assert!(due(kit, grant).await?.is_empty(), "nothing comes twice");
    }
    kit.bed.advance(Duration::from_secs(1)).await;
    let at_once = Retention { delivered: Duration::ZERO, discarded: Duration::ZERO };
    assert_eq!(kit.store.purge(at_once, 100).await?.messages, 9, "all but what still waits");
    kit.register("everything else", &["*"], 1).await?;
    let left = kit.read_from("everything else", Shard::WHOLE, &Default::default()).await?;
    assert_eq!(texts(&messages(left)), ["30"]);
    Ok(())
}

async fn messages_that_waited_go_before_parked_ones_of_their_key(
    kit: Kit,
) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders"], 1).await?;
    kit.commit(&[waiting(Some("k"), 1), keyed("k", 2), waiting(Some("k"), 3)]).await?;
    let grant = kit.granted(ROUTE, Shard::WHOLE).await?;
    let mut reader = Reader::new(&kit, ROUTE, Shard::WHOLE, grant.position.clone());
    let read = reader.read_all().await?;
    let retry = Next::Retry(Duration::ZERO);
    let settlement = Settlement {
        position: Some(reader.position().clone()),
        park: vec![park(read[0].seq, &read[0].message, refused(1, retry))],
        ..Settlement::default()
    };
    kit.store.settle(&grant.lease, &settlement).await?;
    kit.register(ROUTE, &["orders", "waiting"], 1).await?;
    let grant = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_eq!(texts(due(&kit, &grant).await?.iter().map(|p| &p.message)), ["1", "2", "3"]);
    for number in ["1", "2", "3"] {
        let first = kit.store.due(&grant.lease, 1, usize::MAX >> 1).await?.messages;
        assert_eq!(texts(first.iter().map(|parked| &parked.message)), [number]);
        deliver(&kit, &grant, &first).await?;
    }
    Ok(())
}

/// A fleet that starts with a new configuration, all at once.
async fn changes_of_topics_at_once_bring_messages_once(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders"], 1).await?;
    kit.commit(&[waiting(Some("k"), 1), waiting(None, 2)]).await?;
    pass_all(&kit, &granted_all(&kit, ROUTE, 1).await?).await?;
    let register = || async {
        kit.register(ROUTE, &["orders", "waiting"], 1).await?;
        let Some(grant) = kit.claim(ROUTE, Shard::WHOLE).await? else {
            return Ok(0);
        };
        let due = due(&kit, &grant).await?;
        deliver(&kit, &grant, &due).await?;
        Ok::<_, StoreError>(due.len())
    };
    let came = try_join_all((0..8).map(|_| register())).await?;
    assert_eq!(came.iter().sum::<usize>(), 2, "{came:?}");
    Ok(())
}

async fn changed_topics_fence_the_holder(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders"], 1).await?;
    kit.commit(&[keyless(1)]).await?;
    let mut grant = kit.granted(ROUTE, Shard::WHOLE).await?;
    pass_all(&kit, std::slice::from_ref(&grant)).await?;
    for topics in [&["orders", "users"] as &[_], &["orders"], &["users"]] {
        kit.commit(&[keyless(2)]).await?;
        let mut reader = Reader::new(&kit, ROUTE, Shard::WHOLE, grant.position.clone());
        reader.read_all().await?;
        kit.register(ROUTE, topics, 1).await?;
        let lease = &grant.lease;
        assert_kind(kit.store.renew(lease, TTL).await, StoreErrorKind::Fenced, "renew");
        let settled = kit.settle_at(lease, reader.position()).await;
        assert_kind(settled, StoreErrorKind::Fenced, "settle");
        let next = kit.granted(ROUTE, Shard::WHOLE).await?;
        assert!(next.lease.epoch > lease.epoch);
        assert!(next.position.seq() < reader.position().seq(), "from what was written down");
        assert!(due(&kit, &next).await?.is_empty(), "what is not passed is read");
        grant = next;
    }
    Ok(())
}

async fn same_topics_change_nothing(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders", "users"], 1).await?;
    kit.commit(&[keyless(1), waiting(None, 2)]).await?;
    let grant = kit.granted(ROUTE, Shard::WHOLE).await?;
    pass_all(&kit, std::slice::from_ref(&grant)).await?;
    let same = spec(ROUTE, &["orders", "users"], 1);
    for _ in 0..3 {
        kit.store.register(&same).await?;
    }
    kit.store.renew(&grant.lease, TTL).await?;
    pass_all(&kit, std::slice::from_ref(&grant)).await?;
    assert!(due(&kit, &grant).await?.is_empty());
    kit.store.release(&grant.lease).await?;
    let next = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_eq!(next.lease.epoch, grant.lease.epoch + 1);
    Ok(())
}

/// Being enqueued before is not being passed: what committed after the position is read, and only
/// once. Whether its seq lies below depends on the store: one that orders messages when it first sees
/// them gives it a higher one.
async fn widened_topics_leave_late_commits_to_fetch(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders"], 1).await?;
    let mut before = kit.bed.begin().await;
    before.enqueue(&[waiting(Some("k"), 1)]).await?;
    let mut after = kit.bed.begin().await;
    after.enqueue(&[waiting(None, 2)]).await?;
    kit.commit(&[waiting(Some("k"), 3), keyless(4)]).await?;
    let grants = granted_all(&kit, ROUTE, 1).await?;
    assert_eq!(pass_all(&kit, &grants).await?, ["4"]);
    before.commit().await;
    kit.register(ROUTE, &["orders", "waiting"], 1).await?;
    after.commit().await;
    let grant = kit.granted(ROUTE, Shard::WHOLE).await?;
    let parked = due(&kit, &grant).await?;
    assert_eq!(texts(parked.iter().map(|parked| &parked.message)), ["3"]);
    let read = kit.read_from(ROUTE, Shard::WHOLE, &grant.position).await?;
    assert_eq!(texts(&messages(read)), ["1", "2"]);
    Ok(())
}
