//! Profiles: what arrives of a message in each of its wire forms.

use std::sync::Arc;

use posthaste_core::{BrokerError, Delivery, Incoming, Message};
use posthaste_wire::{Profile, Wire};

use super::{
    case::cases,
    kit::{Kit, publish, subscription, within},
    message::{check_body, check_event, full},
};

cases! { "profile";
    [WireForm]: [
        binary_carries_everything,
        structured_carries_everything,
        raw_carries_payload_content_type_and_headers,
        debezium_carries_the_id_and_what_raw_does,
    ],
    [WireForm, Names, Redelivery, NamedCopies]: [raw_has_the_same_id_when_it_comes_again],
}

fn wire(profile: Profile) -> Wire {
    Wire { profile, source: "/shop".to_owned(), ..Wire::default() }
}

/// Publishes text, JSON, nothing and binary data of one key, and gives what arrives beside it.
async fn through(kit: &Kit, profile: Profile) -> Vec<(Incoming, Arc<Delivery>)> {
    let topic = kit.topic().await;
    let broker = kit.bed.broker(wire(profile)).await;
    let inbox = kit.inbox_of(wire(profile), subscription(None, &[&topic])).await;
    let of = |payload: &[u8], content_type: &str| {
        let mut message = full(&topic, "order-1").content_type(content_type);
        message.payload = payload.to_vec().into();
        message
    };
    let messages = kit.deliveries([
        full(&topic, "order-1"),
        of(b" {\"spaced\" : 1} ", "application/json"),
        of(b"{\"as\":[\"it\", 1.10]}", "application/json"),
        of(b"not JSON", "application/json"),
        of(b"", "text/plain"),
        of(&(0..=255).collect::<Vec<u8>>(), "application/octet-stream"),
    ]);
    for delivery in &messages {
        publish(broker.as_ref(), std::slice::from_ref(delivery)).await;
    }
    let mut arrived = inbox.until_count("messages of the profile", messages.len()).await;
    assert_eq!(arrived.len(), messages.len(), "each arrives once");
    // Not every form has a key to keep their order by; the payloads tell them apart.
    let mut messages = messages;
    arrived.sort_by(|a, b| a.message.payload.cmp(&b.message.payload));
    messages.sort_by(|a, b| a.message.payload.cmp(&b.message.payload));
    arrived.into_iter().zip(messages).collect()
}

async fn binary_carries_everything(kit: Kit) -> Result<(), BrokerError> {
    for (incoming, delivery) in through(&kit, Profile::Binary).await {
        check_event(&incoming, &delivery, "/shop");
    }
    Ok(())
}

async fn structured_carries_everything(kit: Kit) -> Result<(), BrokerError> {
    for (incoming, delivery) in through(&kit, Profile::Structured).await {
        check_event(&incoming, &delivery, "/shop");
    }
    Ok(())
}

async fn raw_carries_payload_content_type_and_headers(kit: Kit) -> Result<(), BrokerError> {
    let mut ids = Vec::new();
    for (incoming, delivery) in through(&kit, Profile::Raw).await {
        check_body(&incoming, &delivery);
        check_key(&incoming.message, &delivery.message);
        ids.push(incoming.message.id);
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "each message has an id of its own, if only a derived one");
    Ok(())
}

async fn debezium_carries_the_id_and_what_raw_does(kit: Kit) -> Result<(), BrokerError> {
    for (incoming, delivery) in through(&kit, Profile::Debezium).await {
        check_body(&incoming, &delivery);
        check_key(&incoming.message, &delivery.message);
        assert_eq!(incoming.message.id, delivery.message.id, "the id is that of the outbox");
    }
    Ok(())
}

/// Only some brokers have a place for the key; none has another key there.
fn check_key(arrived: &Message, sent: &Message) {
    assert!(
        arrived.key.is_none() || arrived.key == sent.key,
        "key {:?} arrived as {:?}",
        sent.key,
        arrived.key
    );
}

async fn raw_has_the_same_id_when_it_comes_again(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let broker = kit.bed.broker(wire(Profile::Raw)).await;
    let raw = || wire(Profile::Raw);
    let name = kit.name("again");
    let named = || subscription(Some(&name), &[&topic]);
    let mut first = kit.bed.subscriber(raw(), named()).await;
    publish(broker.as_ref(), &[kit.delivery(full(&topic, "k"))]).await;
    let before = within("a raw message", first.receive()).await?;
    drop(first);
    let mut second = kit.bed.subscriber(raw(), named()).await;
    let after = within("the raw message again", second.receive()).await?;
    assert_eq!(after.message.id, before.message.id);
    second.acknowledge(after.receipt).await
}
