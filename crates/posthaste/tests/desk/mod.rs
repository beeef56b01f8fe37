//! A broker for tests of consumers: gives out what it is given, again to the next subscriber what was
//! not acknowledged, and can redeliver on demand.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test program uses its part")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use posthaste::{BrokerError, Incoming, Message, MessageId, Provenance, Subscriber};
use posthaste_core::{Floor, Seq, Shard};
use tokio::sync::Notify;
use uuid::Uuid;

#[derive(Clone, Default)]
pub struct Desk {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Everything, by receipt.
    messages: BTreeMap<u64, Incoming>,
    given: BTreeSet<u64>,
    acknowledged: Vec<u64>,
}

impl Desk {
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn put(&self, mut incoming: Incoming) {
        let mut state = self.state();
        incoming.receipt = state.messages.len() as u64 + 1;
        state.messages.insert(incoming.receipt, incoming);
        drop(state);
        self.shared.changed.notify_waiters();
    }

    pub fn put_all(&self, messages: impl IntoIterator<Item = Incoming>) {
        messages.into_iter().for_each(|incoming| self.put(incoming));
    }

    /// A subscriber of the same name as all before it.
    pub fn subscribe(&self) -> Box<dyn Subscriber> {
        self.state().given.clear();
        Box::new(Counter(self.clone()))
    }

    /// How many were given out since the last subscription.
    pub fn given(&self) -> usize {
        self.state().given.len()
    }

    pub fn acknowledged(&self) -> Vec<MessageId> {
        let state = self.state();
        state.acknowledged.iter().map(|it| state.messages[it].message.id).collect()
    }

    /// Waits until so many have been acknowledged.
    pub async fn wait_for(&self, count: usize) {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state().acknowledged.len() >= count {
                return;
            }
            changed.await;
        }
    }
}

struct Counter(Desk);

#[async_trait]
impl Subscriber for Counter {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        loop {
            let changed = self.0.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = self.0.state();
                let is_open =
                    |it: &&u64| !state.given.contains(it) && !state.acknowledged.contains(it);
                let next = state.messages.keys().find(is_open).copied();
                if let Some(receipt) = next {
                    state.given.insert(receipt);
                    return Ok(state.messages[&receipt].clone());
                }
            }
            changed.await;
        }
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        self.0.state().acknowledged.push(receipt);
        self.0.shared.changed.notify_waiters();
        Ok(())
    }
}

/// A message of a type with a key, its payload a JSON number.
pub fn message(event_type: &str, key: &str, number: i64) -> Incoming {
    let message = Message::new("orders", key, &number).expect("a message").event_type(event_type);
    Incoming { message, provenance: Provenance::default(), receipt: 0, lane: None }
}

/// The same, placed in a log, in a lane.
pub fn placed(log: Uuid, seq: Seq, floor: Seq, key: &str) -> Incoming {
    let floor = Floor { log, shard: Shard::WHOLE, seq: floor, missing: Vec::new() };
    let mut incoming = message("Add", key, seq);
    incoming.provenance = Provenance {
        source: Some("/shop".to_owned()),
        seq: Some(seq),
        floor: Some(floor),
        ..Provenance::default()
    };
    incoming.lane = Some("lane-0".into());
    incoming
}

/// The number in a payload.
pub fn number(incoming: &Incoming) -> i64 {
    serde_json::from_slice(&incoming.message.payload).expect("a number")
}
