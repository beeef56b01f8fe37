//! What can be set.

use std::fmt;

use posthaste_core::Invalid;
use posthaste_wire::{Destination, Profile, Wire, redacted};
use url::Url;

/// Where batches go and how, or where a subscriber listens for them.
#[derive(Clone)]
pub struct Config {
    /// `tcp://host:port`: where the consumer listens.
    pub url: String,
    /// The form of messages. Both profiles of CloudEvents are written as structured events; the
    /// destination does not apply: every message goes to the consumer.
    pub wire: Wire,
    /// The form of batches and acknowledgements.
    pub frames: Frames,
    /// Largest frame, in bytes, its line break included: what is sent, and what a subscriber takes.
    pub frame_bytes_max: usize,
}

/// The form of batches and acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// Lines both ways: `{"batch":…,"source":…,"first":…,"last":…,"events":[…]}`, answered by
    /// `{"batch":…,"position":…}`, where the position is the `seq` of the last event handled.
    #[default]
    Native,
    /// `{"id":…,"events":[…]}` and a line break, answered by `{"id":…}` without one. Events are the
    /// payloads, JSON objects, and nothing else.
    ///
    /// Consumers of this form know a batch by its id and drop one they have seen. So a batch that was
    /// not acknowledged is kept and sent again as it was, on the same connection if it is still
    /// there, before anything else; and the id names its content, so that no other batch is ever
    /// taken for it. A relay that starts anew may cut the same messages into other batches.
    Original,
}

impl Frames {
    /// Every form, with its name in configuration.
    pub const ALL: [(&'static str, Self); 2] =
        [("native", Self::Native), ("original", Self::Original)];
}

impl Config {
    /// Largest frame, unless told otherwise: the largest payload of an outbox in base64, and the
    /// rest of its message.
    pub const FRAME_BYTES_MAX_DEFAULT: usize = 16 * 1024 * 1024;
    /// The least that a limit of frames may be.
    pub const FRAME_BYTES_MAX_MIN: usize = 64 * 1024;
    /// The most that a limit of frames may be.
    pub const FRAME_BYTES_MAX_MAX: usize = 256 * 1024 * 1024;

    /// Batches to, or from, this address, and defaults for all the rest.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            wire: Wire::default(),
            frames: Frames::default(),
            frame_bytes_max: Self::FRAME_BYTES_MAX_DEFAULT,
        }
    }

    /// Checks everything.
    pub(crate) fn target(&self) -> Result<Target, Invalid> {
        let limits = Self::FRAME_BYTES_MAX_MIN..=Self::FRAME_BYTES_MAX_MAX;
        if !limits.contains(&self.frame_bytes_max) {
            let rule = format!("must be from {} to {} bytes", limits.start(), limits.end());
            return Err(Invalid::new("frame_bytes_max", &self.frame_bytes_max.to_string(), &rule));
        }
        let url = parse(&self.url)?;
        let host = match url.host() {
            Some(url::Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(url::Host::Ipv4(address)) => address.to_string(),
            Some(url::Host::Ipv6(address)) => address.to_string(),
            _ => return Err(Invalid::new("url", &redacted(&self.url), RULE)),
        };
        let port = url.port().ok_or_else(|| Invalid::new("url", &redacted(&self.url), RULE))?;
        Ok(Target { host, port })
    }

    /// The form of messages as frames have it: everything goes to one place, under its topic, and
    /// there is no place beside an event for its attributes.
    pub(crate) fn line_wire(&self) -> Wire {
        let profile = match self.wire.profile {
            Profile::Binary => Profile::Structured,
            other => other,
        };
        Wire { profile, source: self.wire.source.clone(), destination: Destination::default() }
    }
}

const RULE: &str = "must be like `tcp://127.0.0.1:13311`: a host, a port, and nothing else";

fn parse(text: &str) -> Result<Url, Invalid> {
    let wrong = || Invalid::new("url", &redacted(text), RULE);
    let url = Url::parse(text).map_err(|_| wrong())?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    let has_more = url.query().is_some() || url.fragment().is_some();
    if url.scheme() != "tcp" || has_user || has_more || !matches!(url.path(), "" | "/") {
        return Err(wrong());
    }
    Ok(url)
}

/// Anything beyond an address that was put into the URL is not shown.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &redacted(&self.url))
            .field("wire", &self.wire)
            .field("frames", &self.frames)
            .field("frame_bytes_max", &self.frame_bytes_max)
            .finish()
    }
}

/// An address that has been checked.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (url, shown) in [
            ("tcp://127.0.0.1:13311", "127.0.0.1:13311"),
            ("tcp://consumer.internal:1/", "consumer.internal:1"),
            ("tcp://[::1]:65535", "[::1]:65535"),
        ] {
            assert_eq!(Config::new(url).target().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_no_password_shown() {
        let config = || Config::new("tcp://host:1");
        for (config, field) in [
            (Config::new("not a url hunter2"), "url"),
            (Config::new("tcp://host"), "url"),
            (Config::new("tcp://:1"), "url"),
            (Config::new("tcp://u:hunter2@host:1"), "url"),
            (Config::new("tcp://hunter2@host:1"), "url"),
            (Config::new("tcp://host:1/hunter2"), "url"),
            (Config::new("tcp://host:1?hunter2"), "url"),
            (Config::new("tcp://u:1#hunter2@host:1"), "url"),
            (Config::new("tcp://u:1/hunter2@host:1"), "url"),
            (Config::new("tcp://u:hunter2#@host:1"), "url"),
            (Config::new("tcp://one:1,hunter2:2"), "url"),
            (Config::new("tcps://host:1"), "url"),
            (Config::new("tcp://host:65536"), "url"),
            (Config { frame_bytes_max: 1, ..config() }, "frame_bytes_max"),
            (Config { frame_bytes_max: usize::MAX, ..config() }, "frame_bytes_max"),
        ] {
            let invalid = config.target().unwrap_err();
            assert_eq!(invalid.field, field, "{invalid}");
            assert!(!format!("{invalid} {config:?}").contains("hunter2"), "{invalid} {config:?}");
        }
    }
}
