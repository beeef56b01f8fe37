//! Paused routes, which a relay writes to the database with its heartbeat, so that `status` can
//! show them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{PauseStatus, Status};

/// A route that a relay has paused because its broker cannot be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// The route's name.
    pub route: String,
    /// The adapter's reason: one line of at most [`Pause::REASON_CHARS_MAX`] characters, without
    /// secrets and payloads.
    pub reason: String,
    /// How long the route had been paused at the heartbeat.
    #[serde(rename = "seconds", with = "seconds")]
    pub lasted: Duration,
}

impl Pause {
    /// Longest reason, in characters.
    pub const REASON_CHARS_MAX: usize = 200;
    /// Most pauses that one heartbeat carries.
    pub const PAUSES_MAX: usize = 64;

    /// A pause; the reason becomes one line and is shortened.
    #[must_use]
    pub fn new(route: impl Into<String>, reason: &str, lasted: Duration) -> Self {
        let line = reason.chars().map(|c| if c.is_control() { ' ' } else { c });
        let reason = line.take(Self::REASON_CHARS_MAX).collect();
        Self { route: route.into(), reason, lasted }
    }

    /// The text that stores keep; it holds the first [`Pause::PAUSES_MAX`] pauses.
    #[must_use]
    pub fn to_text(pauses: &[Self]) -> String {
        let pauses = &pauses[..pauses.len().min(Self::PAUSES_MAX)];
        serde_json::to_string(pauses).unwrap_or_else(|_| "[]".to_owned())
    }

    /// Parses a text of [`to_text`](Self::to_text). An unreadable text of another version gives no
    /// pauses: they are for people only, and nothing depends on them.
    #[must_use]
    pub fn from_text(text: &str) -> Vec<Self> {
        serde_json::from_str(text).unwrap_or_default()
    }
}

impl Status {
    /// Adds the pauses of a live relay's heartbeat of `seconds_ago`; of several pauses of a route,
    /// the longest is kept.
    pub fn add_pauses(&mut self, relay: &str, pauses: &[Pause], seconds_ago: f64) {
        for pause in pauses {
            let seconds = pause.lasted.as_secs_f64() + seconds_ago.max(0.0);
            let Some(route) = self.routes.iter_mut().find(|route| route.name == pause.route) else {
                continue;
            };
            if route.paused.as_ref().is_none_or(|known| known.seconds < seconds) {
                let reason = pause.reason.clone();
                route.paused = Some(PauseStatus { reason, seconds, relay: relay.to_owned() });
            }
        }
    }
}

/// A duration as a number of seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(it: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(it.as_secs_f64())
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(from)?;
        Ok(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_read_as_they_were_written_and_bounded() {
        let long = format!("connection: {}\nmore", "x".repeat(1000));
        let pauses: Vec<Pause> = (0..100)
            .map(|n| Pause::new(format!("r{n}"), &long, Duration::from_millis(1500)))
            .collect();
        let text = Pause::to_text(&pauses);
        assert_eq!(Pause::from_text(&text), &pauses[..Pause::PAUSES_MAX]);
        assert!(text.len() < 20_000, "{} bytes", text.len());
        assert_eq!(pauses[0].reason.chars().count(), Pause::REASON_CHARS_MAX);
        let odd = Pause::new("r", "a\r\nb\0\"c\"", Duration::ZERO);
        assert_eq!(odd.reason, "a  b \"c\"");
        assert_eq!(Pause::from_text(&Pause::to_text(std::slice::from_ref(&odd))), [odd]);
    }

    #[test]
    fn a_text_that_cannot_be_read_is_no_pause() {
        for text in ["", "null", "{}", "[1]", "[{\"route\":\"a\"}]", "not json"] {
            assert!(Pause::from_text(text).is_empty(), "{text}");
        }
    }
}
