//! A broker in memory, for tests and the demo: it keeps what it took in order, feeds subscribers
//! with acknowledgements and redelivery, and fails on demand in every way a real one can.
//!
//! It keeps everything it ever took: not for production.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Failure, Finding, Incoming,
    Message, MessageId, Outcome, Provenance, Sharing, Start, Subscriber, Subscription,
    TopicPattern,
};
use posthaste_wire::Outcomes;
use tokio::sync::Notify;

/// What the broker does with one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// Take it and acknowledge.
    Take,
    /// Do not take it, and say so.
    Refuse(Outcome),
    /// Take it, but answer something else: the acknowledgement was lost.
    TakeAndAnswer(Outcome),
    /// Never answer; the call runs into its deadline. The message is not taken.
    Hang,
}

type Rule = Box<dyn Fn(&Delivery) -> Script + Send + Sync>;

/// A message the broker took, and what was said about where it comes from.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The message.
    pub message: Message,
    /// As a subscriber is told.
    pub provenance: Provenance,
}

impl Taken {
    fn new(delivery: &Delivery) -> Self {
        let provenance = Provenance {
            source: None,
            seq: Some(delivery.seq),
            enqueued_at: Some(delivery.enqueued_at),
            redriven: delivery.redriven,
            floor: delivery.floor.as_deref().cloned(),
        };
        Self { message: delivery.message.clone(), provenance }
    }
}

/// The broker. Clones share everything.
#[derive(Clone)]
pub struct MemoryBroker {
    shared: Arc<Shared>,
    call_order: CallOrder,
}

struct Shared {
    state: Mutex<State>,
    /// Rung whenever a message arrives.
    arrived: Notify,
}

#[derive(Default)]
struct State {
    /// Everything taken, in order.
    log: Vec<Taken>,
    is_down: bool,
    rule: Option<Rule>,
    /// Calls of `publish` so far.
    calls: u64,
    subscriptions: HashMap<String, Subscribed>,
    /// Subscribers there have been.
    subscribers: u64,
}

/// A subscription outlives its subscribers, as on a real broker.
#[derive(Default)]
struct Subscribed {
    /// Topics it wants; none is all.
    topics: Vec<TopicPattern>,
    /// Index into the log of the next message never given out.
    next: u64,
    /// Given out and not acknowledged; given out again to the next subscriber.
    open: BTreeSet<u64>,
    /// Given out again already by the present subscriber.
    again: BTreeSet<u64>,
    /// Whether its messages are one lane: given to one subscriber at a time.
    is_ordered: bool,
    /// Who has the lane: the first of those who asked, until it leaves.
    holder: Option<u64>,
}

impl MemoryBroker {
    /// A broker that keeps the order of one call's messages.
    #[must_use]
    pub fn new() -> Self {
        Self::with_call_order(CallOrder::Total)
    }

    /// A broker that promises no order within a call.
    #[must_use]
    pub fn unordered() -> Self {
        Self::with_call_order(CallOrder::OnePerKey)
    }

    /// A broker that promises that order within a call.
    #[must_use]
    pub fn with_call_order(call_order: CallOrder) -> Self {
        let shared = Shared { state: Mutex::default(), arrived: Notify::new() };
        Self { shared: Arc::new(shared), call_order }
    }

    /// Makes the broker unreachable, or reachable again.
    pub fn set_down(&self, is_down: bool) {
        self.state().is_down = is_down;
    }

    /// Decides message by message from now on.
    pub fn set_rule(&self, rule: impl Fn(&Delivery) -> Script + Send + Sync + 'static) {
        self.state().rule = Some(Box::new(rule));
    }

    /// Takes everything again.
    pub fn clear_rule(&self) {
        self.state().rule = None;
    }

    /// Everything taken so far, duplicates included, in order.
    #[must_use]
    pub fn received(&self) -> Vec<Message> {
        self.state().log.iter().map(|taken| taken.message.clone()).collect()
    }

    /// As [`received`](Self::received), with what was said about where each comes from.
    #[must_use]
    pub fn taken(&self) -> Vec<Taken> {
        self.state().log.clone()
    }

