//! Cleaning up: only what every route has passed for long enough, and never anything undelivered.

use std::time::Duration;

use posthaste_core::{
    Grant, Lease, Message, Next, ParkedFilter, Position, Purged, Retention, Settlement, Shard,
    StoreError,
};

use super::{
    case::cases,
    kit::{Kit, ROUTE, Reader, TTL, keyed, keyless, keyless_many, messages, park, refused, texts},
};

cases! { "purge";
    Nothing: [
        passed_messages_go,
        undelivered_messages_stay_however_old,
        messages_one_route_has_not_passed_stay,
        messages_one_shard_has_not_passed_stay,
        route_that_never_started_holds_everything,
        topics_without_a_route_stay,
        topics_without_a_route_do_not_stop_cleaning,
        chunks_are_bounded,
        retention_counts_from_passing,
        progress_survives,
        progress_is_forgotten_in_every_round,
        parked_copies_survive,
        dead_letters_stay,
        discarded_letters_go_after_their_time,
        what_was_discarded_and_removed_does_not_come_back,
    ],
    ConcurrentWriters: [
        late_commit_below_a_position_stays,
        late_commit_goes_once_passed,
    ],
}

const HOUR: Duration = Duration::from_secs(3600);

/// Nothing is kept longer than it must be.
const NONE: Retention = Retention { delivered: Duration::ZERO, discarded: Duration::ZERO };

/// Cleans until nothing is left to clean; a moment later, so that what was passed just now counts.
async fn purge(kit: &Kit, retention: Retention, rows_max: u32) -> Result<Purged, StoreError> {
    kit.bed.advance(Duration::from_secs(1)).await;
    let mut total = Purged::default();
    let mut idle_rounds = 0;
    while idle_rounds < 5 {
        let purged = kit.store.purge(retention, rows_max).await?;
        assert!(purged.messages <= u64::from(rows_max), "{purged:?}");
        total.messages += purged.messages;
        total.discarded += purged.discarded;
        total.progress += purged.progress;
        idle_rounds = if purged.messages == 0 { idle_rounds + 1 } else { 0 };
    }
    Ok(total)
}

/// Reads a shard to its end and writes that down.
async fn pass(kit: &Kit, lease: &Lease, after: &Position) -> Result<Position, StoreError> {
    let mut reader = Reader::new(kit, &lease.route, lease.shard, after.clone());
    reader.read_all().await?;
    kit.settle_at(lease, reader.position()).await?;
    Ok(reader.position().clone())
}

/// What is in the log, by a route that takes everything and is forgotten by nobody's progress.
async fn log(kit: &Kit) -> Result<Vec<String>, StoreError> {
    Ok(texts(&messages(kit.read_log().await?)))
}

async fn passed_messages_go(kit: Kit) -> Result<(), StoreError> {
    let Grant { lease, position, .. } = kit.serving().await?;
    kit.commit(&keyless_many(10)).await?;
    let position = pass(&kit, &lease, &position).await?;
    kit.commit(&[keyless(10), keyless(11)]).await?;
    assert_eq!(purge(&kit, NONE, 100).await?.messages, 10);
    assert_eq!(log(&kit).await?, ["10", "11"]);
    let rest = kit.read_from(ROUTE, Shard::WHOLE, &position).await?;
    assert_eq!(rest.len(), 2, "reading goes on behind what is gone");
    Ok(())
}

async fn undelivered_messages_stay_however_old(kit: Kit) -> Result<(), StoreError> {
    let Grant { lease, position, .. } = kit.serving().await?;
    kit.commit(&keyless_many(3)).await?;
    pass(&kit, &lease, &position).await?;
    kit.commit(&[keyless(3)]).await?;
    kit.bed.advance(HOUR * 24 * 365).await;
    purge(&kit, NONE, 100).await?;
    assert_eq!(log(&kit).await?, ["3"]);
    Ok(())
}

