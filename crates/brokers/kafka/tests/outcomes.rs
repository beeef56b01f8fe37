//! The failure table, each row provoked on a real server.

mod common;

use std::{sync::Arc, time::Duration};

use common::{
    DEADLINE, PATIENCE, Sent, broker, client, contents, create, create_named, delivery, keyed,
    kind, of_key, publish_all, publish_one, servers, topic, url, works_again,
};
use posthaste_core::{Broker, Delivery, Message, Outcome};
use posthaste_fixtures::{Kind, Options, Proxy, Server};

async fn private(options: Options) -> Arc<Server> {
    let start = move || Server::private(Kind::Kafka, &options);
    let server = tokio::task::spawn_blocking(start).await.expect("no panic");
    Arc::new(server.expect("a server"))
}

/// Servers are stopped and started by calls that block.
async fn order(server: &Arc<Server>, order: fn(&Server) -> Result<(), String>) {
    let server = Arc::clone(server);
    let done = tokio::task::spawn_blocking(move || order(&server)).await.expect("no panic");
    done.expect("the server obeys");
}

macro_rules! order {
    ($server:expr, $order:ident) => {
        order($server, |server| server.$order().map_err(|error| error.to_string())).await
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_rejected_and_the_rest_goes_on() {
    let url = url().await;
    let good = create(&url, "good", &[]).await;
    let missing = topic("missing");
    let broker = broker(&url);
    let call = [
        keyed(&good, "a", "1"),
        keyed(&missing, "b", "1"),
        keyed(&good, "c", "1"),
        keyed(&good, "b", "2"),
    ];
    let outcomes = broker.publish(&call, DEADLINE).await;
    let kinds: Vec<_> = outcomes.iter().map(kind).collect();
    let held = ("unreachable", "held");
    assert_eq!(kinds, [("acked", ""), ("rejected", "missing"), ("acked", ""), held]);
    // Known by now, so nobody is asked, which would take longer. It is known for some seconds only,
    // which may have passed on a machine that is busy.
    let no_time = Duration::from_micros(1);
    let known = async {
        while kind(&publish_one(&broker, &missing, no_time).await) != ("rejected", "missing") {
            let asked = publish_one(&broker, &missing, DEADLINE).await;
            assert_eq!(kind(&asked), ("rejected", "missing"), "{asked:?}");
        }
    };
    tokio::time::timeout(PATIENCE, known).await.expect("nobody is asked again at once");
    assert_eq!(publish_one(&broker, &good, DEADLINE).await, Outcome::Acked);
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_kafka_does_not_have_are_rejected_before_sending() {
    // Nobody listens there: nothing is sent.
    let broker = broker("kafka://localhost:1");
    for name in ["a b", ".", "..", "ä", "a/b", &"t".repeat(250)] {
        let outcomes = broker.publish(&[keyed(name, "k", "")], DEADLINE).await;
        assert_eq!(kind(&outcomes[0]), ("rejected", "topic"), "{name}");
    }
    for (name, value) in [("ce_id", "x"), ("Content-Type", "x"), ("a\0b", "x"), ("a", "x\r\ny")] {
        let message = Message::from_bytes("t", None, "").header(name, value);
        let outcomes = broker.publish(&[delivery(message)], DEADLINE).await;
        assert_eq!(kind(&outcomes[0]), ("rejected", "header"), "{name:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_too_large_among_good_ones_fails_alone() {
    let url = url().await;
    let topic = create(&url, "large", &[]).await;
    let broker = broker(&url);
    let mut call: Vec<Arc<Delivery>> =
        (0..100).map(|n| keyed(&topic, &format!("k{}", n % 10), format!("{n}"))).collect();
    call.insert(50, keyed(&topic, "k7", vec![b'x'; 2 * 1024 * 1024]));
    let outcomes = broker.publish(&call, DEADLINE).await;
    for (index, outcome) in outcomes.iter().enumerate() {
        let is_behind = index > 50 && call[index].message.key.as_deref() == Some("k7");
        let expected = match index {
            50 => ("rejected", "too-large"),
            _ if is_behind => ("unreachable", "held"),
            _ => ("acked", ""),
        };
        assert_eq!(kind(outcome), expected, "{index}: {outcome:?}");
    }
    let contents = contents(&client(&url), &topic).await;
    assert_eq!(of_key(&contents, "k7"), ["7", "17", "27", "37", "47"]);
    assert_eq!(of_key(&contents, "k3").len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_takes_less_than_a_batch_gets_everything_that_fits() {
    let url = url().await;
    let topic = create(&url, "small", &[("max.message.bytes", "20000")]).await;
    let broker = broker(&url);
    for round in 0..3 {
        let payload = |n: usize| format!("{round}-{n}-{}", "x".repeat(1000));
        let mut call: Vec<Arc<Delivery>> =
            (0..200).map(|n| keyed(&topic, &format!("k{}", n % 10), payload(n))).collect();
        call.insert(100, keyed(&topic, "bad", vec![b'x'; 30_000]));
        let outcomes = broker.publish(&call, PATIENCE).await;
        for (index, outcome) in outcomes.iter().enumerate() {
            let expected = if index == 100 { ("rejected", "too-large") } else { ("acked", "") };
            assert_eq!(kind(outcome), expected, "{index} of round {round}: {outcome:?}");
        }
    }
    let contents = contents(&client(&url), &topic).await;
    let arrived = of_key(&contents, "k4");
    let numbers: Vec<&str> = arrived.iter().map(|text| &text[..text.len() - 1001]).collect();
    let expected: Vec<String> =
        (0..3).flat_map(|round| (0..20).map(move |n| format!("{round}-{}", n * 10 + 4))).collect();
    assert_eq!(numbers, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_batch_is_not_overtaken() {
    let url = url().await;
    for has_met in [false, true] {
        let topic = create(&url, "overtaking", &[("max.message.bytes", "20000")]).await;
        let broker = broker(&url);
        if has_met {
            assert_eq!(
                broker.publish(&[keyed(&topic, "hot", "0")], DEADLINE).await,
                [Outcome::Acked]
            );
        }
        // Several batches too large, then one that would fit.
        let large = (0..100).map(|_| keyed(&topic, "hot", vec![b'x'; 25_000]));
        let call: Vec<Arc<Delivery>> =
            large.chain((0..50).map(|n| keyed(&topic, "hot", format!("{n}")))).collect();
        let outcomes = broker.publish(&call, DEADLINE).await;
        assert_eq!(kind(&outcomes[0]), ("rejected", "too-large"));
        assert!(outcomes[1..].iter().all(|outcome| kind(outcome) == ("unreachable", "held")));
        let arrived = contents(&client(&url), &topic).await;
        assert_eq!(arrived.len(), usize::from(has_met), "nothing behind the first");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_the_servers_refuse_does_not_stop_a_message() {
    let url = url().await;
    let topic = create(&url, "future", &[]).await;
    let mut future = Delivery::clone(&keyed(&topic, "key", "1"));
    // Kafka takes up to an hour from now.
    future.enqueued_at += Duration::from_secs(100 * 365 * 86_400);
    let call = [Arc::new(future), keyed(&topic, "key", "2")];
    let broker = broker(&url);
    assert_eq!(broker.publish(&call, DEADLINE).await, [Outcome::Acked, Outcome::Acked]);
    assert_eq!(of_key(&contents(&client(&url), &topic).await, "key"), ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_topic_refuses_only_what_has_no_key() {
    let url = url().await;
    let topic = create(&url, "compacted", &[("cleanup.policy", "compact")]).await;
    let broker = broker(&url);
    let mut call: Vec<Arc<Delivery>> =
        (0..20).map(|n| keyed(&topic, &format!("k{n}"), "x")).collect();
    call.insert(10, delivery(Message::from_bytes(&*topic, None, "x")));
    let outcomes = broker.publish(&call, DEADLINE).await;
    for (index, outcome) in outcomes.iter().enumerate() {
        let expected = if index == 10 { ("rejected", "record") } else { ("acked", "") };
        assert_eq!(kind(outcome), expected, "{index}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_about_the_route() {
    let options = Options { password: Some("s3cret:/@".into()), ..Options::default() };
    let server = private(options).await;
    let url = format!("{}/?security=sasl_plaintext", server.url());
    let mut admin = client(&format!("kafka://{}", servers(server.url())));
    admin.set("security.protocol", "sasl_plaintext").set("sasl.mechanism", "PLAIN");
    admin.set("sasl.username", "posthaste").set("sasl.password", "s3cret:/@");
    create_named(&admin, "guarded", &[]).await;

    let wrong =
        format!("kafka://posthaste:hunter2@{}/?security=sasl_plaintext", servers(server.url()));
    let refused = broker(&wrong);
    let started = std::time::Instant::now();
    let outcome = publish_one(&refused, "guarded", PATIENCE).await;
    assert_eq!(kind(&outcome), ("unreachable", "auth"), "{outcome:?}");
    assert!(started.elapsed() < PATIENCE / 2, "does not wait for the deadline");
    assert!(!format!("{outcome:?}").contains("hunter2"));
    let examined = refused.examine(&[]).await.expect_err("is refused");
    assert!(examined.message.contains("check user, password"), "{examined}");
    assert!(!examined.message.contains("hunter2"));

    assert_eq!(publish_one(&broker(&url), "guarded", DEADLINE).await, Outcome::Acked);
    // Without a login at all.
    let outcome = publish_one(
        &broker(&format!("kafka://{}", servers(server.url()))),
        "guarded",
        Duration::from_secs(3),
    )
    .await;
    assert_eq!(kind(&outcome).0, "unreachable", "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_survived() {
    let server = private(Options::default()).await;
    let topic = create(server.url(), "faults", &[]).await;
    let broker = broker(server.url());
    assert_eq!(publish_one(&broker, &topic, DEADLINE).await, Outcome::Acked);

    order!(&server, stop);
    // The client may notice only now, with the message already on its way.
    let noticed = publish_one(&broker, &topic, DEADLINE).await;
    assert!(matches!(kind(&noticed), (_, "connection" | "timeout")), "{noticed:?}");
    let down = publish_one(&broker, &topic, DEADLINE).await;
    assert_eq!(kind(&down), ("unreachable", "connection"), "{down:?}");
    order!(&server, start_again);
    works_again(&broker, &topic).await;

    order!(&server, kill);
    order!(&server, start_again);
    works_again(&broker, &topic).await;

    order!(&server, freeze);
    let deadline = Duration::from_secs(2);
    let frozen = publish_one(&broker, &topic, deadline).await;
    assert_eq!(kind(&frozen), ("unknown", "timeout"), "{frozen:?}");
    let never_sent = publish_one(&broker, &topic, deadline).await;
    assert_eq!(kind(&never_sent), ("unreachable", "timeout"), "{never_sent:?}");
    order!(&server, thaw);
    works_again(&broker, &topic).await;
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_cut_in_mid_publish_loses_nothing() {
    let proxy = Proxy::start("localhost:1").await.expect("a proxy");
    let address = proxy.address().to_string();
    let server = private(Options { advertised: Some(address.clone()), ..Options::default() }).await;
    proxy.retarget(&servers(server.url()));
    let url = format!("kafka://{address}");
    let topic = create(&url, "cut", &[]).await;
    let broker = broker(&url);
    works_again(&broker, &topic).await;

    proxy.cut_after_bytes(20_000);
    let call: Vec<Arc<Delivery>> =
        (0..200).map(|n| keyed(&topic, "hot", format!("{n:03}"))).collect();
    let sent = publish_all(&broker, &call).await;
    let all = contents(&client(&url), &topic).await;
    let arrived: Vec<&str> =
        all.iter().filter(|(key, _)| key == "hot").map(|(_, payload)| payload.as_str()).collect();
    let expected: Vec<String> = (0..200).map(|n| format!("{n:03}")).collect();
    assert_eq!(of_key(&all, "hot"), expected, "in order");
    if sent == Sent::Once {
        // The client itself did so again: stored once, in its place.
        assert_eq!(arrived, expected, "once each, in order");
    }

    // Answers that never come.
    proxy.black_hole_answers();
    let outcome = publish_one(&broker, &topic, Duration::from_secs(2)).await;
    assert_eq!(kind(&outcome), ("unknown", "timeout"), "{outcome:?}");
    proxy.heal();
    tokio::time::timeout(PATIENCE, works_again(&broker, &topic)).await.expect("heals");
}
