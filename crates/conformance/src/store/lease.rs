//! Leases: one holder at a time, told apart by epochs, ended by the database's clock alone.

use std::time::Duration;

use futures::future::try_join_all;
use posthaste_core::{Claim, Lease, Settlement, Shard, StoreError, StoreErrorKind};

use super::{
    case::cases,
    kit::{Kit, ROUTE, TTL, assert_kind, claim},
};

cases! { "lease";
    Nothing: [
        held_shard_is_nobody_elses,
        expired_lease_is_granted_with_a_higher_epoch,
        released_lease_is_free_at_once,
        renewal_extends,
        renewal_never_shortens,
        renewal_of_a_lost_lease_is_fenced,
        delayed_release_leaves_the_new_term_alone,
        old_term_of_the_same_relay_is_fenced,
        ten_claims_at_once_get_one_grant,
        expired_lease_is_granted_once,
        shards_are_leased_apart,
        routes_are_leased_apart,
        shard_the_layout_does_not_have_is_not_granted,
        first_grant_starts_clean,
        unknown_route_is_refused,
    ],
}

async fn is_free(kit: &Kit) -> Result<bool, StoreError> {
    Ok(kit.claim(ROUTE, Shard::WHOLE).await?.is_some())
}

async fn held_shard_is_nobody_elses(kit: Kit) -> Result<(), StoreError> {
    let held = kit.serving().await?;
    assert!(!is_free(&kit).await?, "granted to a second relay");
    let again = Claim { relay: held.lease.relay, ..claim(ROUTE, Shard::WHOLE) };
    let again = kit.store.acquire(&again).await?;
    assert!(again.is_none(), "held is held, even by the one who asks");
    kit.bed.advance(TTL / 2).await;
    assert!(!is_free(&kit).await?, "granted at half its time");
    kit.store.renew(&held.lease, TTL).await?;
    Ok(())
}

async fn expired_lease_is_granted_with_a_higher_epoch(kit: Kit) -> Result<(), StoreError> {
    let mut before = kit.serving().await?.lease;
    for round in 0..3 {
        kit.bed.advance(TTL * 2).await;
        let lease = kit.granted(ROUTE, Shard::WHOLE).await?.lease;
        assert!(lease.epoch > before.epoch, "round {round}: {lease:?} after {before:?}");
        before = lease;
    }
    Ok(())
}

async fn released_lease_is_free_at_once(kit: Kit) -> Result<(), StoreError> {
    let first = kit.serving().await?.lease;
    kit.store.release(&first).await?;
    let second = kit.granted(ROUTE, Shard::WHOLE).await?.lease;
    assert!(second.epoch > first.epoch, "a released epoch is used up");
    assert!(!is_free(&kit).await?);
    Ok(())
}

async fn renewal_extends(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    for _ in 0..4 {
        kit.bed.advance(TTL * 2 / 3).await;
        kit.store.renew(&lease, TTL).await?;
    }
    assert!(!is_free(&kit).await?, "renewed, yet granted to another");
    kit.bed.advance(TTL * 2).await;
    assert!(is_free(&kit).await?, "renewal is not for ever");
    Ok(())
}

/// A short renewal, or one under a clock that stepped back, must not end a lease early.
async fn renewal_never_shortens(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.store.renew(&lease, Duration::from_secs(1)).await?;
    kit.bed.advance(TTL / 2).await;
    assert!(!is_free(&kit).await?);
    Ok(())
}

async fn renewal_of_a_lost_lease_is_fenced(kit: Kit) -> Result<(), StoreError> {
    let lost = kit.serving().await?.lease;
    kit.bed.advance(TTL * 2).await;
    let held = kit.granted(ROUTE, Shard::WHOLE).await?.lease;
    let renewed = kit.store.renew(&lost, TTL * 9).await;
    assert_kind(renewed, StoreErrorKind::Fenced, "renewal of a lost lease");
    let forged = Lease { relay: lost.relay, ..held.clone() };
    let renewed = kit.store.renew(&forged, TTL * 9).await;
    assert_kind(renewed, StoreErrorKind::Fenced, "renewal by another relay");
    kit.bed.advance(TTL * 2).await;
    assert!(is_free(&kit).await?, "a fenced renewal extended the lease");
    Ok(())
}

