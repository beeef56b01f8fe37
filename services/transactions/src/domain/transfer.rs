//! A transfer: who, to whom, how much.

use std::{fmt, str::FromStr};

use uuid::Uuid;

/// Longest user id, in characters.
pub const USER_ID_CHARS_MAX: usize = 255;
/// Longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 1000;

/// A rule that a request breaks. Its text is what the client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A user is missing.
    #[error("{0} is required")]
    Required(&'static str),
    /// Sender and receiver are one.
    #[error("from and to user cannot be the same")]
    SameUser,
    /// Nothing, or less, would be moved.
    #[error("amount must be greater than zero")]
    AmountNotPositive,
    /// A text is longer than its limit, in characters.
    #[error("{0} must be at most {1} characters")]
    TooLong(&'static str, usize),
    /// A text holds the one character that databases cannot.
    #[error("{0} must not contain the character U+0000")]
    ZeroCharacter(&'static str),
}

/// A user id: any text. In an id that has the form of a UUID letter case does not matter; it is
/// kept in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserId(String);

impl UserId {
    /// A user id that obeys the rules; `field` names it in a violation.
    ///
    /// # Errors
    /// Empty, too long, or with U+0000 in it.
    pub fn parse(field: &'static str, text: &str) -> Result<Self, Violation> {
        if text.is_empty() {
            return Err(Violation::Required(field));
        }
        check_text(field, text, USER_ID_CHARS_MAX)?;
        Ok(Self::canonical(text))
    }

    fn canonical(text: &str) -> Self {
        let is_uuid = text.len() == 36 && Uuid::try_parse(text).is_ok();
        Self(if is_uuid { text.to_ascii_lowercase() } else { text.to_owned() })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Never shown: logs are no place for users.
impl fmt::Debug for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserId(..)")
    }
}

fn check_text(field: &'static str, text: &str, chars_max: usize) -> Result<(), Violation> {
    if text.chars().nth(chars_max).is_some() {
        return Err(Violation::TooLong(field, chars_max));
    }
    if text.contains('\0') {
        return Err(Violation::ZeroCharacter(field));
    }
    Ok(())
}

/// A requested transfer, before its rules are checked.
#[derive(Clone, Default)]
pub struct Draft {
    /// Who pays.
    pub from_user_id: String,
    /// Who is paid.
    pub to_user_id: String,
    /// How much, in minor units.
    pub amount: i64,
    /// What for.
    pub description: String,
}

/// A transfer that obeys the rules.
#[derive(Clone)]
pub struct Transfer {
    /// Its identity, made here.
    pub id: Uuid,
    /// Who pays.
    pub from: UserId,
    /// Who is paid; somebody else.
    pub to: UserId,
    /// How much, in minor units; more than 0.
    pub amount: i64,
    /// What for; may be empty.
    pub description: String,
}

impl Transfer {
    /// A new transfer.
    ///
    /// # Errors
    /// The first rule that is broken, in this order: sender, receiver, both the same, amount; then
    /// the limits of the texts.
    pub fn new(draft: Draft) -> Result<Self, Violation> {
        let Draft { from_user_id, to_user_id, amount, description } = draft;
        for (field, text) in [("from_user_id", &from_user_id), ("to_user_id", &to_user_id)] {
            if text.is_empty() {
                return Err(Violation::Required(field));
            }
        }
        if UserId::canonical(&from_user_id) == UserId::canonical(&to_user_id) {
            return Err(Violation::SameUser);
        }
        if amount <= 0 {
            return Err(Violation::AmountNotPositive);
        }
        let from = UserId::parse("from_user_id", &from_user_id)?;
        let to = UserId::parse("to_user_id", &to_user_id)?;
        check_text("description", &description, DESCRIPTION_CHARS_MAX)?;
        Ok(Self { id: Uuid::now_v7(), from, to, amount, description })
    }
}

/// Where a transfer is in its life: `PENDING`, `PROCESSING`, then one of the last two for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The transfer is recorded and not settled yet.
    Pending,
    /// Being settled.
    Processing,
    /// Settled: it counts in both balances.
    Completed,
    /// Refused: it counts nowhere.
    Failed,
}

impl Status {
    /// Every status, in the order of a transfer's life.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Processing, Self::Completed, Self::Failed];

    /// Its name in the API and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Processing => "PROCESSING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }

    /// Whether it stays.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

impl FromStr for Status {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(from: &str, to: &str, amount: i64) -> Draft {
        let text = str::to_owned;
        Draft { from_user_id: text(from), to_user_id: text(to), amount, description: text("") }
    }

    #[test]
    fn the_first_broken_rule_wins() {
        let long = "x".repeat(256);
        for (draft, violation) in [
            (draft("", "", 0), Violation::Required("from_user_id")),
            (draft("a", "", 0), Violation::Required("to_user_id")),
            (draft("a", "a", 0), Violation::SameUser),
            (draft("a", "b", 0), Violation::AmountNotPositive),
            (draft("a", "b", -1), Violation::AmountNotPositive),
            (draft(&long, "b", 0), Violation::AmountNotPositive),
            (draft(&long, "b", 1), Violation::TooLong("from_user_id", 255)),
            (draft("a", "b\0", 1), Violation::ZeroCharacter("to_user_id")),
        ] {
            assert_eq!(Transfer::new(draft).err(), Some(violation));
        }
        assert!(Transfer::new(draft("a", &"ü".repeat(255), i64::MAX)).is_ok());
    }

    #[test]
    fn a_uuid_is_one_user_however_it_is_written() {
        let small = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
        let violation = Transfer::new(draft(small, &small.to_uppercase(), 1)).err();
        assert_eq!(violation, Some(Violation::SameUser));
        assert!(Transfer::new(draft("user-a", "USER-A", 1)).is_ok(), "other texts are two users");
    }

    #[test]
    fn statuses_are_read_as_written() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert!("DONE".parse::<Status>().is_err());
    }
}
