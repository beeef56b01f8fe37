//! Repeated requests: an idempotency key that the client chooses, and a fingerprint of the request.

use sha2::{Digest, Sha256};

use crate::domain::Transfer;

/// Longest key, in characters.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// A key that names a request of one sender: other senders' keys are other keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(String);

/// A key that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// Too long.
    #[error("Idempotency-Key must be at most {IDEMPOTENCY_KEY_CHARS_MAX} characters")]
    TooLong,
    /// With characters that a header should not have.
    #[error("Idempotency-Key must be printable ASCII")]
    NotPrintable,
}

impl IdempotencyKey {
    /// The key of a header's value; none if it is empty.
    ///
    /// # Errors
    /// Too long, or not printable ASCII.
    pub fn parse(value: &[u8]) -> Result<Option<Self>, InvalidKey> {
        if !value.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            return Err(InvalidKey::NotPrintable);
        }
        let text = String::from_utf8_lossy(value);
        match text.len() {
            0 => Ok(None),
            1..=IDEMPOTENCY_KEY_CHARS_MAX => Ok(Some(Self(text.into_owned()))),
            _ => Err(InvalidKey::TooLong),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a request asked for, in 32 bytes: equal for equal requests, however their JSON is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Of a transfer, without its id.
    #[must_use]
    pub fn of(transfer: &Transfer) -> Self {
        let mut hash = Sha256::new();
        // With their lengths, so that no two requests are one text.
        for text in [transfer.from.as_str(), transfer.to.as_str(), &transfer.description] {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        hash.update(transfer.amount.to_be_bytes());
        Self(hash.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Draft;

    #[test]
    fn keys_have_a_limit_and_an_alphabet() {
        assert_eq!(IdempotencyKey::parse(b""), Ok(None));
        assert!(IdempotencyKey::parse(&[b'x'; 255]).unwrap().is_some());
        assert_eq!(IdempotencyKey::parse(&[b'x'; 256]), Err(InvalidKey::TooLong));
        assert_eq!(IdempotencyKey::parse("ü".as_bytes()), Err(InvalidKey::NotPrintable));
        assert_eq!(IdempotencyKey::parse(b"a\tb"), Err(InvalidKey::NotPrintable));
    }

    #[test]
    fn fingerprints_tell_requests_apart() {
        let of = |from: &str, to: &str, amount, description: &str| {
            let text = str::to_owned;
            let (from_user_id, to_user_id) = (text(from), text(to));
            let draft = Draft { from_user_id, to_user_id, amount, description: text(description) };
            Fingerprint::of(&Transfer::new(draft).unwrap())
        };
        assert_eq!(of("a", "b", 1, "c"), of("a", "b", 1, "c"));
        for other in [of("a", "bc", 1, ""), of("a", "b", 2, "c"), of("a", "b", 1, "")] {
            assert_ne!(of("a", "b", 1, "c"), other);
        }
    }
}
