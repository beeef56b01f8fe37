//! Routes, topic patterns, and how keys are split over shards.

use std::{fmt, str::FromStr};

use md5::{Digest, Md5};

use crate::{Seq, error::Invalid};

/// Keys are hashed into this many buckets; a shard serves the buckets that are its index modulo
/// the number of shards.
pub const BUCKETS: u32 = 1 << 16;

/// Most shards a route may have.
pub const SHARDS_MAX: u16 = 256;

/// A named path from topics to one broker, as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// The name, unique in the database: leases, positions and parked messages belong to it.
    pub name: String,
    /// The route takes a message if one of these patterns matches its topic.
    pub topics: Vec<TopicPattern>,
    /// The number of shards; 1 keeps the order of the log if the broker keeps the order of a call.
    pub shards: u16,
}

/// One part of a route: the keys whose bucket modulo `of` is `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    /// The index of the shard, counted from 0.
    pub index: u16,
    /// The number of shards.
    pub of: u16,
}

impl Shard {
    /// The one shard of an unsharded route.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Whether this shard serves the bucket.
    #[must_use]
    pub fn serves(self, bucket: u32) -> bool {
        bucket % u32::from(self.of) == u32::from(self.index)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// The bucket of a message: the first 16 bits of the MD5 of its key, which every database can
/// compute or need not, or the seq modulo [`BUCKETS`] if there is no key.
#[must_use]
pub fn bucket(key: Option<&str>, seq: Seq) -> u32 {
    match key {
        Some(key) => {
            let digest = Md5::digest(key.as_bytes());
            u32::from(u16::from_be_bytes([digest[0], digest[1]]))
        }
        None => {
            u32::try_from(seq.rem_euclid(i64::from(BUCKETS))).expect("a remainder below 65536 fits")
        }
    }
}

/// A pattern of topics: `*` matches any run of characters, dots included; every other character
/// matches itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicPattern(String);

impl TopicPattern {
    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole topic matches.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else {
            return self.0 == topic;
        };
        let Some(mut topic) = topic.strip_prefix(head) else {
            return false;
        };
        let mut parts: Vec<&str> = rest.split('*').collect();
        let tail = parts.pop().expect("split yields at least one part");
        for part in parts {
            match topic.find(part) {
                Some(at) => topic = &topic[at + part.len()..],
                None => return false,
            }
        }
        topic.ends_with(tail)
    }
}

impl FromStr for TopicPattern {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = if text.is_empty() {
            "must not be empty; `*` matches every topic"
        } else if text.len() > crate::TOPIC_BYTES_MAX {
            "must be at most 255 bytes"
        } else if text.chars().any(char::is_control) {
            "must not contain control characters"
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(Invalid::new("topic pattern", text, rule))
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_topics() {
        for (pattern, topic, expected) in [
            ("orders", "orders", true),
            ("orders", "orders.eu", false),
            ("orders.*", "orders.eu", true),
            ("orders.*", "orders.", true),
            ("orders.*", "orders", false),
            ("*", "anything.at.all", true),
            ("*.created", "user.created", true),
            ("*.created", "user.created.v2", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("a_%", "a_%", true),
            ("a_%", "abc", false),
        ] {
            let pattern: TopicPattern = pattern.parse().unwrap();
            assert_eq!(pattern.matches(topic), expected, "{pattern} on {topic}");
        }
    }

    #[test]
    fn every_key_has_one_shard() {
        for of in [1, 2, 3, 7, 256] {
            for key in ["", "a", "order-42", "é"] {
                let bucket = bucket(Some(key), 1);
                let owners = (0..of).filter(|&index| Shard { index, of }.serves(bucket)).count();
                assert_eq!(owners, 1, "{key} in {of}");
            }
        }
    }

    #[test]
    fn bucket_is_the_head_of_the_md5() {
        // `select left(md5('order-42'), 4)` on PostgreSQL.
        assert_eq!(bucket(Some("order-42"), 9), 0x4f41);
        assert_eq!(bucket(None, 65_537), 1);
    }
}
