//! What `doctor` finds on real servers.

mod common;

use async_nats::jetstream::stream::{self, StorageType};
use common::{add_stream, fresh, open, private};
use posthaste_broker_nats::{Config, NatsBroker};
use posthaste_core::{Broker, Finding, TopicPattern};

fn pattern(text: &str) -> TopicPattern {
    text.parse().expect("a pattern")
}

fn find<'a>(findings: &'a [Finding], text: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.what.contains(text));
    found.unwrap_or_else(|| panic!("no finding has {text:?}: {findings:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn weak_settings_and_missing_streams_are_problems_with_a_fix() {
    let own = private(&[]);
    let (weak, missing) = (fresh(), fresh());
    let window = std::time::Duration::from_secs(5);
    let storage = StorageType::Memory;
    let config =
        stream::Config { storage, duplicate_window: window, no_ack: true, ..Default::default() };
    add_stream(own.url(), &weak, config).await;
    let topics = [pattern(&weak), pattern(&missing), pattern(&format!("{missing}.*"))];
    let findings = open(own.url()).examine(&topics).await.unwrap();
    assert!(find(&findings, "with JetStream").ok);
    for problem in ["in memory", "within 5 s", "no_ack", "max_payload"] {
        let finding = find(&findings, problem);
        assert!(!finding.ok && finding.fix.is_some(), "{finding:?}");
    }
    let unstored: Vec<_> =
        findings.iter().filter(|finding| finding.what.starts_with("no stream stores")).collect();
    assert_eq!(unstored.len(), 2, "{findings:#?}");
    assert!(unstored[0].fix.as_ref().unwrap().starts_with("nats stream add "));
}

#[tokio::test(flavor = "multi_thread")]
async fn good_settings_are_no_problem() {
    let own = private(&[("max_payload", "8454144")]);
    let topic = fresh();
    add_stream(own.url(), &topic, stream::Config::default()).await;
    let config = Config { stream: Some(topic.clone()), ..Config::new(own.url()) };
    let broker = NatsBroker::open(config).unwrap();
    let findings =
        broker.examine(&[pattern(&topic), pattern(&format!("{topic}.*"))]).await.unwrap();
    assert!(findings.iter().all(|finding| finding.ok), "{findings:#?}");
    assert!(find(&findings, "no limit").ok);
    let config = Config { stream: Some("OTHER".into()), ..Config::new(own.url()) };
    let broker = NatsBroker::open(config).unwrap();
    let findings = broker.examine(&[pattern(&topic)]).await.unwrap();
    assert!(!find(&findings, "there is no stream OTHER").ok);
    assert!(!find(&findings, "not OTHER").ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_is_down_is_one_line() {
    let own = private(&[]);
    own.stop().unwrap();
    let error = open(own.url()).examine(&[]).await.unwrap_err();
    assert!(error.message.starts_with("cannot connect to NATS"), "{error}");
}
