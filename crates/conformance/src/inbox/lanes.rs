//! Cases of what is known by position.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use posthaste_core::{InboxError, InboxMode, Incoming, Input, Message, Seq, StoreErrorKind};
use uuid::Uuid;

use super::{
    Bed,
    case::cases,
    kit::{CONSUMER, handle, message, placed, rule, takes_effect},
};

cases!("lanes": [
    copies_take_no_effect_and_leave_one_row,
    what_is_rolled_back_was_never_recorded,
    the_first_messages_of_a_lane_are_raced,
    lanes_topics_and_consumers_are_apart,
    what_a_watermark_cannot_judge_is_refused,
    another_log_is_refused_until_it_is_adopted,
    a_position_that_is_handed_out_twice_is_no_copy,
    reorderings_and_contradictions_are_counted,
    above_a_floor_that_stands_still_copies_take_no_effect,
    pages_of_a_log_that_is_forgotten_are_gone,
]);

const WATERMARK: InboxMode = InboxMode::Watermark;

async fn copies_take_no_effect_and_leave_one_row(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let log = Uuid::now_v7();
    let messages: Vec<Incoming> =
        (1..=300).map(|seq| placed(log, seq, (seq - 1) / 20 * 20)).collect();
    for (index, chunk) in messages.chunks(75).enumerate() {
        assert_eq!(handle(&bed, &rule(WATERMARK), chunk).await?, Some(75));
        // The broker gives some out again, from here or far back.
        assert_eq!(handle(&bed, &rule(WATERMARK), chunk).await?, Some(0));
        assert_eq!(handle(&bed, &rule(WATERMARK), &messages[..75 * index]).await?, Some(0));
    }
    assert!(!takes_effect(&bed, &rule(WATERMARK), &messages[0]).await?);
    assert_eq!(bed.enqueued().await, 300);
    let status = bed.inbox_store().inbox_status().await?;
    assert_eq!(status.len(), 1);
    assert_eq!((status[0].lanes, status[0].tally.handled), (1, 300));
    assert_eq!((status[0].tally.reordered, status[0].tally.impossible), (0, 0));
    assert_eq!(status[0].oldest_id_age, None, "no id is kept");
    Ok(())
}

async fn what_is_rolled_back_was_never_recorded(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let message = placed(Uuid::now_v7(), 1, 0);
    let mut writer = bed.begin().await;
    let rule = rule(WATERMARK);
    let admitted = rule.admit(&mut *writer.inbox(), &[Input::from(&message)]).await?;
    writer.enqueue(&[Message::from_bytes("effects", None, "")]).await?;
    assert!(rule.conclude(&mut *writer.inbox(), &admitted).await?);
    writer.rollback().await;
    assert!(takes_effect(&bed, &rule, &message).await?);
    assert_eq!(bed.enqueued().await, 1);
    Ok(())
}

/// Two replicas that both believe that the lane is theirs, as while it changes hands.
async fn the_first_messages_of_a_lane_are_raced(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let log = Uuid::now_v7();
    let replicas = (0..4).map(|_| {
        let bed = Arc::clone(&bed);
        tokio::spawn(async move {
            let mut seq = 1;
            while seq <= 10 {
                match takes_effect(&bed, &rule(WATERMARK), &placed(log, seq, 0)).await {
                    Ok(_) => seq += 1,
                    Err(error) => assert!(error.is_retryable(), "{error:?}"),
                }
            }
        })
    });
    for replica in replicas.collect::<Vec<_>>() {
        replica.await.expect("no panic");
    }
    assert_eq!(bed.enqueued().await, 10);
    Ok(())
}

async fn lanes_topics_and_consumers_are_apart(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let log = Uuid::now_v7();
    assert!(takes_effect(&bed, &rule(WATERMARK), &placed(log, 9, 8)).await?);
    let mut lane = placed(log, 5, 0);
    lane.lane = Some("another".into());
    assert!(takes_effect(&bed, &rule(WATERMARK), &lane).await?);
    let mut topic = placed(log, 5, 0);
    topic.message.topic = "another".to_owned();
    assert!(takes_effect(&bed, &rule(WATERMARK), &topic).await?);
    let mut other = rule(WATERMARK);
    other.consumer = "another".to_owned();
    assert!(takes_effect(&bed, &other, &placed(log, 5, 0)).await?);
    assert!(!takes_effect(&bed, &rule(WATERMARK), &placed(log, 5, 0)).await?);
    Ok(())
}

