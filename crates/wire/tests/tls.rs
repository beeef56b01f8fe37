//! Which certificates adapters trust.

use std::{env, fs, path::Path, process::Command};

use posthaste_fixtures::Authority;
use posthaste_wire::{Roots, Tls};

/// How many certificates there are in a PEM text.
fn count(pem: &str) -> usize {
    pem.matches("-----BEGIN CERTIFICATE-----").count()
}

/// The system's certificates are those of `SSL_CERT_FILE`, which can only be set for another process:
/// the test runs itself again.
#[test]
fn the_systems_certificates_are_trusted_and_those_of_ca_file_in_addition() {
    const NAME: &str = "the_systems_certificates_are_trusted_and_those_of_ca_file_in_addition";
    if let Some(folder) = env::var_os("POSTHASTE_TEST_FOLDER") {
        return as_the_system_has_it(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    for file in ["system.pem", "own.pem"] {
        fs::write(folder.path().join(file), Authority::new().unwrap().pem()).unwrap();
    }
    fs::write(folder.path().join("none.pem"), "").unwrap();
    for system in ["system.pem", "none.pem"] {
        let ended = Command::new(env::current_exe().unwrap())
            .args(["--exact", NAME])
            .env("POSTHASTE_TEST_FOLDER", folder.path())
            .env("SSL_CERT_FILE", folder.path().join(system))
            .env_remove("SSL_CERT_DIR")
            .output()
            .unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
}

fn as_the_system_has_it(folder: &Path) {
    let own = folder.join("own.pem");
    let system_file = env::var_os("SSL_CERT_FILE").expect("is set for this process");
    let system = fs::read_to_string(&system_file).expect("is there");
    let of_system = count(&system);
    let both = system + &fs::read_to_string(&own).expect("is there");
    assert_eq!(count(&Roots::load(None).expect("names no file").pem()), of_system);
    let found = Roots::require(Some(&own)).expect("has a certificate").pem();
    assert_eq!(found.replace('\n', ""), both.replace(['\r', '\n'], ""));
    match Roots::require(None) {
        Ok(_) => assert_eq!(of_system, 1),
        Err(invalid) => {
            assert_eq!((of_system, invalid.field), (0, "ca_file"));
            assert!(invalid.rule.contains("no root certificates"), "{invalid}");
        }
    }
}

#[test]
fn a_file_without_usable_certificates_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let refused = || Roots::load(Some(&file)).unwrap_err();
    assert!(refused().rule.contains("must be a file of PEM"), "it is missing");
    let base64 = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (text, rule) in
        [("", "at least one"), ("nothing", "at least one"), (base64, "usable certificates")]
    {
        fs::write(&file, text).unwrap();
        let invalid = refused();
        assert_eq!((invalid.field, &*invalid.value), ("ca_file", file.to_str().unwrap()));
        assert!(invalid.rule.contains(rule), "{text}: {invalid}");
    }
}

#[test]
fn a_host_that_no_certificate_can_name_and_a_useless_file_are_refused() {
    let (file, needs) = (Some(Path::new("ca.pem")), "an amqps:// URL");
    assert_eq!(Tls::to(Some("not a host"), None, needs).unwrap_err().field, "url");
    assert!(Tls::to(None, None, needs).unwrap().is_none());
    let invalid = Tls::to(None, file, needs).unwrap_err();
    assert_eq!((invalid.field, &*invalid.rule), ("ca_file", "needs an amqps:// URL"));
}
