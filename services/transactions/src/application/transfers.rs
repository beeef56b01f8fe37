//! The use cases.

use std::sync::Arc;

use uuid::Uuid;

use super::{Fingerprint, IdempotencyKey, Ledger, LedgerError, Recorded, StoredTransfer};
use crate::domain::{Status, Transfer, UserId};

/// What asking for a transfer came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is recorded.
    New(StoredTransfer),
    /// The same was asked for before, with the same key: this is it.
    Before(StoredTransfer),
    /// The key was used for something else. Nothing was done.
    KeyReused,
}

/// Everything that can be done with transfers.
pub struct Transfers {
    ledger: Arc<dyn Ledger>,
}

impl Transfers {
    /// On a ledger.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger }
    }

    /// Records a transfer, once per key.
    ///
    /// # Errors
    /// When the ledger cannot; then nothing is recorded, or it is unknown whether it was.
    pub async fn create(
        &self,
        transfer: &Transfer,
        key: Option<&IdempotencyKey>,
    ) -> Result<Created, LedgerError> {
        let fingerprint = Fingerprint::of(transfer);
        let key = key.map(|key| (key, fingerprint));
        Ok(match self.ledger.record(transfer, key).await? {
            Recorded::New => {
                Created::New(StoredTransfer { id: transfer.id, status: Status::Pending })
            }
            Recorded::Existing(stored, before) if before == fingerprint => Created::Before(stored),
            Recorded::Existing(..) => Created::KeyReused,
        })
    }

    /// A transfer, if there is one of that id.
    ///
    /// # Errors
    /// When the ledger cannot say.
    pub async fn find(&self, id: Uuid) -> Result<Option<StoredTransfer>, LedgerError> {
        self.ledger.find(id).await
    }

    /// A user's settled balance.
    ///
    /// # Errors
    /// When the ledger cannot say.
    pub async fn balance(&self, user: &UserId) -> Result<i128, LedgerError> {
        self.ledger.balance(user).await
    }

    /// Says of transfers that somebody is settling them: `PENDING` becomes `PROCESSING`, for everybody to
    /// see, before anything is decided. Any other status stays. A crash may undo it.
    ///
    /// # Errors
    /// When the ledger cannot; call it again.
    pub async fn begin(&self, ids: &[Uuid]) -> Result<(), LedgerError> {
        self.ledger.begin(ids).await
    }

    /// Whether calls can succeed.
    ///
    /// # Errors
    /// Why not.
    pub async fn check(&self) -> Result<(), LedgerError> {
        self.ledger.check().await
    }
}
