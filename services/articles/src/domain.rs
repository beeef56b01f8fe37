//! The article, an aggregate in the sense of domain-driven design: its fields change only through its
//! methods, and what happened to it is told by the events those methods leave behind.
//!
//! Nothing here knows a database, a clock or a wire: time is an argument, and storage adapters take
//! the events out ([`Article::take_events`]) and build articles anew ([`Article::reload`]).

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Longest content, in bytes.
pub const CONTENT_BYTES_MAX: usize = 32 * 1024;

/// Largest id: beyond 2^53 - 1 JavaScript and others round JSON numbers.
pub const ID_MAX: i64 = (1 << 53) - 1;

/// What is wrong with a value somebody gave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

/// Identifiers: whole numbers from 1 to [`ID_MAX`].
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "i64", into = "i64")]
        pub struct $name(i64);

        impl $name {
            /// The number.
            #[must_use]
            pub fn get(self) -> i64 {
                self.0
            }
        }

        impl TryFrom<i64> for $name {
            type Error = Invalid;

            fn try_from(number: i64) -> Result<Self, Invalid> {
                if (1..=ID_MAX).contains(&number) {
                    return Ok(Self(number));
                }
                Err(Invalid(format!(concat!($what, " must be a whole number from 1 to {}"), ID_MAX)))
            }
        }

        impl From<$name> for i64 {
            fn from(id: $name) -> i64 {
                id.0
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                // What is no number at all breaks the same rule as one that is too large.
                Self::try_from(text.parse().unwrap_or(0))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// Identity of an article.
    ArticleId,
    "an article's id"
);
id!(
    /// Identity of an author.
    AuthorId,
    "an author's id"
);

/// What storage keeps of an article: all but its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArticleRecord {
    /// Identity.
    pub id: ArticleId,
    /// Who wrote it.
    pub author_id: AuthorId,
    /// What it says.
    pub content: String,
    /// How many likes it has.
    pub likes: u64,
    /// When it was published.
    #[serde(with = "nanoseconds")]
    pub published_at: Timestamp,
    /// When its content last changed.
    #[serde(with = "nanoseconds")]
    pub modified_at: Timestamp,
}

/// An article. See the module documentation.
#[derive(Debug)]
pub struct Article {
    record: ArticleRecord,
    /// What happened since it was made or loaded, oldest first; emptied by `take_events`.
    events: Vec<ArticleLiked>,
}

impl Article {
    /// A new article without likes.
    ///
    /// # Errors
    /// For content that is empty, holds U+0000, or is longer than [`CONTENT_BYTES_MAX`].
    pub fn publish(
        id: ArticleId,
        author_id: AuthorId,
        content: String,
        now: Timestamp,
    ) -> Result<Self, Invalid> {
        check(&content)?;
        let (published_at, modified_at) = (now, now);
        Ok(Self::reload(ArticleRecord {
            id,
            author_id,
            content,
            likes: 0,
            published_at,
            modified_at,
        }))
    }

    /// An article as storage kept it. It has no events: they were told when they happened.
    #[must_use]
    pub fn reload(record: ArticleRecord) -> Self {
        Self { record, events: Vec::new() }
    }

    /// Somebody likes it: one more like, and one event that says so.
    pub fn like(&mut self, now: Timestamp) {
        self.record.likes += 1;
        self.events.push(ArticleLiked {
            event_id: Uuid::now_v7(),
            article_id: self.record.id,
            author_id: self.record.author_id,
            timestamp: now,
        });
    }

    /// Its author changes what it says.
    ///
    /// # Errors
    /// For content that is empty, holds U+0000, or is longer than [`CONTENT_BYTES_MAX`]; then nothing
    /// changed.
    pub fn update_content(&mut self, content: String, now: Timestamp) -> Result<(), Invalid> {
        check(&content)?;
        self.record.content = content;
        self.record.modified_at = now;
        Ok(())
    }

    /// Identity.
    #[must_use]
    pub fn id(&self) -> ArticleId {
        self.record.id
    }

    /// How many likes it has.
    #[must_use]
    pub fn likes(&self) -> u64 {
        self.record.likes
    }

    /// Everything about it but its events.
    #[must_use]
    pub fn record(&self) -> &ArticleRecord {
        &self.record
    }

    /// What happened since it was made or loaded, or since the last call.
    #[must_use]
    pub fn take_events(&mut self) -> Vec<ArticleLiked> {
        std::mem::take(&mut self.events)
    }
}