async fn messages_one_route_has_not_passed_stay(kit: Kit) -> Result<(), StoreError> {
    let fast = kit.serving().await?;
    kit.register("slow", &["orders"], 1).await?;
    let slow = kit.granted("slow", Shard::WHOLE).await?;
    kit.commit(&keyless_many(4)).await?;
    let mut reader = Reader::new(&kit, "slow", Shard::WHOLE, slow.position);
    reader.fetch.rows_max = 1;
    reader.page().await?;
    kit.settle_at(&slow.lease, reader.position()).await?;
    pass(&kit, &fast.lease, &fast.position).await?;
    assert_eq!(purge(&kit, NONE, 100).await?.messages, 1);
    assert_eq!(log(&kit).await?, ["1", "2", "3"]);
    pass(&kit, &slow.lease, reader.position()).await?;
    assert_eq!(purge(&kit, NONE, 100).await?.messages, 3);
    Ok(())
}

async fn messages_one_shard_has_not_passed_stay(kit: Kit) -> Result<(), StoreError> {
    kit.register("split", &["*"], 2).await?;
    let shards = [0, 1].map(|index| Shard { index, of: 2 });
    let zero = kit.granted("split", shards[0]).await?;
    let one = kit.granted("split", shards[1]).await?;
    let sent = keyless_many(10);
    kit.commit(&sent).await?;
    pass(&kit, &zero.lease, &zero.position).await?;
    let theirs = kit.read_from("split", shards[1], &one.position).await?;
    assert_eq!(theirs.len(), 5);
    purge(&kit, NONE, 100).await?;
    let left = kit.read_from("split", shards[1], &one.position).await?;
    assert_eq!(left.len(), 5, "the other shard's messages are gone");
    pass(&kit, &one.lease, &one.position).await?;
    purge(&kit, NONE, 100).await?;
    kit.register_all().await?;
    assert!(log(&kit).await?.is_empty());
    Ok(())
}

async fn route_that_never_started_holds_everything(kit: Kit) -> Result<(), StoreError> {
    let Grant { lease, position, .. } = kit.serving().await?;
    kit.register("registered", &["*"], 1).await?;
    kit.commit(&keyless_many(3)).await?;
    pass(&kit, &lease, &position).await?;
    assert_eq!(purge(&kit, NONE, 100).await?.messages, 0);
    assert_eq!(log(&kit).await?.len(), 3);
    Ok(())
}

async fn topics_without_a_route_stay(kit: Kit) -> Result<(), StoreError> {
    kit.register("orders", &["orders"], 1).await?;
    let grant = kit.granted("orders", Shard::WHOLE).await?;
    let nowhere = Message::from_bytes("nowhere", None, "kept");
    kit.commit(&[keyless(0), nowhere, keyless(1)]).await?;
    pass(&kit, &grant.lease, &grant.position).await?;
    assert_eq!(purge(&kit, NONE, 100).await?.messages, 2);
    kit.register_all().await?;
    assert_eq!(log(&kit).await?, ["kept"], "waiting for its route");
    Ok(())
}

async fn topics_without_a_route_do_not_stop_cleaning(kit: Kit) -> Result<(), StoreError> {
    kit.register("orders", &["orders"], 1).await?;
    let grant = kit.granted("orders", Shard::WHOLE).await?;
    let nowhere = || Message::from_bytes("nowhere", None, "");
    kit.commit(&(0..30).map(|_| nowhere()).collect::<Vec<_>>()).await?;
    kit.commit(&keyless_many(12)).await?;
    pass(&kit, &grant.lease, &grant.position).await?;
    assert_eq!(purge(&kit, NONE, 10).await?.messages, 12);
    Ok(())
}

async fn chunks_are_bounded(kit: Kit) -> Result<(), StoreError> {
    let Grant { lease, position, .. } = kit.serving().await?;
    kit.commit(&keyless_many(25)).await?;
    pass(&kit, &lease, &position).await?;
    kit.bed.advance(HOUR).await;
    let first = kit.store.purge(NONE, 10).await?;
    assert_eq!(first.messages, 10);
    assert_eq!(log(&kit).await?.len(), 15);
    assert_eq!(purge(&kit, NONE, 10).await?.messages, 15);
    Ok(())
}

