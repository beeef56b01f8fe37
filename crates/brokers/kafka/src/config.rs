//! What has to be known about a Kafka.

use std::{fmt, path::PathBuf, sync::Arc};

use percent_encoding::percent_decode_str;
use posthaste_core::{Invalid, misplaced_character};
use posthaste_wire::{Roots, Wire, redacted, refuse_ca_file};
use rdkafka::{ClientConfig, config::RDKafkaLogLevel};
use url::form_urlencoded;

const SCHEME: &str = "kafka://";

/// Where a Kafka is and how it is used.
#[derive(Clone)]
pub struct Config {
    /// `kafka://user:password@host1:9092,host2:9092/?security=sasl_ssl&sasl_mechanism=SCRAM-SHA-512`.
    ///
    /// `security` is `plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`. Without it, a URL with a user
    /// means `sasl_ssl`, a `ca_file` means `ssl`, and anything else `plaintext`. `sasl_mechanism` is
    /// `PLAIN` (unless said otherwise), `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    pub url: String,
    /// The form of messages. The destination is the Kafka topic.
    pub wire: Wire,
    /// Certificates (PEM) to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// How batches are compressed on their way and in the topic.
    pub compression: Compression,
}

/// How batches are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// By gzip: smallest, slowest.
    Gzip,
    /// By Snappy.
    Snappy,
    /// By LZ4: fastest.
    Lz4,
}

impl Compression {
    /// Every compression, with its name in configuration.
    pub const ALL: [(&'static str, Self); 4] =
        [("none", Self::None), ("gzip", Self::Gzip), ("snappy", Self::Snappy), ("lz4", Self::Lz4)];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
        }
    }
}

impl Config {
    /// The usual configuration for a URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            wire: Wire::default(),
            ca_file: None,
            compression: Compression::default(),
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
            .field("compression", &self.compression)
            .finish()
    }
}

/// A configuration that has been checked.
#[derive(Clone)]
pub(crate) struct Settings {
    /// `host:port`, separated by commas.
    pub(crate) servers: String,
    pub(crate) wire: Wire,
    pub(crate) compression: Compression,
    login: Option<Login>,
    /// The certificates to trust, as PEM. `None` is a connection without TLS.
    roots: Option<Arc<str>>,
}

#[derive(Clone)]
struct Login {
    user: String,
    password: String,
    mechanism: &'static str,
}

impl Settings {
    pub(crate) fn check(config: &Config) -> Result<Self, Invalid> {
        let Parts { user_info, servers, query } = Parts::of(&config.url)?;
        let parameters = Parameters::of(&config.url, query)?;
        let wrong = |rule: &str| Invalid::new("url", &redacted(&config.url), rule);
        let (is_tls, is_login) = parameters
            .security
            .unwrap_or((user_info.is_some() || config.ca_file.is_some(), user_info.is_some()));
        let login = match (user_info, is_login) {
            (Some(user_info), true) => Some(login(user_info, parameters.mechanism)),
            (None, false) => None,
            (Some(_), false) => {
                return Err(wrong("has a user: security must be sasl_ssl or sasl_plaintext"));
            }
            (None, true) => return Err(wrong("must have a user and a password for SASL")),
        };
        if login.is_none() && parameters.mechanism.is_some() {
            return Err(wrong("must have a user and a password where it has a sasl_mechanism"));
        }
        let ca_file = config.ca_file.as_deref();
        let roots = if is_tls {
            Some(Roots::require(ca_file)?.pem().into())
        } else {
            refuse_ca_file(ca_file, "a URL with ?security=ssl or sasl_ssl")?;
            None
        };
        Ok(Self {
            servers: servers.to_owned(),
            wire: config.wire.clone(),
            compression: config.compression,
            login,
            roots,
        })
    }

