//! Subscribers: what is received, what is not received again, and by whom.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::FutureExt;
use posthaste_core::{
    BrokerError, Delivery, Incoming, Message, MessageId, Start, Subscriber, Subscription,
};
use posthaste_wire::Wire;

use super::{
    case::cases,
    driver::deliver,
    inbox::{Inbox, until_together},
    kit::{Kit, ids, ids_of, message, publish, receive_all, subscription, within},
};

cases! { "subscriber";
    []: [dropped_receives_lose_nothing],
    [FanOut]: [
        listener_starts_with_what_is_new,
        listeners_each_get_a_copy,
        patterns_filter,
    ],
    [History, FanOut]: [beginning_brings_what_was_there],
    [Names]: [
        acknowledged_does_not_come_again,
        name_collects_while_nobody_is_there,
    ],
    [Names, Redelivery]: [
        unacknowledged_comes_again,
        acknowledged_out_of_order_loses_nothing,
    ],
    [SharedNames]: [subscribers_of_a_name_share],
    [Names, FanOut]: [names_and_listeners_each_get_everything],
}

/// So many messages of one key.
fn of_one_key(topic: &str, numbers: std::ops::Range<usize>) -> Vec<Message> {
    numbers.map(|n| message(topic, Some("k"), n)).collect()
}

async fn dropped_receives_lose_nothing(kit: Kit) -> Result<(), BrokerError> {
    const COUNT: usize = 500;
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let mut subscriber = kit.subscriber(None, &[&topic]).await;
    let deliveries = kit.deliveries(of_one_key(&topic, 0..COUNT));
    let publishing = tokio::spawn({
        let (broker, deliveries) = (Arc::clone(&broker), deliveries.clone());
        async move { deliver(&broker, &deliveries).await }
    });
    let mut random = fastrand::Rng::with_seed(500);
    let mut arrived = Vec::new();
    let what = "messages through receives that are dropped half-way";
    within(what, async {
        while arrived.len() < COUNT {
            let Some(incoming) = impatient(subscriber.as_mut(), &mut random).await else {
                continue;
            };
            let incoming = incoming?;
            subscriber.acknowledge(incoming.receipt).await?;
            arrived.push(incoming);
        }
        Ok::<(), BrokerError>(())
    })
    .await?;
    if let Err(panic) = publishing.await {
        std::panic::resume_unwind(panic.into_panic());
    }
    assert_eq!(ids_of(&arrived), ids(&deliveries), "in order, each once");
    Ok(())
}

/// Receives, but drops the call after a look or a moment.
async fn impatient(
    subscriber: &mut dyn Subscriber,
    random: &mut fastrand::Rng,
) -> Option<Result<Incoming, BrokerError>> {
    if random.bool() {
        tokio::task::yield_now().await;
        return subscriber.receive().now_or_never();
    }
    let moment = Duration::from_micros(random.u64(1..5000));
    tokio::time::timeout(moment, subscriber.receive()).await.ok()
}

async fn listener_starts_with_what_is_new(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let early = kit.inbox(&[&topic]).await;
    let deliveries = kit.deliveries(of_one_key(&topic, 0..2));
    publish(broker.as_ref(), &deliveries[..1]).await;
    early.until_count("the first message", 1).await;
    let late = kit.inbox(&[&topic]).await;
    publish(broker.as_ref(), &deliveries[1..]).await;
    late.until_count("the second message", 1).await;
    early.until_count("both messages", 2).await;
    assert_eq!(late.ids(), ids(&deliveries[1..]), "only what is new");
    Ok(())
}

async fn listeners_each_get_a_copy(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let stays = kit.inbox(&[&topic]).await;
    let leaves = kit.inbox(&[&topic]).await;
    let deliveries = kit.deliveries(of_one_key(&topic, 0..200));
    deliver(&broker, &deliveries[..100]).await;
    leaves.until_count("messages for the second listener", 100).await;
    assert_eq!(leaves.ids(), ids(&deliveries[..100]));
    drop(leaves);
    deliver(&broker, &deliveries[100..]).await;
    stays.until_count("messages for the first listener", 200).await;
    assert_eq!(stays.ids(), ids(&deliveries), "one listener's leaving is nothing to the other");
    Ok(())
}

