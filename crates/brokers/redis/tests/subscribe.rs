//! What is special about subscribing to streams.

mod common;

use common::{
    DEADLINE, PATIENCE, as_user, broker, cli, fresh, message, order, publish_one, receive, strings,
    subscription,
};
use posthaste_broker_redis::{Config, RedisSubscriber, subscribe};
use posthaste_core::{Broker, Outcome, Start, Subscriber, Subscription};
use posthaste_fixtures::{Kind, server};
use tokio::time::timeout;

fn url() -> &'static str {
    server(Kind::Redis).url()
}

async fn subscriber(subscription: Subscription) -> RedisSubscriber {
    subscribe(&Config::new(url()), &subscription).await.expect("subscribing should work")
}

async fn topic_of_next(subscriber: &mut RedisSubscriber) -> String {
    let incoming = receive(subscriber).await;
    subscriber.acknowledge(incoming.receipt).await.expect("acknowledging should work");
    incoming.message.topic
}

#[tokio::test]
async fn streams_that_come_later_are_found_and_only_the_star_is_special() {
    let stem = fresh("a?[b]");
    let pattern = format!("{stem}.*");
    let broker = broker(url());
    for (name, start) in [(None, Start::New), (Some("later"), Start::New)] {
        let mut subscriber = subscriber(subscription(name, &[&pattern], start)).await;
        let (matching, other) = (format!("{stem}.{start:?}{name:?}"), stem.replace('?', "x"));
        assert_eq!(publish_one(&broker, &format!("{other}.y")).await, Outcome::Acked);
        assert_eq!(publish_one(&broker, &matching).await, Outcome::Acked);
        assert_eq!(topic_of_next(&mut subscriber).await, matching);
    }
}

#[tokio::test]
async fn name_that_comes_back_finds_streams_that_came_meanwhile() {
    let stem = fresh("meanwhile");
    let wanted = subscription(Some("back"), &[&format!("{stem}.*")], Start::New);
    let broker = broker(url());
    let first = format!("{stem}.1");
    assert_eq!(publish_one(&broker, &first).await, Outcome::Acked);
    drop(subscriber(wanted.clone()).await);
    let second = format!("{stem}.2");
    assert_eq!(publish_one(&broker, &second).await, Outcome::Acked);
    let mut back = subscriber(wanted).await;
    assert_eq!(topic_of_next(&mut back).await, second);
}

#[tokio::test]
async fn stream_that_is_deleted_and_made_again_is_followed() {
    let topic = fresh("deleted");
    let broker = broker(url());
    let mut group = subscriber(subscription(Some("group"), &[&topic], Start::New)).await;
    let mut listener = subscriber(subscription(None, &[&topic], Start::New)).await;
    for _ in 0..2 {
        assert_eq!(publish_one(&broker, &topic).await, Outcome::Acked);
        assert_eq!(topic_of_next(&mut group).await, topic);
        assert_eq!(topic_of_next(&mut listener).await, topic);
        cli(url(), &["DEL", &topic]);
    }
}

#[tokio::test]
async fn lost_connection_is_an_error_once_and_brings_the_unacknowledged_again() {
    let topic = fresh("lost");
    let broker = broker(url());
    let mut subscriber = subscriber(subscription(Some("group"), &[&topic], Start::New)).await;
    let calls: Vec<_> = (0..4).map(|seq| message(&topic, Some("k"), seq)).collect();
    assert!(broker.publish(&calls, DEADLINE).await.iter().all(|o| *o == Outcome::Acked));
    let first = receive(&mut subscriber).await;
    let second = receive(&mut subscriber).await;
    subscriber.acknowledge(first.receipt).await.unwrap();
    for _ in 2..4 {
        receive(&mut subscriber).await;
    }
    let info = cli(url(), &["XINFO", "CONSUMERS", &topic, "group"]);
    let consumer = String::from_utf8(strings(&info)[1].clone()).unwrap();
    let clients = cli(url(), &["CLIENT", "LIST"]);
    let ours = clients.lines().find(|line| line.contains(&consumer)).unwrap();
    let id = ours.split_whitespace().find_map(|word| word.split("id=").nth(1)).unwrap();
    cli(url(), &["CLIENT", "KILL", "ID", id]);
    let failed = timeout(PATIENCE, subscriber.receive()).await.unwrap();
    assert!(failed.unwrap_err().message.contains("connection"));
    assert!(subscriber.acknowledge(second.receipt).await.is_err(), "it comes again");
    for seq in 1..4 {
        let incoming = receive(&mut subscriber).await;
        assert_eq!(incoming.provenance.seq, Some(seq));
        subscriber.acknowledge(incoming.receipt).await.unwrap();
    }
    let pending = cli(url(), &["XPENDING", &topic, "group"]);
    assert!(pending.starts_with("1) (integer) 0"), "{pending}");
}

