//! What the adapter is told, and what it makes of it.

use std::{fmt, path::PathBuf};

use async_nats::{ServerAddr, rustls::ClientConfig};
use percent_encoding::percent_decode_str;
use posthaste_core::{Invalid, misplaced_character};
use posthaste_wire::{Roots, Wire, redacted};
use url::Url;

/// The port of a server that names none.
const DEFAULT_PORT: u16 = 4222;

/// How to reach NATS, and in which form messages go there.
#[derive(Clone)]
pub struct Config {
    /// One server or several with commas between: `nats://user:password@host:4222`,
    /// `nats://token@host`, `tls://host`. One `tls://` makes TLS a must for all of them. Name and
    /// password, or token, are percent-encoded and the same for all.
    pub url: String,
    /// The form of messages, and where they go: a destination is a subject.
    pub wire: Wire,
    /// Certificates (PEM) to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// The one stream that may store messages. Without, whichever holds the subject does.
    pub stream: Option<String>,
    /// A `.creds` file: JWT and key of a decentralised user, instead of a name in the URL.
    pub credentials_file: Option<PathBuf>,
}

impl Config {
    /// Everything as usual for the servers of this URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            wire: Wire::default(),
            ca_file: None,
            stream: None,
            credentials_file: None,
        }
    }
}

/// Shows no secret of the URL.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &redacted(&self.url))
            .field("wire", &self.wire)
            .field("ca_file", &self.ca_file)
            .field("stream", &self.stream)
            .field("credentials_file", &self.credentials_file)
            .finish()
    }
}

/// Who we are to the servers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    Nobody,
    Token(String),
    User { name: String, password: String },
    CredentialsFile(PathBuf),
}

/// A configuration that has been checked.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) servers: Vec<ServerAddr>,
    pub(crate) identity: Identity,
    pub(crate) requires_tls: bool,
    pub(crate) tls: ClientConfig,
    pub(crate) stream: Option<String>,
    pub(crate) wire: Wire,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Result<Self, Invalid> {
        let (mut servers, mut requires_tls) = (Vec::new(), false);
        let mut identity = Identity::Nobody;
        let mut scheme = "nats".to_owned();
        for text in config.url.split(',') {
            let url = server(text.trim(), &scheme)?;
            url.scheme().clone_into(&mut scheme);
            requires_tls |= url.scheme() == "tls";
            let own = identity_of(&url)?;
            if own != Identity::Nobody {
                if identity != Identity::Nobody && identity != own {
                    return Err(invalid(text, "must name the same user for all servers"));
                }
                identity = own;
            }
            servers.push(address(&url)?);
        }
        if let Some(path) = &config.credentials_file {
            if identity != Identity::Nobody {
                let rule = "cannot be used beside a user or token in the URL";
                return Err(Invalid::new("credentials_file", &path.display().to_string(), rule));
            }
            identity = Identity::CredentialsFile(path.clone());
        }
        if let Some(stream) = &config.stream {
            let is_odd = |c: char| c.is_whitespace() || c.is_control() || ".*>/\\".contains(c);
            if stream.is_empty() || stream.contains(is_odd) {
                let rule = "must be a stream's name: not empty, no space, `.`, `*`, `>`, `/`, `\\`";
                return Err(Invalid::new("stream", stream, rule));
            }
        }
        // A server may demand TLS whatever the URL says; a machine without certificates learns then.
        let load = if requires_tls { Roots::require } else { Roots::load };
        let tls = load(config.ca_file.as_deref())?.client_config();
        Ok(Self {
            servers,
            identity,
            requires_tls,
            tls,
            stream: config.stream.clone(),
            wire: config.wire.clone(),
        })
    }
}

fn invalid(url: &str, rule: &str) -> Invalid {
    Invalid::new("url", &redacted(url), rule)
}

/// One server of the list; those after the first may leave the scheme out.
fn server(text: &str, scheme: &str) -> Result<Url, Invalid> {
    let full = if text.contains("://") { text.to_owned() } else { format!("{scheme}://{text}") };
    let rule = "must be `nats://host:port` or `tls://host:port`, several with commas between";
    if let Some(rule) = misplaced_character(&full) {
        return Err(invalid(&full, rule));
    }
    let url = Url::parse(&full).map_err(|error| invalid(&full, &format!("{rule}: {error}")))?;
    let has_more = !matches!(url.path(), "" | "/") || url.query().or(url.fragment()).is_some();
    let is_known = matches!(url.scheme(), "nats" | "tls");
    if !is_known || has_more || url.host_str().is_none_or(str::is_empty) {
        return Err(invalid(&full, rule));
    }
    Ok(url)
}

