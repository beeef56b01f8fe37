//! The server: a log, subscriptions to it, and connections that break.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use posthaste_core::TopicPattern;
use tokio::sync::watch;

use super::Flaw;

/// A message as the server keeps it.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) destination: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content_type: String,
    pub(super) body: Bytes,
}

/// The connection is no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone;

/// A connection: good until the server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u64);

/// What a consumer finds.
pub(super) enum Taken {
    Message(usize, Record),
    Nothing,
    Gone,
}

pub(super) struct Server {
    flaw: Flaw,
    state: Mutex<State>,
    /// Rung whenever anything changes.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    is_down: bool,
    is_frozen: bool,
    /// Counts restarts.
    epoch: u64,
    log: Vec<Record>,
    /// Sent to a frozen server: it finds them when it thaws.
    unread: Vec<Record>,
    /// Messages ever handed in, and how many of them have been read.
    tickets: u64,
    tickets_read: u64,
    subscriptions: HashMap<String, Subscribed>,
}

/// A subscription, which outlives its consumers.
#[derive(Default)]
struct Subscribed {
    patterns: Vec<TopicPattern>,
    next: usize,
    /// Given out and not acknowledged, with the consumer.
    open: BTreeMap<usize, u64>,
    again: BTreeSet<usize>,
}

impl Server {
    pub(super) fn new(flaw: Flaw) -> Self {
        Self { flaw, state: Mutex::default(), changed: watch::Sender::new(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        let result = with(&mut self.state());
        self.changed.send_replace(());
        result
    }

    /// Rung from now on whenever anything changes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    async fn wait<T>(&self, mut look: impl FnMut(&State) -> Option<T>) -> T {
        let mut changes = self.changes();
        loop {
            if let Some(found) = look(&self.state()) {
                return found;
            }
            let _ = changes.changed().await;
        }
    }

    pub(super) fn stop(&self) {
        self.go(Flaw::StopLoses);
    }

    pub(super) fn kill(&self) {
        self.go(Flaw::KillLoses);
    }

    fn go(&self, losing: Flaw) {
        self.change(|state| {
            if state.is_down {
                return;
            }
            (state.is_down, state.is_frozen) = (true, false);
            state.epoch += 1;
            state.unread.clear();
            state.tickets_read = state.tickets;
            if self.flaw == losing {
                let kept = state.log.len().saturating_sub(10);
                state.log.truncate(kept);
                for subscribed in state.subscriptions.values_mut() {
                    subscribed.next = subscribed.next.min(kept);
                }
            }
        });
    }

    pub(super) fn start(&self) {
        self.change(|state| state.is_down = false);
    }

    pub(super) fn freeze(&self) {
        self.change(|state| state.is_frozen = !state.is_down);
    }

    pub(super) fn thaw(&self) {
        self.change(|state| {
            state.is_frozen = false;
            let unread = std::mem::take(&mut state.unread);
            state.log.extend(unread);
            state.tickets_read = state.tickets;
        });
    }

    /// A connection. Waits for a frozen server.
    pub(super) async fn dial(&self) -> Result<Epoch, Gone> {
        self.wait(|state| match state {
            State { is_down: true, .. } => Some(Err(Gone)),
            State { is_frozen: true, .. } => None,
            State { epoch, .. } => Some(Ok(Epoch(*epoch))),
        })
        .await
    }

    /// Hands a message in; gives a ticket to ask about it.
    pub(super) fn send(&self, connection: Epoch, record: Record) -> Result<u64, Gone> {
        self.change(|state| {
            if state.is_down || state.epoch != connection.0 {
                return Err(Gone);
            }
            state.tickets += 1;
            if state.is_frozen {
                state.unread.push(record);
            } else {
                state.log.push(record);
                state.tickets_read = state.tickets;
            }
            Ok(state.tickets)
        })
    }

    /// Waits until a message that was handed in is in the log.
    pub(super) async fn answer(&self, connection: Epoch, ticket: u64) -> Result<(), Gone> {
        self.wait(|state| {
            if state.epoch != connection.0 {
                return Some(Err(Gone));
            }
            (state.tickets_read >= ticket).then_some(Ok(()))
        })
        .await
    }

    /// Makes a subscription, if it is new.
    pub(super) fn subscribe(
        &self,
        name: &str,
        patterns: Vec<TopicPattern>,
        is_from_the_beginning: bool,
    ) {
        self.change(|state| {
            let next = if is_from_the_beginning { 0 } else { state.log.len() };
            state.subscriptions.entry(name.to_owned()).or_insert_with(|| Subscribed {
                patterns,
                next,
                ..Subscribed::default()
            });
        });
    }

    /// Takes a consumer away: what it has not acknowledged comes again.
    pub(super) fn leave(&self, name: &str, consumer: u64, is_forgotten: bool) {
        self.change(|state| {
            if is_forgotten {
                state.subscriptions.remove(name);
            } else if let Some(subscribed) = state.subscriptions.get_mut(name) {
                let left = |(_, owner): &(&usize, &u64)| **owner == consumer;
                let left: Vec<usize> =
                    subscribed.open.iter().filter(left).map(|(index, _)| *index).collect();
                subscribed.open.retain(|_, owner| *owner != consumer);
                if self.flaw != Flaw::NeverRedelivers {
                    subscribed.again.extend(left);
                }
            }
        });
    }

    /// The current connection for a consumer, if the server is there.
    pub(super) fn attach(&self) -> Result<Epoch, Gone> {
        let state = self.state();
        if state.is_down { Err(Gone) } else { Ok(Epoch(state.epoch)) }
    }

    /// The next message of a subscription.
    pub(super) fn take(&self, name: &str, consumer: u64, connection: Epoch) -> Taken {
        let mut state = self.state();
        if state.is_down || state.epoch != connection.0 {
            return Taken::Gone;
        }
        if state.is_frozen {
            return Taken::Nothing;
        }
        let State { log, subscriptions, .. } = &mut *state;
        let Some(subscribed) = subscriptions.get_mut(name) else { return Taken::Nothing };
        let index = subscribed.again.pop_first().or_else(|| {
            let wants = |record: &Record| {
                let mut patterns = subscribed.patterns.iter();
                patterns.any(|pattern| pattern.matches(&record.destination))
            };
            let found = log.iter().skip(subscribed.next).position(wants);
            let index = found.map(|ahead| subscribed.next + ahead);
            subscribed.next = index.map_or(log.len(), |index| index + 1);
            index
        });
        let Some(index) = index else { return Taken::Nothing };
        subscribed.open.insert(index, consumer);
        Taken::Message(index, log[index].clone())
    }

    /// Forgets a message that was handled.
    pub(super) fn acknowledge(&self, name: &str, index: usize) {
        let mut state = self.state();
        let Some(subscribed) = state.subscriptions.get_mut(name) else { return };
        match self.flaw {
            Flaw::ForgetsAcknowledgements => {}
            Flaw::AcknowledgesTooMuch => subscribed.open.retain(|other, _| *other > index),
            _ => {
                subscribed.open.remove(&index);
            }
        }
    }
}
