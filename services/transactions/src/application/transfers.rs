//! The use cases.

use std::sync::Arc;

use uuid::Uuid;

use super::{Fingerprint, IdempotencyKey, Ledger, LedgerError, Recorded, StoredTransfer};
use crate::domain::{Status, Transfer, UserId};

/// The result of a request for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is recorded.
    New(StoredTransfer),
    /// The same request with the same key was recorded before: this is its transfer.
    Before(StoredTransfer),
    /// The key was used for another request. Nothing was recorded.
    KeyReused,
}

/// The use cases of transfers.
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
    /// When the ledger fails; the transfer was not recorded, or that is unknown.
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

    /// Marks transfers as being settled: `PENDING` becomes `PROCESSING`, visible to all clients
    /// before the decision. Any other status stays. A crash may undo it.
    ///
    /// # Errors
    /// When the ledger fails; call it again.
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
