//! Calls: one outcome for each message, in order, and a bad message fails alone.

use std::sync::Arc;

use posthaste_core::{Broker, BrokerError, Delivery, Message, Outcome};

use super::{
    Traits,
    case::cases,
    inbox::Inbox,
    kit::{CANARY, DEADLINE, Kit, call, ids, message, publish},
    message::full,
};

cases! { "call";
    []: [
        call_of_nothing_has_no_outcomes,
        calls_of_every_size_are_answered,
        message_sent_again_is_acknowledged_and_the_same,
    ],
    [WireForm]: [
        bad_message_among_good_ones_fails_alone,
        bad_messages_everywhere_fail_alone,
    ],
    [SeveralOfAKey]: [full_call_of_one_key_arrives_in_order],
    [WireForm, SeveralOfAKey]: [bad_message_holds_back_what_follows_it],
}

/// Messages that must be refused, each in its own way.
pub(super) fn bad_messages(traits: &Traits, topic: &str, key: &str) -> Vec<Message> {
    let canary = || Message::from_bytes(topic, Some(key), CANARY);
    let mut bad = vec![Message::from_bytes("line\r\nbreak", Some(key), CANARY)];
    bad.extend(
        traits.illegal_topics.iter().map(|topic| Message { topic: topic.clone(), ..canary() }),
    );
    bad.extend(traits.illegal_headers.iter().map(|(name, value)| canary().header(name, value)));
    if let Some(max) = traits.payload_max {
        bad.push(Message { payload: CANARY.repeat(max / CANARY.len() + 1).into(), ..canary() });
    }
    bad
}

/// Checks that exactly the good ones have arrived, once each, after all that could still come.
async fn check_arrived(
    kit: &Kit,
    broker: &Arc<dyn Broker>,
    inbox: &Inbox,
    topic: &str,
    good: &[Arc<Delivery>],
    keys: &[&str],
) {
    for key in keys {
        kit.fence(broker.as_ref(), inbox, topic, key).await;
    }
    inbox.until_has("the good messages", good).await;
    let mut expected = ids(good);
    let mut arrived: Vec<_> = inbox.all();
    arrived.retain(|incoming| incoming.message.payload != "fence");
    let mut arrived: Vec<_> = arrived.iter().map(|incoming| incoming.message.id).collect();
    expected.sort_unstable();
    arrived.sort_unstable();
    assert_eq!(arrived, expected, "exactly what was acknowledged arrives");
}

fn assert_rejected(outcome: &Outcome, delivery: &Delivery) {
    assert!(
        matches!(outcome, Outcome::Rejected(_)),
        "a bad message is rejected, not {outcome:?}: {:?}",
        delivery.message
    );
}

async fn call_of_nothing_has_no_outcomes(kit: Kit) -> Result<(), BrokerError> {
    let broker = kit.broker().await;
    assert_eq!(call(broker.as_ref(), &[], DEADLINE).await, []);
    Ok(())
}

async fn calls_of_every_size_are_answered(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let mut sent = Vec::new();
    for size in [1, 2, broker.capabilities().call_messages_max] {
        let one_each = (0..size).map(|n| message(&topic, Some(&format!("{size}-{n}")), n));
        let deliveries = kit.deliveries(one_each);
        publish(broker.as_ref(), &deliveries).await;
        sent.extend(deliveries);
    }
    check_arrived(&kit, &broker, &inbox, &topic, &sent, &[]).await;
    Ok(())
}

async fn message_sent_again_is_acknowledged_and_the_same(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let first = kit.delivery(full(&topic, "twice"));
    let second = Arc::new(Delivery { attempt: 2, ..Delivery::clone(&first) });
    publish(broker.as_ref(), std::slice::from_ref(&first)).await;
    publish(broker.as_ref(), &[second]).await;
    kit.fence(broker.as_ref(), &inbox, &topic, "twice").await;
    let arrived = inbox.ids();
    // A broker that knows the id may leave the second copy out.
    let copies = arrived.iter().filter(|id| **id == first.message.id).count();
    assert!((1..=2).contains(&copies), "it arrives once or twice, not {copies} times");
    assert_eq!(arrived.len(), copies + 1, "and under no other id");
    Ok(())
}

