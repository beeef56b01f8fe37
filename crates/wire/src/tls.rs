//! TLS for every adapter: whom it trusts, and how it connects. Certificates are always verified.
//!
//! Trusted are the root certificates of the system, and those of `ca_file` in addition. The system's are
//! the same for all programs of a machine, so that an authority that its owner adds or takes away
//! counts here, too; none are compiled in.

use std::{fmt, path::Path, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use posthaste_core::Invalid;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

/// Root certificates to trust.
#[derive(Clone, Debug)]
pub struct Roots {
    store: RootCertStore,
    /// Those of the store, as they were found.
    certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// The root certificates of the system and those of `ca_file`.
    ///
    /// Where the system keeps them is for `rustls-native-certs` to know; `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` name other places. A certificate of the system that cannot be read is left out.
    ///
    /// # Errors
    /// `ca_file`, when it cannot be read, or holds anything but usable certificates.
    pub fn load(ca_file: Option<&Path>) -> Result<Self, Invalid> {
        let mut certificates = rustls_native_certs::load_native_certs().certs;
        let mut store = RootCertStore::empty();
        certificates.retain(|certificate| store.add(certificate.clone()).is_ok());
        let Some(file) = ca_file else { return Ok(Self { store, certificates }) };
        let wrong = |rule: &str| Invalid::new("ca_file", &file.display().to_string(), rule);
        let own: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
        let own = own.map_err(|error| wrong(&format!("must be a file of PEM: {error}")))?;
        if own.is_empty() {
            return Err(wrong("must hold at least one certificate in PEM form"));
        }
        for certificate in own {
            let added = store.add(certificate.clone());
            added.map_err(|error| wrong(&format!("must hold usable certificates: {error}")))?;
            certificates.push(certificate);
        }
        Ok(Self { store, certificates })
    }

    /// As [`load`](Self::load), for a connection that is sure to use TLS.
    ///
    /// # Errors
    /// `ca_file`, also when it is not set and the system has no root certificates.
    pub fn require(ca_file: Option<&Path>) -> Result<Self, Invalid> {
        let roots = Self::load(ca_file)?;
        if roots.certificates.is_empty() {
            let rule = "must be set, because this machine has no root certificates to check the \
                        server's with; or install them (package ca-certificates)";
            return Err(Invalid::new("ca_file", "", rule));
        }
        Ok(roots)
    }

    /// How a client connects that trusts these, and has no certificate of its own.
    #[must_use]
    pub fn client_config(self) -> ClientConfig {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider serves the default versions")
            .with_root_certificates(self.store)
            .with_no_client_auth()
    }

    /// All of them as PEM, for a client that has its own TLS.
    #[must_use]
    pub fn pem(&self) -> String {
        let mut pem = String::new();
        for certificate in &self.certificates {
            pem += "-----BEGIN CERTIFICATE-----\n";
            let encoded = STANDARD.encode(certificate);
            let mut rest = encoded.as_str();
            while !rest.is_empty() {
                let (line, more) = rest.split_at(rest.len().min(64));
                pem += line;
                pem.push('\n');
                rest = more;
            }
            pem += "-----END CERTIFICATE-----\n";
        }
        pem
    }
}

/// TLS to one server.
#[derive(Clone)]
pub struct Tls {
    /// The name that the server's certificate must have.
    pub name: ServerName<'static>,
    /// How to connect.
    pub client: Arc<ClientConfig>,
}

impl Tls {
    /// To this host, which may be a name or an address, with the certificates of `ca_file` trusted in
    /// addition to the system's. No host is a URL without TLS, and `needs` is what a `ca_file` needs.
    ///
    /// # Errors
    /// `url`, when no certificate can have the host's name; or see [`Roots::require`] and
    /// [`refuse_ca_file`].
    pub fn to(
        host: Option<&str>,
        ca_file: Option<&Path>,
        needs: &str,
    ) -> Result<Option<Self>, Invalid> {
        let Some(host) = host else { return refuse_ca_file(ca_file, needs).map(|()| None) };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Invalid::new("url", host, "must have a host that a certificate can name")
        })?;
        let client = Arc::new(Roots::require(ca_file)?.client_config());
        Ok(Some(Self { name, client }))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Refuses a `ca_file` beside a URL without TLS, where it would do nothing.
///
/// # Errors
/// `ca_file`, when it is set; the rule says what kind of URL it needs.
pub fn refuse_ca_file(ca_file: Option<&Path>, needs: &str) -> Result<(), Invalid> {
    match ca_file {
        Some(file) => {
            Err(Invalid::new("ca_file", &file.display().to_string(), &format!("needs {needs}")))
        }
        None => Ok(()),
    }
}