async fn what_a_watermark_cannot_judge_is_refused(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let refused = takes_effect(&bed, &rule(WATERMARK), &message()).await;
    assert!(matches!(refused, Err(InboxError::NoPosition { .. })), "{refused:?}");
    let mut competing = placed(Uuid::now_v7(), 1, 0);
    competing.lane = None;
    let refused = takes_effect(&bed, &rule(WATERMARK), &competing).await;
    assert!(matches!(refused, Err(InboxError::NotOrdered { .. })), "{refused:?}");
    assert_eq!(bed.enqueued().await, 0);
    Ok(())
}

async fn another_log_is_refused_until_it_is_adopted(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let [old, new] = [Uuid::now_v7(), Uuid::now_v7()];
    let store = bed.inbox_store();
    let unknown = store.adopt_log(CONSUMER, "/shop", new, "ann").await;
    assert_eq!(unknown.expect_err("nothing to go on from").kind, StoreErrorKind::Refused);
    for seq in 1..=5 {
        assert!(takes_effect(&bed, &rule(WATERMARK), &placed(old, seq, seq - 1)).await?);
    }
    let refused = takes_effect(&bed, &rule(WATERMARK), &placed(new, 3, 2)).await;
    let text = format!("{}", refused.as_ref().expect_err("never dropped in silence"));
    assert!(matches!(refused, Err(InboxError::OtherLog { log, .. }) if log == new), "{text}");
    assert!(text.contains("posthaste inbox adopt --consumer billing --source /shop"), "{text}");
    assert!(!refused.expect_err("as above").is_retryable());
    assert!(store.adopt_log(CONSUMER, "/shop", new, "ann").await?);
    assert!(!store.adopt_log(CONSUMER, "/shop", new, "ann").await?, "twice is once");
    assert!(takes_effect(&bed, &rule(WATERMARK), &placed(new, 3, 2)).await?);
    assert!(!takes_effect(&bed, &rule(WATERMARK), &placed(old, 4, 3)).await?, "still known");
    // Every route of a source has a log of its own: another topic may come from another.
    let mut route = placed(Uuid::now_v7(), 1, 0);
    route.message.topic = "another".to_owned();
    assert!(takes_effect(&bed, &rule(WATERMARK), &route).await?, "another topic's first");
    let mut elsewhere = placed(Uuid::now_v7(), 1, 0);
    elsewhere.provenance.source = Some("/other".to_owned());
    assert!(takes_effect(&bed, &rule(WATERMARK), &elsewhere).await?, "another source's first");
    Ok(())
}

async fn a_position_that_is_handed_out_twice_is_no_copy(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    let log = Uuid::now_v7();
    let written = |seq: Seq, hour: u64| {
        let mut message = placed(log, seq, seq - 1);
        let since = hour * 3_600 + seq.unsigned_abs();
        message.provenance.enqueued_at = Some(UNIX_EPOCH + Duration::from_secs(since));
        message
    };
    for seq in 1..=60 {
        assert!(takes_effect(&bed, &rule(WATERMARK), &written(seq, 1)).await?);
    }
    // The source is taken back to 30, and nobody says so.
    let refused = takes_effect(&bed, &rule(WATERMARK), &written(31, 2)).await;
    let text = format!("{}", refused.as_ref().expect_err("never dropped in silence"));
    assert!(matches!(refused, Err(InboxError::ReusedPosition { .. })), "{text}");
    assert!(text.contains("inbox adopt --again --consumer billing --source /shop"), "{text}");
    assert!(!takes_effect(&bed, &rule(WATERMARK), &written(31, 1)).await?, "that is a copy");
    assert_eq!(bed.inbox_store().forget_log("another", log).await?, 0);
    assert_eq!(bed.inbox_store().forget_log(CONSUMER, log).await?, 1);
    for seq in 31..=60 {
        assert!(takes_effect(&bed, &rule(WATERMARK), &written(seq, 2)).await?);
        assert!(!takes_effect(&bed, &rule(WATERMARK), &written(seq, 2)).await?);
    }
    Ok(())
}

