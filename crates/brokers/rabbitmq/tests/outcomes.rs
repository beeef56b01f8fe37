//! The failure table, each row provoked on a real server, and the way back from it.

mod support;

use std::{sync::Arc, time::Duration};

use lapin::types::AMQPValue;
use posthaste_broker_rabbitmq::{Config, Ordering};
use posthaste_core::{Broker, Delivery, Message, Outcome};
use posthaste_fixtures::{Kind, Options, Proxy, Server, server};
use support::{
    Admin, PATIENCE, broker, control, delivery, message, publish_one, publish_within, recovers,
    routed, told, unique,
};

/// Enough for a server that answers, and not much to wait for one that does not.
const SHORT: Duration = Duration::from_secs(3);

fn url() -> &'static str {
    server(Kind::RabbitMq).url()
}

#[tokio::test]
async fn a_wrong_password_is_unreachable() {
    let wrong = url().replace("guest:guest@", "guest:wrong@");
    let outcome = publish_one(&broker(Config::new(wrong)), "t").await;
    assert_eq!(told(&outcome), ("unreachable", "auth"), "{outcome:?}");
}

#[tokio::test]
async fn a_missing_virtual_host_is_unreachable() {
    let outcome = publish_one(&broker(Config::new(format!("{}/nosuch", url()))), "t").await;
    assert_eq!(told(&outcome), ("unreachable", "denied"), "{outcome:?}");
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    let outcome = publish_one(&broker(Config::new("amqp://127.0.0.1:1")), "t").await;
    assert_eq!(told(&outcome), ("unreachable", "connection"), "{outcome:?}");
}

#[tokio::test]
async fn a_missing_exchange_is_unreachable_until_it_is_there() {
    let name = unique("later");
    let config = Config { exchange: name.clone(), declare: false, ..Config::new(url()) };
    let broker = broker(config);
    let outcome = publish_one(&broker, "t").await;
    assert_eq!(told(&outcome), ("unreachable", "missing"), "{outcome:?}");
    let admin = Admin::new(url()).await;
    admin.exchange(&name).await;
    admin.queue(&name, &[]).await;
    admin.bind(&name, &name, "t").await;
    assert_eq!(publish_one(&broker, "t").await, Outcome::Acked);
}

#[tokio::test]
async fn an_exchange_that_disappears_is_declared_again() {
    let (config, admin, name) = routed(url()).await;
    let broker = broker(config);
    assert_eq!(publish_one(&broker, "t").await, Outcome::Acked);
    admin.delete_exchange(&name).await;
    let outcome = publish_one(&broker, "t").await;
    assert_eq!(told(&outcome), ("unreachable", "missing"), "{outcome:?}");
    let outcome = publish_one(&broker, "t").await;
    assert_eq!(told(&outcome), ("rejected", "unroutable"), "{outcome:?}");
    admin.bind(&name, &name, "#").await;
    assert_eq!(publish_one(&broker, "t").await, Outcome::Acked);
}

#[tokio::test]
async fn an_exchange_of_another_kind_is_unreachable() {
    let admin = Admin::new(url()).await;
    let name = unique("fanout");
    admin.other_exchange(&name).await;
    let config = Config { exchange: name, ..Config::new(url()) };
    let outcome = publish_one(&broker(config.clone()), "t").await;
    assert_eq!(told(&outcome), ("unreachable", "mismatch"), "{outcome:?}");
    let taken_as_it_is = Config { declare: false, ..config };
    let outcome = publish_one(&broker(taken_as_it_is), "t").await;
    assert_eq!(told(&outcome), ("rejected", "unroutable"), "{outcome:?}");
}

#[tokio::test]
async fn unroutable_messages_among_good_ones_are_the_only_ones_to_fail() {
    let (config, admin, name) = routed(url()).await;
    let bound = unique("bound");
    let other = unique("other");
    admin.exchange(&other).await;
    admin.bind(&name, &other, &bound).await;
    let broker = broker(Config { exchange: other, ..config });
    let call = |bad: &[usize]| -> Vec<Arc<Delivery>> {
        let topic = |index| if bad.contains(&index) { "nowhere" } else { bound.as_str() };
        (0..200).map(|index| message(topic(index))).collect()
    };
    for round in 0..20_usize {
        // Two calls at once, so that the return of one could be taken for the other's.
        let bad = [vec![round * 9], vec![0, 50 + round, 199]];
        let calls = [call(&bad[0]), call(&bad[1])];
        let (one, two) =
            tokio::join!(broker.publish(&calls[0], PATIENCE), broker.publish(&calls[1], PATIENCE));
        for (outcomes, bad) in [(one, &bad[0]), (two, &bad[1])] {
            for (index, outcome) in outcomes.iter().enumerate() {
                let expected =
                    if bad.contains(&index) { ("rejected", "unroutable") } else { ("acked", "") };
                assert_eq!(told(outcome), expected, "message {index} of round {round}");
            }
        }
    }
    assert_eq!(admin.count(&name).await, 20 * (199 + 197));
}

