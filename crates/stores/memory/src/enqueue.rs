//! An application's transaction.

use posthaste_core::{Message, StoreError, StoreErrorKind};

use crate::{MemoryStore, log::Xid};

/// An open transaction. Dropping it rolls back.
#[must_use = "a transaction that is not committed is rolled back"]
pub struct MemoryTx {
    store: MemoryStore,
    /// `None` until it is first touched, and again once it has ended.
    xid: Option<Xid>,
}

impl MemoryTx {
    pub(crate) fn new(store: MemoryStore) -> Self {
        Self { store, xid: None }
    }

    /// Gets the transaction its id without enqueueing, as any other write of an application would:
    /// from here on it is an open writer.
    pub fn touch(&mut self) {
        if self.xid.is_none() {
            self.xid = Some(self.store.with(|state, _| state.log.begin()));
        }
    }

    /// Enqueues messages: all of them, or none. They exist once the transaction commits.
    ///
    /// # Errors
    /// Kind `Refused` for a message that breaks a limit.
    pub fn enqueue(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        for message in messages {
            message.validate().map_err(|invalid| {
                StoreError::new(StoreErrorKind::Refused, "enqueue", invalid.to_string())
            })?;
        }
        self.touch();
        let xid = self.xid.expect("touched");
        self.store.with(|state, now| {
            for message in messages {
                state.log.insert(xid, message.clone(), now);
            }
        });
        Ok(())
    }

    /// Makes its messages exist.
    pub fn commit(mut self) {
        if let Some(xid) = self.xid.take() {
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
        if let Some(xid) = self.xid.take() {
            self.store.with(|state, _| state.log.rollback(xid));
        }
    }
}