async fn patterns_filter(kit: Kit) -> Result<(), BrokerError> {
    let topics = kit.topics(&[".a.x", ".a.y", ".b.x", ".ab"]).await;
    let base = topics[0].strip_suffix(".a.x").expect("topics end as asked for").to_owned();
    let wanted: [(&[&str], &[usize]); 6] = [
        (&["*"], &[0, 1, 2, 3]),
        (&[".a.*"], &[0, 1]),
        (&[".*.x"], &[0, 2]),
        (&[".a*"], &[0, 1, 3]),
        (&[".a.y", ".b*"], &[1, 2]),
        (&[".*b"], &[3]),
    ];
    let mut inboxes: Vec<Inbox> = Vec::new();
    for (patterns, _) in wanted {
        let patterns: Vec<String> = patterns.iter().map(|end| format!("{base}{end}")).collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        inboxes.push(kit.inbox(&patterns).await);
    }
    let broker = kit.broker().await;
    // Twice, so that what should not be there has had time to come before the last.
    for round in 0..2 {
        for topic in &topics {
            publish(broker.as_ref(), &[kit.delivery(message(topic, Some("k"), round))]).await;
        }
    }
    for (inbox, (patterns, expected)) in inboxes.iter().zip(wanted) {
        let what = format!("messages for {patterns:?}");
        let arrived = inbox.until_count(&what, expected.len() * 2).await;
        let mut names: Vec<&str> = arrived.iter().map(|it| it.message.topic.as_str()).collect();
        names.sort_unstable();
        let mut expected: Vec<&str> =
            expected.iter().flat_map(|&index| [topics[index].as_str(); 2]).collect();
        expected.sort_unstable();
        assert_eq!(names, expected, "{what}");
    }
    Ok(())
}

async fn beginning_brings_what_was_there(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let there = kit.inbox(&[&topic]).await;
    let deliveries = kit.deliveries(of_one_key(&topic, 0..5));
    deliver(&broker, &deliveries[..3]).await;
    there.until_count("the first messages", 3).await;
    for name in [None, kit.bed.traits().has_names.then(|| kit.name("historian"))] {
        let new = subscription(name.as_deref(), &[&topic]);
        let beginning = Subscription { start: Start::Beginning, ..new };
        let inbox = kit.inbox_of(Wire::default(), beginning).await;
        let what = format!("what was there, for {name:?}");
        inbox.until_count(&what, 3).await;
        assert_eq!(inbox.ids()[..3], ids(&deliveries)[..3], "{what}");
    }
    Ok(())
}

async fn acknowledged_does_not_come_again(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let deliveries = kit.deliveries(of_one_key(&topic, 0..4));
    let mut first = kit.subscriber(Some("worker"), &[&topic]).await;
    publish_each(&kit, &deliveries[..3]).await;
    let arrived = receive_all(first.as_mut(), "three messages", 3).await?;
    assert_eq!(ids_of(&arrived), ids(&deliveries[..3]));
    drop(first);
    let mut second = kit.subscriber(Some("worker"), &[&topic]).await;
    publish(broker.as_ref(), &deliveries[3..]).await;
    let next = receive_all(second.as_mut(), "the fourth message", 1).await?;
    assert_eq!(ids_of(&next), ids(&deliveries[3..]), "acknowledged ones do not come again");
    Ok(())
}

/// One call after the other: what a call may hold is not the point.
async fn publish_each(kit: &Kit, deliveries: &[Arc<Delivery>]) {
    let broker = kit.broker().await;
    deliver(&broker, deliveries).await;
    within("closing", broker.close()).await;
}

