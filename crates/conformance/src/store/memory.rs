//! Beds of the memory store: the example of a fixture, and what the suite itself is tested with.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_core::{Message, Store, StoreError};
use posthaste_store_memory::{ManualClock, MemoryStore, MemoryTx};

use super::{StoreFixture, TestBed, Writer};

/// Makes memory stores.
#[derive(Clone, Copy, Debug)]
pub struct MemoryFixture;

struct MemoryBed {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

#[async_trait]
impl StoreFixture for MemoryFixture {
    async fn fresh(&self) -> Arc<dyn TestBed> {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        Arc::new(MemoryBed { clock, store })
    }
}

#[async_trait]
impl TestBed for MemoryBed {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn begin(&self) -> Box<dyn Writer> {
        Box::new(self.store.begin())
    }

    async fn insert_by_hand(
        &self,
        topic: &str,
        key: Option<&str>,
        payload: &[u8],
    ) -> Result<(), String> {
        let message = Message::from_bytes(topic, key, payload.to_vec());
        let appended = self.store.append(&[message]).await;
        appended.map_err(|error| error.to_string())
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn remove(&self) {}
}

#[async_trait]
impl Writer for MemoryTx {
    async fn touch(&mut self) {
        MemoryTx::touch(self);
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        MemoryTx::enqueue(self, messages)
    }

    async fn commit(self: Box<Self>) {
        MemoryTx::commit(*self);
    }

    async fn rollback(self: Box<Self>) {
        MemoryTx::rollback(*self);
    }
}
