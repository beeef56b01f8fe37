//! A bounded queue from a thread that may block to a task that must not.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

/// Holds so many items at most.
pub(crate) struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    items_max: usize,
    has_room: Condvar,
    has_items: Notify,
}

impl<T> Queue<T> {
    pub(crate) fn new(items_max: usize) -> Self {
        Self {
            items: Mutex::default(),
            items_max,
            has_room: Condvar::new(),
            has_items: Notify::new(),
        }
    }

    fn items(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room, but not longer than that.
    pub(crate) fn wait_for_room(&self, patience: Duration) -> bool {
        let is_full = |items: &mut VecDeque<T>| items.len() >= self.items_max;
        let waited = self.has_room.wait_timeout_while(self.items(), patience, is_full);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Adds an item, even beyond the limit: wait for room first.
    pub(crate) fn push(&self, item: T) {
        self.items().push_back(item);
        self.has_items.notify_one();
    }

    /// The next item. Cancel-safe.
    pub(crate) async fn pop(&self) -> T {
        loop {
            if let Some(item) = self.items().pop_front() {
                self.has_room.notify_one();
                return item;
            }
            self.has_items.notified().await;
        }
    }
}