    /// What every client has in common.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client.set_log_level(RDKafkaLogLevel::Info);
        client.set("bootstrap.servers", &self.servers);
        client.set("client.id", "posthaste");
        // A server that is back is found soon; the relay does the waiting.
        client.set("reconnect.backoff.ms", "50").set("reconnect.backoff.max.ms", "1000");
        client.set(
            "security.protocol",
            match (self.roots.is_some(), self.login.is_some()) {
                (false, false) => "plaintext",
                (true, false) => "ssl",
                (false, true) => "sasl_plaintext",
                (true, true) => "sasl_ssl",
            },
        );
        if let Some(Login { user, password, mechanism }) = &self.login {
            client.set("sasl.mechanism", *mechanism);
            client.set("sasl.username", user).set("sasl.password", password);
        }
        if let Some(roots) = &self.roots {
            // The client library is built with its own OpenSSL, which does not know the system's.
            client.set("ssl.ca.pem", &**roots);
            client.set("enable.ssl.certificate.verification", "true");
            client.set("ssl.endpoint.identification.algorithm", "https");
        }
        client
    }
}

/// The parts of a URL, as they are written.
struct Parts<'a> {
    user_info: Option<&'a str>,
    servers: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Result<Self, Invalid> {
        const FORM: &str =
            "must be of the form kafka://user:password@host:9092,host:9092/?security=…";
        let wrong = || Invalid::new("url", &redacted(url), FORM);
        let rest = url.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // A `/` or `#` in a password is no riddle here; a `?` is, and what follows it may be
        // secret.
        if query.contains('@')
            && let Some(rule) = misplaced_character(url)
        {
            return Err(Invalid::new("url", &redacted(url), rule));
        }
        let (user_info, servers) = match rest.rsplit_once('@') {
            Some((user_info, servers)) => (Some(user_info), servers),
            None => (None, rest),
        };
        let servers = servers.strip_suffix('/').unwrap_or(servers);
        let is_server = |server: &str| {
            let (host, port) =
                server.rsplit_once(':').map_or((server, None), |(h, p)| (h, Some(p)));
            let is_host = !host.is_empty()
                && host.chars().all(|c| c.is_ascii_alphanumeric() || "._-[]:".contains(c));
            is_host && port.is_none_or(|port| port.parse().is_ok_and(|port: u16| port > 0))
        };
        if !servers.split(',').all(is_server) {
            return Err(wrong());
        }
        Ok(Self { user_info, servers, query })
    }
}

#[derive(Default)]
struct Parameters {
    /// Whether there is TLS, and whether there is a login.
    security: Option<(bool, bool)>,
    mechanism: Option<&'static str>,
}

impl Parameters {
    fn of(url: &str, query: &str) -> Result<Self, Invalid> {
        let wrong = |rule: &str| Invalid::new("url", &redacted(url), rule);
        let mut parameters = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "security" => {
                    parameters.security = Some(match &*value.to_ascii_lowercase() {
                        "plaintext" => (false, false),
                        "ssl" => (true, false),
                        "sasl_plaintext" => (false, true),
                        "sasl_ssl" => (true, true),
                        _ => {
                            return Err(wrong(
                                "must have a security of plaintext, ssl, sasl_plaintext or sasl_ssl",
                            ));
                        }
                    });
                }
                "sasl_mechanism" => {
                    let all = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
                    let mechanism =
                        all.into_iter().find(|known| known.eq_ignore_ascii_case(&value));
                    parameters.mechanism = Some(mechanism.ok_or_else(|| {
                        wrong("must have a sasl_mechanism of PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
                    })?);
                }
                _ => return Err(wrong("may have the parameters security and sasl_mechanism only")),
            }
        }
        Ok(parameters)
    }
}

fn login(user_info: &str, mechanism: Option<&'static str>) -> Login {
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    Login {
        user: decoded(user),
        password: decoded(password),
        mechanism: mechanism.unwrap_or("PLAIN"),
    }
}

