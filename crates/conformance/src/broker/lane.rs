//! Lanes: what an ordered subscription adds. In order, from the first that was not acknowledged, and
//! to one subscriber at a time.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use posthaste_core::{
    BrokerError, Delivery, Incoming, MessageId, Sharing, Subscriber, Subscription,
};
use posthaste_wire::Wire;
use tokio::sync::watch;

use super::{
    case::cases,
    kit::{Kit, message, publish, subscription, within},
};

cases! { "lane";
    [Names, Lanes]: [every_message_says_its_lane_and_comes_in_its_order],
    [Names, Redelivery, Lanes]: [comes_again_from_the_first_unacknowledged_in_order],
    [SharedNames, Lanes]: [one_subscriber_of_a_name_has_a_lane_at_a_time],
}

fn ordered(name: &str, topic: &str) -> Subscription {
    Subscription { sharing: Sharing::Ordered, ..subscription(Some(name), &[topic]) }
}

/// Publishes messages of several keys, each once the one before it is acknowledged: so the broker has
/// them in this order.
async fn publish_in_turn(kit: &Kit, topic: &str, count: usize) -> Vec<Arc<Delivery>> {
    let broker = kit.broker().await;
    let keyed = (0..count).map(|n| message(topic, Some(&format!("key-{}", n % 7)), n));
    let deliveries = kit.deliveries(keyed);
    for delivery in &deliveries {
        publish(broker.as_ref(), std::slice::from_ref(delivery)).await;
    }
    within("closing", broker.close()).await;
    deliveries
}

fn lane(incoming: &Incoming) -> String {
    let lane = incoming.lane.as_deref();
    lane.unwrap_or_else(|| panic!("{:?} says no lane", incoming.message)).to_owned()
}

/// What came, by lane, as places in what was published.
fn by_lane(come: &[Incoming], published: &[Arc<Delivery>]) -> HashMap<String, Vec<usize>> {
    let mut lanes: HashMap<String, Vec<usize>> = HashMap::new();
    for incoming in come {
        let is_it = |delivery: &Arc<Delivery>| delivery.message.id == incoming.message.id;
        let at = published.iter().position(is_it).expect("nothing else was published");
        lanes.entry(lane(incoming)).or_default().push(at);
    }
    lanes
}

fn check_ascending(lanes: &HashMap<String, Vec<usize>>) {
    for (lane, places) in lanes {
        let is_ascending = places.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(is_ascending, "lane {lane} came as {places:?}");
    }
}

/// Receives and acknowledges, one after the other, until each of these has come.
async fn receive_until(
    subscriber: &mut dyn Subscriber,
    wanted: &[Arc<Delivery>],
) -> Result<Vec<Incoming>, BrokerError> {
    let mut left: HashSet<MessageId> = wanted.iter().map(|it| it.message.id).collect();
    let mut come = Vec::new();
    while !left.is_empty() {
        let what = format!("{} of {} messages", left.len(), wanted.len());
        let incoming = within(&what, subscriber.receive()).await?;
        subscriber.acknowledge(incoming.receipt).await?;
        left.remove(&incoming.message.id);
        come.push(incoming);
    }
    Ok(come)
}

async fn every_message_says_its_lane_and_comes_in_its_order(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let ordered = ordered(&kit.name("ordered"), &topic);
    let mut subscriber = kit.bed.subscriber(Wire::default(), ordered).await;
    let published = publish_in_turn(&kit, &topic, 40).await;
    let come = receive_until(subscriber.as_mut(), &published).await?;
    assert_eq!(come.len(), published.len(), "each once");
    check_ascending(&by_lane(&come, &published));
    Ok(())
}

async fn comes_again_from_the_first_unacknowledged_in_order(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let name = kit.name("ordered");
    let mut first = kit.bed.subscriber(Wire::default(), ordered(&name, &topic)).await;
    let published = publish_in_turn(&kit, &topic, 20).await;
    let mut come = Vec::new();
    for _ in 0..5 {
        let incoming = within("the first messages", first.receive()).await?;
        first.acknowledge(incoming.receipt).await?;
        come.push(incoming);
    }
    let open = within("one more message", first.receive()).await?;
    drop(first);
    let mut second = kit.bed.subscriber(Wire::default(), ordered(&name, &topic)).await;
    let is_acknowledged = |delivery: &&Arc<Delivery>| {
        come.iter().all(|incoming: &Incoming| incoming.message.id != delivery.message.id)
    };
    let left: Vec<_> = published.iter().filter(is_acknowledged).cloned().collect();
    let again = receive_until(second.as_mut(), &left).await?;
    let lanes = by_lane(&again, &published);
    check_ascending(&lanes);
    let first_of_lane = again.iter().find(|incoming| lane(incoming) == lane(&open));
    let first_of_lane = first_of_lane.expect("the lane has what was not acknowledged");
    assert_eq!(first_of_lane.message.id, open.message.id, "first what was not acknowledged");
    Ok(())
}

/// Who has a message of which lane in hand, and what was handled.
#[derive(Default)]
struct Hands {
    held: HashMap<String, usize>,
    handled: Vec<Incoming>,
    broken: Option<String>,
}

async fn one_subscriber_of_a_name_has_a_lane_at_a_time(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let name = kit.name("ordered");
    let hands = Arc::new(Mutex::new(Hands::default()));
    let (counted, mut count) = watch::channel(0);
    let counted = Arc::new(counted);
    let mut tasks = Vec::new();
    for who in 0..2 {
        let subscriber = kit.bed.subscriber(Wire::default(), ordered(&name, &topic)).await;
        let (hands, counted) = (Arc::clone(&hands), Arc::clone(&counted));
        tasks.push(tokio::spawn(handle_in_turn(who, subscriber, hands, counted)));
    }
    let published = publish_in_turn(&kit, &topic, 100).await;
    let all = count.wait_for(|count| *count >= published.len());
    within("every message at one of the two", all).await.expect("both go on");
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let hands = hands.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(hands.broken, None);
    assert_eq!(hands.handled.len(), published.len(), "each once");
    check_ascending(&by_lane(&hands.handled, &published));
    Ok(())
}

/// Takes messages in hand one at a time, and puts each down just before it is acknowledged.
async fn handle_in_turn(
    who: usize,
    mut subscriber: Box<dyn Subscriber>,
    hands: Arc<Mutex<Hands>>,
    counted: Arc<watch::Sender<usize>>,
) {
    let with = |look: &mut dyn FnMut(&mut Hands)| {
        look(&mut hands.lock().unwrap_or_else(PoisonError::into_inner));
    };
    while let Ok(incoming) = subscriber.receive().await {
        let lane = lane(&incoming);
        with(&mut |hands| {
            if let Some(other) = hands.held.insert(lane.clone(), who) {
                hands.broken = Some(format!("lane {lane} is in the hands of {other} and {who}"));
            }
        });
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let receipt = incoming.receipt;
        with(&mut |hands| {
            hands.held.remove(&lane);
            hands.handled.push(incoming.clone());
        });
        if let Err(error) = subscriber.acknowledge(receipt).await {
            with(&mut |hands| hands.broken = Some(error.to_string()));
        }
        counted.send_modify(|count| *count += 1);
    }
}
