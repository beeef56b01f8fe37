//! What `doctor` says of servers that are not as they should be.

mod support;

use posthaste_broker_mqtt::{Config, MqttBroker};
use posthaste_core::{Broker, Finding, Outcome, TopicPattern};
use posthaste_fixtures::{Kind, server};
use support::{listen, message, private, publish, topic};

async fn problems(broker: &MqttBroker, topics: &[&str]) -> Vec<Finding> {
    let topics: Vec<TopicPattern> = topics.iter().map(|t| t.parse().expect("valid")).collect();
    let findings = broker.examine(&topics).await.expect("the server can be used");
    let problems: Vec<_> = findings.into_iter().filter(|finding| !finding.ok).collect();
    assert!(problems.iter().all(|problem| problem.fix.is_some()), "{problems:?}");
    problems
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_as_it_should_be_has_no_problems() {
    let broker = support::broker(server(Kind::Mosquitto).url());
    assert_eq!(problems(&broker, &["orders", "orders/*"]).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn narrow_limits_are_named_with_the_setting_that_widens_them() {
    let server = private(&[("max_inflight_messages", "20"), ("max_packet_size", "1000000")]);
    let found = problems(&support::broker(server.url()), &[]).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].what.starts_with("20 publishes"), "{found:?}");
    assert!(found[0].fix.as_ref().unwrap().contains("max_inflight_messages"));
    assert!(found[1].what.contains("1000000 bytes"), "{found:?}");
    assert!(found[1].fix.as_ref().unwrap().contains("max_packet_size"));
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_cannot_be_published_to_are_problems() {
    let broker = support::broker(server(Kind::Mosquitto).url());
    let found = problems(&broker, &["a/+", "$SYS/x", "fine"]).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].what.contains("\"a/+\""), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn examining_does_not_throw_out_the_publisher_of_that_client_id() {
    let (url, topic) = (server(Kind::Mosquitto).url(), topic());
    let client_id = Some(topic.replace('/', "-"));
    let config = Config { client_id, ..Config::new(url) };
    let _listener = listen(url, &[&topic]).await;
    let relay = MqttBroker::open(config.clone()).unwrap();
    let doctor = MqttBroker::open(config).unwrap();
    let work = async {
        for _ in 0..200 {
            assert_eq!(publish(&relay, message(&topic, None, "x")).await, Outcome::Acked);
        }
    };
    let look = async {
        for _ in 0..10 {
            assert_eq!(problems(&doctor, &[]).await, []);
        }
    };
    tokio::join!(work, look);
}