    /// How often `publish` was called.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Waits until at least `count` messages have been taken.
    pub async fn wait_for(&self, count: usize) {
        loop {
            let arrived = self.shared.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if self.state().log.len() >= count {
                return;
            }
            arrived.await;
        }
    }

    /// Receives from the beginning of the log, or where the last subscriber of that name stopped
    /// acknowledging.
    #[must_use]
    pub fn subscribe(&self, name: &str) -> MemorySubscriber {
        let mut state = self.state();
        state.subscriptions.entry(name.to_owned()).or_default().again.clear();
        state.subscribers += 1;
        let id = state.subscribers;
        drop(state);
        MemorySubscriber { broker: self.clone(), name: name.to_owned(), is_listener: false, id }
    }

    /// Receives as the port describes it: some topics, under a name or just listening.
    #[must_use]
    pub fn subscribe_to(&self, subscription: &Subscription) -> MemorySubscriber {
        let is_listener = subscription.name.is_none();
        let listener = || format!("listener {}", MessageId::fresh());
        let name = subscription.name.clone().unwrap_or_else(listener);
        let mut state = self.state();
        let next = match subscription.start {
            Start::Beginning => 0,
            Start::New => state.log.len() as u64,
        };
        let topics = subscription.topics.clone();
        let is_ordered = subscription.sharing == Sharing::Ordered;
        let new = || Subscribed { topics, next, is_ordered, ..Subscribed::default() };
        let subscribed = state.subscriptions.entry(name.clone()).or_insert_with(new);
        subscribed.is_ordered = is_ordered;
        if subscribed.holder.is_none() {
            subscribed.again.clear();
        }
        state.subscribers += 1;
        let id = state.subscribers;
        drop(state);
        MemorySubscriber { broker: self.clone(), name, is_listener, id }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Short critical sections without await; a poisoned one left the state whole.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish_now(&self, messages: &[Arc<Delivery>]) -> (Vec<Outcome>, bool) {
        let mut state = self.state();
        state.calls += 1;
        let mut outcomes = Outcomes::new(messages);
        let mut hangs = false;
        for (index, delivery) in messages.iter().enumerate() {
            if outcomes.is_open(index) {
                outcomes.settle(index, state.take(delivery, &mut hangs));
            }
        }
        (outcomes.finish(), hangs)
    }
}

impl Subscribed {
    /// The next message never given out that it wants.
    fn advance(&mut self, log: &[Taken]) -> Option<u64> {
        let wants = |message: &Message| {
            self.topics.is_empty() || self.topics.iter().any(|it| it.matches(&message.topic))
        };
        let new = log.iter().enumerate().skip(usize::try_from(self.next).unwrap_or(usize::MAX));
        let found =
            new.into_iter().find(|(_, taken)| wants(&taken.message)).map(|(at, _)| at as u64);
        self.next = found.map_or(log.len() as u64, |index| index + 1);
        found
    }
}

impl Default for MemoryBroker {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn take(&mut self, delivery: &Delivery, hangs: &mut bool) -> Outcome {
        if self.is_down {
            return unreachable("the broker is down");
        }
        match self.rule.as_ref().map_or(Script::Take, |rule| rule(delivery)) {
            Script::Take => {
                self.log.push(Taken::new(delivery));
                Outcome::Acked
            }
            Script::Refuse(outcome) => outcome,
            Script::TakeAndAnswer(outcome) => {
                self.log.push(Taken::new(delivery));
                outcome
            }
            Script::Hang => {
                *hangs = true;
                Outcome::Unknown(Failure::new("timeout", "no answer before the deadline"))
            }
        }
    }
}

fn unreachable(detail: &str) -> Outcome {
    Outcome::Unreachable(Failure::new("unreachable", detail))
}

#[async_trait]
impl Broker for MemoryBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: self.call_order, call_messages_max: 256 }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let (outcomes, hangs) = self.publish_now(messages);
        self.shared.arrived.notify_waiters();
        if hangs {
            tokio::time::sleep(deadline).await;
        }
        outcomes
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        if self.state().is_down {
            return Err(BrokerError {
                message: "the memory broker is down".to_owned(),
                source: None,
            });
        }
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

