//! Order: what is published of a key arrives in that order, once, however much goes on at once.

use std::sync::Arc;

use posthaste_core::{BrokerError, Delivery, Message};
use posthaste_history::History;

use super::{
    case::cases,
    driver::deliver,
    inbox::Inbox,
    kit::{Kit, message},
};

cases! { "order";
    []: [
        keys_keep_theirs_under_load,
        hot_key_keeps_its_own,
        messages_without_a_key_all_arrive_once,
    ],
    [Overlap]: [overlapping_calls_of_many_tasks_keep_it],
}

/// Waits for all of them, and checks that each came once and every key in order.
async fn check_exact(what: &str, inbox: &Inbox, messages: &[Arc<Delivery>]) {
    inbox.until_has(what, messages).await;
    let mut history = History::default();
    history.committed(messages.iter().map(|delivery| &delivery.message));
    for id in inbox.ids() {
        history.received(id);
    }
    let report = history.check();
    assert!(report.is_exact(), "{what}: {report}");
}

async fn deliver_and_check(
    kit: &Kit,
    what: &str,
    messages: impl FnOnce(&str) -> Vec<Message>,
) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let messages = kit.deliveries(messages(&topic));
    deliver(&broker, &messages).await;
    check_exact(what, &inbox, &messages).await;
    broker.close().await;
    Ok(())
}

async fn keys_keep_theirs_under_load(kit: Kit) -> Result<(), BrokerError> {
    deliver_and_check(&kit, "5,000 messages of 50 keys", |topic| {
        let mut random = fastrand::Rng::with_seed(50);
        let key = |n: usize| format!("key-{n}");
        (0..5000).map(|n| message(topic, Some(&key(random.usize(..50))), n)).collect()
    })
    .await
}

async fn hot_key_keeps_its_own(kit: Kit) -> Result<(), BrokerError> {
    deliver_and_check(&kit, "2,000 messages of one key", |topic| {
        (0..2000).map(|n| message(topic, Some("hot"), n)).collect()
    })
    .await
}

async fn messages_without_a_key_all_arrive_once(kit: Kit) -> Result<(), BrokerError> {
    deliver_and_check(&kit, "1,000 messages without a key", |topic| {
        (0..1000).map(|n| message(topic, None, n)).collect()
    })
    .await
}

async fn overlapping_calls_of_many_tasks_keep_it(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let mut all = Vec::new();
    let mut tasks = Vec::new();
    for task in 0..16 {
        let keys = [format!("{task}-a"), format!("{task}-b")];
        let of_key = |n: usize| message(&topic, Some(&keys[n % 2]), n);
        let messages = kit.deliveries((0..100).map(of_key));
        all.extend_from_slice(&messages);
        let broker = Arc::clone(&broker);
        tasks.push(tokio::spawn(async move { deliver(&broker, &messages).await }));
    }
    for joined in futures::future::join_all(tasks).await {
        if let Err(panic) = joined {
            std::panic::resume_unwind(panic.into_panic());
        }
    }
    check_exact("messages of 16 tasks", &inbox, &all).await;
    Ok(())
}