async fn delayed_release_leaves_the_new_term_alone(kit: Kit) -> Result<(), StoreError> {
    let lost = kit.serving().await?.lease;
    kit.bed.advance(TTL * 2).await;
    let held = kit.granted(ROUTE, Shard::WHOLE).await?.lease;
    kit.store.release(&lost).await?;
    assert!(!is_free(&kit).await?, "released by its former holder");
    kit.store.renew(&held, TTL).await?;
    Ok(())
}

/// The same process twice in a row: only the epoch tells its terms apart.
async fn old_term_of_the_same_relay_is_fenced(kit: Kit) -> Result<(), StoreError> {
    let old = kit.serving().await?.lease;
    kit.bed.advance(TTL * 2).await;
    let again = Claim { relay: old.relay, ..claim(ROUTE, Shard::WHOLE) };
    let new = kit.store.acquire(&again).await?.expect("it has expired").lease;
    assert!(new.epoch > old.epoch);
    let renewed = kit.store.renew(&old, TTL).await;
    assert_kind(renewed, StoreErrorKind::Fenced, "renewal of the old term");
    let settled = kit.store.settle(&old, &Settlement::default()).await;
    assert_kind(settled, StoreErrorKind::Fenced, "settlement of the old term");
    kit.store.release(&old).await?;
    assert!(!is_free(&kit).await?, "released by the old term");
    kit.store.renew(&new, TTL).await?;
    Ok(())
}

async fn ten_claims_at_once_get_one_grant(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let claims = (0..10).map(|_| kit.claim(ROUTE, Shard::WHOLE));
    let grants = try_join_all(claims).await?;
    assert_eq!(grants.iter().flatten().count(), 1);
    Ok(())
}

async fn expired_lease_is_granted_once(kit: Kit) -> Result<(), StoreError> {
    kit.serving().await?;
    for round in 0..5 {
        kit.bed.advance(TTL * 2).await;
        let claims = (0..6).map(|_| kit.claim(ROUTE, Shard::WHOLE));
        let grants = try_join_all(claims).await?;
        assert_eq!(grants.iter().flatten().count(), 1, "round {round}");
    }
    Ok(())
}

async fn shards_are_leased_apart(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["*"], 3).await?;
    let shard = |index| Shard { index, of: 3 };
    let leases = [
        kit.granted(ROUTE, shard(0)).await?.lease,
        kit.granted(ROUTE, shard(1)).await?.lease,
        kit.granted(ROUTE, shard(2)).await?.lease,
    ];
    kit.store.release(&leases[1]).await?;
    assert!(kit.claim(ROUTE, shard(0)).await?.is_none());
    assert!(kit.claim(ROUTE, shard(1)).await?.is_some());
    assert!(kit.claim(ROUTE, shard(2)).await?.is_none());
    Ok(())
}

async fn routes_are_leased_apart(kit: Kit) -> Result<(), StoreError> {
    kit.register("one", &["*"], 1).await?;
    kit.register("two", &["*"], 1).await?;
    let one = kit.granted("one", Shard::WHOLE).await?.lease;
    let two = kit.granted("two", Shard::WHOLE).await?.lease;
    kit.store.release(&one).await?;
    kit.store.renew(&two, TTL).await?;
    assert!(kit.claim("two", Shard::WHOLE).await?.is_none());
    Ok(())
}

async fn shard_the_layout_does_not_have_is_not_granted(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["*"], 2).await?;
    for (index, of) in [(0, 1), (0, 3), (2, 3), (2, 2), (9, 2)] {
        let grant = kit.claim(ROUTE, Shard { index, of }).await?;
        assert!(grant.is_none(), "shard {index} of {of}, where there are 2");
    }
    kit.granted(ROUTE, Shard { index: 1, of: 2 }).await?;
    Ok(())
}

async fn first_grant_starts_clean(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let claim = claim(ROUTE, Shard::WHOLE);
    let grant = kit.store.acquire(&claim).await?.expect("it is free");
    assert_eq!(grant.lease.route, ROUTE);
    assert_eq!(grant.lease.shard, Shard::WHOLE);
    assert_eq!(grant.lease.relay, claim.relay);
    assert!(grant.lease.epoch > 0);
    assert_eq!(grant.position.seq(), 0);
    assert_eq!(grant.until, None);
    assert!(grant.blocked.is_empty());
    Ok(())
}

async fn unknown_route_is_refused(kit: Kit) -> Result<(), StoreError> {
    let claimed = kit.claim("nowhere", Shard::WHOLE).await;
    assert_kind(claimed, StoreErrorKind::Refused, "a claim");
    Ok(())
}
