//! Cases of messages that a consumer gave up.

use std::{sync::Arc, time::Duration};

use posthaste_core::{
    Failure, InboxError, Letter, Message, ParkState, ParkedFilter, Provenance, StoreError,
};

use super::{Bed, case::cases, kit::CONSUMER};

cases!("letters": [
    a_dead_letter_keeps_the_message_and_its_errors,
    one_of_a_sender_without_limits_is_kept_as_it_came,
    a_redriven_one_is_handled_once,
    one_that_fails_again_is_dead_again,
    a_discarded_one_is_shown_by_id_only_and_removed_in_time,
    one_that_another_handled_does_not_come_back,
    filters_leave_others_alone,
], concurrent: [
    one_that_another_is_handling_does_not_come_back,
]);

fn letter(consumer: &str, topic: &str) -> Letter {
    let message = Message::from_bytes(topic, Some("k"), &b"\x00\xffbytes"[..])
        .event_type("OrderPlaced")
        .header("z", "é")
        .header("a", "");
    let provenance =
        Provenance { source: Some("/shop".to_owned()), seq: Some(7), ..Provenance::default() };
    Letter { consumer: consumer.to_owned(), message, provenance, attempts: 3 }
}

async fn bury(bed: &Arc<dyn Bed>, letter: &Letter, class: &'static str) -> Result<(), StoreError> {
    let mut writer = bed.begin().await;
    writer.inbox().bury(letter, &Failure::new(class, "it says why")).await?;
    writer.commit().await?;
    Ok(())
}

async fn rebury(
    bed: &Arc<dyn Bed>,
    letter: &Letter,
    class: &'static str,
) -> Result<bool, StoreError> {
    let mut writer = bed.begin().await;
    let is_there = writer.inbox().rebury(letter, &Failure::new(class, "it says why")).await?;
    writer.commit().await?;
    Ok(is_there)
}

async fn unbury(bed: &Arc<dyn Bed>, letter: &Letter) -> Result<bool, StoreError> {
    let mut writer = bed.begin().await;
    let is_there = writer.inbox().unbury(&letter.consumer, letter.message.id).await?;
    writer.commit().await?;
    Ok(is_there)
}

fn any() -> ParkedFilter {
    ParkedFilter::default()
}

async fn a_dead_letter_keeps_the_message_and_its_errors(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    let letter = letter(CONSUMER, "orders");
    bury(&bed, &letter, "handler").await?;
    let found = bed.inbox_store().letters(&any(), 10).await?;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message, letter.message);
    assert_eq!((found[0].route.as_str(), found[0].seq, found[0].attempts), (CONSUMER, 7, 3));
    assert_eq!(found[0].state, ParkState::Dead);
    let error = Some(("handler".to_owned(), "it says why".to_owned()));
    assert_eq!((&found[0].first_error, &found[0].last_error), (&error, &error));
    assert!(bed.inbox_store().due_letters(CONSUMER, 10).await?.is_empty(), "nobody decided");
    assert_eq!(bed.inbox_store().inbox_status().await?[0].dead, 1);
    Ok(())
}

/// No outbox would take such a message, but other senders send it.
async fn one_of_a_sender_without_limits_is_kept_as_it_came(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    let message = Message::from_bytes("t\0".repeat(300), Some(&"é\0".repeat(2000)), "")
        .event_type("\0".repeat(300))
        .content_type("c".repeat(300))
        .header("nul", "a\0b")
        .header("", "")
        .header("nul", "again")
        .header("posthaste-kept-key", "not ours");
    let provenance = Provenance { source: Some("/\0".repeat(600)), ..Provenance::default() };
    let letter = Letter { consumer: CONSUMER.to_owned(), message, provenance, attempts: 1 };
    bury(&bed, &letter, "handler").await?;
    let store = bed.inbox_store();
    assert_eq!(store.letters(&any(), 10).await?[0].message, letter.message);
    assert_eq!(store.redrive_letters(&any(), "ann").await?, 1);
    let due = store.due_letters(CONSUMER, 10).await?;
    assert_eq!(due[0].message, letter.message);
    assert_eq!(due[0].provenance.source, letter.provenance.source);
    Ok(())
}

async fn a_redriven_one_is_handled_once(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let (store, letter) = (bed.inbox_store(), letter(CONSUMER, "orders"));
    bury(&bed, &letter, "handler").await?;
    assert!(!unbury(&bed, &letter).await?, "not before someone redrives it");
    assert_eq!(store.redrive_letters(&any(), "ann").await?, 1);
    assert_eq!(store.redrive_letters(&any(), "ann").await?, 0);
    let due = store.due_letters(CONSUMER, 10).await?;
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].message, letter.message);
    assert_eq!((due[0].attempts, due[0].provenance.redriven), (0, 1));
    assert_eq!(due[0].provenance.source.as_deref(), Some("/shop"));
    assert_eq!(due[0].provenance.seq, Some(7));
    assert!(unbury(&bed, &letter).await?);
    assert!(!unbury(&bed, &letter).await?);
    assert!(store.due_letters(CONSUMER, 10).await?.is_empty());
    Ok(())
}

