//! The types of settings: each is parsed from a value and shown as TOML.

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use posthaste_broker_http::Secret;
use posthaste_core::TopicPattern;
use posthaste_wire::Destination;

use super::{problem::redact_url, sources::Value};

/// A value that a key can have.
pub(crate) trait Setting: Sized {
    /// The expected form, for messages: `a duration such as "500ms"`.
    const WANTED: &'static str;

    /// Reads the value.
    ///
    /// # Errors
    /// `None` if the type is wrong, else the rule that the value breaks.
    fn parse(value: &Value) -> Result<Self, Option<String>>;

    /// The value as TOML.
    fn show(&self) -> String;
}

impl Setting for String {
    const WANTED: &'static str = "a string";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(None),
        }
    }

    fn show(&self) -> String {
        toml::Value::String(self.clone()).to_string()
    }
}

impl Setting for PathBuf {
    const WANTED: &'static str = "a path";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        String::parse(value).map(Self::from)
    }

    fn show(&self) -> String {
        self.display().to_string().show()
    }
}

impl Setting for bool {
    const WANTED: &'static str = "true or false";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        match value {
            Value::Boolean(boolean) => Ok(*boolean),
            Value::Text(text) => text.parse().map_err(|_| None),
            _ => Err(None),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for u32 {
    const WANTED: &'static str = "a whole number";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        let too_large = || Some(format!("must be from 0 to {}", Self::MAX));
        match value {
            Value::Integer(integer) => Self::try_from(*integer).map_err(|_| too_large()),
            // Variables are text; a quoted number in the file is taken alike.
            Value::Text(text) => text.parse().map_err(|_| None),
            _ => Err(None),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for Duration {
    const WANTED: &'static str = "a duration with its unit, such as \"500ms\", \"30s\" or \"24h\"";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        let Value::Text(text) = value else {
            return Err(None);
        };
        humantime::parse_duration(text).map_err(|error| Some(error.to_string()))
    }

    fn show(&self) -> String {
        format!("\"{}\"", humantime::format_duration(*self)).replace(' ', "")
    }
}

/// A duration that can be `"off"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrOff(pub(crate) Option<Duration>);

impl Setting for OrOff {
    const WANTED: &'static str = "a duration with its unit, such as \"24h\", or \"off\"";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        match value {
            Value::Text(text) if text == "off" => Ok(Self(None)),
            _ => Duration::parse(value).map(|duration| Self(Some(duration))),
        }
    }

    fn show(&self) -> String {
        self.0.map_or("\"off\"".to_owned(), |duration| duration.show())
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) struct ByteSize(pub(crate) u64);

/// Units of [`ByteSize`], largest first.
const BYTE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl Setting for ByteSize {
    const WANTED: &'static str = "a size with its unit, such as \"16MiB\" or \"64KiB\"";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        let Value::Text(text) = value else {
            return Err(None);
        };
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        let scale = BYTE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let Some((_, scale)) = scale else {
            return Err(Some(match unit {
                "" => "the unit is missing".to_owned(),
                unit => format!("`{unit}` is not a unit"),
            }));
        };
        let bytes = number.parse().ok().and_then(|n: u64| n.checked_mul(*scale));
        bytes.map(Self).ok_or_else(|| Some(format!("`{number}` is not a number of {unit}")))
    }

    fn show(&self) -> String {
        let unit =
            BYTE_UNITS.iter().find(|(_, scale)| self.0 >= *scale && self.0.is_multiple_of(*scale));
        let (name, scale) = unit.unwrap_or(&("B", 1));
        format!("\"{}{name}\"", self.0 / scale)
    }
}

/// Topic patterns; a variable separates them by commas.
#[derive(Clone, Debug)]
pub(crate) struct Topics(pub(crate) Vec<TopicPattern>);

impl Setting for Topics {
    const WANTED: &'static str = "a list of topic patterns, such as [\"orders.*\", \"users\"]";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        let texts = texts(value)?;
        if texts.is_empty() {
            return Err(Some("an empty list matches no topic".to_owned()));
        }
        let patterns = texts.into_iter().map(str::parse).collect::<Result<_, _>>();
        patterns.map(Self).map_err(|invalid: posthaste_core::Invalid| Some(invalid.to_string()))
    }

    fn show(&self) -> String {
        let topics: Vec<String> = self.0.iter().map(|t| t.as_str().to_owned().show()).collect();
        format!("[{}]", topics.join(", "))
    }
}

