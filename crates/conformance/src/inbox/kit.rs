//! What cases share: handling messages as the library does.

use std::sync::Arc;

use posthaste_core::{
    Floor, InboxError, InboxMode, InboxRule, Incoming, Input, Message, Provenance, Seq, Shard,
};
use uuid::Uuid;

use super::Bed;

/// The consumer of most cases.
pub(super) const CONSUMER: &str = "billing";

pub(super) fn rule(mode: InboxMode) -> InboxRule {
    InboxRule { consumer: CONSUMER.to_owned(), mode }
}

/// A message that came by no lane.
pub(super) fn message() -> Incoming {
    Incoming {
        message: Message::from_bytes("orders", Some("k"), "{}"),
        provenance: Provenance::default(),
        receipt: 0,
        lane: None,
    }
}

/// A message of a log, in lane `lane`, whose sender knew that everything up to `floor` had arrived.
pub(super) fn placed(log: Uuid, seq: Seq, floor: Seq) -> Incoming {
    let floor = Floor { log, shard: Shard::WHOLE, seq: floor, missing: Vec::new() };
    let provenance = Provenance {
        source: Some("/shop".to_owned()),
        seq: Some(seq),
        floor: Some(floor),
        ..Provenance::default()
    };
    Incoming { provenance, lane: Some("lane".into()), ..message() }
}

/// Handles messages in one transaction: each new one enqueues one message. How many were new;
/// `None` where another was faster and nothing was kept.
pub(super) async fn handle(
    bed: &Arc<dyn Bed>,
    rule: &InboxRule,
    messages: &[Incoming],
) -> Result<Option<usize>, InboxError> {
    let inputs: Vec<Input<'_>> = messages.iter().map(Input::from).collect();
    let mut writer = bed.begin().await;
    let admitted = rule.admit(&mut *writer.inbox(), &inputs).await?;
    let effects: Vec<Message> =
        (0..admitted.count()).map(|_| Message::from_bytes("effects", None, "")).collect();
    writer.enqueue(&effects).await?;
    let is_kept = rule.conclude(&mut *writer.inbox(), &admitted).await?;
    if is_kept {
        writer.commit().await?;
        return Ok(Some(admitted.count()));
    }
    writer.rollback().await;
    Ok(None)
}

/// Handles one message; whether it took effect.
pub(super) async fn takes_effect(
    bed: &Arc<dyn Bed>,
    rule: &InboxRule,
    message: &Incoming,
) -> Result<bool, InboxError> {
    Ok(handle(bed, rule, std::slice::from_ref(message)).await? == Some(1))
}
