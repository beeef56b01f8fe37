//! A user: an e-mail address, and a password of which only a hash is kept.

use std::fmt;

use email_address::{EmailAddress, Options};
use serde::Serialize;
use uuid::Uuid;

/// Longest address, in characters: what mail servers take.
pub const EMAIL_CHARS_MAX: usize = 254;
/// Shortest password, in characters.
pub const PASSWORD_CHARS_MIN: usize = 8;
/// Longest password, in characters: long enough for any sentence, short enough to hash.
pub const PASSWORD_CHARS_MAX: usize = 128;

/// A rule that a request breaks. Its text is what the client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// No address.
    #[error("email is required")]
    EmailMissing,
    /// Not an address that mail could reach.
    #[error("email is invalid")]
    EmailInvalid,
    /// Too short.
    #[error("password must be at least {PASSWORD_CHARS_MIN} characters")]
    PasswordShort,
    /// Too long.
    #[error("password must be at most {PASSWORD_CHARS_MAX} characters")]
    PasswordLong,
}

/// An address in its one form: without spaces around it, in small letters.
#[derive(Clone, PartialEq, Eq)]
pub struct Email(String);

impl Email {
    /// The address in a text.
    ///
    /// # Errors
    /// Nothing there, or no address of a domain with a dot.
    pub fn parse(text: &str) -> Result<Self, Violation> {
        let text = text.trim().to_lowercase();
        if text.is_empty() {
            return Err(Violation::EmailMissing);
        }
        let options =
            Options::default().with_required_tld().without_display_text().without_domain_literal();
        let is_long = text.chars().nth(EMAIL_CHARS_MAX).is_some();
        if is_long || EmailAddress::parse_with_options(&text, options).is_err() {
            return Err(Violation::EmailInvalid);
        }
        Ok(Self(text))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Never shown.
impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Email(..)")
    }
}

/// A password on its way to be hashed.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    /// A password that obeys the rules. Characters are counted, not bytes.
    ///
    /// # Errors
    /// Too short, or too long.
    pub fn parse(text: String) -> Result<Self, Violation> {
        match text.chars().take(PASSWORD_CHARS_MAX + 1).count() {
            ..PASSWORD_CHARS_MIN => Err(Violation::PasswordShort),
            PASSWORD_CHARS_MIN..=PASSWORD_CHARS_MAX => Ok(Self(text)),
            _ => Err(Violation::PasswordLong),
        }
    }

    /// What is hashed.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Never shown.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// The hash of a password in PHC form, which names its algorithm and parameters.
#[derive(Clone)]
pub struct PasswordHash(pub String);

/// A registered user.
#[derive(Clone)]
pub struct User {
    /// Their identity, made here.
    pub id: Uuid,
    /// The address, unique among users.
    pub email: Email,
    /// The hash of the password.
    pub password: PasswordHash,
}

/// The event of a new user. It holds the id and no personal data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserCreated {
    /// Which one.
    pub user_id: Uuid,
}

impl UserCreated {
    /// The name consumers know it by.
    pub const TYPE: &'static str = "UserCreated";
    /// The topic, which is the routing key: the type in the spelling of brokers.
    pub const TOPIC: &'static str = "user.created";
    /// Changes when the payload changes its meaning.
    pub const VERSION: &'static str = "1";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_form() {
        for text in ["  TEST@EXAMPLE.COM  ", "test@example.com", "Test@Example.Com\n"] {
            assert_eq!(Email::parse(text).unwrap().as_str(), "test@example.com");
        }
        for text in ["a.b+c@mail.example.org", "jürgen@bücher.example"] {
            assert_eq!(Email::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_mail_cannot_reach_is_no_address() {
        assert_eq!(Email::parse(" \t"), Err(Violation::EmailMissing));
        let long = format!("{}@{}.example", "a".repeat(64), "b".repeat(60).repeat(4));
        for text in [
            "@.",
            "a@b",
            "a.b",
            "a@b@c.de",
            "a b@c.de",
            "@example.com",
            "a@.com",
            "a@com.",
            "Ann <a@b.de>",
            "a@[127.0.0.1]",
            "a@b..de",
            "a\0@b.de",
            &long,
        ] {
            assert_eq!(Email::parse(text), Err(Violation::EmailInvalid), "{text:?}");
        }
    }

    #[test]
    fn passwords_are_counted_in_characters() {
        let parse = |text: String| Password::parse(text).map(drop);
        assert_eq!(parse("ü".repeat(7)), Err(Violation::PasswordShort));
        assert_eq!(parse("ü".repeat(8)), Ok(()));
        assert_eq!(parse("ü".repeat(128)), Ok(()));
        assert_eq!(parse("ü".repeat(129)), Err(Violation::PasswordLong));
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!(
            "{:?} {:?}",
            Email::parse("a@b.de"),
            Password::parse("correct horse".to_owned())
        );
        assert!(!shown.contains("a@b.de") && !shown.contains("horse"), "{shown}");
    }
}