fn check(content: &str) -> Result<(), Invalid> {
    if content.trim().is_empty() {
        return Err(Invalid("content must not be empty".to_owned()));
    }
    // PostgreSQL has no place for it.
    if content.contains('\0') {
        return Err(Invalid("content must not contain U+0000".to_owned()));
    }
    if content.len() > CONTENT_BYTES_MAX {
        let bytes = content.len();
        return Err(Invalid(format!(
            "content must be at most {CONTENT_BYTES_MAX} bytes, has {bytes}"
        )));
    }
    Ok(())
}

/// An article was liked. Made by [`Article::like`] alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArticleLiked {
    event_id: Uuid,
    article_id: ArticleId,
    author_id: AuthorId,
    #[serde(with = "nanoseconds")]
    timestamp: Timestamp,
}

impl ArticleLiked {
    /// The event's own id, the same on every delivery.
    #[must_use]
    pub fn event_id(&self) -> Uuid {
        self.event_id
    }

    /// Which article.
    #[must_use]
    pub fn article_id(&self) -> ArticleId {
        self.article_id
    }

    /// Whose article.
    #[must_use]
    pub fn author_id(&self) -> AuthorId {
        self.author_id
    }

    /// When.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }
}

/// Instants as RFC 3339 in UTC with all nine digits of nanoseconds.
pub mod nanoseconds {
    use jiff::{Timestamp, fmt::temporal::DateTimePrinter};
    use serde::Serializer;

    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(9));

    /// The text of an instant.
    #[must_use]
    pub fn format(at: Timestamp) -> String {
        PRINTER.timestamp_to_string(&at)
    }

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    fn article() -> Article {
        let id = |number| (ArticleId(number), AuthorId(number));
        let ((id, author), now) = (id(1), at("2026-01-02T03:04:05Z"));
        Article::publish(id, author, "text".to_owned(), now).expect("a valid article")
    }

    #[test]
    fn r7_01_a_like_is_one_more_and_one_event() {
        let mut article = article();
        article.like(at("2026-01-02T03:04:06Z"));
        article.like(at("2026-01-02T03:04:06Z"));
        assert_eq!(article.likes(), 2);
        let events = article.take_events();
        assert_eq!(events.len(), 2);
        assert_ne!(events[0].event_id(), events[1].event_id());
        assert!(article.take_events().is_empty(), "told once");
    }

    #[test]
    fn r7_01_reload_brings_no_events_back() {
        let mut article = article();
        article.like(at("2026-01-02T03:04:06Z"));
        let mut reloaded = Article::reload(article.record().clone());
        assert_eq!(reloaded.likes(), 1);
        assert!(reloaded.take_events().is_empty());
    }

    #[test]
    fn r7_01_new_content_has_its_own_time_and_no_event() {
        let mut article = article();
        let before = article.record().clone();
        article.update_content("better".to_owned(), at("2026-01-03T00:00:00Z")).unwrap();
        assert_eq!(article.record().content, "better");
        assert_eq!(article.record().published_at, before.published_at);
        assert_eq!(article.record().modified_at, at("2026-01-03T00:00:00Z"));
        assert!(article.update_content(" \n".to_owned(), at("2026-01-04T00:00:00Z")).is_err());
        assert!(
            article.update_content("x".repeat(CONTENT_BYTES_MAX + 1), before.modified_at).is_err()
        );
        assert_eq!(article.record().content, "better", "a refused change changes nothing");
        assert!(article.take_events().is_empty());
    }

    #[test]
    fn r7_02_an_event_is_written_as_agreed() {
        let mut article = article();
        article.like(at("2026-01-02T03:04:06.5+02:00"));
        let event = &article.take_events()[0];
        let json = serde_json::to_value(event).unwrap();
        let expected = serde_json::json!({
            "event_id": event.event_id().to_string(),
            "article_id": 1,
            "author_id": 1,
            "timestamp": "2026-01-02T01:04:06.500000000Z",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn r7_02_ids_are_numbers_that_every_reader_of_json_can_hold() {
        assert_eq!("7".parse::<ArticleId>().unwrap().get(), 7);
        for bad in ["x", "", "0", "-1", "1.5", "9007199254740992", "99999999999999999999"] {
            assert!(bad.parse::<ArticleId>().is_err(), "{bad}");
        }
    }
}
