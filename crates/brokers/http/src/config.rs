//! What can be set.

use std::{fmt, path::PathBuf};

use posthaste_core::{Invalid, misplaced_character};
use posthaste_wire::{Wire, redacted};
use url::{Host, Url};

use crate::{Secret, address};

/// Where webhooks go and how.
#[derive(Clone)]
pub struct Config {
    /// The receiver: `https://host/path`, or `http://` where nobody can listen in.
    pub url: String,
    /// The form of messages. The destination does not apply: every message goes to the URL.
    pub wire: Wire,
    /// Certificates (PEM) to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// Keys that sign, at least one. All of them sign every request, so that a receiver may still
    /// have the old one while they are rotated.
    pub secrets: Vec<Secret>,
    /// Whether addresses of private networks and of this machine are allowed.
    pub allow_private: bool,
    /// Most requests under way at once.
    pub connections: u32,
}

impl Config {
    /// Webhooks to this URL, signed with these secrets, and defaults for all the rest.
    #[must_use]
    pub fn new(url: impl Into<String>, secrets: Vec<Secret>) -> Self {
        Self {
            url: url.into(),
            wire: Wire::default(),
            ca_file: None,
            secrets,
            allow_private: false,
            connections: 64,
        }
    }

    /// The URL, if it and everything else may be used.
    pub(crate) fn checked(&self) -> Result<Url, Invalid> {
        let invalid = |rule: &str| Invalid {
            field: "url",
            value: redacted(&self.url),
            rule: rule.to_owned(),
        };
        let url = Url::parse(&self.url).map_err(|error| {
            let rule = misplaced_character(&self.url).map(str::to_owned);
            invalid(&rule.unwrap_or_else(|| format!("must be a URL: {error}")))
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("must start with https:// or http://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("must not hold a user or a password: requests are signed instead"));
        }
        if url.fragment().is_some() {
            return Err(invalid("must not have a fragment: in a path or a token write `#` as %23"));
        }
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(address.into()),
            Some(Host::Ipv6(address)) => Some(address.into()),
            _ => None,
        };
        if literal.is_some_and(|address| !self.allow_private && !address::is_public(address)) {
            return Err(invalid(
                "must not be an address of a private network or of this machine; \
                 say `allow_private = true` if you mean it",
            ));
        }
        if self.secrets.is_empty() {
            let rule =
                "must hold at least one; make it with: echo whsec_$(openssl rand -base64 32)";
            return Err(Invalid { field: "secrets", value: String::new(), rule: rule.to_owned() });
        }
        if self.connections == 0 {
            let rule = "must be at least 1".to_owned();
            return Err(Invalid { field: "connections", value: "0".to_owned(), rule });
        }
        Ok(url)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &redacted(&self.url))
            .field("wire", &self.wire)
            .field("ca_file", &self.ca_file)
            .field("secrets", &self.secrets.len())
            .field("allow_private", &self.allow_private)
            .field("connections", &self.connections)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()
    }

    #[test]
    fn urls_that_cannot_be_meant_are_refused() {
        let refused = [
            "ftp://example.com/",
            "https://",
            "not a url",
            "https://user:hunter2@example.com/",
            "https://example.com/#top",
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0x7f000001/",
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://169.254.169.254/latest/meta-data",
            "http://10.0.0.1/",
            "http://127.0.0.1./",
            "http://127.0.0.1\\@example.com/",
            "http://example.com@127.0.0.1/",
            "http://@127.0.0.1/",
            "http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/",
            "http://%31%32%37.0.0.1/",
            "http://0/",
            "http://[::]/",
            "http://[::127.0.0.1]/",
            "http://[0:0:0:0:0:ffff:7f00:1]/",
            "http://[fe80::1%25eth0]/",
            "http://[fe80::1%eth0]/",
            "http://[fd00:ec2::254]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http:///",
        ];
        for url in refused {
            let invalid = Config::new(url, vec![secret()]).checked().unwrap_err();
            assert_eq!(invalid.field, "url", "{url}");
            assert!(!invalid.to_string().contains("hunter2"), "{invalid}");
        }
        for url in ["https://example.com/hook?x=1", "http://93.184.216.34:8080/"] {
            assert!(Config::new(url, vec![secret()]).checked().is_ok(), "{url}");
        }
        let local =
            Config { allow_private: true, ..Config::new("http://127.0.0.1/", vec![secret()]) };
        assert!(local.checked().is_ok());
    }

    #[test]
    fn what_looks_like_a_password_is_never_shown() {
        for (url, part) in [
            ("https://me:hunt#er2@example.com/hook", "%23"),
            ("https://me:1#hunter2@example.com/hook", "%23"),
            ("https://example.com/hook#hunter2", "%23"),
            ("https://me:hunt?er2@example.com/hook", "%3F"),
            ("https://me:hunt/er2@example.com/hook", "%2F"),
            ("https://me:hunter2@example.com/hook", "must not hold a user or a password"),
            ("https://example.com:hunter2/hook", "invalid port number"),
        ] {
            let config = Config::new(url, vec![secret()]);
            let invalid = config.checked().expect_err(url);
            assert!(invalid.rule.contains(part), "{url}: {invalid}");
            assert!(!format!("{invalid} {config:?}").contains("er2"), "{url}: {invalid}");
        }
        let config = Config::new("https://example.com/@me/hook?to=a@b", vec![secret()]);
        assert!(config.checked().is_ok());
    }

    #[test]
    fn a_configuration_that_could_send_nothing_is_refused() {
        let config = || Config::new("https://example.com/", vec![secret()]);
        let table = [
            (Config { secrets: Vec::new(), ..config() }, "secrets"),
            (Config { connections: 0, ..config() }, "connections"),
        ];
        for (config, field) in table {
            assert_eq!(config.checked().unwrap_err().field, field);
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let config = Config::new("https://example.com/hook?token=hunter2", vec![secret()]);
        let shown = format!("{config:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("MfKQ"), "{shown}");
    }
}
