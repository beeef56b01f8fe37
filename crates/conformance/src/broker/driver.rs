//! Publishes as the relay does: as much as the adapter's capabilities allow at once, a key never
//! twice, and after a failure the key from there again, under the same ids.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use posthaste_core::{Broker, CallOrder, Delivery, Outcome};
use tokio::sync::{mpsc, watch};

use super::kit::{DEADLINE, call};

/// Messages on their way at once, as in a relay by default.
const IN_FLIGHT_MAX: usize = 1024;
/// Before a broker that failed is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// How far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Messages acknowledged.
    pub(super) acked: usize,
    /// Messages that were not, and are sent again.
    pub(super) failed: usize,
}

/// Messages that wait here at most before more are taken from a feed.
const WAITING_MAX: usize = 2048;

/// A run of messages through a broker.
pub(super) struct Driver {
    broker: Arc<dyn Broker>,
    deadline: Duration,
    /// Whether failures other than rejections are sent again, or end the case.
    resends: bool,
    progress: watch::Sender<Progress>,
    lanes: Vec<Lane>,
    by_key: HashMap<Option<String>, usize>,
    /// Lanes that may be taken from.
    ready: VecDeque<usize>,
    waiting: usize,
    in_flight: usize,
}

#[derive(Default)]
struct Lane {
    queue: VecDeque<Arc<Delivery>>,
    /// Whether it is ready, or some of it are in flight.
    is_taken: bool,
}

/// A message and its lane.
type Item = (usize, Arc<Delivery>);
type Answered = (Vec<Item>, Vec<Outcome>);

/// Publishes everything; all of it must be acknowledged at the first attempt.
pub(super) async fn deliver(broker: &Arc<dyn Broker>, messages: &[Arc<Delivery>]) {
    let (driver, _) = Driver::new(broker, DEADLINE, false);
    driver.run(messages).await;
}

impl Driver {
    /// A driver, and where to see how far it is.
    pub(super) fn new(
        broker: &Arc<dyn Broker>,
        deadline: Duration,
        resends: bool,
    ) -> (Self, watch::Receiver<Progress>) {
        let (progress, seen) = watch::channel(Progress::default());
        let driver = Self {
            broker: Arc::clone(broker),
            deadline,
            resends,
            progress,
            lanes: Vec::new(),
            by_key: HashMap::new(),
            ready: VecDeque::new(),
            waiting: 0,
            in_flight: 0,
        };
        (driver, seen)
    }

    /// Publishes everything, until all is acknowledged.
    pub(super) async fn run(mut self, messages: &[Arc<Delivery>]) {
        self.push(messages);
        let (_, nothing) = mpsc::channel(1);
        self.run_fed(nothing).await;
    }

    /// Publishes what comes, until the feed is closed and all is acknowledged.
    pub(super) async fn run_fed(mut self, mut feed: mpsc::Receiver<Vec<Arc<Delivery>>>) {
        let mut calls: FuturesUnordered<BoxFuture<'static, Answered>> = FuturesUnordered::new();
        let (mut has_failed, mut is_fed) = (false, true);
        loop {
            if !has_failed {
                while let Some(items) = self.take() {
                    calls.push(self.start(items));
                }
            }
            tokio::select! {
                Some((items, outcomes)) = calls.next(), if !calls.is_empty() => {
                    has_failed |= self.answered(&items, &outcomes);
                }
                more = feed.recv(), if is_fed && self.waiting < WAITING_MAX => match more {
                    Some(messages) => self.push(&messages),
                    None => is_fed = false,
                },
                () = tokio::time::sleep(PAUSE), if has_failed && calls.is_empty() => {
                    has_failed = false;
                }
                else => return,
            }
        }
    }

    fn push(&mut self, messages: &[Arc<Delivery>]) {
        let is_single = self.broker.capabilities().call_order == CallOrder::Total;
        for delivery in messages {
            let key = delivery.message.key.clone().filter(|_| !is_single);
            let fresh = self.lanes.len();
            let lane = match key {
                // Ordered with nothing.
                None if !is_single => fresh,
                key => *self.by_key.entry(key).or_insert(fresh),
            };
            if lane == fresh {
                self.lanes.push(Lane::default());
            }
            self.lanes[lane].queue.push_back(Arc::clone(delivery));
            if !std::mem::replace(&mut self.lanes[lane].is_taken, true) {
                self.ready.push_back(lane);
            }
        }
        self.waiting += messages.len();
    }

    /// What may go in the next call, if anything may.
    fn take(&mut self) -> Option<Vec<Item>> {
        let capabilities = self.broker.capabilities();
        let limit = capabilities.call_messages_max.min(IN_FLIGHT_MAX - self.in_flight);
        let takes_many = capabilities.call_order != CallOrder::OnePerKey;
        let mut items = Vec::new();
        while items.len() < limit
            && let Some(lane) = self.ready.pop_front()
        {
            let room = if takes_many { limit - items.len() } else { 1 };
            let queue = &mut self.lanes[lane].queue;
            let count = room.min(queue.len());
            items.extend(queue.drain(..count).map(|delivery| (lane, delivery)));
        }
        self.in_flight += items.len();
        self.waiting -= items.len();
        (!items.is_empty()).then_some(items)
    }

    fn start(&self, items: Vec<Item>) -> BoxFuture<'static, Answered> {
        let (broker, deadline) = (Arc::clone(&self.broker), self.deadline);
        Box::pin(async move {
            let messages: Vec<_> = items.iter().map(|(_, delivery)| Arc::clone(delivery)).collect();
            let outcomes = call(broker.as_ref(), &messages, deadline).await;
            (items, outcomes)
        })
    }

    /// Takes the answers in; says whether any was a failure.
    fn answered(&mut self, items: &[Item], outcomes: &[Outcome]) -> bool {
        self.in_flight -= items.len();
        let mut returned: HashMap<usize, Vec<Arc<Delivery>>> = HashMap::new();
        // Keys of which the broker surely lacks a message of this call.
        let mut lacking: HashSet<&str> = HashSet::new();
        let mut acked = 0;
        for ((lane, delivery), outcome) in items.iter().zip(outcomes) {
            let message = &delivery.message;
            let key = message.key.as_deref();
            let back = returned.entry(*lane).or_default();
            match outcome {
                Outcome::Acked => {
                    let is_too_early = key.is_some_and(|key| lacking.contains(key));
                    assert!(!is_too_early, "{message:?} is taken, an earlier one of its key not");
                    acked += 1;
                }
                Outcome::Rejected(failure) => panic!("{message:?} is rejected: {failure}"),
                Outcome::Unreachable(failure) | Outcome::Unknown(failure) => {
                    assert!(self.resends, "{message:?} is not acknowledged: {failure}");
                    back.push(again(delivery));
                    if matches!(outcome, Outcome::Unreachable(_)) {
                        lacking.extend(key);
                    }
                }
            }
        }
        let failed: usize = returned.values().map(Vec::len).sum();
        self.waiting += failed;
        for (index, back) in returned {
            let lane = &mut self.lanes[index];
            for delivery in back.into_iter().rev() {
                lane.queue.push_front(delivery);
            }
            lane.is_taken = !lane.queue.is_empty();
            if lane.is_taken {
                self.ready.push_back(index);
            }
        }
        self.progress.send_modify(|progress| {
            progress.acked += acked;
            progress.failed += failed;
        });
        failed > 0
    }
}

/// The same message, one attempt later.
fn again(delivery: &Delivery) -> Arc<Delivery> {
    Arc::new(Delivery { attempt: delivery.attempt + 1, ..delivery.clone() })
}
