//! What a user says about the server.

use std::{fmt, path::PathBuf};

use percent_encoding::percent_decode_str;
use posthaste_core::{Invalid, misplaced_character};
use posthaste_wire::{Tls, Wire, redacted};
use url::Url;

/// The port that clients use if they are not told.
const PORT_DEFAULT: u16 = 6379;

/// How to reach and use a server.
#[derive(Clone)]
pub struct Config {
    /// `redis://user:password@host:6379/0`, or `rediss://` for TLS. User and password are
    /// percent-encoded and may be left out, as may the port and the number of the database (0).
    pub url: String,
    /// How messages are written.
    pub wire: Wire,
    /// Certificates (PEM) to trust in addition to the system's. Only with `rediss://`.
    pub ca_file: Option<PathBuf>,
    /// About how many entries a stream keeps (`MAXLEN ~`). The oldest are deleted, whether or not
    /// they have been read. `None`: streams grow until somebody trims them.
    pub max_length: Option<u64>,
    /// How many replicas must confirm a message before it counts as delivered (`WAIT`).
    pub wait_replicas: u32,
}

impl Config {
    /// This server, everything else as usual: streams grow, and no replica is waited for.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            wire: Wire::default(),
            ca_file: None,
            max_length: None,
            wait_replicas: 0,
        }
    }

    /// Checks everything.
    pub(crate) fn target(&self) -> Result<Target, Invalid> {
        let url = parse(&self.url)?;
        let host = match url.host() {
            Some(url::Host::Domain(name)) => name.to_owned(),
            Some(url::Host::Ipv4(address)) => address.to_string(),
            Some(url::Host::Ipv6(address)) => address.to_string(),
            None => return Err(wrong(&self.url, "needs a host, as in `redis://host:6379`")),
        };
        let database = match url.path().trim_matches('/') {
            "" => 0,
            number => number.parse().map_err(|_| {
                wrong(&self.url, "must end with the number of a database, or nothing")
            })?,
        };
        let tls_host = (url.scheme() == "rediss").then_some(&*host);
        let tls = Tls::to(tls_host, self.ca_file.as_deref(), "a rediss:// URL")?;
        if self.max_length == Some(0) {
            return Err(Invalid::new("max_length", "0", "must be at least 1, or left out"));
        }
        let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
        Ok(Target {
            host,
            port: url.port().unwrap_or(PORT_DEFAULT),
            database,
            tls,
            user: Some(decoded(url.username())).filter(|user| !user.is_empty()),
            password: url.password().map(decoded),
        })
    }
}

/// No password is shown.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &redacted(&self.url))
            .field("wire", &self.wire)
            .field("ca_file", &self.ca_file)
            .field("max_length", &self.max_length)
            .field("wait_replicas", &self.wait_replicas)
            .finish()
    }
}

/// A configuration that has been checked.
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) database: u32,
    pub(crate) tls: Option<Tls>,
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Option<Vec<u8>>,
}

/// The server's address and nothing else.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

fn parse(text: &str) -> Result<Url, Invalid> {
    const RULE: &str = "must be like `redis://user:password@host:6379/0` or `rediss://host:6379`";
    if let Some(rule) = misplaced_character(text) {
        return Err(wrong(text, rule));
    }
    let url = Url::parse(text).map_err(|error| wrong(text, &format!("{RULE}: {error}")))?;
    if !matches!(url.scheme(), "redis" | "rediss") {
        return Err(wrong(text, RULE));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong(text, "must end after the number of the database"));
    }
    if !url.username().is_empty() && url.password().is_none() {
        return Err(wrong(text, "names a user and no password; a password alone is `:password@`"));
    }
    Ok(url)
}

fn wrong(url: &str, rule: &str) -> Invalid {
    Invalid::new("url", &redacted(url), rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let target = Config::new("redis://re%40l:p%2Fw%20d@[::1]:7000/3").target().unwrap();
        assert_eq!((target.host.as_str(), target.port, target.database), ("::1", 7000, 3));
        assert_eq!(target.user.as_deref(), Some(&b"re@l"[..]));
        assert_eq!(target.password.as_deref(), Some(&b"p/w d"[..]));
        let target = Config::new("rediss://:secret@cache.example").target().unwrap();
        assert_eq!((target.port, target.database, target.tls.is_some()), (6379, 0, true));
        assert_eq!((target.user, target.password.as_deref()), (None, Some(&b"secret"[..])));
        assert_eq!(target.host, "cache.example");
    }

    #[test]
    fn a_bare_character_in_a_password_is_named_without_it() {
        for (url, part) in [
            ("redis://:hunt#er2@host/0", "%23"),
            ("redis://me:1#hunter2@host/0", "%23"),
            ("redis://me:hunt?er2@host/0", "%3F"),
            ("rediss://me:hunt/er2@host/0", "%2F"),
            ("redis://me:1/hunter2@host/0", "%2F"),
            ("redis://me:hunter2@host:port/0", "invalid port number"),
        ] {
            let config = Config::new(url);
            let invalid = config.target().err().expect(url);
            assert!(invalid.rule.contains(part), "{url}: {invalid}");
            assert!(!format!("{invalid} {config:?}").contains("er2"), "{url}: {invalid}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_no_password_shown() {
        let ca = Some(PathBuf::from("/nowhere/ca.pem"));
        for (config, field) in [
            (Config::new("not a url hunter2"), "url"),
            (Config::new("http://u:hunter2@host"), "url"),
            (Config::new("redis://u:hunter2@host/zero"), "url"),
            (Config::new("redis://u:hunter2@host?protocol=resp3"), "url"),
            (Config::new("rediss://u:hunter2@host#insecure"), "url"),
            (Config::new("redis://hunter2@host"), "url"),
            (Config::new("redis://"), "url"),
            (Config { ca_file: ca.clone(), ..Config::new("redis://host") }, "ca_file"),
            (Config { ca_file: ca, ..Config::new("rediss://host") }, "ca_file"),
            (Config { max_length: Some(0), ..Config::new("redis://host") }, "max_length"),
        ] {
            let invalid = config.target().err().expect("should be refused");
            assert_eq!(invalid.field, field, "{invalid}");
            assert!(!format!("{invalid} {config:?}").contains("hunter2"), "{invalid} {config:?}");
        }
        let config = Config::new("redis://u:hunter2@host/1");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(format!("{config:?}").contains("redis://u:***@host/1"));
    }
}
