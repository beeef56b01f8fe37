//! Making routes known.

use futures::future::try_join_all;
use posthaste_core::{Layout, Shard, StoreError};

use super::{
    case::cases,
    kit::{Kit, ROUTE, TTL},
};

cases! { "register";
    Nothing: [
        layout_is_as_asked,
        same_registration_changes_nothing,
        registrations_at_once_agree,
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