async fn bad_message_among_good_ones_fails_alone(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let mut good = Vec::new();
    for (round, bad) in bad_messages(&kit.bed.traits(), &topic, "bad").into_iter().enumerate() {
        let mut messages: Vec<Message> =
            (0..6).map(|n| message(&topic, Some(&format!("good-{n}")), round)).collect();
        messages.insert(round % 7, bad);
        let deliveries = kit.deliveries(messages);
        let outcomes = call(broker.as_ref(), &deliveries, DEADLINE).await;
        for (index, (outcome, delivery)) in outcomes.iter().zip(deliveries).enumerate() {
            if index == round % 7 {
                assert_rejected(outcome, &delivery);
            } else {
                assert_eq!(*outcome, Outcome::Acked, "good ones beside bad one no. {round}");
                good.push(delivery);
            }
        }
    }
    check_arrived(&kit, &broker, &inbox, &topic, &good, &["bad"]).await;
    Ok(())
}

async fn bad_messages_everywhere_fail_alone(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let mut random = fastrand::Rng::with_seed(7);
    let mut good = Vec::new();
    for round in 0..10 {
        let is_bad: Vec<bool> = (0..8).map(|_| random.bool()).collect();
        let messages = is_bad.iter().enumerate().map(|(n, is_bad)| {
            let topic = if *is_bad { "line\r\nbreak" } else { &topic };
            message(topic, Some(&format!("{round}-{n}")), n)
        });
        let deliveries = kit.deliveries(messages);
        let outcomes = call(broker.as_ref(), &deliveries, DEADLINE).await;
        for ((outcome, delivery), is_bad) in outcomes.iter().zip(deliveries).zip(is_bad) {
            if is_bad {
                assert_rejected(outcome, &delivery);
            } else {
                assert_eq!(*outcome, Outcome::Acked, "a good one, in order");
                good.push(delivery);
            }
        }
    }
    check_arrived(&kit, &broker, &inbox, &topic, &good, &[]).await;
    Ok(())
}

async fn full_call_of_one_key_arrives_in_order(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let count = broker.capabilities().call_messages_max;
    let deliveries = kit.deliveries((0..count).map(|n| message(&topic, Some("k"), n)));
    publish(broker.as_ref(), &deliveries).await;
    inbox.until_has("a full call", &deliveries).await;
    assert_eq!(inbox.ids(), ids(&deliveries), "in order, each once");
    Ok(())
}

async fn bad_message_holds_back_what_follows_it(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let mut good = Vec::new();
    let mut keys = Vec::new();
    for (round, bad) in bad_messages(&kit.bed.traits(), &topic, "").into_iter().enumerate() {
        let (key, other) = (format!("bad-{round}"), format!("other-{round}"));
        let bad = Message { key: Some(key.clone()), ..bad };
        let of = |key: &str| message(&topic, Some(key), round);
        let call_of = [of(&key), of(&other), bad, of(&other), of(&key), of(&key), of(&other)];
        let deliveries = kit.deliveries(call_of);
        let outcomes = call(broker.as_ref(), &deliveries, DEADLINE).await;
        assert_rejected(&outcomes[2], &deliveries[2]);
        for index in [0, 1, 3, 6] {
            assert_eq!(
                outcomes[index],
                Outcome::Acked,
                "message {index} precedes it or is of another key"
            );
            good.push(Arc::clone(&deliveries[index]));
        }
        for index in [4, 5] {
            assert!(
                matches!(outcomes[index], Outcome::Unreachable(_)),
                "what follows a bad message of its key is held back, not {:?}",
                outcomes[index]
            );
        }
        keys.push(key);
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    check_arrived(&kit, &broker, &inbox, &topic, &good, &keys).await;
    Ok(())
}
