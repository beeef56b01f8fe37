//! Settling: progress and parked messages, in one step, under the latest epoch only.

use std::time::Duration;

use posthaste_core::{Message, Next, Position, Settlement, Shard, StoreError, StoreErrorKind};

use super::{
    case::cases,
    kit::{
        Kit, ROUTE, Reader, TTL, assert_kind, keyed, keyless_many, messages, park, refused, texts,
    },
};

cases! { "settle";
    Nothing: [
        progress_survives_to_the_next_grant,
        position_of_several_steps_survives,
        settlement_without_a_position_keeps_the_last_one,
        stale_epoch_is_fenced_and_writes_nothing,
        expired_lease_that_nobody_took_may_settle,
        failed_settlement_writes_nothing,
        settling_again_changes_nothing,
        what_is_not_there_any_more_is_no_error,
        shards_progress_apart,
    ],
}

/// Ends a term and starts the next one.
async fn next_position(kit: &Kit, shard: Shard) -> Result<Position, StoreError> {
    kit.bed.advance(TTL * 2).await;
    Ok(kit.granted(ROUTE, shard).await?.position)
}

async fn progress_survives_to_the_next_grant(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.commit(&keyless_many(10)).await?;
    let mut reader = Reader::paging(&kit, 3);
    for _ in 0..3 {
        reader.page().await?;
        kit.settle_at(&lease, reader.position()).await?;
    }
    let position = next_position(&kit, Shard::WHOLE).await?;
    assert_eq!(&position, reader.position());
    let rest = kit.read_from(ROUTE, Shard::WHOLE, &position).await?;
    assert_eq!(texts(&messages(rest)), ["9"]);
    Ok(())
}

/// A relay may stop while it pages late rows; its position then has several steps.
async fn position_of_several_steps_survives(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.commit(&keyless_many(10)).await?;
    let mut reader = Reader::paging(&kit, 100);
    let batch = reader.page().await?;
    // What the store itself said, taken apart: rows 1..=4 under a younger snapshot than the rest.
    let older = batch.snapshot.clone();
    kit.commit(&keyless_many(1)).await?;
    let younger = reader.page().await?.snapshot;
    let several = Position::at(batch.end, older).passed(batch.messages[3].seq, &younger);
    kit.settle_at(&lease, &several).await?;
    let position = next_position(&kit, Shard::WHOLE).await?;
    assert_eq!(position, several);
    let rest = kit.read_from(ROUTE, Shard::WHOLE, &position).await?;
    assert_eq!(rest.len(), 1, "only what came after");
    Ok(())
}

async fn settlement_without_a_position_keeps_the_last_one(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.commit(&keyless_many(3)).await?;
    let mut reader = Reader::paging(&kit, 100);
    reader.page().await?;
    kit.settle_at(&lease, reader.position()).await?;
    kit.store.settle(&lease, &Settlement::default()).await?;
    let park = Settlement {
        park: vec![park(7, &keyed("k", 7), refused(1, Next::Dead))],
        ..Settlement::default()
    };
    kit.store.settle(&lease, &park).await?;
    let position = next_position(&kit, Shard::WHOLE).await?;
    assert_eq!(&position, reader.position());
    Ok(())
}

async fn stale_epoch_is_fenced_and_writes_nothing(kit: Kit) -> Result<(), StoreError> {
    let stale = kit.serving().await?.lease;
    kit.commit(&keyless_many(3)).await?;
    let retry = Next::Retry(Duration::ZERO);
    let kept = Settlement {
        park: vec![
            park(1, &keyed("kept", 1), refused(1, retry)),
            park(2, &keyed("kept", 2), refused(2, retry)),
        ],
        ..Settlement::default()
    };
    kit.store.settle(&stale, &kept).await?;
    kit.bed.advance(TTL * 2).await;
    let held = kit.granted(ROUTE, Shard::WHOLE).await?;
    let mut reader = Reader::paging(&kit, 100);
    reader.page().await?;
    let late = Settlement {
        position: Some(reader.position().clone()),
        park: vec![park(3, &keyed("late", 3), refused(1, retry))],
        repark: vec![refused(9, Next::Dead)(1)],
        delivered: vec![2],
        evidence: None,
    };
    let settled = kit.store.settle(&stale, &late).await;
    assert_kind(settled, StoreErrorKind::Fenced, "a stale settlement");
    let due = kit.store.due(&held.lease, 100, usize::MAX).await?.messages;
    let seqs: Vec<_> = due.iter().map(|due| (due.seq, due.attempts)).collect();
    assert_eq!(seqs, [(1, 1), (2, 2)], "parked messages changed");
    let position = next_position(&kit, Shard::WHOLE).await?;
    assert_eq!(position, held.position, "progress changed");
    Ok(())
}

