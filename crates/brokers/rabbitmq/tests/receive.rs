//! Subscribing beyond what the suite asks: bindings, losses, and what others send.

mod support;

use std::time::Duration;

use posthaste_broker_rabbitmq::{Config, QueueType, subscribe};
use posthaste_core::{Broker, Outcome, Sharing, Start, Subscriber, Subscription};
use posthaste_fixtures::{Kind, Proxy, server};
use support::{Admin, PATIENCE, broker, message, publish_one, routed, unique};

fn url() -> &'static str {
    server(Kind::RabbitMq).url()
}

fn wanting(name: Option<&str>, topics: &[&str]) -> Subscription {
    Subscription {
        name: name.map(str::to_owned),
        topics: topics.iter().map(|topic| topic.parse().expect("a pattern")).collect(),
        start: Start::New,
        sharing: Sharing::Competing,
    }
}

#[tokio::test]
async fn only_what_matches_arrives_however_wide_the_binding_is() {
    let (config, ..) = routed(url()).await;
    let mut subscriber =
        subscribe(&config, &wanting(None, &["a.#.b", "or*.placed", "x.y*"])).await.unwrap();
    let broker = broker(config);
    let wanted = ["a.#.b", "orders.placed", "x.y", "x.yz.1"];
    let topics = ["a.b", "a.z.b", "orders.paid", "x.z", "x"].iter().chain(&wanted);
    let call: Vec<_> = topics.map(|topic| message(topic)).collect();
    assert!(broker.publish(&call, PATIENCE).await.iter().all(|outcome| *outcome == Outcome::Acked));
    for topic in wanted {
        let incoming = subscriber.receive().await.unwrap();
        assert_eq!(incoming.message.topic, topic);
        subscriber.acknowledge(incoming.receipt).await.unwrap();
    }
}