#[tokio::test]
async fn a_queue_that_does_not_exist_is_unroutable_at_the_default_exchange() {
    let queue = unique("queue");
    let broker = broker(Config { exchange: String::new(), ..Config::new(url()) });
    let outcome = publish_one(&broker, &queue).await;
    assert_eq!(told(&outcome), ("rejected", "unroutable"), "{outcome:?}");
    let admin = Admin::new(url()).await;
    admin.queue(&queue, &[]).await;
    assert_eq!(publish_one(&broker, &queue).await, Outcome::Acked);
    assert_eq!(admin.get(&queue).await.expect("it arrived").data, b"{}");
}

#[tokio::test]
async fn a_full_queue_is_unreachable_until_it_drains() {
    let admin = Admin::new(url()).await;
    let name = unique("full");
    admin.exchange(&name).await;
    let limit = [
        ("x-max-length", AMQPValue::LongInt(1)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    admin.queue(&name, &limit).await;
    admin.bind(&name, &name, "#").await;
    let broker = broker(Config { exchange: name.clone(), ..Config::new(url()) });
    assert_eq!(publish_one(&broker, "t").await, Outcome::Acked);
    let full = async {
        loop {
            // The limit is not exact: a message more may pass.
            let outcome = publish_one(&broker, "t").await;
            if outcome != Outcome::Acked {
                break outcome;
            }
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, full).await.unwrap();
    assert_eq!(told(&outcome), ("unreachable", "full"), "{outcome:?}");
    admin.purge(&name).await;
    recovers(&broker, "t").await;
}

#[tokio::test]
async fn what_rabbitmq_would_not_take_is_refused_before_it_is_sent() {
    let (config, admin, name) = routed(url()).await;
    let wire = posthaste_wire::Wire {
        destination: "prefix-of-nine.{topic}".parse().unwrap(),
        ..Default::default()
    };
    let broker = broker(Config { wire, ..config });
    let good = |text: &str| Message::from_bytes("t", None, text.to_owned());
    let many = (0..15_000).fold(good("b"), |message, n| message.header(format!("{n:x}"), ""));
    assert_eq!(many.validate(), Ok(()), "is within our own limits");
    let large =
        (0..64).fold(good("c"), |message, n| message.header(format!("{n:02}"), "v".repeat(1000)));
    let call = [
        delivery(Message::from_bytes("t".repeat(250), None, "a")),
        delivery(many),
        delivery(large),
        delivery(good("d").header("CC", "elsewhere")),
        delivery(good("e").header("cloudEvents_id", "mine")),
        delivery(good("f")),
    ];
    let outcomes = broker.publish(&call, PATIENCE).await;
    let outcomes: Vec<_> = outcomes.iter().map(told).collect();
    let (acked, header) = (("acked", ""), ("rejected", "header"));
    let (topic, too_large) = (("rejected", "topic"), ("rejected", "too-large"));
    assert_eq!(outcomes, [topic, too_large, acked, header, header, acked]);
    assert_eq!(admin.count(&name).await, 2);
}

#[tokio::test]
async fn a_stopped_server_is_unreachable_and_a_restarted_one_is_found_again() {
    let own = Server::private(Kind::RabbitMq, &Options::default()).unwrap();
    let (config, admin, name) = routed(own.url()).await;
    let broker = broker(config);
    assert_eq!(publish_one(&broker, "t").await, Outcome::Acked);
    own.stop().unwrap();
    // The loss may be noticed only by sending.
    let outcome = publish_within(&broker, "t", SHORT).await;
    assert!(matches!(told(&outcome), ("unknown" | "unreachable", "connection")), "{outcome:?}");
    let outcome = publish_within(&broker, "t", SHORT).await;
    assert_eq!(told(&outcome), ("unreachable", "connection"), "{outcome:?}");
    own.start_again().unwrap();
    recovers(&broker, "t").await;
    // At once, without a call that would have noticed.
    own.kill().unwrap();
    own.start_again().unwrap();
    recovers(&broker, "t").await;
    drop(admin);
    let admin = Admin::new(own.url()).await;
    assert!(admin.count(&name).await >= 3, "what was acknowledged survived a kill");

    own.freeze().unwrap();
    let outcome = publish_within(&broker, "t", SHORT).await;
    assert_eq!(told(&outcome), ("unknown", "timeout"), "{outcome:?}");
    // That connection is not used again, and no new one comes about.
    let outcome = publish_within(&broker, "t", SHORT).await;
    assert_eq!(told(&outcome), ("unreachable", "timeout"), "{outcome:?}");
    own.thaw().unwrap();
    recovers(&broker, "t").await;
    broker.close().await;
}

#[tokio::test]
async fn a_connection_that_is_cut_leaves_unknown_what_was_not_answered() {
    let target = url().rsplit('@').next().unwrap();
    let proxy = Proxy::start(target).await.unwrap();
    let (config, admin, name) = routed(url()).await;
    let through = url().replace(target, &proxy.address().to_string());
    let broker = broker(Config { url: through, ..config });
    assert_eq!(publish_one(&broker, "t").await, Outcome::Acked);
    admin.purge(&name).await;

    let body = "x".repeat(10_000);
    let call: Vec<_> =
        (0..200).map(|_| delivery(Message::from_bytes("t", None, body.clone()))).collect();
    proxy.cut_after_bytes(1_000_000);
    let outcomes = broker.publish(&call, PATIENCE).await;
    let (acked, lost): (Vec<_>, Vec<_>) =
        outcomes.iter().partition(|outcome| **outcome == Outcome::Acked);
    assert!(lost.len() > 100, "half of them were never sent");
    for outcome in lost {
        assert!(matches!(told(outcome), ("unknown" | "unreachable", "connection")), "{outcome:?}");
    }
    assert!(admin.count(&name).await as usize >= acked.len());
    recovers(&broker, "t").await;

    proxy.cut();
    let outcome = publish_one(&broker, "t").await;
    assert!(matches!(told(&outcome), ("unknown" | "unreachable", "connection")), "{outcome:?}");
    proxy.heal();
    recovers(&broker, "t").await;

    proxy.black_hole_answers();
    let outcome = publish_within(&broker, "t", SHORT).await;
    assert_eq!(told(&outcome), ("unknown", "timeout"), "{outcome:?}");
    proxy.heal();
    assert_eq!(publish_one(&broker, "t").await, Outcome::Acked, "on a connection of its own");
}

#[tokio::test]
async fn what_rabbitmq_forbids_or_limits_is_told_apart() {
    let settings = vec![("max_message_size".to_owned(), "100000".to_owned())];
    let own = Server::private(Kind::RabbitMq, &Options { settings, ..Options::default() }).unwrap();
    let (config, admin, name) = routed(own.url()).await;
    let broker = broker(config.clone());

    let large = || delivery(Message::from_bytes("t", None, vec![0; 100_001]));
    let outcomes = broker.publish(&[large()], PATIENCE).await;
    assert_eq!(told(&outcomes[0]), ("rejected", "too-large"), "{outcomes:?}");
    let mut call: Vec<_> = (0..50).map(|_| message("t")).collect();
    call.insert(25, large());
    for outcome in broker.publish(&call, PATIENCE).await {
        assert!(matches!(told(&outcome), ("acked", "") | ("unknown", "too-large")), "{outcome:?}");
    }
    let at_limit = [delivery(Message::from_bytes("t", None, vec![0; 100_000]))];
    assert_eq!(broker.publish(&at_limit, PATIENCE).await, [Outcome::Acked]);

    control(&own, &["add_user", "reader", "pw"]);
    control(&own, &["set_permissions", "reader", "", "", ".*"]);
    let as_reader = Config {
        url: own.url().replace("guest:guest", "reader:pw"),
        declare: false,
        ..config.clone()
    };
    let denied = support::broker(as_reader);
    let outcome = publish_one(&denied, "t").await;
    assert_eq!(told(&outcome), ("unreachable", "denied"), "{outcome:?}");
    control(&own, &["set_permissions", "reader", "", ".*", ".*"]);
    recovers(&denied, "t").await;
    control(&own, &["set_topic_permissions", "reader", &name, "^allowed$", ".*"]);
    recovers(&denied, "allowed").await;
    let outcome = publish_one(&denied, "forbidden").await;
    assert_eq!(told(&outcome), ("rejected", "denied"), "{outcome:?}");
    drop(admin);
}

#[tokio::test]
async fn an_alarm_throttles_until_it_is_over() {
    let own = Server::private(Kind::RabbitMq, &Options::default()).unwrap();
    let (config, _admin, _) = routed(own.url()).await;
    let broker = broker(Config { ordering: Ordering::Pipelined, ..config });
    assert_eq!(publish_one(&broker, "t").await, Outcome::Acked);
    control(&own, &["set_vm_memory_high_watermark", "0.0000001"]);
    let outcome = publish_within(&broker, "t", SHORT).await;
    assert!(
        matches!(told(&outcome), ("unknown", "timeout") | ("unreachable", "throttled")),
        "{outcome:?}"
    );
    for _ in 0..3 {
        // Nothing is sent, so nothing is doubtful.
        let outcome = publish_within(&broker, "t", SHORT).await;
        assert_eq!(told(&outcome), ("unreachable", "throttled"), "{outcome:?}");
    }
    control(&own, &["set_vm_memory_high_watermark", "0.6"]);
    recovers(&broker, "t").await;
}