/// Not from enqueueing: what waited long and was delivered just now is looked at now.
async fn retention_counts_from_passing(kit: Kit) -> Result<(), StoreError> {
    let Grant { lease, position, .. } = kit.serving().await?;
    let day = Retention { delivered: HOUR * 24, discarded: Duration::ZERO };
    kit.commit(&keyless_many(2)).await?;
    kit.bed.advance(HOUR * 100).await;
    let position = pass(&kit, &lease, &position).await?;
    assert_eq!(purge(&kit, day, 100).await?.messages, 0, "passed just now");
    kit.bed.advance(HOUR * 20).await;
    kit.commit(&[keyless(2)]).await?;
    pass(&kit, &lease, &position).await?;
    assert_eq!(purge(&kit, day, 100).await?.messages, 0, "20 hours ago");
    kit.bed.advance(HOUR * 20).await;
    assert_eq!(purge(&kit, day, 100).await?.messages, 2, "40 hours ago");
    assert_eq!(log(&kit).await?, ["2"], "passed 20 hours ago");
    kit.bed.advance(HOUR * 20).await;
    assert_eq!(purge(&kit, day, 100).await?.messages, 1);
    Ok(())
}

async fn progress_survives(kit: Kit) -> Result<(), StoreError> {
    let Grant { lease, mut position, .. } = kit.serving().await?;
    for _ in 0..20 {
        kit.commit(&keyless_many(2)).await?;
        position = pass(&kit, &lease, &position).await?;
    }
    purge(&kit, NONE, 1_000).await?;
    kit.bed.advance(TTL * 2).await;
    purge(&kit, NONE, 1_000).await?;
    let next = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_eq!(next.position, position);
    assert!(next.lease.epoch > lease.epoch);
    Ok(())
}

/// What retention does not go by any more is forgotten, and the next time what came after it.
async fn progress_is_forgotten_in_every_round(kit: Kit) -> Result<(), StoreError> {
    let Grant { lease, mut position, .. } = kit.serving().await?;
    for round in 0..2 {
        for _ in 0..20 {
            kit.commit(&keyless_many(1)).await?;
            position = pass(&kit, &lease, &position).await?;
        }
        let forgotten = purge(&kit, NONE, 1_000).await?.progress;
        assert!((19..=20).contains(&forgotten), "{forgotten} entries in round {round}");
    }
    kit.bed.advance(TTL * 2).await;
    assert_eq!(kit.granted(ROUTE, Shard::WHOLE).await?.position, position);
    Ok(())
}

async fn parked_copies_survive(kit: Kit) -> Result<(), StoreError> {
    let Grant { lease, position, .. } = kit.serving().await?;
    let sent = [keyed("k", 1), keyed("k", 2)];
    kit.commit(&sent).await?;
    let batch = kit.read_from(ROUTE, Shard::WHOLE, &position).await?;
    let now = refused(1, Next::Retry(Duration::ZERO));
    let settlement = Settlement {
        park: batch.iter().map(|row| park(row.seq, &row.message, &now)).collect(),
        ..Settlement::default()
    };
    kit.store.settle(&lease, &settlement).await?;
    pass(&kit, &lease, &position).await?;
    assert_eq!(purge(&kit, NONE, 100).await?.messages, 2);
    let due = kit.store.due(&lease, 100, usize::MAX).await?.messages;
    let due: Vec<Message> = due.into_iter().map(|due| due.message).collect();
    assert_eq!(due, sent);
    Ok(())
}

/// A dead letter, and its filter.
async fn letter(kit: &Kit, lease: &Lease) -> Result<ParkedFilter, StoreError> {
    let message = keyed("k", 1);
    let settlement = Settlement {
        park: vec![park(1, &message, refused(5, Next::Dead))],
        ..Settlement::default()
    };
    kit.store.settle(lease, &settlement).await?;
    Ok(ParkedFilter { ids: vec![message.id], ..ParkedFilter::default() })
}

