//! Closing: flushes, returns, and does no harm whenever it is called.

use posthaste_core::{BrokerError, Outcome};

use super::{
    case::cases,
    driver::deliver,
    kit::{DEADLINE, Kit, call, ids, message, within},
};

cases! { "close";
    []: [
        acknowledged_is_there_afterwards,
        unused_adapter_closes,
        closing_twice_does_no_harm,
        publishing_afterwards_is_answered,
        adapter_that_is_only_dropped_leaves_nothing_undone,
    ],
}

async fn acknowledged_is_there_afterwards(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let deliveries = kit.deliveries((0..300).map(|n| message(&topic, Some("k"), n)));
    deliver(&broker, &deliveries).await;
    within("closing", broker.close()).await;
    drop(broker);
    inbox.until_has("all that was acknowledged", &deliveries).await;
    assert_eq!(inbox.ids(), ids(&deliveries), "in order, each once");
    Ok(())
}

async fn unused_adapter_closes(kit: Kit) -> Result<(), BrokerError> {
    let broker = kit.broker().await;
    within("closing an adapter that was never used", broker.close()).await;
    Ok(())
}

async fn closing_twice_does_no_harm(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let deliveries = kit.deliveries([message(&topic, Some("k"), 1)]);
    deliver(&broker, &deliveries).await;
    within("closing", broker.close()).await;
    within("closing again", broker.close()).await;
    inbox.until_has("what was acknowledged", &deliveries).await;
    Ok(())
}

async fn publishing_afterwards_is_answered(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    deliver(&broker, &kit.deliveries([message(&topic, Some("k"), 1)])).await;
    within("closing", broker.close()).await;
    let late = kit.deliveries([message(&topic, Some("k"), 2)]);
    match &call(broker.as_ref(), &late, DEADLINE).await[0] {
        Outcome::Acked => inbox.until_has("what was acknowledged after closing", &late).await,
        Outcome::Unreachable(_) => {}
        other => panic!("a closed adapter dials again or is unreachable, not {other:?}"),
    }
    within("closing once more", broker.close()).await;
    Ok(())
}

async fn adapter_that_is_only_dropped_leaves_nothing_undone(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let deliveries = kit.deliveries((0..100).map(|n| message(&topic, Some("k"), n)));
    deliver(&broker, &deliveries).await;
    drop(broker);
    inbox.until_has("all that was acknowledged", &deliveries).await;
    Ok(())
}
