//! What a user says about the server.

use std::{fmt, path::PathBuf};

use percent_encoding::percent_decode_str;
use posthaste_core::{Invalid, misplaced_character};
use posthaste_wire::{Ordering, Tls, Wire, redacted};
use url::Url;
use uuid::Uuid;

use crate::packet;

/// Ports that clients use if they are not told.
const PORT_DEFAULT: u16 = 1883;
const TLS_PORT_DEFAULT: u16 = 8883;

/// How to reach and use a server.
#[derive(Clone)]
pub struct Config {
    /// `mqtt://user:password@host:1883`, or `mqtts://host:8883` for TLS. User and password are
    /// percent-encoded and may be left out, as may the port.
    pub url: String,
    /// How messages are written.
    pub wire: Wire,
    /// Certificates (PEM) to trust in addition to the system's. Only with `mqtts://`.
    pub ca_file: Option<PathBuf>,
    /// The client identifier that the publisher connects with; `None` makes one up for each
    /// [`MqttBroker`](crate::MqttBroker). Two that use the same one throw each other out.
    pub client_id: Option<String>,
    /// What to do about a message that the server took, and nobody subscribes to.
    pub unmatched: Unmatched,
    /// How many messages of a key may be on their way at once. The server may refuse one (size,
    /// quota, payload format) and take the next.
    pub ordering: Ordering,
}

/// A message that the server acknowledges with "no matching subscribers" (0x10) is nowhere: it has
/// been discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// It is rejected as `unroutable`, so that it can be sent again when somebody subscribes.
    #[default]
    Reject,
    /// It counts as delivered: for topics where not being listened to is normal.
    Accept,
}

impl Unmatched {
    /// Every choice, with its name in configuration.
    pub const ALL: [(&'static str, Self); 2] = [("reject", Self::Reject), ("accept", Self::Accept)];
}

impl Config {
    /// This server, everything else as usual.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            wire: Wire::default(),
            ca_file: None,
            client_id: None,
            unmatched: Unmatched::default(),
            ordering: Ordering::default(),
        }
    }

