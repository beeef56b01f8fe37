//! Faults: a server that is gone or silent is never taken for one that answered, calls keep their
//! deadline, and everything works again once the server does.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use posthaste_core::{Broker, BrokerError, Delivery, Outcome};

use super::{
    call::bad_messages,
    case::cases,
    driver::Driver,
    inbox::Inbox,
    kit::{Kit, call, message, publish, within},
};

cases! { "fault";
    [Faults]: [
        frozen_server_is_never_taken_for_an_answer,
        frozen_server_cannot_be_dialled,
        closing_beside_a_frozen_server_returns,
        stopped_server_is_unreachable_until_it_is_back,
        opening_beside_a_stopped_server_works,
    ],
    [Faults, Overlap]: [overlapping_calls_each_keep_their_deadline],
    [Faults, WireForm]: [bad_message_beside_a_stopped_server_is_never_unknown],
}

/// The deadline of calls that will not be answered.
const SHORT: Duration = Duration::from_secs(2);

/// Messages of a few keys, which every adapter takes in one call.
fn some(kit: &Kit, topic: &str, count: usize) -> Vec<Arc<Delivery>> {
    kit.deliveries((0..count).map(|n| message(topic, Some(&format!("key-{n}")), n)))
}

fn assert_unanswered(outcomes: &[Outcome]) {
    for outcome in outcomes {
        assert!(
            matches!(outcome, Outcome::Unknown(_) | Outcome::Unreachable(_)),
            "a silent server neither takes nor refuses a message: {outcome:?}"
        );
    }
}

/// Sends them, again where need be, until all are acknowledged and have arrived, and nothing else.
async fn recover(what: &str, broker: &Arc<dyn Broker>, inbox: &Inbox, sent: &[Arc<Delivery>]) {
    let (driver, _) = Driver::new(broker, SHORT, true);
    within(what, driver.run(sent)).await;
    inbox.until_has(what, sent).await;
    for id in inbox.ids() {
        let is_ours = sent.iter().any(|delivery| delivery.message.id == id);
        assert!(is_ours, "{what}: {id} arrived, which nobody sent");
    }
}

async fn frozen_server_is_never_taken_for_an_answer(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.durable_inbox(&topic).await;
    let mut sent = some(&kit, &topic, 5);
    publish(broker.as_ref(), &sent).await;
    let late = some(&kit, &topic, 5);
    sent.extend_from_slice(&late);
    kit.faults().freeze().await;
    assert_unanswered(&call(broker.as_ref(), &late, SHORT).await);
    assert_unanswered(&call(broker.as_ref(), &late, SHORT).await);
    kit.faults().thaw().await;
    recover("messages after the thaw", &broker, &inbox, &sent).await;
    Ok(())
}

async fn frozen_server_cannot_be_dialled(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let inbox = kit.durable_inbox(&topic).await;
    kit.faults().freeze().await;
    let broker = kit.broker().await;
    let sent = some(&kit, &topic, 5);
    assert_unanswered(&call(broker.as_ref(), &sent, SHORT).await);
    kit.faults().thaw().await;
    recover("messages after the thaw", &broker, &inbox, &sent).await;
    Ok(())
}

async fn overlapping_calls_each_keep_their_deadline(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.durable_inbox(&topic).await;
    let sent = some(&kit, &topic, 40);
    publish(broker.as_ref(), &sent[..1]).await;
    kit.faults().freeze().await;
    for _ in 0..2 {
        // The first round finds the connection silent, the second has to dial.
        let calls = sent.chunks(5).map(|part| call(broker.as_ref(), part, SHORT));
        for outcomes in join_all(calls).await {
            assert_unanswered(&outcomes);
        }
    }
    kit.faults().thaw().await;
    recover("messages of calls that overlapped", &broker, &inbox, &sent).await;
    Ok(())
}

async fn closing_beside_a_frozen_server_returns(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let _inbox = kit.durable_inbox(&topic).await;
    publish(broker.as_ref(), &some(&kit, &topic, 1)).await;
    kit.faults().freeze().await;
    within("closing while the server is silent", broker.close()).await;
    Ok(())
}

/// Calls until the adapter has noticed that the server is gone. A first call may be underway when
/// the connection breaks; from then on it is known.
async fn until_unreachable(broker: &dyn Broker, messages: &[Arc<Delivery>]) {
    let is_unreachable = |outcome: &Outcome| matches!(outcome, Outcome::Unreachable(_));
    let what = "an adapter that notices that the server is gone";
    within(what, async {
        loop {
            let outcomes = call(broker, messages, SHORT).await;
            assert_unanswered(&outcomes);
            if outcomes.iter().all(is_unreachable) {
                return;
            }
        }
    })
    .await;
    let outcomes = call(broker, messages, SHORT).await;
    assert!(
        outcomes.iter().all(is_unreachable),
        "messages for a server that is known to be gone are unreachable, not {outcomes:?}"
    );
}

async fn stopped_server_is_unreachable_until_it_is_back(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.durable_inbox(&topic).await;
    let mut sent = some(&kit, &topic, 5);
    publish(broker.as_ref(), &sent).await;
    inbox.until_has("messages before the stop", &sent).await;
    kit.faults().stop().await;
    let late = some(&kit, &topic, 5);
    sent.extend_from_slice(&late);
    until_unreachable(broker.as_ref(), &late).await;
    kit.faults().start().await;
    recover("messages after the start", &broker, &inbox, &sent).await;
    Ok(())
}

async fn opening_beside_a_stopped_server_works(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let inbox = kit.durable_inbox(&topic).await;
    kit.faults().stop().await;
    let broker = within("opening while the server is stopped", kit.broker()).await;
    let sent = some(&kit, &topic, 3);
    let outcomes = call(broker.as_ref(), &sent, SHORT).await;
    assert!(
        outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unreachable(_))),
        "nothing was ever sent, so all is unreachable, not {outcomes:?}"
    );
    kit.faults().start().await;
    recover("messages after the start", &broker, &inbox, &sent).await;
    Ok(())
}

async fn bad_message_beside_a_stopped_server_is_never_unknown(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    kit.faults().stop().await;
    let broker = kit.broker().await;
    for bad in bad_messages(&kit.bed.traits(), &topic, "bad") {
        let outcomes = call(broker.as_ref(), &[kit.delivery(bad)], SHORT).await;
        assert!(
            matches!(outcomes[..], [Outcome::Rejected(_) | Outcome::Unreachable(_)]),
            "it was never sent, whatever the reason: {outcomes:?}"
        );
    }
    Ok(())
}