/// Receives from a [`MemoryBroker`].
pub struct MemorySubscriber {
    broker: MemoryBroker,
    name: String,
    /// Leaves nothing behind.
    is_listener: bool,
    /// Tells it from others of its name.
    id: u64,
}

impl Drop for MemorySubscriber {
    fn drop(&mut self) {
        let mut state = self.broker.state();
        if self.is_listener {
            state.subscriptions.remove(&self.name);
        } else if let Some(subscribed) = state.subscriptions.get_mut(&self.name)
            && subscribed.holder == Some(self.id)
        {
            // The next one starts with the first that was not acknowledged.
            subscribed.holder = None;
            subscribed.again.clear();
            self.broker.shared.arrived.notify_waiters();
        }
    }
}

impl MemorySubscriber {
    fn next(&self) -> Option<Incoming> {
        let mut state = self.broker.state();
        let State { log, subscriptions, .. } = &mut *state;
        let subscription = subscriptions.get_mut(&self.name)?;
        if subscription.is_ordered && *subscription.holder.get_or_insert(self.id) != self.id {
            return None;
        }
        let again = subscription.open.difference(&subscription.again).next().copied();
        let receipt = match again {
            Some(receipt) => receipt,
            None => subscription.advance(log)?,
        };
        subscription.open.insert(receipt);
        subscription.again.insert(receipt);
        let index = usize::try_from(receipt).expect("an index of a vector");
        let Taken { message, provenance } = log[index].clone();
        let lane = subscription.is_ordered.then(|| Arc::from("memory"));
        Some(Incoming { message, provenance, receipt, lane })
    }
}

#[async_trait]
impl Subscriber for MemorySubscriber {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        loop {
            let arrived = self.broker.shared.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if let Some(incoming) = self.next() {
                return Ok(incoming);
            }
            arrived.await;
        }
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        let mut state = self.broker.state();
        if let Some(subscription) = state.subscriptions.get_mut(&self.name) {
            subscription.open.remove(&receipt);
            subscription.again.remove(&receipt);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(key: &str, payload: &'static str) -> Arc<Delivery> {
        let message = Message::from_bytes("t", Some(key), payload);
        Arc::new(Delivery {
            seq: 1,
            message,
            enqueued_at: std::time::UNIX_EPOCH,
            attempt: 1,
            redriven: 0,
            floor: None,
        })
    }

    #[tokio::test]
    async fn a_failed_message_holds_back_its_key_in_the_call() {
        let broker = MemoryBroker::new();
        broker.set_rule(|delivery| match &delivery.message.payload[..] {
            b"bad" => Script::Refuse(Outcome::Rejected(Failure::new("no", "no"))),
            _ => Script::Take,
        });
        let call = [delivery("a", "bad"), delivery("b", "1"), delivery("a", "2")];
        let outcomes = broker.publish(&call, Duration::from_secs(1)).await;
        assert!(matches!(outcomes[0], Outcome::Rejected(_)));
        assert_eq!(outcomes[1], Outcome::Acked);
        assert!(matches!(outcomes[2], Outcome::Unreachable(_)));
        assert_eq!(broker.received().len(), 1);
    }

    #[tokio::test]
    async fn what_is_not_acknowledged_comes_again_to_the_next_subscriber() {
        let broker = MemoryBroker::new();
        broker.publish(&[delivery("a", "1"), delivery("a", "2")], Duration::from_secs(1)).await;
        let mut first = broker.subscribe("s");
        let one = first.receive().await.unwrap();
        let two = first.receive().await.unwrap();
        first.acknowledge(two.receipt).await.unwrap();
        drop(first);
        let mut second = broker.subscribe("s");
        assert_eq!(second.receive().await.unwrap().message.id, one.message.id);
        assert!(second.next().is_none(), "acknowledged messages do not come again");
    }
}