    /// Checks everything.
    pub(crate) fn target(&self) -> Result<Target, Invalid> {
        let url = parse(&self.url)?;
        let is_tls = url.scheme() == "mqtts";
        let host = match url.host() {
            Some(url::Host::Domain(name)) => name.to_owned(),
            Some(url::Host::Ipv4(address)) => address.to_string(),
            Some(url::Host::Ipv6(address)) => address.to_string(),
            None => return Err(wrong(&self.url, "needs a host, as in `mqtt://host:1883`")),
        };
        let port = url.port().unwrap_or(if is_tls { TLS_PORT_DEFAULT } else { PORT_DEFAULT });
        let ca_file = self.ca_file.as_deref();
        let tls = Tls::to(is_tls.then_some(&*host), ca_file, "an mqtts:// URL")?;
        if let Some(id) = &self.client_id
            && (id.is_empty() || !packet::is_text(id))
        {
            let rule = "must be 1 to 65535 bytes without control characters";
            return Err(Invalid::new("client_id", id, rule));
        }
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(|t| t.into_owned());
        let user = decoded(url.username())
            .ok()
            .filter(|user| user.is_empty() || packet::is_text(user))
            .ok_or_else(|| wrong(&self.url, "must have a user name without control characters"))?;
        let password: Vec<u8> = percent_decode_str(url.password().unwrap_or_default()).collect();
        if password.len() > usize::from(u16::MAX) {
            return Err(wrong(&self.url, "must have a password of at most 65535 bytes"));
        }
        let client_id = self.client_id.clone().unwrap_or_else(|| fresh_client_id("posthaste"));
        Ok(Target {
            host,
            port,
            tls,
            user: Some(user).filter(|user| !user.is_empty()),
            password: url.password().map(|_| password),
            client_id,
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
            .field("client_id", &self.client_id)
            .field("unmatched", &self.unmatched)
            .field("ordering", &self.ordering)
            .finish()
    }
}

/// A configuration that has been checked.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: Option<Tls>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Vec<u8>>,
    pub(crate) client_id: String,
}

/// A client identifier that nobody else has.
pub(crate) fn fresh_client_id(prefix: &str) -> String {
    format!("{prefix}-{}", Uuid::new_v4())
}

fn parse(text: &str) -> Result<Url, Invalid> {
    const RULE: &str = "must be like `mqtt://user:password@host:1883` or `mqtts://host:8883`";
    if let Some(rule) = misplaced_character(text) {
        return Err(wrong(text, rule));
    }
    let url = Url::parse(text).map_err(|error| wrong(text, &format!("{RULE}: {error}")))?;
    if !matches!(url.scheme(), "mqtt" | "mqtts") {
        return Err(wrong(text, RULE));
    }
    if url.query_pairs().any(|(name, _)| name.eq_ignore_ascii_case("qos")) {
        let rule = "must not choose a QoS: it is always 1. With QoS 0 nobody would know what \
                    arrived, and QoS 2 protects no more than the message's id does";
        return Err(wrong(text, rule));
    }
    let has_more = url.query().is_some() || url.fragment().is_some();
    if has_more || !matches!(url.path(), "" | "/") {
        return Err(wrong(text, "must end after the port"));
    }
    Ok(url)
}

fn wrong(url: &str, rule: &str) -> Invalid {
    Invalid::new("url", &redacted(url), rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> Invalid {
        Config::new(url).target().err().expect("must be refused")
    }

    #[test]
    fn a_url_is_taken_apart() {
        let target = Config::new("mqtt://a%20b:p%40ss@example.com").target().unwrap();
        assert_eq!((target.host.as_str(), target.port), ("example.com", 1883));
        assert_eq!(target.user.as_deref(), Some("a b"));
        assert_eq!(target.password.as_deref(), Some(&b"p@ss"[..]));
        assert!(target.tls.is_none());
        let target = Config::new("mqtts://[::1]:99/").target().unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 99));
        assert!(target.tls.is_some() && target.user.is_none() && target.password.is_none());
        assert_eq!(Config::new("mqtts://h").target().unwrap().port, 8883);
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_password() {
        for url in [
            "amqp://u:hunter2@h",
            "mqtt://u:hunter2@h/path",
            "mqtt://u:hunter2@h:1/?x=1",
            "mqtt://u:hunter2@h?qos=0",
            "mqtt://u:hunter2@h:99999",
            "u:hunter2@h",
            "mqtt://u%00:hunter2@h",
            "mqtt://h/hunter2",
            "mqtt://h?password=hunter2",
            "mqtt://h#hunter2",
        ] {
            let invalid = refused(url);
            assert_eq!(invalid.field, "url", "{url}");
            assert!(!invalid.to_string().contains("hunter2"), "{invalid}");
        }
        assert!(refused("mqtt://h?qos=0").rule.contains("always 1"));
    }

    #[test]
    fn a_bare_character_in_a_password_is_named_without_it() {
        for (url, part) in [
            ("mqtt://me:hunt#er2@host", "%23"),
            ("mqtt://me:1#hunter2@host", "%23"),
            ("mqtt://me:hunt?er2@host:1883", "%3F"),
            ("mqtts://me:hunt/er2@host", "%2F"),
            ("mqtt://me:1/hunter2@host", "%2F"),
            ("mqtt://me:hunter2@host:port", "invalid port number"),
        ] {
            let invalid = refused(url);
            assert!(invalid.rule.contains(part), "{url}: {invalid}");
            let shown = format!("{invalid} {:?}", Config::new(url));
            assert!(!shown.contains("er2"), "{url}: {shown}");
        }
    }

    #[test]
    fn debug_shows_no_password() {
        let text = format!("{:?}", Config::new("mqtt://u:hunter2@h"));
        assert!(text.contains("mqtt://u:***@h") && !text.contains("hunter2"), "{text}");
        assert!(!format!("{:?}", Config::new("mqtt//u:hunter2@h")).contains("hunter2"));
    }

    #[test]
    fn other_fields_are_checked() {
        let mut config = Config::new("mqtt://h");
        config.ca_file = Some("ca.pem".into());
        assert_eq!(config.target().err().unwrap().field, "ca_file");
        config.url = "mqtts://h".into();
        config.ca_file = Some("/no/such/file.pem".into());
        assert_eq!(config.target().err().unwrap().field, "ca_file");
        config.ca_file = None;
        config.client_id = Some(String::new());
        assert_eq!(config.target().err().unwrap().field, "client_id");
    }
}
