//! The destination of a message: a name made from its topic, type and key.

use std::{borrow::Cow, fmt, str::FromStr};

use posthaste_core::{Failure, Invalid, Message, TOPIC_BYTES_MAX, TopicPattern};

/// A template such as `shop.{topic}`; the default is `{topic}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    text: String,
    parts: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Topic,
    Type,
    Key,
}

impl Default for Destination {
    fn default() -> Self {
        Self { text: "{topic}".to_owned(), parts: vec![Piece::Topic] }
    }
}

impl FromStr for Destination {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        const RULE: &str = "may hold {topic}, {type} and {key}, and no other braces";
        let wrong = || Invalid::new("destination", text, RULE);
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (literal, after) = rest.split_once('{').map_or((rest, None), |(l, a)| (l, Some(a)));
            if literal.contains('}') {
                return Err(wrong());
            }
            if literal.contains('*') {
                let rule = "must not hold `*`, which stands for anything when subscribing";
                return Err(Invalid::new("destination", text, rule));
            }
            if !literal.is_empty() {
                parts.push(Piece::Literal(literal.to_owned()));
            }
            let Some(after) = after else { break };
            let (name, after) = after.split_once('}').ok_or_else(wrong)?;
            parts.push(match name {
                "topic" => Piece::Topic,
                "type" => Piece::Type,
                "key" => Piece::Key,
                _ => return Err(wrong()),
            });
            rest = after;
        }
        if parts.is_empty() {
            return Err(Invalid::new("destination", text, "must not be empty"));
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Destination {
    /// The destination of a message.
    pub(crate) fn of<'a>(&self, message: &'a Message) -> Result<Cow<'a, str>, Failure> {
        if let [Piece::Topic] = self.parts[..] {
            return Ok(Cow::Borrowed(&message.topic));
        }
        let missing = |what: &str| {
            let detail = format!("the destination is {self}, and the message has no {what}");
            Failure::new("destination", detail)
        };
        let mut name = String::new();
        for piece in &self.parts {
            name.push_str(match piece {
                Piece::Literal(text) => text,
                Piece::Topic => &message.topic,
                Piece::Type => message.event_type.as_deref().ok_or_else(|| missing("type"))?,
                Piece::Key => message.key.as_deref().ok_or_else(|| missing("key"))?,
            });
        }
        Ok(Cow::Owned(name))
    }

    /// The destinations of messages of these topics, as patterns.
    #[must_use]
    pub fn pattern(&self, topics: &TopicPattern) -> TopicPattern {
        let pieces = self.parts.iter().map(|piece| match piece {
            Piece::Literal(text) => text,
            Piece::Topic => topics.as_str(),
            Piece::Type | Piece::Key => "*",
        });
        let mut text: String = pieces.collect();
        if text.len() > TOPIC_BYTES_MAX {
            // Too long for a pattern: the pattern of its beginning.
            let mut end = TOPIC_BYTES_MAX - 1;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push('*');
        }
        text.parse().unwrap_or_else(|_| topics.clone())
    }

    /// The topic of a destination; the destination itself if the topic cannot be derived.
    pub(crate) fn topic<'a>(&self, name: &'a str) -> &'a str {
        let (head, tail) = match &self.parts[..] {
            [Piece::Topic] => ("", ""),
            [Piece::Literal(head), Piece::Topic] => (&**head, ""),
            [Piece::Topic, Piece::Literal(tail)] => ("", &**tail),
            [Piece::Literal(head), Piece::Topic, Piece::Literal(tail)] => (&**head, &**tail),
            _ => return name,
        };
        name.strip_prefix(head).and_then(|name| name.strip_suffix(tail)).unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message::from_bytes("orders", Some("42"), "").event_type("placed")
    }

    #[test]
    fn a_template_is_filled_in_and_taken_apart() {
        let destination: Destination = "shop.{topic}.v1".parse().unwrap();
        assert_eq!(destination.of(&message()).unwrap(), "shop.orders.v1");
        assert_eq!(destination.topic("shop.orders.v1"), "orders");
        assert_eq!(destination.topic("elsewhere"), "elsewhere");
        assert_eq!(destination.pattern(&"o*".parse().unwrap()).as_str(), "shop.o*.v1");
        let all: Destination = "{type}/{key}".parse().unwrap();
        assert_eq!(all.of(&message()).unwrap(), "placed/42");
        assert_eq!(all.pattern(&"orders".parse().unwrap()).as_str(), "*/*");
    }

    #[test]
    fn a_pattern_that_would_be_too_long_keeps_its_start() {
        let prefix = "p".repeat(250);
        let destination: Destination = format!("{prefix}.{{topic}}").parse().unwrap();
        let pattern = destination.pattern(&"orders.*".parse().unwrap());
        assert!(pattern.matches(&format!("{prefix}.orders.eu")));
        assert!(!pattern.matches("orders.eu"));
    }

    #[test]
    fn what_a_message_lacks_is_named() {
        let destination: Destination = "a.{key}".parse().unwrap();
        let failure = destination.of(&Message::from_bytes("t", None, "")).unwrap_err();
        assert_eq!(failure.detail, "the destination is a.{key}, and the message has no key");
    }

    #[test]
    fn other_braces_are_refused() {
        for bad in ["", "{topic", "topic}", "{id}", "{}", "a{topic}}", "a*.{topic}"] {
            assert!(bad.parse::<Destination>().is_err(), "{bad}");
        }
    }
}