async fn name_collects_while_nobody_is_there(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let deliveries = kit.deliveries(of_one_key(&topic, 0..50));
    drop(kit.subscriber(Some("sleeper"), &[&topic]).await);
    publish_each(&kit, &deliveries).await;
    let mut back = kit.subscriber(Some("sleeper"), &[&topic]).await;
    let arrived = receive_all(back.as_mut(), "what came meanwhile", 50).await?;
    assert_eq!(ids_of(&arrived), ids(&deliveries), "in order, each once");
    Ok(())
}

async fn unacknowledged_comes_again(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let deliveries = kit.deliveries(of_one_key(&topic, 0..3));
    let mut first = kit.subscriber(Some("worker"), &[&topic]).await;
    publish_each(&kit, &deliveries).await;
    let mut receipts = Vec::new();
    for delivery in &deliveries {
        let incoming = within("three messages", first.receive()).await?;
        assert_eq!(incoming.message.id, delivery.message.id, "in order");
        receipts.push(incoming.receipt);
    }
    first.acknowledge(receipts[0]).await?;
    drop(first);
    let mut second = kit.subscriber(Some("worker"), &[&topic]).await;
    let again = receive_until_has(second.as_mut(), &deliveries[1..]).await?;
    assert!(!again.contains(&deliveries[0].message.id), "the acknowledged one does not come again");
    Ok(())
}

/// Receives and acknowledges until each of these has come, in whatever order and however often: that
/// much nobody promises of what comes again.
async fn receive_until_has(
    subscriber: &mut dyn Subscriber,
    left: &[Arc<Delivery>],
) -> Result<HashSet<MessageId>, BrokerError> {
    let mut come = HashSet::new();
    while !left.iter().all(|delivery| come.contains(&delivery.message.id)) {
        let what = format!("{} that were left, of which {} came", left.len(), come.len());
        let incoming = within(&what, subscriber.receive()).await?;
        subscriber.acknowledge(incoming.receipt).await?;
        come.insert(incoming.message.id);
    }
    Ok(come)
}

async fn acknowledged_out_of_order_loses_nothing(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let deliveries = kit.deliveries(of_one_key(&topic, 0..3));
    let mut first = kit.subscriber(Some("worker"), &[&topic]).await;
    publish_each(&kit, &deliveries).await;
    let mut receipts = Vec::new();
    for _ in 0..3 {
        receipts.push(within("three messages", first.receive()).await?.receipt);
    }
    first.acknowledge(receipts[2]).await?;
    drop(first);
    let mut second = kit.subscriber(Some("worker"), &[&topic]).await;
    // The third may come again where acknowledging is by position.
    receive_until_has(second.as_mut(), &deliveries[..2]).await?;
    Ok(())
}

async fn subscribers_of_a_name_share(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let name = kit.name("team");
    let named = || subscription(Some(&name), &[&topic]);
    let one = kit.inbox_of(Wire::default(), named()).await;
    let two = kit.inbox_of(Wire::default(), named()).await;
    let keyed = (0..200).map(|n| message(&topic, Some(&format!("key-{n}")), n));
    let deliveries = kit.deliveries(keyed);
    publish_each(&kit, &deliveries).await;
    let mut expected = ids(&deliveries);
    expected.sort_unstable();
    until_together("every message at one of the two", &[&one, &two], expected.len()).await;
    let mut all = [one.ids(), two.ids()].concat();
    all.sort_unstable();
    assert_eq!(all, expected, "each arrives at one of them, once");
    Ok(())
}

async fn names_and_listeners_each_get_everything(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let mut inboxes = vec![kit.inbox(&[&topic]).await];
    for name in ["billing", "shipping"] {
        let named = subscription(Some(&kit.name(name)), &[&topic]);
        inboxes.push(kit.inbox_of(Wire::default(), named).await);
    }
    let deliveries = kit.deliveries(of_one_key(&topic, 0..100));
    publish_each(&kit, &deliveries).await;
    for inbox in &inboxes {
        inbox.until_count("a copy of everything", 100).await;
        assert_eq!(inbox.ids(), ids(&deliveries), "in order, each once");
    }
    Ok(())
}
