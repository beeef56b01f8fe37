//! What has to be known about a RabbitMQ.

use std::{fmt, path::PathBuf};

use lapin::{
    types::ShortString,
    uri::{AMQPScheme, AMQPUri},
};
use posthaste_core::{Invalid, misplaced_character};
use posthaste_wire::{Names, Ordering, Style, Tls, Wire, redacted};
use url::Url;

/// The exchange unless another is named.
pub const EXCHANGE_DEFAULT: &str = "posthaste";

/// Seconds without a sign of life, doubled, after which a connection is given up.
const HEARTBEAT_SECONDS: u16 = 10;

/// Where a RabbitMQ is and how it is used.
#[derive(Clone)]
pub struct Config {
    /// `amqp://user:password@host:5672/vhost`, or `amqps://` for TLS. The virtual host is `/` where
    /// none is given; a slash in its name is written `%2f`.
    pub url: String,
    /// The form of messages. The destination is the routing key.
    pub wire: Wire,
    /// Certificates (PEM) to trust in addition to the system's. Only with `amqps://`.
    pub ca_file: Option<PathBuf>,
    /// The exchange to publish to. Empty is the default exchange, where the destination is the name of
    /// a queue.
    pub exchange: String,
    /// Whether the exchange is declared (durable, of type `topic`). Else it must be there.
    pub declare: bool,
    /// How many messages of a key may be on their way at once. RabbitMQ keeps their order, but a full
    /// queue may refuse one and, drained a moment later, take the next.
    pub ordering: Ordering,
    /// What a named subscription's queue is, where it is not there yet.
    pub queue_type: QueueType,
    /// What the headers of CloudEvents attributes begin with, sent and received.
    pub attribute_prefix: AttributePrefix,
}

/// What the headers of CloudEvents attributes begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttributePrefix {
    /// `cloudEvents_id`, as the AMQP binding of CloudEvents says.
    #[default]
    CloudEvents,
    /// `ce-id`, as the RabbitMQ binding of the CloudEvents SDKs reads it.
    Ce,
}

impl AttributePrefix {
    /// Every prefix, as configuration writes it.
    pub const ALL: [(&'static str, Self); 2] =
        [("cloudEvents_", Self::CloudEvents), ("ce-", Self::Ce)];

    /// The header of the attribute `type`.
    pub(crate) fn type_header(self) -> &'static str {
        match self {
            Self::CloudEvents => "cloudEvents_type",
            Self::Ce => "ce-type",
        }
    }

    /// How headers are named.
    pub(crate) fn names(self) -> Names {
        let style = match self {
            Self::CloudEvents => Style::Amqp,
            Self::Ce => Style::Dash,
        };
        Names { style, reserved: &[], reserved_prefixes: &[] }
    }
}

/// What a queue is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueType {
    /// Durable, on one node; declared without arguments, so that policies and the virtual host's
    /// default decide about the rest.
    #[default]
    Classic,
    /// Replicated over the nodes of a cluster.
    Quorum,
}

impl QueueType {
    /// Every type, with its name in configuration.
    pub const ALL: [(&'static str, Self); 2] =
        [("classic", Self::Classic), ("quorum", Self::Quorum)];
}

impl Config {
    /// The usual configuration for a URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            wire: Wire::default(),
            ca_file: None,
            exchange: EXCHANGE_DEFAULT.to_owned(),
            declare: true,
            ordering: Ordering::default(),
            queue_type: QueueType::default(),
            attribute_prefix: AttributePrefix::default(),
        }
    }
}

/// The URL is shown without its password.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &redacted(&self.url))
            .field("wire", &self.wire)
            .field("ca_file", &self.ca_file)
            .field("exchange", &self.exchange)
            .field("declare", &self.declare)
            .field("ordering", &self.ordering)
            .field("queue_type", &self.queue_type)
            .field("attribute_prefix", &self.attribute_prefix)
            .finish()
    }
}

/// A configuration that has been checked, in the driver's words.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) uri: AMQPUri,
    /// For an `amqps://` URL.
    pub(crate) tls: Option<Tls>,
    pub(crate) exchange: ShortString,
    pub(crate) declare: bool,
    pub(crate) ordering: Ordering,
    pub(crate) queue_type: QueueType,
    pub(crate) names: Names,
    pub(crate) type_header: &'static str,
    pub(crate) wire: Wire,
}

impl Settings {
    pub(crate) fn check(config: Config) -> Result<Self, Invalid> {
        let uri = uri(&config.url)?;
        let tls_host = (uri.scheme == AMQPScheme::AMQPS).then(|| host(&uri));
        let tls = Tls::to(tls_host, config.ca_file.as_deref(), "an amqps:// URL")?;
        let exchange = ShortString::try_new(config.exchange.as_str())
            .map_err(|_| Invalid::new("exchange", &config.exchange, "must be at most 255 bytes"))?;
        let Config { declare, ordering, queue_type, wire, attribute_prefix, .. } = config;
        Ok(Self {
            uri,
            tls,
            exchange,
            declare,
            ordering,
            queue_type,
            names: attribute_prefix.names(),
            type_header: attribute_prefix.type_header(),
            wire,
        })
    }

    /// The default exchange is always there, and is nobody's to declare.
    pub(crate) fn is_default_exchange(&self) -> bool {
        self.exchange.as_str().is_empty()
    }

