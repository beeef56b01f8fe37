//! TLS: who is trusted, and who is not.

mod common;

use std::path::PathBuf;

use async_nats::jetstream::stream;
use common::{add_stream, fresh, kind, open, publish_one};
use posthaste_broker_nats::{Config, NatsBroker, subscribe};
use posthaste_core::{Outcome, Sharing, Start, Subscription};
use posthaste_fixtures::{Authority, Certificate, Kind, Options, Server};

/// A server that shows this certificate, with a topic to publish to.
struct Bed {
    server: Server,
    topic: String,
    folder: tempfile::TempDir,
}

impl Bed {
    async fn new(certificate: Certificate) -> Self {
        let options = Options { tls: Some(certificate), ..Options::default() };
        let server = Server::private(Kind::Nats, &options).expect("a NATS of our own");
        let topic = fresh();
        add_stream(server.url(), &topic, stream::Config::default()).await;
        Self { server, topic, folder: tempfile::tempdir().expect("a folder") }
    }

    fn file(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("ca.pem");
        std::fs::write(&path, text).expect("a file");
        path
    }

    fn config(&self, ca_file: Option<PathBuf>) -> Config {
        let url = self.server.tls_url().expect("a URL with TLS");
        Config { ca_file, ..Config::new(url) }
    }

    async fn publish(&self, ca_file: Option<PathBuf>) -> Outcome {
        let broker = NatsBroker::open(self.config(ca_file)).expect("a good configuration");
        publish_one(&broker, &self.topic).await
    }
}

fn detail(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Unreachable(failure) => &failure.detail,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_of_the_given_authority_is_trusted() {
    let authority = Authority::new().unwrap();
    let bed = Bed::new(authority.certificate(&["localhost"]).unwrap()).await;
    let ca_file = bed.file(authority.pem());
    assert_eq!(bed.publish(Some(ca_file.clone())).await, Outcome::Acked);
    let subscription = Subscription {
        name: None,
        topics: vec![bed.topic.parse().unwrap()],
        start: Start::Beginning,
        sharing: Sharing::Competing,
    };
    let mut subscriber = subscribe(&bed.config(Some(ca_file)), &subscription).await.unwrap();
    let incoming = posthaste_core::Subscriber::receive(&mut subscriber).await.unwrap();
    assert_eq!(incoming.message.topic, bed.topic);
    let plain = publish_one(&open(bed.server.url()), &bed.topic).await;
    assert_eq!(plain, Outcome::Acked, "without TLS nothing is different");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_authority_is_refused() {
    let authority = Authority::new().unwrap();
    let bed = Bed::new(authority.certificate(&["localhost"]).unwrap()).await;
    let other = bed.file(Authority::new().unwrap().pem());
    for ca_file in [None, Some(other)] {
        let outcome = bed.publish(ca_file).await;
        assert_eq!(kind(&outcome), ("unreachable", "tls"), "{outcome:?}");
        assert!(detail(&outcome).contains("certificate"), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn self_signed_certificate_is_refused() {
    let bed = Bed::new(Certificate::self_signed(&["localhost"]).unwrap()).await;
    let outcome = bed.publish(None).await;
    assert_eq!(kind(&outcome), ("unreachable", "tls"), "{outcome:?}");
    assert!(detail(&outcome).contains("certificate"), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_of_another_name_is_refused() {
    let authority = Authority::new().unwrap();
    let bed = Bed::new(authority.certificate(&["elsewhere.example"]).unwrap()).await;
    let outcome = bed.publish(Some(bed.file(authority.pem()))).await;
    assert_eq!(kind(&outcome), ("unreachable", "tls"), "{outcome:?}");
    assert!(detail(&outcome).contains("localhost"), "it names the name: {outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_tls_is_refused_where_tls_is_asked_for() {
    let own = common::private(&[]);
    let broker = open(&own.url().replace("nats://", "tls://"));
    let outcome = publish_one(&broker, "orders").await;
    assert_eq!(kind(&outcome).0, "unreachable", "{outcome:?}");
}

#[test]
fn file_without_a_certificate_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for path in [empty, folder.path().join("missing.pem")] {
        let config = Config { ca_file: Some(path), ..Config::new("tls://localhost") };
        assert_eq!(NatsBroker::open(config).err().unwrap().field, "ca_file");
    }
}