/// What fences is a newer epoch, not the clock: work that is done should be written down.
async fn expired_lease_that_nobody_took_may_settle(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.commit(&keyless_many(3)).await?;
    let mut reader = Reader::paging(&kit, 100);
    reader.page().await?;
    kit.bed.advance(TTL * 2).await;
    kit.settle_at(&lease, reader.position()).await?;
    let position = kit.granted(ROUTE, Shard::WHOLE).await?.position;
    assert_eq!(&position, reader.position());
    Ok(())
}

/// A settlement the database cannot take, as some cannot take a NUL in a text, leaves no trace; one
/// that it takes, it takes whole.
async fn failed_settlement_writes_nothing(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.commit(&keyless_many(3)).await?;
    let mut reader = Reader::paging(&kit, 100);
    reader.page().await?;
    let retry = || refused(1, Next::Retry(Duration::ZERO));
    let odd = Message::from_bytes("topic\0nul", Some("odd"), "");
    let settlement = Settlement {
        position: Some(reader.position().clone()),
        park: vec![
            park(1, &keyed("a", 1), retry()),
            park(2, &odd, retry()),
            park(3, &keyed("c", 3), retry()),
        ],
        ..Settlement::default()
    };
    let settled = kit.store.settle(&lease, &settlement).await;
    let (seq, parked) = match settled {
        Ok(_) => (reader.position().seq(), 3),
        Err(_) => (0, 0),
    };
    let due = kit.store.due(&lease, 100, usize::MAX).await?.messages;
    assert_eq!(due.len(), parked, "parked messages of half a settlement");
    let position = next_position(&kit, Shard::WHOLE).await?;
    assert_eq!(position.seq(), seq, "progress of half a settlement");
    Ok(())
}

/// A relay that got no answer settles again.
async fn settling_again_changes_nothing(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.commit(&keyless_many(5)).await?;
    let mut reader = Reader::paging(&kit, 100);
    reader.page().await?;
    let retry = Next::Retry(Duration::ZERO);
    let first = Settlement {
        park: vec![
            park(1, &keyed("a", 1), refused(1, retry)),
            park(2, &keyed("b", 2), refused(1, retry)),
        ],
        ..Settlement::default()
    };
    let second = Settlement {
        position: Some(reader.position().clone()),
        park: vec![park(3, &keyed("c", 3), refused(1, retry))],
        repark: vec![refused(2, retry)(1)],
        delivered: vec![2],
        evidence: None,
    };
    for settlement in [&first, &first, &second, &second] {
        kit.store.settle(&lease, settlement).await?;
    }
    let due = kit.store.due(&lease, 100, usize::MAX).await?.messages;
    let mut seqs: Vec<_> = due.iter().map(|due| (due.seq, due.attempts)).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, [(1, 2), (3, 1)]);
    let position = next_position(&kit, Shard::WHOLE).await?;
    assert_eq!(&position, reader.position());
    Ok(())
}

/// A row that is gone is finished: nothing to report, nothing to invent.
async fn what_is_not_there_any_more_is_no_error(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let settlement = Settlement {
        repark: vec![refused(3, Next::Retry(Duration::ZERO))(41)],
        delivered: vec![42],
        ..Settlement::default()
    };
    kit.store.settle(&lease, &settlement).await?;
    assert!(kit.store.due(&lease, 100, usize::MAX).await?.messages.is_empty());
    Ok(())
}

async fn shards_progress_apart(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["*"], 2).await?;
    kit.commit(&keyless_many(10)).await?;
    let (zero, one) = (Shard { index: 0, of: 2 }, Shard { index: 1, of: 2 });
    let lease = kit.granted(ROUTE, zero).await?.lease;
    let mut reader = Reader::new(&kit, ROUTE, zero, Position::default());
    reader.read_all().await?;
    kit.settle_at(&lease, reader.position()).await?;
    assert_eq!(&next_position(&kit, zero).await?, reader.position());
    assert_eq!(kit.granted(ROUTE, one).await?.position.seq(), 0);
    Ok(())
}
