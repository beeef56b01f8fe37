//! TLS: a certificate is trusted for its authority and its name, or not at all.

mod support;

use std::path::PathBuf;

use posthaste_broker_rabbitmq::{Config, subscribe};
use posthaste_core::{Broker, Outcome, Sharing, Start, Subscriber, Subscription};
use posthaste_fixtures::{Authority, Certificate, Kind, Options, Server};
use support::{broker, message, publish_one, routed, told};

fn secured(certificate: Certificate) -> Server {
    // A password that cannot stand in a URL as it is.
    let password = Some("p@ss/word:100%".to_owned());
    let options = Options { tls: Some(certificate), password, ..Options::default() };
    Server::private(Kind::RabbitMq, &options).expect("a server")
}

fn file(folder: &tempfile::TempDir, pem: &str) -> Option<PathBuf> {
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, pem).expect("writes");
    Some(file)
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_is_good_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new().unwrap();
    let own = secured(authority.certificate(&["localhost"]).unwrap());
    let (plain, admin, queue) = routed(own.url()).await;
    let url = own.tls_url().unwrap().to_owned();
    let trusting =
        Config { url: url.clone(), ca_file: file(&folder, authority.pem()), ..plain.clone() };
    let trusted = broker(trusting.clone());
    assert_eq!(publish_one(&trusted, "t").await, Outcome::Acked);
    assert!(trusted.examine(&[]).await.unwrap().iter().all(|finding| finding.ok));
    let subscription = Subscription {
        name: None,
        topics: vec!["*".parse().unwrap()],
        start: Start::New,
        sharing: Sharing::Competing,
    };
    let mut subscriber = subscribe(&trusting, &subscription).await.unwrap();
    let sent = message("t");
    assert_eq!(
        trusted.publish(std::slice::from_ref(&sent), support::PATIENCE).await,
        [Outcome::Acked]
    );
    assert_eq!(subscriber.receive().await.unwrap().message.id, sent.message.id);
    trusted.close().await;

    // The public authorities did not sign it.
    let distrustful = broker(Config { url: url.clone(), ..plain.clone() });
    let outcome = publish_one(&distrustful, "t").await;
    assert_eq!(told(&outcome), ("unreachable", "tls"), "{outcome:?}");
    let error = distrustful.examine(&[]).await.unwrap_err();
    assert!(error.message.contains("ca_file"), "{error}");

    // Signed, but for another name.
    let by_address = url.replace("localhost", "127.0.0.1");
    let outcome = publish_one(&broker(Config { url: by_address, ..trusting }), "t").await;
    assert_eq!(told(&outcome), ("unreachable", "tls"), "{outcome:?}");
    assert!(format!("{outcome:?}").contains("not valid for name"), "{outcome:?}");

    assert_eq!(publish_one(&broker(plain), "t").await, Outcome::Acked, "without TLS as ever");
    assert_eq!(admin.count(&queue).await, 3);
}

#[tokio::test]
async fn a_self_signed_certificate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let own = secured(Certificate::self_signed(&["localhost"]).unwrap());
    let url = own.tls_url().unwrap();
    let other = Authority::new().unwrap();
    for ca_file in [None, file(&folder, other.pem())] {
        let outcome = publish_one(&broker(Config { ca_file, ..Config::new(url) }), "t").await;
        assert_eq!(told(&outcome), ("unreachable", "tls"), "{outcome:?}");
    }
}