#[tokio::test]
async fn listener_leaves_nothing_behind() {
    let topic = fresh("passing");
    let mut listener = subscriber(subscription(None, &[&topic], Start::Beginning)).await;
    assert_eq!(cli(url(), &["EXISTS", &topic]).trim(), "(integer) 0");
    assert_eq!(publish_one(&broker(url()), &topic).await, Outcome::Acked);
    assert_eq!(topic_of_next(&mut listener).await, topic);
    assert_eq!(strings(&cli(url(), &["XINFO", "GROUPS", &topic])), Vec::<Vec<u8>>::new());
}

#[tokio::test]
async fn key_that_is_not_a_stream_is_an_error_that_names_it() {
    let topic = fresh("string");
    cli(url(), &["SET", &topic, "x"]);
    let wanted = subscription(Some("group"), &[&topic], Start::New);
    let error = subscribe(&Config::new(url()), &wanted).await.err().unwrap();
    assert!(error.message.contains("WRONGTYPE"), "{error}");
}

#[tokio::test]
async fn what_another_program_left_unfinished_is_taken_over_after_half_a_minute() {
    let topic = fresh("foreign");
    let broker = broker(url());
    let mut subscriber = subscriber(subscription(Some("group"), &[&topic], Start::New)).await;
    let calls: Vec<_> = (0..2).map(|seq| message(&topic, Some("k"), seq)).collect();
    assert_eq!(broker.publish(&calls[..1], DEADLINE).await, [Outcome::Acked]);
    let read = ["XREADGROUP", "GROUP", "group", "foreign", "STREAMS", &topic, ">"];
    let read = strings(&cli(url(), &read));
    let id = String::from_utf8(read[1].clone()).unwrap();
    assert_eq!(broker.publish(&calls[1..], DEADLINE).await, [Outcome::Acked]);
    assert_eq!(receive(&mut subscriber).await.provenance.seq, Some(1), "the other has the first");
    cli(url(), &["XCLAIM", &topic, "group", "foreign", "0", &id, "IDLE", "31000"]);
    assert_eq!(receive(&mut subscriber).await.provenance.seq, Some(0));
}

/// Those of the documentation.
#[tokio::test]
async fn least_rights_are_enough() {
    let user = |name: &str, rights: &str| {
        let start = ["ACL", "SETUSER", name, "on", ">pw", "~least*"];
        order(url(), &start.into_iter().chain(rights.split(' ')).collect::<Vec<_>>());
        as_user(url(), name, "pw")
    };
    let relay = user("relay", "+xadd +multi +exec +wait +select +info +config|get +type");
    let reading = "+multi +exec +select +xreadgroup +xgroup +xack +xpending +xclaim +xread \
                   +xrevrange +scan";
    let reader = user("reader", &format!("{reading} +client|setname +client|list"));
    let plain_reader = user("plain", reading);
    let broker = broker(&relay);
    let topic = fresh("least");
    let found = broker.examine(&[topic.parse().unwrap()]).await.unwrap();
    assert!(found.iter().all(|finding| finding.ok), "{found:?}");
    for url in [&reader, &plain_reader] {
        for (name, pattern) in [(None, &*topic), (Some(&**url), &topic), (Some("n"), "least*")] {
            let wanted = subscription(name, &[pattern], Start::New);
            let mut subscriber = subscribe(&Config::new(url), &wanted).await.unwrap();
            assert_eq!(publish_one(&broker, &topic).await, Outcome::Acked);
            assert_eq!(topic_of_next(&mut subscriber).await, topic);
        }
    }
}