#[tokio::test]
async fn a_lost_connection_is_told_once_and_what_was_not_acknowledged_comes_again() {
    let target = url().rsplit('@').next().unwrap();
    let proxy = Proxy::start(target).await.unwrap();
    let (config, admin, _) = routed(url()).await;
    let through =
        Config { url: url().replace(target, &proxy.address().to_string()), ..config.clone() };
    let name = unique("named");
    let mut subscriber = subscribe(&through, &wanting(Some(&name), &["t"])).await.unwrap();
    let sent = message("t");
    let publisher = broker(config);
    assert_eq!(publisher.publish(std::slice::from_ref(&sent), PATIENCE).await, [Outcome::Acked]);
    let first = subscriber.receive().await.unwrap();
    proxy.cut();
    assert!(subscriber.receive().await.is_err(), "the loss is told");
    assert!(subscriber.receive().await.is_err(), "and that there is no new connection");
    assert!(subscriber.acknowledge(first.receipt).await.is_err());
    proxy.heal();
    let again = subscriber.receive().await.unwrap();
    assert_eq!(again.message.id, sent.message.id);
    subscriber.acknowledge(again.receipt).await.unwrap();
    drop(subscriber);
    // Once RabbitMQ has seen the connection go, it counts what is left.
    let empty = async {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        while admin.count(&name).await > 0 {
            tick.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, empty).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_falls_silent_is_given_up() {
    let target = url().rsplit('@').next().unwrap();
    let proxy = Proxy::start(target).await.unwrap();
    let (config, ..) = routed(url()).await;
    let through = Config { url: url().replace(target, &proxy.address().to_string()), ..config };
    let mut subscriber = subscribe(&through, &wanting(None, &["t"])).await.unwrap();
    proxy.black_hole();
    let received = tokio::time::timeout(PATIENCE, subscriber.receive()).await;
    let error = received.expect("heartbeats are missed").unwrap_err();
    assert!(error.message.contains("heartbeat"), "{error}");
}

#[tokio::test]
async fn a_quorum_queue_is_one() {
    let (config, admin, _) = routed(url()).await;
    let config = Config { queue_type: QueueType::Quorum, ..config };
    let name = unique("quorum");
    let mut subscriber = subscribe(&config, &wanting(Some(&name), &["t"])).await.unwrap();
    assert_eq!(publish_one(&broker(config.clone()), "t").await, Outcome::Acked);
    let incoming = subscriber.receive().await.unwrap();
    subscriber.acknowledge(incoming.receipt).await.unwrap();
    assert_eq!(admin.count(&name).await, 0);
    let other = Config { queue_type: QueueType::Classic, ..config };
    let error = subscribe(&other, &wanting(Some(&name), &["t"])).await.err().expect("it is quorum");
    assert!(error.message.contains("mismatch"), "{error}");
}

#[tokio::test]
async fn a_queue_declared_without_a_single_active_consumer_is_refused_to_an_ordered_subscription() {
    let (config, ..) = routed(url()).await;
    let ordered =
        |name: &str| Subscription { sharing: Sharing::Ordered, ..wanting(Some(name), &["t"]) };
    let (shared, single) = (unique("shared"), unique("single"));
    drop(subscribe(&config, &wanting(Some(&shared), &["t"])).await.unwrap());
    let error = subscribe(&config, &ordered(&shared)).await.err().expect("it is shared");
    let says = ["mismatch", "x-single-active-consumer", "give another name"];
    assert!(says.iter().all(|text| error.message.contains(text)), "{error}");
    drop(subscribe(&config, &ordered(&single)).await.unwrap());
    let error = subscribe(&config, &wanting(Some(&single), &["t"])).await.err();
    assert!(error.expect("it is ordered").message.contains("mismatch"));
}

#[tokio::test]
async fn the_default_exchange_cannot_be_subscribed_at() {
    let config = Config { exchange: String::new(), ..Config::new(url()) };
    let error = subscribe(&config, &wanting(None, &["*"])).await.err().expect("is refused");
    assert!(error.message.contains("default exchange"), "{error}");
}

#[tokio::test]
async fn a_queue_that_is_deleted_is_declared_again() {
    let (config, admin, _) = routed(url()).await;
    let name = unique("deleted");
    let mut subscriber = subscribe(&config, &wanting(Some(&name), &["t"])).await.unwrap();
    admin.delete_queue(&name).await;
    assert!(subscriber.receive().await.is_err());
    let waiting = tokio::spawn(async move { subscriber.receive().await });
    let publisher = broker(config);
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    while !waiting.is_finished() {
        publish_one(&publisher, "t").await;
        tick.tick().await;
    }
    assert_eq!(waiting.await.unwrap().unwrap().message.topic, "t");
}

#[tokio::test]
async fn doctor_sees_the_exchange_and_the_queues_of_the_default_exchange() {
    let admin = Admin::new(url()).await;
    let problems = async |config: Config, topics: &[&str]| -> Vec<String> {
        let topics: Vec<_> = topics.iter().map(|topic| topic.parse().expect("a pattern")).collect();
        let findings = broker(config).examine(&topics).await.expect("it can be used");
        let problems = findings.into_iter().filter(|finding| !finding.ok);
        problems.map(|finding| format!("{} -> {}", finding.what, finding.fix.unwrap())).collect()
    };
    let named = |exchange: &str| Config { exchange: exchange.to_owned(), ..Config::new(url()) };
    let (good, other, missing) = (unique("good"), unique("other"), unique("missing"));
    admin.exchange(&good).await;
    admin.other_exchange(&other).await;
    assert_eq!(problems(named(&good), &["t"]).await, [""; 0]);
    assert_eq!(problems(named(&missing), &["t"]).await, [""; 0], "it will be declared");
    let as_it_is = Config { declare: false, ..named(&missing) };
    assert!(problems(as_it_is, &["t"]).await[0].contains("does not exist"));
    assert!(problems(named(&other), &["t"]).await[0].contains("not a durable topic exchange"));
    let queue = unique("queue");
    admin.queue(&queue, &[]).await;
    let found = problems(named(""), &[&queue, &missing, "any*"]).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(&missing), "{found:?}");
    let wrong = url().replace("guest:guest@", "guest:hunter2@");
    let error = broker(Config::new(wrong)).examine(&[]).await.unwrap_err();
    assert!(error.message.contains("auth") && !error.message.contains("hunter2"), "{error}");
}
