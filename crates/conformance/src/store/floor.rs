//! What a relay needs to say what is behind it: when nothing can appear there any more, what was put
//! aside, and which log it speaks of.

use std::time::Duration;

use posthaste_core::{
    FLOOR_MISSING_MAX, Grant, Horizon, Next, ParkedFilter, Seq, Settlement, Shard, StoreError,
    bucket,
};

use super::{
    case::cases,
    kit::{Kit, ROUTE, Reader, keyless, keyless_many, park, refused, waiting},
};

cases! { "floor";
    Nothing: [
        what_was_read_before_a_settlement_is_past_in_the_end,
        grant_and_due_tell_the_lowest_that_may_still_come,
        what_people_decide_is_told,
        log_has_one_name_for_all_shards_and_terms,
        other_topics_are_another_log,
    ],
    ConcurrentWriters: [
        nothing_appears_below_what_is_past,
        nothing_of_a_transaction_that_ended_is_waited_for,
    ],
}

/// Reads on until everything that had drawn a seq before the settlement has ended. Transactions of
/// other cases on the same server may take their time.
async fn read_until_past(
    kit: &Kit,
    reader: &mut Reader,
    horizon: &Horizon,
) -> Result<(), StoreError> {
    loop {
        reader.read_all().await?;
        if is_past(kit, reader, horizon) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn is_past(kit: &Kit, reader: &Reader, horizon: &Horizon) -> bool {
    let step = reader.position().steps().first().expect("something was read");
    kit.store.is_past(horizon, &step.snapshot)
}

async fn what_was_read_before_a_settlement_is_past_in_the_end(kit: Kit) -> Result<(), StoreError> {
    let grant = kit.serving().await?;
    kit.commit(&keyless_many(3)).await?;
    let mut reader = Reader::paging(&kit, 100);
    reader.read_all().await?;
    let settled = kit.settle_at(&grant.lease, reader.position()).await?;
    read_until_past(&kit, &mut reader, &settled.horizon).await
}

/// The open one draws its seq first but began last: no transaction above it has ended when the other is
/// read.
async fn nothing_appears_below_what_is_past(kit: Kit) -> Result<(), StoreError> {
    let grant = kit.serving().await?;
    let mut early = kit.bed.begin().await;
    early.touch().await;
    let mut late = kit.bed.begin().await;
    late.enqueue(&[keyless(1)]).await?;
    early.enqueue(&[keyless(2)]).await?;
    early.commit().await;
    let mut reader = Reader::paging(&kit, 100);
    reader.read_all().await?;
    let passed = reader.position().seq();
    let settled = kit.settle_at(&grant.lease, reader.position()).await?;
    reader.read_all().await?;
    let was_past = is_past(&kit, &reader, &settled.horizon);
    late.commit().await;
    for fetched in reader.read_all().await? {
        let is_below = fetched.seq <= passed;
        assert!(!(was_past && is_below), "{} appeared below {passed}", fetched.seq);
    }
    read_until_past(&kit, &mut reader, &settled.horizon).await
}

async fn nothing_of_a_transaction_that_ended_is_waited_for(kit: Kit) -> Result<(), StoreError> {
    let grant = kit.serving().await?;
    let mut gone = kit.bed.begin().await;
    gone.enqueue(&[keyless(1)]).await?;
    kit.commit(&[keyless(2)]).await?;
    gone.rollback().await;
    let mut reader = Reader::paging(&kit, 100);
    reader.read_all().await?;
    let settled = kit.settle_at(&grant.lease, reader.position()).await?;
    read_until_past(&kit, &mut reader, &settled.horizon).await
}

async fn told(kit: &Kit, grant: &Grant) -> Result<Vec<Seq>, StoreError> {
    Ok(kit.store.due(&grant.lease, 1, usize::MAX).await?.undelivered)
}

async fn grant_and_due_tell_the_lowest_that_may_still_come(kit: Kit) -> Result<(), StoreError> {
    const COUNT: Seq = 100;
    kit.register(ROUTE, &["*"], 2).await?;
    let shards = [0, 1].map(|index| Shard { index, of: 2 });
    for shard in shards {
        let grant = kit.granted(ROUTE, shard).await?;
        assert_eq!(grant.undelivered, [] as [Seq; 0], "nothing is parked");
        let of_shard = (1..=COUNT).filter(|&seq| shard.serves(bucket(None, seq)));
        let parks = of_shard.map(|seq| match seq % 3 {
            0 => park(seq, &keyless(1), waiting),
            1 => park(seq, &keyless(1), refused(1, Next::Retry(Duration::from_secs(3600)))),
            _ => park(seq, &keyless(1), refused(5, Next::Dead)),
        });
        let settlement = Settlement { park: parks.collect(), ..Settlement::default() };
        kit.store.settle(&grant.lease, &settlement).await?;
        let settlement = Settlement { delivered: vec![1, 2], ..Settlement::default() };
        kit.store.settle(&grant.lease, &settlement).await?;
        kit.store.release(&grant.lease).await?;
    }
    for shard in shards {
        let grant = kit.granted(ROUTE, shard).await?;
        let of_shard = (3..=COUNT).filter(|&seq| shard.serves(bucket(None, seq)));
        let expected: Vec<Seq> = of_shard.take(FLOOR_MISSING_MAX + 1).collect();
        assert_eq!(grant.undelivered, expected, "shard {shard}");
        assert_eq!(told(&kit, &grant).await?, expected, "shard {shard}");
    }
    Ok(())
}

async fn what_people_decide_is_told(kit: Kit) -> Result<(), StoreError> {
    let grant = kit.serving().await?;
    let letters = [keyless(1), keyless(2), keyless(3)];
    let parks = letters.iter().zip(1..);
    let parks = parks.map(|(message, seq)| park(seq, message, refused(5, Next::Dead))).collect();
    let settlement = Settlement { park: parks, ..Settlement::default() };
    kit.store.settle(&grant.lease, &settlement).await?;
    let of = |at: usize| ParkedFilter { ids: vec![letters[at].id], ..ParkedFilter::default() };
    kit.store.discard(&of(0), "me", "not needed").await?;
    kit.store.redrive(&of(1), "me").await?;
    assert_eq!(
        told(&kit, &grant).await?,
        [2, 3],
        "a discarded one never comes, a redriven one may"
    );
    Ok(())
}

async fn log_has_one_name_for_all_shards_and_terms(kit: Kit) -> Result<(), StoreError> {
    let grant = kit.serving().await?;
    kit.store.release(&grant.lease).await?;
    kit.register_all().await?;
    let again = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_eq!(again.log, grant.log, "another term");
    kit.register(ROUTE, &["*"], 2).await?;
    kit.store.release(&again.lease).await?;
    let stops = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_eq!(stops.log, grant.log, "a resize under way");
    let barrier = stops.until.expect("a resize is under way");
    kit.settle_at(&stops.lease, &barrier).await?;
    kit.store.reshard(ROUTE).await?;
    for index in [0, 1] {
        let shard = kit.granted(ROUTE, Shard { index, of: 2 }).await?;
        assert_eq!(shard.log, grant.log, "another layout");
    }
    kit.register("other", &["*"], 1).await?;
    let other = kit.granted("other", Shard::WHOLE).await?;
    assert_ne!(other.log, grant.log, "each route delivers by itself");
    Ok(())
}

async fn other_topics_are_another_log(kit: Kit) -> Result<(), StoreError> {
    let grant = kit.serving().await?;
    kit.register(ROUTE, &["orders"], 1).await?;
    let narrowed = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_ne!(narrowed.log, grant.log);
    kit.register(ROUTE, &["*"], 1).await?;
    let widened = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_ne!(widened.log, narrowed.log);
    assert_ne!(widened.log, grant.log, "what was not taken in between may come late");
    Ok(())
}
