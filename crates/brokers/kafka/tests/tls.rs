//! TLS: a good certificate is trusted, others are not.

mod common;

use std::{fs, path::PathBuf, sync::Arc};

use common::{DEADLINE, PATIENCE, broker, client, create_named, kind, publish_one};
use posthaste_broker_kafka::{Config, KafkaBroker, subscribe};
use posthaste_core::{Broker, Outcome, Sharing, Start, Subscriber as _, Subscription};
use posthaste_fixtures::{Authority, Certificate, Kind, Options, Server};
use tempfile::TempDir;

async fn server(certificate: Certificate) -> Server {
    let options = Options { tls: Some(certificate), ..Options::default() };
    let start = move || Server::private(Kind::Kafka, &options);
    let started = tokio::task::spawn_blocking(start).await.expect("no panic");
    started.expect("a server")
}

fn config(server: &Server, ca_file: Option<PathBuf>) -> Config {
    let url = server.tls_url().expect("TLS was asked for");
    Config { ca_file, ..Config::new(format!("{url}/?security=ssl")) }
}

fn file(folder: &TempDir, pem: &str) -> PathBuf {
    let file = folder.path().join("ca.pem");
    fs::write(&file, pem).expect("the file can be written");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_a_trusted_authority_is_good() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let server = server(authority.certificate(&["localhost"]).unwrap()).await;
    create_named(&client(server.url()), "safe", &[]).await;
    let config = config(&server, Some(file(&folder, authority.pem())));
    let subscription = Subscription {
        name: None,
        topics: vec!["safe".parse().unwrap()],
        start: Start::Beginning,
        sharing: Sharing::Competing,
    };
    let mut subscriber = subscribe(&config, &subscription).await.unwrap();
    let secure = KafkaBroker::open(config.clone()).unwrap();
    assert_eq!(publish_one(&secure, "safe", DEADLINE).await, Outcome::Acked);
    assert_eq!(&*subscriber.receive().await.unwrap().message.payload, b"payload");
    // The plain listener of the same server goes on as ever.
    assert_eq!(publish_one(&broker(server.url()), "safe", DEADLINE).await, Outcome::Acked);

    // Who does not trust the authority does not talk to the server.
    let stranger = KafkaBroker::open(Config { ca_file: None, ..config }).unwrap();
    let started = std::time::Instant::now();
    let outcome = publish_one(&stranger, "safe", PATIENCE).await;
    assert_eq!(kind(&outcome), ("unreachable", "tls"), "{outcome:?}");
    assert!(started.elapsed() < PATIENCE / 2, "does not wait for the deadline");
    let examined = stranger.examine(&[]).await.unwrap_err();
    assert!(examined.message.contains("ca_file"), "{examined}");
    let error = subscribe(&self::config(&server, None), &subscription).await;
    assert!(error.is_err_and(|error| error.message.contains("tls")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_name_is_refused() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let server = server(authority.certificate(&["elsewhere.example"]).unwrap()).await;
    let config = config(&server, Some(file(&folder, authority.pem())));
    let outcome = publish_one(&KafkaBroker::open(config).unwrap(), "any", DEADLINE).await;
    assert_eq!(kind(&outcome), ("unreachable", "tls"), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_self_signed_certificate_is_refused() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let server = server(Certificate::self_signed(&["localhost"]).unwrap()).await;
    let config = config(&server, Some(file(&folder, authority.pem())));
    let broker = Arc::new(KafkaBroker::open(config).unwrap());
    let outcome = publish_one(&broker, "any", DEADLINE).await;
    assert_eq!(kind(&outcome), ("unreachable", "tls"), "{outcome:?}");
    let Outcome::Unreachable(failure) = outcome else { panic!("unreachable") };
    assert!(failure.detail.contains("certificate"), "{failure}");
}