async fn dead_letters_stay(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let this = letter(&kit, &lease).await?;
    kit.bed.advance(HOUR * 24 * 365).await;
    assert_eq!(purge(&kit, NONE, 100).await?.discarded, 0);
    assert_eq!(kit.store.dead(&this, 10).await?.len(), 1);
    Ok(())
}

async fn discarded_letters_go_after_their_time(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let this = letter(&kit, &lease).await?;
    kit.bed.advance(HOUR * 100).await;
    kit.store.discard(&this, "ada", "test").await?;
    let day = Retention { delivered: Duration::ZERO, discarded: HOUR * 24 };
    assert_eq!(purge(&kit, day, 100).await?.discarded, 0);
    assert_eq!(kit.store.dead(&this, 10).await?.len(), 1, "discarded just now");
    kit.bed.advance(HOUR * 25).await;
    assert_eq!(purge(&kit, day, 100).await?.discarded, 1);
    assert!(kit.store.dead(&this, 10).await?.is_empty());
    Ok(())
}

/// A settlement whose answer was lost is repeated, however late.
async fn what_was_discarded_and_removed_does_not_come_back(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let message = keyed("k", 1);
    kit.commit(std::slice::from_ref(&message)).await?;
    let mut reader = Reader::paging(&kit, 100);
    reader.page().await?;
    let settlement = Settlement {
        position: Some(reader.position().clone()),
        park: vec![park(1, &message, refused(5, Next::Dead))],
        ..Settlement::default()
    };
    kit.store.settle(&lease, &settlement).await?;
    let this = ParkedFilter { ids: vec![message.id], ..ParkedFilter::default() };
    assert_eq!(kit.store.discard(&this, "ada", "test").await?, 1);
    kit.bed.advance(HOUR).await;
    assert_eq!(purge(&kit, NONE, 100).await?.discarded, 1);
    let settled = kit.store.settle(&lease, &settlement).await?;
    assert_eq!(settled.unblocked, ["k"], "nothing holds it");
    assert!(kit.store.dead(&this, 10).await?.is_empty(), "back from the dead");
    let next = keyed("k", 2);
    kit.commit(std::slice::from_ref(&next)).await?;
    reader.page().await?;
    let settlement = Settlement {
        position: Some(reader.position().clone()),
        park: vec![park(2, &next, refused(5, Next::Dead))],
        ..Settlement::default()
    };
    kit.store.settle(&lease, &settlement).await?;
    let next = ParkedFilter { ids: vec![next.id], ..ParkedFilter::default() };
    assert_eq!(kit.store.dead(&next, 10).await?.len(), 1, "another settlement parks");
    Ok(())
}

/// It lies below the position, it is old, and nobody has read it yet.
async fn late_commit_below_a_position_stays(kit: Kit) -> Result<(), StoreError> {
    let Grant { lease, position, .. } = kit.serving().await?;
    let mut late = kit.bed.begin().await;
    late.enqueue(&[keyless(1)]).await?;
    kit.commit(&[keyless(2)]).await?;
    let position = pass(&kit, &lease, &position).await?;
    assert_eq!(purge(&kit, NONE, 100).await?.messages, 1);
    late.commit().await;
    kit.bed.advance(HOUR * 24).await;
    assert_eq!(purge(&kit, NONE, 100).await?.messages, 0);
    let read = kit.read_from(ROUTE, Shard::WHOLE, &position).await?;
    assert_eq!(texts(&messages(read)), ["1"]);
    Ok(())
}

async fn late_commit_goes_once_passed(kit: Kit) -> Result<(), StoreError> {
    let Grant { lease, position, .. } = kit.serving().await?;
    let mut late = kit.bed.begin().await;
    late.enqueue(&[keyless(1)]).await?;
    kit.commit(&[keyless(2)]).await?;
    let position = pass(&kit, &lease, &position).await?;
    late.commit().await;
    pass(&kit, &lease, &position).await?;
    assert_eq!(purge(&kit, NONE, 100).await?.messages, 2);
    assert!(log(&kit).await?.is_empty());
    Ok(())
}