fn identity_of(url: &Url) -> Result<Identity, Invalid> {
    let decoded = |text: &str| {
        let plain = percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned);
        plain.map_err(|_| invalid(url.as_str(), "must hold UTF-8, percent-encoded"))
    };
    Ok(match (url.username(), url.password()) {
        ("", None) => Identity::Nobody,
        (token, None) => Identity::Token(decoded(token)?),
        (name, Some(password)) => {
            Identity::User { name: decoded(name)?, password: decoded(password)? }
        }
    })
}

/// The address without its secrets: the driver logs addresses.
fn address(url: &Url) -> Result<ServerAddr, Invalid> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().unwrap_or(DEFAULT_PORT);
    format!("{}://{host}:{port}", url.scheme())
        .parse()
        .map_err(|_| invalid(url.as_str(), "must name a host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Result<Settings, Invalid> {
        Settings::new(&Config::new(url))
    }

    #[test]
    fn servers_and_identity_come_from_the_url() {
        let two = settings("nats://me:p%40ss@a:4000, b").unwrap();
        assert!(two.identity == Identity::User { name: "me".into(), password: "p@ss".into() });
        let addresses: Vec<_> =
            two.servers.iter().map(|server| (server.host().to_owned(), server.port())).collect();
        assert_eq!(addresses, [("a".to_owned(), 4000), ("b".to_owned(), 4222)]);
        assert!(!two.requires_tls);
        let token = settings("tls://s3cret@a,nats://b").unwrap();
        assert!(token.identity == Identity::Token("s3cret".into()));
        assert!(token.requires_tls, "one that wants TLS is enough");
        assert!(settings("nats://[::1]:4222").is_ok());
    }

    #[test]
    fn what_is_no_nats_url_is_refused() {
        for bad in [
            "",
            "nats://",
            "http://a",
            "nats://a/path",
            "nats://a?x=1",
            "nats://u:p@a,nats://v:p@b",
            "nats://a,,b",
        ] {
            assert_eq!(settings(bad).err().map(|error| error.field), Some("url"), "{bad}");
        }
        let mut config = Config::new("nats://a");
        config.stream = Some("a.b".into());
        assert_eq!(Settings::new(&config).err().map(|error| error.field), Some("stream"));
        let mut config = Config::new("nats://token@a");
        config.credentials_file = Some("me.creds".into());
        assert_eq!(Settings::new(&config).err().map(|error| error.field), Some("credentials_file"));
    }

    #[test]
    fn a_bare_character_in_a_password_is_named_without_it() {
        for (url, part) in [
            ("nats://me:hunt#er2@a", "%23"),
            ("nats://b,me:1#hunter2@a", "%23"),
            ("nats://me:hunt?er2@a:4222", "%3F"),
            ("tls://me:hunt/er2@a", "%2F"),
            ("tls://hunt/er2@a", "%2F"),
            ("nats://me:1/hunter2@a", "%2F"),
            ("nats://me:hunter2@a:port", "invalid port number"),
        ] {
            let invalid = settings(url).err().expect(url);
            assert!(invalid.rule.contains(part), "{url}: {invalid}");
            let shown = format!("{invalid} {:?}", Config::new(url));
            assert!(!shown.contains("er2"), "{url}: {shown}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for url in ["nats://me:hunter2@a,nats://me:hunter2@b", "tls://hunter2@a", "me:hunter2@a"] {
            assert!(!format!("{:?}", Config::new(url)).contains("hunter2"), "{url}");
        }
        for (url, shown) in [
            ("nats://me:hunter2@a/path", "nats://me:***@a/***"),
            ("nats://me:hunter2", "nats://(not shown)"),
            ("me:hunter2", "(not shown)"),
            ("nats://me:hun,ter2@a,b", "nats://me:***@a,b"),
            ("nats://a:1,nats://me:hun,ter2", "nats://a:1,nats://(not shown)"),
            ("nats://me:hun/ter2@a", "nats://(not shown)"),
            ("nats://a?token=hun@ter2", "nats://(not shown)"),
            ("nats://a/?token=hunter2", "nats://a/?token=***"),
            ("http://a:4222", "http://a:4222"),
            ("nats://a,,[::1]:4222", "nats://a,,[::1]:4222"),
        ] {
            let refused = settings(url).err();
            let value = refused.map(|refused| refused.value).unwrap_or_default();
            assert_eq!(redacted(url), shown, "{url}");
            assert!(!value.contains("hun") && !format!("{:?}", Config::new(url)).contains("hun"));
        }
    }
}
