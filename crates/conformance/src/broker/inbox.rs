//! A consumer in the background: it keeps, and acknowledges, whatever arrives.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::select_all;
use posthaste_core::{Delivery, Incoming, MessageId, Subscriber};
use tokio::{sync::watch, task::JoinHandle};

use super::kit::WAIT_MAX;

/// Between two tries of a subscriber that fails, as the port asks for.
const PAUSE: Duration = Duration::from_millis(50);

/// What has arrived so far.
pub(super) struct Inbox {
    state: Arc<State>,
    count: watch::Receiver<usize>,
    consumer: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    arrived: Mutex<Vec<Incoming>>,
    /// The subscriber's latest error, to be told when nothing comes.
    error: Mutex<Option<String>>,
}

impl State {
    fn arrived<T>(&self, with: impl FnOnce(&mut Vec<Incoming>) -> T) -> T {
        with(&mut self.arrived.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, error: &impl std::fmt::Display) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }

    fn noted(&self) -> String {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.as_ref().map_or_else(String::new, |error| format!(" (subscriber: {error})"))
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.consumer.abort();
    }
}

impl Inbox {
    pub(super) fn new(mut subscriber: Box<dyn Subscriber>) -> Self {
        let state = Arc::new(State::default());
        let (counted, count) = watch::channel(0);
        let consumer = tokio::spawn({
            let state = Arc::clone(&state);
            async move {
                loop {
                    let incoming = match subscriber.receive().await {
                        Ok(incoming) => incoming,
                        Err(error) => {
                            state.note(&error);
                            tokio::time::sleep(PAUSE).await;
                            continue;
                        }
                    };
                    let receipt = incoming.receipt;
                    state.arrived(|arrived| arrived.push(incoming));
                    counted.send_modify(|count| *count += 1);
                    if let Err(error) = subscriber.acknowledge(receipt).await {
                        state.note(&error);
                    }
                }
            }
        });
        Self { state, count, consumer }
    }

    /// Everything that has arrived, repetitions included, in order.
    pub(super) fn all(&self) -> Vec<Incoming> {
        self.state.arrived(|arrived| arrived.clone())
    }

    /// The ids of everything that has arrived, repetitions included, in order.
    pub(super) fn ids(&self) -> Vec<MessageId> {
        self.state.arrived(|arrived| arrived.iter().map(|incoming| incoming.message.id).collect())
    }

    /// Waits for so many arrivals, repetitions included, and gives all.
    pub(super) async fn until_count(&self, what: &str, count: usize) -> Vec<Incoming> {
        let mut arrivals = self.count.clone();
        let wait = arrivals.wait_for(|arrived| *arrived >= count);
        let is_there = matches!(tokio::time::timeout(WAIT_MAX, wait).await, Ok(Ok(_)));
        let all = self.all();
        let noted = self.state.noted();
        assert!(is_there, "{what}: {} of {count} arrived within {WAIT_MAX:?}{noted}", all.len());
        all
    }

    /// Waits until each of these has arrived at least once.
    pub(super) async fn until_has(&self, what: &str, messages: &[Arc<Delivery>]) {
        let mut missing: HashSet<MessageId> =
            messages.iter().map(|delivery| delivery.message.id).collect();
        let mut arrivals = self.count.clone();
        let mut looked_at = 0;
        loop {
            arrivals.borrow_and_update();
            self.state.arrived(|arrived| {
                for incoming in &arrived[looked_at..] {
                    missing.remove(&incoming.message.id);
                }
                looked_at = arrived.len();
            });
            if missing.is_empty() {
                return;
            }
            // As long as something comes there is hope: large runs take their time on slow servers.
            let comes = tokio::time::timeout(WAIT_MAX, arrivals.changed()).await;
            assert!(
                matches!(comes, Ok(Ok(()))),
                "{what}: {} of {} are missing, {looked_at} came, then none for {WAIT_MAX:?}{}",
                missing.len(),
                messages.len(),
                self.state.noted()
            );
        }
    }
}

/// Waits for so many arrivals at any of these, repetitions included.
pub(super) async fn until_together(what: &str, inboxes: &[&Inbox], count: usize) {
    let mut arrivals: Vec<_> = inboxes.iter().map(|inbox| inbox.count.clone()).collect();
    loop {
        let arrived: usize = arrivals.iter_mut().map(|count| *count.borrow_and_update()).sum();
        if arrived >= count {
            return;
        }
        let next = select_all(arrivals.iter_mut().map(|count| Box::pin(count.changed())));
        let comes = tokio::time::timeout(WAIT_MAX, next).await;
        assert!(comes.is_ok(), "{what}: {arrived} of {count} came, then none for {WAIT_MAX:?}");
    }
}
