//! What the use cases need of the world.

use async_trait::async_trait;
use uuid::Uuid;

use super::{Fingerprint, IdempotencyKey};
use crate::domain::{Status, Transfer, UserId};

/// Why the ledger could not do it. The texts are for logs: no SQL, no secret, no value.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// It may work later.
    #[error("{0}")]
    Unavailable(String),
    /// The call took too long and may succeed later: another transaction holds a lock that it
    /// needs; other calls are not affected.
    #[error("{0}")]
    Held(String),
    /// It will not.
    #[error("{0}")]
    Internal(String),
}

/// A transfer that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredTransfer {
    /// Its identity.
    pub id: Uuid,
    /// Where it is in its life.
    pub status: Status,
}

/// What became of a transfer that was to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It was, and its event with it.
    New,
    /// The sender has used the key before: nothing was written.
    Existing(StoredTransfer, Fingerprint),
}

/// Where transfers and balances are kept.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Records a transfer as `PENDING` and its `TransactionCreated` in one transaction: both or
    /// neither. Of any number of calls with one key of one sender exactly one is `New`; the others
    /// wait for it.
    async fn record(
        &self,
        transfer: &Transfer,
        key: Option<(&IdempotencyKey, Fingerprint)>,
    ) -> Result<Recorded, LedgerError>;

    /// A transfer, if there is one of that id.
    async fn find(&self, id: Uuid) -> Result<Option<StoredTransfer>, LedgerError>;

    /// What a user has received minus what they have sent, `COMPLETED` transfers alone; 0 for a user
    /// nobody has heard of.
    async fn balance(&self, user: &UserId) -> Result<i128, LedgerError>;

    /// Marks those of the transfers as `PROCESSING` that are there and `PENDING`. This may be forgotten in
    /// a crash.
    async fn begin(&self, ids: &[Uuid]) -> Result<(), LedgerError>;

    /// Whether calls can succeed.
    async fn check(&self) -> Result<(), LedgerError>;
}
