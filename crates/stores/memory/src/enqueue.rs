//! An application's transaction.

use posthaste_core::{Message, StoreError, StoreErrorKind};

use crate::{MemoryStore, log::Xid};

/// An open transaction. Dropping it rolls back.
#[must_use = "a transaction that is not committed is rolled back"]
pub struct MemoryTx {
    store: MemoryStore,
    /// `None` until it is first touched, and again once it has ended.
    xid: Option<Xid>,
    /// The store's when the transaction began: a restore ends it.
    incarnation: u64,
}

impl MemoryTx {
    pub(crate) fn new(store: MemoryStore) -> Self {
        let incarnation = store.with(|state, _| state.incarnation);
        Self { store, xid: None, incarnation }
    }

    /// Whether it can still commit: not once the store was restored from a backup under it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.store.with(|state, _| state.incarnation == self.incarnation)
    }

    /// Gets the transaction its id without enqueueing, as any other write of an application would:
    /// from here on it is an open writer.
    pub fn touch(&mut self) {
        if self.xid.is_none() && self.is_open() {
            self.xid = Some(self.store.with(|state, _| state.log.begin()));
        }
    }

    /// Enqueues messages: all of them, or none. They exist once the transaction commits.
    ///
    /// # Errors
    /// Kind `Refused` for a message that breaks a limit, `Unavailable` once the transaction is gone.
    pub fn enqueue(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        for message in messages {
            message.validate().map_err(|invalid| {
                StoreError::new(StoreErrorKind::Refused, "enqueue", invalid.to_string())
            })?;
        }
        self.touch();
        let (Some(xid), true) = (self.xid, self.is_open()) else {
            let message = "the store was restored from a backup, which ended the transaction";
            return Err(StoreError::new(StoreErrorKind::Unavailable, "enqueue", message));
        };
        self.store.with(|state, now| {
            for message in messages {
                state.log.insert(xid, message.clone(), now);
            }
        });
        Ok(())
    }

    /// Makes its messages exist, where it [is open](Self::is_open).
    pub fn commit(mut self) {
        if let Some(xid) = self.xid.take()
            && self.is_open()
        {
            self.store.with(|state, _| state.log.commit(xid));
        }
    }

    /// Makes it as if it had never been, but for the seqs it drew.
    pub fn rollback(self) {
        drop(self);
    }
}

impl Drop for MemoryTx {
    fn drop(&mut self) {
        if let Some(xid) = self.xid.take()
            && self.is_open()
        {
            self.store.with(|state, _| state.log.rollback(xid));
        }
    }
}
