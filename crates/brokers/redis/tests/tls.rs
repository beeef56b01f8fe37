//! TLS: only a certificate that is trusted and names the host is talked to.

mod common;

use std::{path::PathBuf, time::Duration};

use common::{assert_unreachable, broker, message, publish_one, receive, subscription};
use posthaste_broker_redis::{Config, RedisBroker, subscribe};
use posthaste_core::{Broker, Outcome, Start};
use posthaste_fixtures::{Authority, Certificate, Kind, Options, Server};
use tempfile::TempDir;

fn server(certificate: Certificate) -> Server {
    let options = Options { tls: Some(certificate), ..Options::default() };
    Server::private(Kind::Redis, &options).expect("a server with TLS should start")
}

fn file(folder: &TempDir, pem: &str) -> PathBuf {
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, pem).expect("a file in a folder of our own");
    path
}

fn trusting(server: &Server, ca_file: Option<PathBuf>) -> Config {
    Config { ca_file, ..Config::new(server.tls_url().expect("it speaks TLS")) }
}

#[tokio::test]
async fn good_certificate_is_trusted_through_ca_file_and_only_then() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let server = server(authority.certificate(&["localhost"]).unwrap());
    let config = trusting(&server, Some(file(&folder, authority.pem())));
    let secure = RedisBroker::open(config.clone()).unwrap();
    let mut subscriber =
        subscribe(&config, &subscription(None, &["orders"], Start::New)).await.unwrap();
    assert_eq!(publish_one(&secure, "orders").await, Outcome::Acked);
    assert_eq!(&receive(&mut subscriber).await.message.payload[..], b"1");
    assert!(secure.examine(&[]).await.is_ok());
    let distrusting = RedisBroker::open(trusting(&server, None)).unwrap();
    assert_unreachable(&publish_one(&distrusting, "orders").await, "tls");
    assert_eq!(publish_one(&broker(server.url()), "orders").await, Outcome::Acked);
}

#[tokio::test]
async fn self_signed_certificate_is_refused() {
    let folder = TempDir::new().unwrap();
    let server = server(Certificate::self_signed(&["localhost"]).unwrap());
    let other = Authority::new().unwrap();
    let config = trusting(&server, Some(file(&folder, other.pem())));
    let refusing = RedisBroker::open(config.clone()).unwrap();
    let outcome = publish_one(&refusing, "orders").await;
    assert_unreachable(&outcome, "tls");
    assert!(common::failure(&outcome).detail.contains("certificate"), "{outcome:?}");
    let error = refusing.examine(&[]).await.unwrap_err();
    assert!(error.message.contains("certificate"), "{error}");
    assert!(subscribe(&config, &subscription(None, &["orders"], Start::New)).await.is_err());
}

#[tokio::test]
async fn certificate_for_another_name_is_refused() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let server = server(authority.certificate(&["elsewhere.example"]).unwrap());
    let config = trusting(&server, Some(file(&folder, authority.pem())));
    let outcome = publish_one(&RedisBroker::open(config).unwrap(), "orders").await;
    assert_unreachable(&outcome, "tls");
    assert!(common::failure(&outcome).detail.contains("localhost"), "{outcome:?}");
}

#[tokio::test]
async fn server_without_tls_is_refused() {
    let (authority, folder) = (Authority::new().unwrap(), TempDir::new().unwrap());
    let server = server(authority.certificate(&["localhost"]).unwrap());
    let url = server.url().replace("redis://", "rediss://");
    let config = Config { ca_file: Some(file(&folder, authority.pem())), ..Config::new(url) };
    let broker = RedisBroker::open(config).unwrap();
    // It waits for the rest of what it takes for a command.
    let outcomes = broker.publish(&[message("orders", None, 1)], Duration::from_secs(1)).await;
    assert_unreachable(&outcomes[0], "timeout");
}