    /// The host as a name or an address, without the brackets that URLs put around some.
    pub(crate) fn host(&self) -> &str {
        host(&self.uri)
    }

    /// `host:port`, for people.
    pub(crate) fn server(&self) -> String {
        format!("{}:{}", self.uri.authority.host, self.uri.authority.port)
    }
}

fn host(uri: &AMQPUri) -> &str {
    uri.authority.host.trim_start_matches('[').trim_end_matches(']')
}

fn uri(text: &str) -> Result<AMQPUri, Invalid> {
    const FORM: &str = "must be of the form amqp://user:password@host:5672/vhost, or amqps://";
    let wrong = |rule: &str| Invalid::new("url", &redacted(text), rule);
    if let Some(rule) = misplaced_character(text) {
        return Err(wrong(rule));
    }
    let url = Url::parse(text).map_err(|error| wrong(&format!("{FORM}: {error}")))?;
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| wrong(FORM))?;
    if !matches!(url.scheme(), "amqp" | "amqps") {
        return Err(wrong(FORM));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must have no parameters: nothing behind `?` or `#`"));
    }
    let mut uri: AMQPUri = text.parse().map_err(|_| wrong(FORM))?;
    // The driver takes an address of IP version 6 for no host, and that for this machine.
    host.clone_into(&mut uri.authority.host);
    if uri.vhost.is_empty() {
        // What `amqp://host/` means to people; nobody calls a virtual host nothing.
        uri.vhost = "/".to_owned();
    }
    if ShortString::try_new(uri.vhost.as_str()).is_err() {
        return Err(wrong("must have a virtual host of at most 255 bytes"));
    }
    uri.query.heartbeat = Some(HEARTBEAT_SECONDS);
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: Config) -> Invalid {
        Settings::check(config).err().expect("is refused")
    }

    #[test]
    fn the_virtual_host_is_the_usual_one_unless_named() {
        for (url, vhost) in [
            ("amqp://localhost", "/"),
            ("amqp://localhost/", "/"),
            ("amqp://u:p@localhost:5672/%2f", "/"),
            ("amqps://localhost/shop", "shop"),
        ] {
            assert_eq!(Settings::check(Config::new(url)).unwrap().uri.vhost, vhost, "{url}");
        }
    }

    #[test]
    fn the_host_is_the_one_that_was_given() {
        for (url, host, server) in [
            ("amqp://rabbit.example.com/x", "rabbit.example.com", "rabbit.example.com:5672"),
            ("amqps://10.0.0.7", "10.0.0.7", "10.0.0.7:5671"),
            ("amqp://u:p@[2001:db8::1]:7", "2001:db8::1", "[2001:db8::1]:7"),
        ] {
            let settings = Settings::check(Config::new(url)).unwrap();
            assert_eq!((settings.host(), settings.server().as_str()), (host, server));
        }
    }

    #[test]
    fn a_url_that_is_not_one_of_ours_is_refused_without_its_password() {
        for url in [
            "http://user:hunter2@localhost",
            "amqp:user:hunter2@localhost",
            "amqp://",
            "amqp://user:hunter2@localhost/?verify=verify_none",
            "hunter2",
        ] {
            let invalid = refused(Config::new(url));
            assert_eq!(invalid.field, "url", "{url}");
            assert!(!invalid.to_string().contains("hunter2"), "{invalid}");
        }
    }

    #[test]
    fn a_bare_character_in_a_password_is_named_without_it() {
        for (url, part) in [
            ("amqp://me:hunt#er2@host/shop", "%23"),
            ("amqp://me:1#hunter2@host/shop", "%23"),
            ("amqp://me:hunt?er2@host/shop", "%3F"),
            ("amqps://me:1?hunter2@host/shop", "%3F"),
            ("amqp://me:hunt/er2@host/shop", "%2F"),
            ("amqp://me:1/hunter2@host/shop", "%2F"),
            ("amqp://me:hunter2@host:port/shop", "invalid port number"),
            ("amqp://me:hunter2@host/shop#x", "nothing behind `?` or `#`"),
        ] {
            let invalid = refused(Config::new(url));
            assert!(invalid.rule.contains(part), "{url}: {invalid}");
            let shown = format!("{invalid} {:?}", Config::new(url));
            assert!(!shown.contains("er2"), "{url}: {shown}");
        }
        assert!(Settings::check(Config::new("amqp://me:p@ss%23%2F@host/shop")).is_ok());
    }

    #[test]
    fn debug_shows_no_password() {
        let shown = format!("{:?}", Config::new("amqp://user:hunter2@localhost:5672/shop"));
        assert!(!shown.contains("hunter2") && shown.contains("localhost:5672/shop"), "{shown}");
    }

    #[test]
    fn a_ca_file_must_be_of_use() {
        let with =
            |url: &str, file: &str| Config { ca_file: Some(file.into()), ..Config::new(url) };
        assert_eq!(refused(with("amqps://localhost", "/nonexistent")).field, "ca_file");
        assert_eq!(refused(with("amqps://localhost", "Cargo.toml")).field, "ca_file");
        assert_eq!(refused(with("amqp://localhost", "Cargo.toml")).rule, "needs an amqps:// URL");
    }

    #[test]
    fn an_exchange_name_has_a_limit() {
        let config = Config { exchange: "x".repeat(256), ..Config::new("amqp://localhost") };
        assert_eq!(refused(config).field, "exchange");
    }
}