/// The text without its percent signs.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(url: &str, key: &str) -> Option<String> {
        let settings = Settings::check(&Config::new(url)).expect(url);
        // Its map hides passwords; `get` does not.
        settings.client().get(key).map(str::to_owned)
    }

    #[test]
    fn security_follows_from_the_url() {
        for (url, security) in [
            ("kafka://one:9092,two:9093", "plaintext"),
            ("kafka://one", "plaintext"),
            ("kafka://[::1]:9092/", "plaintext"),
            ("kafka://one:9092/?security=ssl", "ssl"),
            ("kafka://u:p@one:9092", "sasl_ssl"),
            ("kafka://u:p@one:9092?security=SASL_PLAINTEXT", "sasl_plaintext"),
        ] {
            assert_eq!(set(url, "security.protocol").as_deref(), Some(security), "{url}");
        }
        assert_eq!(
            set("kafka://one:1,two:2/", "bootstrap.servers").as_deref(),
            Some("one:1,two:2")
        );
    }

    #[test]
    fn tls_is_always_verified() {
        let url = "kafka://one:9092/?security=ssl";
        assert_eq!(set(url, "enable.ssl.certificate.verification").as_deref(), Some("true"));
        let algorithm = "ssl.endpoint.identification.algorithm";
        assert_eq!(set(url, algorithm).as_deref(), Some("https"));
    }

    #[test]
    fn a_login_may_hold_any_character() {
        let url = "kafka://us%40er:p%3A%2F+&=%25@one:9092/?sasl_mechanism=scram-sha-512";
        assert_eq!(set(url, "sasl.username").as_deref(), Some("us@er"));
        assert_eq!(set(url, "sasl.password").as_deref(), Some("p:/+&=%"));
        assert_eq!(set(url, "sasl.mechanism").as_deref(), Some("SCRAM-SHA-512"));
    }

    #[test]
    fn a_url_that_is_not_one_of_ours_is_refused_without_its_password() {
        for url in [
            "http://user:hunter2@one",
            "kafka://user:hunter2@",
            "kafka://user:hunter2@one:port",
            "kafka://user:hunter2@one:0",
            "kafka://user:hunter2@one,,two",
            "kafka://user:hunter2@one/path",
            "kafka://user:hunter2@one/?security=none",
            "kafka://user:hunter2@one/?security=ssl",
            "kafka://user:hunter2@one/?sasl_mechanism=GSSAPI",
            "kafka://user:hunter2@one/?acks=0",
            "kafka://one/?security=sasl_ssl",
            "kafka://one/?sasl_mechanism=PLAIN",
            "kafka://user:hunter2",
            "kafka://one,user:hunter2",
            "kafka://user:hunter2,two",
            "kafka://one:9092/?sasl_password=hunter2",
            "kafka://one:9092/?hunter2",
            "kafka://one:9092/?password=x@hunter2",
            "kafka://user:x?hunter2@one",
            "kafka://user:x/hunter2@",
            "hunter2",
        ] {
            let invalid = Settings::check(&Config::new(url)).err().expect(url);
            assert_eq!(invalid.field, "url", "{url}");
            assert!(!invalid.to_string().contains("hunter2"), "{invalid}");
            assert!(!format!("{:?}", Config::new(url)).contains("hunter2"), "{url}");
        }
        for (url, shown) in [
            ("kafka://me:hunter2@one:9092,two:9092/", "kafka://me:***@one:9092,two:9092/"),
            ("kafka://one?security=none&acks=0", "kafka://one?security=none&***"),
            ("kafka://me:hunter2", "kafka://(not shown)"),
        ] {
            assert_eq!(redacted(url), shown, "{url}");
        }
    }

    #[test]
    fn a_bare_question_mark_in_a_password_is_named_without_it() {
        for url in ["kafka://me:hunt?er2@one:9092", "kafka://me:1?hunter2@one:9092/"] {
            let invalid = Settings::check(&Config::new(url)).err().expect(url);
            assert!(invalid.rule.contains("%3F"), "{url}: {invalid}");
            let shown = format!("{invalid} {:?}", Config::new(url));
            assert!(!shown.contains("er2"), "{url}: {shown}");
        }
        let url = "kafka://me:p#a/s@s@one:9092";
        assert_eq!(set(url, "sasl.password").as_deref(), Some("p#a/s@s"));
    }

    #[test]
    fn debug_shows_no_password() {
        let shown = format!("{:?}", Config::new("kafka://user:hunter2@one:9092/?security=ssl"));
        assert!(!shown.contains("hunter2") && shown.contains("one:9092"), "{shown}");
    }

    #[test]
    fn a_ca_file_must_be_of_use() {
        let with = |url: &str, file: &str| {
            let config = Config { ca_file: Some(file.into()), ..Config::new(url) };
            Settings::check(&config).err().expect("is refused")
        };
        assert_eq!(with("kafka://one", "/nonexistent").field, "ca_file");
        assert_eq!(with("kafka://one", "Cargo.toml").field, "ca_file");
        let plain = with("kafka://one/?security=plaintext", "Cargo.toml");
        assert_eq!(plain.rule, "needs a URL with ?security=ssl or sasl_ssl");
    }
}