/// An address to listen on, or `"off"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) Option<SocketAddr>);

impl Setting for Address {
    const WANTED: &'static str = "an address such as \"127.0.0.1:9464\", or \"off\"";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        match value {
            Value::Text(text) if text == "off" => Ok(Self(None)),
            Value::Text(text) => match text.replace("localhost", "127.0.0.1").parse() {
                Ok(address) => Ok(Self(Some(address))),
                Err(_) => Err(Some("not an address and port".to_owned())),
            },
            _ => Err(None),
        }
    }

    fn show(&self) -> String {
        self.0.map_or("off".to_owned(), |address| address.to_string()).show()
    }
}

impl Setting for Destination {
    const WANTED: &'static str = "a name such as \"shop.{topic}\"";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        let Value::Text(text) = value else {
            return Err(None);
        };
        text.parse().map_err(|invalid: posthaste_core::Invalid| Some(invalid.rule))
    }

    fn show(&self) -> String {
        self.to_string().show()
    }
}

/// Signing keys; a variable separates them by commas. Never shown.
#[derive(Clone)]
pub(crate) struct Secrets(pub(crate) Vec<Secret>);

impl Setting for Secrets {
    const WANTED: &'static str = "a list of secrets, each `whsec_` and base64";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        let secrets = texts(value)?.into_iter().map(Secret::parse).collect::<Result<_, _>>();
        secrets.map(Self).map_err(|invalid| Some(invalid.rule))
    }

    fn show(&self) -> String {
        let hidden: Vec<&str> = self.0.iter().map(|_| "\"***\"").collect();
        format!("[{}]", hidden.join(", "))
    }
}

/// The strings of a list, or of a text between commas.
fn texts(value: &Value) -> Result<Vec<&str>, Option<String>> {
    match value {
        Value::Text(text) => Ok(text.split(',').map(str::trim).collect()),
        Value::List(items) => {
            let texts = items.iter().map(|item| match &item.value {
                Value::Text(text) => Ok(text.as_str()),
                _ => Err(Some("every entry must be a string".to_owned())),
            });
            texts.collect()
        }
        _ => Err(None),
    }
}

/// A URL that may hold a password: shown redacted, everywhere.
#[derive(Clone)]
pub(crate) struct SecretUrl(pub(crate) String);

impl SecretUrl {
    /// The scheme of the URL.
    pub(crate) fn scheme(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact_url(&self.0))
    }
}

impl Setting for SecretUrl {
    const WANTED: &'static str = "a URL such as \"postgres://app@db/shop\" or \"sqlite:outbox.db\"";

    fn parse(value: &Value) -> Result<Self, Option<String>> {
        let Value::Text(text) = value else {
            return Err(None);
        };
        match text.split_once(':') {
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+') => {
                Ok(Self(text.trim().to_owned()))
            }
            _ => Err(Some("the URL has no scheme".to_owned())),
        }
    }

    fn show(&self) -> String {
        redact_url(&self.0).show()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_a_unit_and_come_back_as_they_were() {
        for (text, bytes) in [("16MiB", 16 << 20), ("64 KiB", 64 << 10), ("1500B", 1500)] {
            let size = ByteSize::parse(&Value::Text(text.to_owned())).unwrap();
            assert_eq!(size, ByteSize(bytes));
            assert_eq!(size.show(), format!("\"{}\"", text.replace(' ', "")));
        }
        for text in ["16", "MiB", "16XB", "", "99999999999GiB"] {
            assert!(ByteSize::parse(&Value::Text(text.to_owned())).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert!(Duration::parse(&Value::Text("500".to_owned())).is_err());
        assert!(Duration::parse(&Value::Integer(500)).is_err());
        let day = Duration::parse(&Value::Text("24h".to_owned())).unwrap();
        assert_eq!(day.show(), "\"1day\"");
    }

    #[test]
    fn a_url_hides_its_password_in_debug_and_on_screen() {
        let url = SecretUrl::parse(&Value::Text("postgres://a:hunter2@h/d".to_owned())).unwrap();
        assert!(!format!("{url:?}{}", url.show()).contains("hunter2"));
    }
}
