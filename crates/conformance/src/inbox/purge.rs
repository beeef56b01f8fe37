//! Cases of forgetting ids.

use std::{sync::Arc, time::Duration};

use posthaste_core::{InboxError, InboxMode, Incoming};

use super::{
    Bed,
    case::cases,
    kit::{CONSUMER, handle, message, rule, takes_effect},
};

cases!("purge": [ids_go_in_chunks_and_never_before_their_window]);

const DAY: Duration = Duration::from_secs(86_400);

async fn ids_go_in_chunks_and_never_before_their_window(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    let store = bed.inbox_store();
    let ids = rule(InboxMode::IdsFirst);
    let old: Vec<Incoming> = (0..25).map(|_| message()).collect();
    handle(&bed, &ids, &old).await?;
    let mut others = ids.clone();
    others.consumer = "another".to_owned();
    handle(&bed, &others, &old).await?;
    bed.advance(DAY).await;
    let young = message();
    assert!(takes_effect(&bed, &ids, &young).await?);
    let age = store.inbox_status().await?.into_iter().find(|it| it.consumer == CONSUMER);
    let age = age.and_then(|it| it.oldest_id_age).expect("ids are kept");
    assert!(age >= DAY && age < DAY * 2, "{age:?}");

    assert_eq!(store.purge_inbox(CONSUMER, DAY * 2, 10).await?.ids, 0, "not before the window");
    assert!(!takes_effect(&bed, &ids, &old[0]).await?);
    for expected in [10, 10, 5, 0] {
        assert_eq!(store.purge_inbox(CONSUMER, DAY / 2, 10).await?.ids, expected);
    }
    assert!(!takes_effect(&bed, &ids, &young).await?, "the young one is still known");
    assert!(!takes_effect(&bed, &others, &old[0]).await?, "so are those of another consumer");
    assert!(takes_effect(&bed, &ids, &old[0]).await?, "forgotten is forgotten");
    Ok(())
}
