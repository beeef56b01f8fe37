//! Cases of commits: one that did not commit is an error, and leaves nothing.

use std::sync::Arc;

use posthaste_core::{Admitted, InboxError, InboxMode, InboxRule, Input, Message, StoreErrorKind};
use uuid::Uuid;

use super::{
    Bed, Writer,
    case::cases,
    kit::{placed, takes_effect},
};

cases!("commit": [
    a_transaction_that_was_rolled_back_is_not_committed,
    what_follows_a_transaction_that_was_rolled_back_is_not_kept,
    a_failure_in_a_savepoint_does_no_harm,
    a_transaction_that_was_rolled_back_takes_no_message,
    a_connection_serves_after_a_transaction_that_was_rolled_back,
]);

const MODES: [InboxMode; 3] = [InboxMode::IdsFirst, InboxMode::IdsLast, InboxMode::Watermark];

fn effect() -> [Message; 1] {
    [Message::from_bytes("effects", None, "")]
}

/// The transaction is gone by the time of its commit, or before: what a call on it says.
fn assert_not_committed<T: std::fmt::Debug>(outcome: Result<T, InboxError>) {
    match outcome {
        Err(InboxError::Store(error)) => {
            assert_eq!(error.kind, StoreErrorKind::NotCommitted, "{error:?}");
            assert!(error.is_retryable(), "the message is handled when it comes again");
            assert!(error.to_string().contains("[PH-1014]"), "{error}");
        }
        other => panic!("nothing was committed, and that is an error: {other:?}"),
    }
}

/// Ends a handled message's transaction as the library does.
async fn conclude(
    rule: &InboxRule,
    mut writer: Box<dyn Writer>,
    admitted: &Admitted,
) -> Result<bool, InboxError> {
    let is_kept = rule.conclude(&mut *writer.inbox(), admitted).await?;
    writer.commit().await?;
    Ok(is_kept)
}

/// A consumer of each mode.
fn rules() -> [InboxRule; 3] {
    MODES.map(|mode| InboxRule { consumer: format!("{mode:?}"), mode })
}

async fn a_transaction_that_was_rolled_back_is_not_committed(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    for rule in rules() {
        let mode = rule.mode;
        let before = bed.enqueued().await;
        let message = placed(Uuid::now_v7(), 1, 0);
        let mut writer = bed.begin().await;
        let admitted = rule.admit(&mut *writer.inbox(), &[Input::from(&message)]).await?;
        writer.enqueue(&effect()).await?;
        writer.fail().await;
        assert_not_committed(conclude(&rule, writer, &admitted).await);
        assert_eq!(bed.enqueued().await, before, "{mode:?}: nothing is kept");
        assert!(takes_effect(&bed, &rule, &message).await?, "{mode:?}: it comes again");
        assert!(!takes_effect(&bed, &rule, &message).await?, "{mode:?}: and is recorded then");
        assert_eq!(bed.enqueued().await, before + 1, "{mode:?}");
    }
    Ok(())
}

/// As a handler does that repeats a statement after a deadlock.
async fn what_follows_a_transaction_that_was_rolled_back_is_not_kept(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    for rule in rules() {
        let mode = rule.mode;
        let message = placed(Uuid::now_v7(), 1, 0);
        let mut writer = bed.begin().await;
        let admitted = rule.admit(&mut *writer.inbox(), &[Input::from(&message)]).await?;
        writer.fail().await;
        writer.write_anyway().await;
        assert_not_committed(conclude(&rule, writer, &admitted).await);
        assert_eq!(bed.enqueued().await, 0, "{mode:?}: half of it would be");
    }
    Ok(())
}

async fn a_failure_in_a_savepoint_does_no_harm(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    for rule in rules() {
        let mode = rule.mode;
        let before = bed.enqueued().await;
        let message = placed(Uuid::now_v7(), 1, 0);
        let mut writer = bed.begin().await;
        let admitted = rule.admit(&mut *writer.inbox(), &[Input::from(&message)]).await?;
        writer.fail_in_savepoint().await;
        writer.enqueue(&effect()).await?;
        assert!(conclude(&rule, writer, &admitted).await?, "{mode:?}");
        assert_eq!(bed.enqueued().await, before + 1, "{mode:?}");
        assert!(!takes_effect(&bed, &rule, &message).await?, "{mode:?}: it is recorded");
    }
    Ok(())
}

async fn a_transaction_that_was_rolled_back_takes_no_message(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    let mut writer = bed.begin().await;
    writer.fail().await;
    let enqueued = writer.enqueue(&effect()).await;
    let committed = writer.commit().await;
    assert_not_committed(enqueued.and(committed).map_err(InboxError::from));
    assert_eq!(bed.enqueued().await, 0);

    // An application that commits by itself must be told by `enqueue`.
    let mut writer = bed.begin_unguarded().await;
    writer.enqueue(&effect()).await?;
    writer.fail().await;
    assert_not_committed(writer.enqueue(&effect()).await.map_err(InboxError::from));
    writer.rollback().await;
    assert_eq!(bed.enqueued().await, 0);
    Ok(())
}

async fn a_connection_serves_after_a_transaction_that_was_rolled_back(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    // More often than a pool has connections.
    for round in 0..24 {
        let mut writer = bed.begin().await;
        writer.fail().await;
        match round % 3 {
            0 => assert_not_committed(writer.commit().await.map_err(InboxError::from)),
            1 => writer.rollback().await,
            _ => drop(writer),
        }
        let mut writer = bed.begin().await;
        writer.enqueue(&effect()).await?;
        writer.commit().await?;
        // Outside any transaction, as the application would.
        bed.write_alone().await;
    }
    assert_eq!(bed.enqueued().await, 48);
    Ok(())
}
