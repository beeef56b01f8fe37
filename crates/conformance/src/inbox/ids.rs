//! Cases of what is recorded by id.

use std::{sync::Arc, time::Duration};

use posthaste_core::{InboxError, InboxMode, InboxRule, Input, Message};

use super::{
    Bed,
    case::cases,
    kit::{handle, message, rule, takes_effect},
};

/// Long enough for a statement that does not wait to be done.
const A_WHILE: Duration = Duration::from_millis(300);

cases!("ids": [
    a_copy_takes_no_effect,
    two_consumers_of_one_message_both_handle_it,
    what_is_rolled_back_was_never_recorded,
    a_second_handler_waits_for_the_first,
    a_transaction_of_many_leaves_copies_out,
    a_hundred_copies_at_once_take_effect_once,
    only_new_ones_are_counted,
    a_name_that_breaks_its_limit_is_refused,
], concurrent: [an_optimistic_loser_keeps_nothing]);

async fn a_copy_takes_no_effect(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    for (index, mode) in [InboxMode::IdsFirst, InboxMode::IdsLast].into_iter().enumerate() {
        let message = message();
        assert!(takes_effect(&bed, &rule(mode), &message).await?);
        assert!(!takes_effect(&bed, &rule(mode), &message).await?, "{mode:?}");
        let other = [InboxMode::IdsLast, InboxMode::IdsFirst][index];
        assert!(!takes_effect(&bed, &rule(other), &message).await?, "modes by id know the same");
    }
    assert_eq!(bed.enqueued().await, 2);
    Ok(())
}

async fn two_consumers_of_one_message_both_handle_it(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let message = message();
    for consumer in ["billing", "shipping", "Billing", "billing "] {
        let mut rule = rule(InboxMode::IdsFirst);
        rule.consumer = consumer.to_owned();
        assert!(takes_effect(&bed, &rule, &message).await?, "{consumer:?}");
    }
    assert_eq!(bed.enqueued().await, 4);
    Ok(())
}

async fn what_is_rolled_back_was_never_recorded(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    for mode in [InboxMode::IdsFirst, InboxMode::IdsLast] {
        let message = message();
        let mut writer = bed.begin().await;
        let admitted = rule(mode).admit(&mut *writer.inbox(), &[Input::from(&message)]).await?;
        assert_eq!(admitted.is_new, [true]);
        writer.enqueue(&[Message::from_bytes("effects", None, "")]).await?;
        assert!(rule(mode).conclude(&mut *writer.inbox(), &admitted).await?);
        writer.rollback().await;
        assert!(takes_effect(&bed, &rule(mode), &message).await?, "{mode:?}");
    }
    assert_eq!(bed.enqueued().await, 2);
    Ok(())
}

async fn a_second_handler_waits_for_the_first(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    for first_commits in [true, false] {
        let message = message();
        let first_rule = rule(InboxMode::IdsFirst);
        let mut first = bed.begin().await;
        let admitted = first_rule.admit(&mut *first.inbox(), &[Input::from(&message)]).await?;
        assert_eq!(admitted.is_new, [true]);
        let (their_bed, theirs) = (Arc::clone(&bed), message.clone());
        let second = tokio::spawn(async move {
            takes_effect(&their_bed, &rule(InboxMode::IdsFirst), &theirs).await
        });
        tokio::time::sleep(A_WHILE).await;
        assert!(!second.is_finished(), "it cannot know yet");
        if first_commits {
            first.commit().await?;
        } else {
            first.rollback().await;
        }
        let second = second.await.expect("no panic")?;
        assert_eq!(second, !first_commits);
    }
    Ok(())
}

async fn an_optimistic_loser_keeps_nothing(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let message = message();
    let rule = rule(InboxMode::IdsLast);
    let mut slow = bed.begin().await;
    let admitted = rule.admit(&mut *slow.inbox(), &[Input::from(&message)]).await?;
    slow.enqueue(&[Message::from_bytes("effects", None, "")]).await?;
    assert!(takes_effect(&bed, &rule, &message).await?, "nobody waits");
    assert!(!rule.conclude(&mut *slow.inbox(), &admitted).await?);
    slow.rollback().await;
    assert_eq!(bed.enqueued().await, 1);
    Ok(())
}

async fn a_transaction_of_many_leaves_copies_out(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    for mode in [InboxMode::IdsFirst, InboxMode::IdsLast] {
        let before = bed.enqueued().await;
        let mut messages: Vec<_> = (0..50).map(|_| message()).collect();
        assert!(takes_effect(&bed, &rule(mode), &messages[7]).await?);
        messages.push(messages[3].clone());
        assert_eq!(handle(&bed, &rule(mode), &messages).await?, Some(49), "{mode:?}");
        assert_eq!(handle(&bed, &rule(mode), &messages).await?, Some(0), "{mode:?}");
        assert_eq!(bed.enqueued().await - before, 50);
    }
    Ok(())
}

async fn a_hundred_copies_at_once_take_effect_once(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    for mode in [InboxMode::IdsFirst, InboxMode::IdsLast] {
        let before = bed.enqueued().await;
        let message = message();
        let workers = (0..16).map(|_| {
            let (bed, message) = (Arc::clone(&bed), message.clone());
            tokio::spawn(async move {
                let mut effects = 0;
                let mut copies = 0;
                while copies < 6 {
                    match takes_effect(&bed, &rule(mode), &message).await {
                        Ok(is_new) => {
                            effects += u32::from(is_new);
                            copies += 1;
                        }
                        // Two were in each other's way: the broker gives it out again.
                        Err(error) => assert!(error.is_retryable(), "{error:?}"),
                    }
                }
                effects
            })
        });
        let mut effects = 0;
        for worker in workers.collect::<Vec<_>>() {
            effects += worker.await.expect("no panic");
        }
        assert_eq!(effects, 1, "{mode:?}");
        assert_eq!(bed.enqueued().await - before, 1, "{mode:?}");
    }
    Ok(())
}

async fn only_new_ones_are_counted(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let ids = [(); 5].map(|()| message().message.id);
    let mut writer = bed.begin().await;
    assert_eq!(writer.inbox().record("billing", &ids[..2]).await?, 2);
    assert_eq!(writer.inbox().record("billing", &ids[..1]).await?, 0);
    assert_eq!(writer.inbox().record("billing", &ids).await?, 3);
    assert_eq!(writer.inbox().record("billing", &ids).await?, 0);
    writer.commit().await?;
    Ok(())
}

/// Taken for what it begins with, or for no name at all, every message would seem to be a copy.
async fn a_name_that_breaks_its_limit_is_refused(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    for mode in [InboxMode::IdsFirst, InboxMode::IdsLast, InboxMode::Watermark] {
        for name in [String::new(), "n".repeat(256)] {
            let rule = InboxRule { consumer: name, mode };
            let handled = handle(&bed, &rule, &[message(), message()]).await;
            let error = handled.expect_err("it is no name");
            assert!(!error.is_retryable() && error.to_string().contains("1 to 255"), "{error}");
        }
    }
    // Nor does a store hide it.
    for name in [String::new(), "n".repeat(256)] {
        let mut writer = bed.begin().await;
        let recorded = writer.inbox().record(&name, &[message().message.id]).await;
        assert!(recorded.is_err(), "{recorded:?}");
        writer.rollback().await;
    }
    Ok(())
}