async fn reorderings_and_contradictions_are_counted(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let log = Uuid::now_v7();
    for (seq, floor) in [(5, 0), (4, 0), (9, 9)] {
        assert!(takes_effect(&bed, &rule(WATERMARK), &placed(log, seq, floor)).await?);
    }
    let tally = bed.inbox_store().inbox_status().await?[0].tally;
    assert_eq!((tally.handled, tally.reordered, tally.impossible), (3, 1, 1));
    Ok(())
}

/// Messages that take a watermark beyond what it keeps in its row, several times.
const MANY: Seq = 1_600;

/// A batch of messages above a floor, every seventh of the log.
fn above(log: Uuid, from: Seq, to: Seq, floor: Seq) -> Vec<Incoming> {
    (from..to).map(|n| placed(log, 100 + n * 7, floor)).collect()
}

async fn above_a_floor_that_stands_still_copies_take_no_effect(
    bed: Arc<dyn Bed>,
) -> Result<(), InboxError> {
    let (log, rule) = (Uuid::now_v7(), rule(WATERMARK));
    for from in (0..MANY).step_by(200) {
        let batch = above(log, from, from + 200, 5);
        assert_eq!(handle(&bed, &rule, &batch).await?, Some(200));
        assert_eq!(handle(&bed, &rule, &batch).await?, Some(0), "its copies");
    }
    // All of them again, as from a broker that was restored; and what was never sent before.
    assert_eq!(handle(&bed, &rule, &above(log, 0, MANY, 5)).await?, Some(0));
    let late = placed(log, 103, 5);
    assert!(takes_effect(&bed, &rule, &late).await?, "it was parked until now");
    assert!(!takes_effect(&bed, &rule, &late).await?);
    // What is rolled back was never handled.
    let mut writer = bed.begin().await;
    let later = above(log, MANY, MANY + 600, 5);
    let inputs: Vec<Input<'_>> = later.iter().map(Input::from).collect();
    let admitted = rule.admit(&mut *writer.inbox(), &inputs).await?;
    assert!(rule.conclude(&mut *writer.inbox(), &admitted).await?);
    writer.rollback().await;
    assert_eq!(handle(&bed, &rule, &later).await?, Some(600));
    // The floor rises over all but the last, and names one that came and one that did not.
    let top = 100 + (MANY + 598) * 7;
    let mut risen = placed(log, top + 100, top);
    risen.provenance.floor.as_mut().expect("it has one").missing = vec![103, 104];
    assert!(takes_effect(&bed, &rule, &risen).await?);
    assert_eq!(handle(&bed, &rule, &above(log, 0, MANY + 600, 5)).await?, Some(0));
    assert!(!takes_effect(&bed, &rule, &placed(log, 103, 5)).await?, "it came before");
    assert!(takes_effect(&bed, &rule, &placed(log, 104, 5)).await?, "it was missing");
    assert!(!takes_effect(&bed, &rule, &placed(log, 104, 5)).await?);
    Ok(())
}

/// Else new messages at the positions of old ones would be taken for copies.
async fn pages_of_a_log_that_is_forgotten_are_gone(bed: Arc<dyn Bed>) -> Result<(), InboxError> {
    let (log, rule) = (Uuid::now_v7(), rule(WATERMARK));
    for _ in 0..2 {
        for from in (0..MANY).step_by(400) {
            let batch = above(log, from, from + 400, 5);
            assert_eq!(handle(&bed, &rule, &batch).await?, Some(400));
        }
        assert_eq!(bed.inbox_store().forget_log(CONSUMER, log).await?, 1);
    }
    Ok(())
}
