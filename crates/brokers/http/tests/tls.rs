//! Certificates are verified, always.

mod support;

use std::{fs, time::Duration};

use posthaste_broker_http::{Config, HttpBroker};
use posthaste_core::{Broker, Message, Outcome};
use posthaste_fixtures::{Authority, Certificate};
use support::{Receiver, delivery};

async fn publish(certificate: &Certificate, trusted: Option<&str>) -> Outcome {
    let receiver = Receiver::with(Some((certificate.cert_pem(), certificate.key_pem())));
    let folder = tempfile::tempdir().expect("a folder");
    let ca_file = trusted.map(|pem| {
        let path = folder.path().join("ca.pem");
        fs::write(&path, pem).expect("a file");
        path
    });
    let broker = HttpBroker::open(Config { ca_file, ..receiver.config("/hook") }).expect("opens");
    let call = [delivery(Message::from_bytes("t", None, "x"))];
    broker.publish(&call, Duration::from_secs(60)).await.remove(0)
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_is_accepted() {
    let authority = Authority::new().unwrap();
    let certificate = authority.certificate(&["localhost"]).unwrap();
    assert_eq!(publish(&certificate, Some(authority.pem())).await, Outcome::Acked);
}

#[tokio::test]
async fn other_certificates_are_refused() {
    let authority = Authority::new().unwrap();
    let cases = [
        ("nobody trusts it", Certificate::self_signed(&["localhost"]).unwrap()),
        ("it is of another host", authority.certificate(&["elsewhere.example"]).unwrap()),
    ];
    for (why, certificate) in cases {
        let outcome = publish(&certificate, Some(authority.pem())).await;
        let Outcome::Unreachable(failure) = &outcome else { panic!("{why}: {outcome:?}") };
        assert_eq!(failure.class, "tls", "{why}: {failure}");
    }
    let certificate = authority.certificate(&["localhost"]).unwrap();
    let outcome = publish(&certificate, None).await;
    assert!(matches!(&outcome, Outcome::Unreachable(failure) if failure.class == "tls"));
}

#[test]
fn a_file_without_certificates_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    let open = || {
        let config = Config::new("https://example.com/", vec![support::secret()]);
        HttpBroker::open(Config { ca_file: Some(path.clone()), ..config })
    };
    assert_eq!(open().err().unwrap().field, "ca_file", "it is missing");
    fs::write(&path, "nothing").unwrap();
    assert_eq!(open().err().unwrap().field, "ca_file", "it is empty");
}