async fn one_that_fails_again_is_dead_again(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let (store, letter) = (bed.inbox_store(), letter(CONSUMER, "orders"));
    bury(&bed, &letter, "first").await?;
    assert!(!rebury(&bed, &letter, "none").await?, "not before someone redrives it");
    store.redrive_letters(&any(), "ann").await?;
    assert!(rebury(&bed, &letter, "second").await?);
    assert!(store.due_letters(CONSUMER, 10).await?.is_empty());
    let found = store.letters(&any(), 10).await?;
    let class = |error: &Option<(String, String)>| error.as_ref().map(|error| error.0.clone());
    assert_eq!(class(&found[0].first_error).as_deref(), Some("first"));
    assert_eq!(class(&found[0].last_error).as_deref(), Some("second"));
    assert_eq!((found[0].redriven, found[0].attempts), (1, 3));
    Ok(())
}

/// Two replicas take a redriven one; it takes effect in one of them and fails in the other.
async fn one_that_another_handled_does_not_come_back(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let (store, letter) = (bed.inbox_store(), letter(CONSUMER, "orders"));
    bury(&bed, &letter, "first").await?;
    store.redrive_letters(&any(), "ann").await?;
    assert!(unbury(&bed, &letter).await?);
    assert!(!rebury(&bed, &letter, "second").await?);
    assert!(store.letters(&any(), 10).await?.is_empty());
    assert_eq!(store.redrive_letters(&any(), "ann").await?, 0, "it would take effect again");
    Ok(())
}

/// The same, while the one in which it takes effect has not committed yet.
async fn one_that_another_is_handling_does_not_come_back(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    let (store, letter) = (bed.inbox_store(), letter(CONSUMER, "orders"));
    bury(&bed, &letter, "first").await?;
    store.redrive_letters(&any(), "ann").await?;
    let mut handler = bed.begin().await;
    assert!(handler.inbox().unbury(&letter.consumer, letter.message.id).await?);
    let (theirs, given_up) = (Arc::clone(&bed), letter.clone());
    let failing = tokio::spawn(async move { rebury(&theirs, &given_up, "second").await });
    handler.commit().await?;
    assert!(!failing.await.expect("no panic")?);
    assert!(store.letters(&any(), 10).await?.is_empty());
    Ok(())
}

async fn a_discarded_one_is_shown_by_id_only_and_removed_in_time(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    let (store, letter) = (bed.inbox_store(), letter(CONSUMER, "orders"));
    bury(&bed, &letter, "handler").await?;
    assert_eq!(store.discard_letters(&any(), "ann", "test data").await?, 1);
    assert!(store.letters(&any(), 10).await?.is_empty());
    assert_eq!(store.redrive_letters(&any(), "ann").await?, 0);
    let by_id = ParkedFilter { ids: vec![letter.message.id], ..any() };
    let found = store.letters(&by_id, 10).await?;
    assert_eq!(found[0].acted, Some(("ann".to_owned(), "test data".to_owned())));
    let day = Duration::from_secs(86_400);
    bed.advance(day / 2).await;
    assert_eq!(store.purge_inbox(CONSUMER, day, 10).await?.discarded, 0);
    bed.advance(day).await;
    assert_eq!(store.purge_inbox(CONSUMER, day, 10).await?.discarded, 1);
    Ok(())
}

async fn filters_leave_others_alone(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let store = bed.inbox_store();
    let letters = [("a", "orders"), ("a", "users"), ("b", "orders")];
    let letters = letters.map(|(consumer, topic)| letter(consumer, topic));
    for (letter, class) in letters.iter().zip(["x", "y", "z"]) {
        bury(&bed, letter, class).await?;
    }
    let consumer = ParkedFilter { route: Some("a".to_owned()), ..any() };
    assert_eq!(store.letters(&consumer, 10).await?.len(), 2);
    assert_eq!(store.letters(&any(), 1).await?.len(), 1);
    let topic = ParkedFilter { topic: Some("users".to_owned()), ..any() };
    assert_eq!(store.redrive_letters(&topic, "ann").await?, 1);
    let class = ParkedFilter { class: Some("z".to_owned()), ..any() };
    assert_eq!(store.discard_letters(&class, "ann", "why").await?, 1);
    let left = store.letters(&any(), 10).await?;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].message.id, letters[0].message.id);
    Ok(())
}
