//! TLS: who is trusted and who is not.

mod support;

use std::path::PathBuf;

use posthaste_broker_mqtt::{Config, MqttBroker, subscribe};
use posthaste_core::{Broker, Outcome};
use posthaste_fixtures::{Authority, Certificate, Kind, Options, Server};
use support::{PATIENCE, broker, kind, listen, message, publish, receive, subscription, topic};
use tempfile::TempDir;

fn tls_server(certificate: Certificate) -> Server {
    let options = Options { tls: Some(certificate), ..Options::default() };
    Server::private(Kind::Mosquitto, &options).expect("Mosquitto starts")
}

fn ca_file(authority: &Authority) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority.pem()).expect("a file");
    (folder, file)
}

fn trusting(server: &Server, ca_file: Option<PathBuf>) -> Config {
    Config { ca_file, ..Config::new(server.tls_url().expect("a TLS listener")) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_the_given_authority_is_trusted() {
    let authority = Authority::new().unwrap();
    let server = tls_server(authority.certificate(&["localhost"]).unwrap());
    let (_folder, file) = ca_file(&authority);
    let config = trusting(&server, Some(file));
    let topic = topic();
    let mut subscriber = subscribe(&config, &subscription(None, &[&topic])).await.unwrap();
    let encrypted = MqttBroker::open(config).unwrap();
    let large = vec![7; 300_000];
    assert_eq!(publish(&encrypted, message(&topic, None, large.clone())).await, Outcome::Acked);
    assert_eq!(receive(&mut subscriber).await.message.payload, large);
    let findings = encrypted.examine(&[]).await.unwrap();
    assert!(findings[0].what.contains("with TLS"), "{findings:?}");
    encrypted.close().await;
    // Without TLS nothing has changed.
    let mut plain = listen(server.url(), &[&topic]).await;
    assert_eq!(publish(&broker(server.url()), message(&topic, None, "x")).await, Outcome::Acked);
    assert_eq!(receive(&mut plain).await.message.payload, "x");
}

async fn is_refused(config: Config, words: &str) {
    let topic = topic();
    let broker = MqttBroker::open(config.clone()).expect("a valid configuration");
    let outcome = publish(&broker, message(&topic, None, "x")).await;
    assert_eq!(kind(&outcome), ("unreachable", "tls"), "{outcome:?}");
    assert!(format!("{outcome:?}").contains(words), "{outcome:?}");
    let error = broker.examine(&[]).await.expect_err("is refused");
    assert!(error.message.contains(words), "{error}");
    let subscription = subscription(None, &[&topic]);
    let subscribed = tokio::time::timeout(PATIENCE, subscribe(&config, &subscription)).await;
    assert!(subscribed.expect("in time").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_nobody_is_refused() {
    let server = tls_server(Certificate::self_signed(&["localhost"]).unwrap());
    is_refused(trusting(&server, None), "UnknownIssuer").await;
    let (_folder, file) = ca_file(&Authority::new().unwrap());
    is_refused(trusting(&server, Some(file)), "UnknownIssuer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new().unwrap();
    let server = tls_server(authority.certificate(&["elsewhere.example"]).unwrap());
    let (_folder, file) = ca_file(&authority);
    is_refused(trusting(&server, Some(file)), "not valid for name").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_not_trusted_with_anything() {
    let server = support::private(&[]);
    let url = server.url().replace("mqtt://127.0.0.1", "mqtts://localhost");
    let broker = MqttBroker::open(Config::new(url)).unwrap();
    let outcome =
        support::publish_within(&broker, message("t", None, "x"), support::SHORT * 2).await;
    assert_eq!(kind(&outcome).0, "unreachable", "{outcome:?}");
}
