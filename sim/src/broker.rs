//! A broker behind a network: messages and answers are lost, delayed and doubled, single messages
//! are refused, and there are outages. Arrivals are recorded in order.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_broker_memory::{MemoryBroker, MemorySubscriber};
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, Delivery, Failure, Finding, Incoming, MessageId,
    Outcome, Subscriber, TopicPattern,
};
use posthaste_history::Cause;
use tokio::sync::oneshot;

use crate::{
    Fault, Planted,
    attempts::Term,
    process::Process,
    world::{World, short},
};

/// A message that every broker refuses has this payload.
pub(crate) const POISON: &[u8] = b"poison";

/// A process's connection to the broker of a route.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    pub(crate) route: usize,
    pub(crate) broker: MemoryBroker,
    /// Which processes are dead.
    pub(crate) graveyard: Graveyard,
}

/// Every process there has been.
#[derive(Clone, Default)]
pub(crate) struct Graveyard(Arc<std::sync::Mutex<Vec<Arc<Process>>>>);

impl Graveyard {
    pub(crate) fn add(&self, process: &Arc<Process>) {
        let mut all = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.push(Arc::clone(process));
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        let all = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.iter().any(|process| process.id == id && process.is_dead())
    }
}

/// The fate of one message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Taken,
    TakenTwice,
    TakenUnanswered,
    Lost,
    Late,
    Refused,
}

fn unreachable(detail: &str) -> Outcome {
    Outcome::Unreachable(Failure::new("unreachable", detail))
}

fn unknown() -> Outcome {
    Outcome::Unknown(Failure::new("timeout", "no answer"))
}

fn refused() -> Outcome {
    Outcome::Rejected(Failure::new("refused", "not this one"))
}

impl Link {
    fn term(&self, delivery: &Delivery) -> Term {
        let shard = delivery.floor.as_ref().map(|floor| floor.shard);
        let number = shard.map_or(0, |shard| self.process.term(self.route, shard));
        Term { process: self.process.id, shard, number }
    }

    fn started(&self, delivery: &Delivery) {
        let (term, id) = (self.term(delivery), delivery.message.id);
        let graveyard = self.graveyard.clone();
        self.world.route(self.route, |route| {
            let is_dead = |process| graveyard.has(process);
            route.history.started(id);
            if let Some(cause) = route.attempts.started(id, term, delivery.redriven, is_dead) {
                route.history.may_repeat(id, cause);
            }
        });
        let (name, route) = (&self.process.name, self.route);
        self.world.trace(format_args!("{name} sends {} on {route}", short(id)));
    }

    fn draw(&self, delivery: &Delivery) -> Fate {
        let world = &self.world;
        if delivery.message.payload == POISON {
            return Fate::Refused;
        }
        let kinds = [
            (Fault::Refusal, Fate::Refused),
            (Fault::AckLost, Fate::TakenUnanswered),
            (Fault::SendLost, Fate::Lost),
            (Fault::SendLate, Fate::Late),
            (Fault::SendTwice, Fate::TakenTwice),
        ];
        let struck = kinds.into_iter().find(|(fault, _)| world.strikes(*fault));
        struck.map_or(Fate::Taken, |(_, fate)| fate)
    }

    /// It arrives, now.
    async fn land(&self, delivery: &Arc<Delivery>) {
        let id = delivery.message.id;
        self.world.route(self.route, |route| route.history.received(id));
        self.world.trace(format_args!("{} arrives on {}", short(id), self.route));
        self.broker.publish(std::slice::from_ref(delivery), Duration::ZERO).await;
    }

    /// Takes the messages of a call to the broker. A sender's death may cut it off half-way.
    async fn transmit(self, deliveries: Vec<Arc<Delivery>>, answer: oneshot::Sender<Vec<Outcome>>) {
        let world = Arc::clone(&self.world);
        if world.strikes(Fault::BrokerSlow) {
            let most = world.plan.publish_timeout().as_millis() as u64;
            tokio::time::sleep(world.millis(1..most)).await;
        }
        let mut failed = HashSet::new();
        let mut outcomes = Vec::new();
        let mut is_waiting = false;
        for delivery in &deliveries {
            if world.below(4) == 0 {
                tokio::time::sleep(world.millis(1..10)).await;
            }
            if self.process.is_dead() && world.coin() {
                return;
            }
            let key = delivery.message.key.clone();
            let is_behind = key.as_ref().is_some_and(|key| failed.contains(key));
            let outcome = match is_behind || world.is_down(self.route) {
                true => unreachable("nothing gets through"),
                false => self.deliver(delivery).await,
            };
            is_waiting |= matches!(outcome, Outcome::Unknown(_));
            if let (Some(key), false) = (key, outcome == Outcome::Acked) {
                failed.insert(key);
            }
            outcomes.push(outcome);
        }
        if is_waiting {
            tokio::time::sleep(world.plan.publish_timeout()).await;
        }
        // The caller may be gone.
        let _ = answer.send(outcomes);
    }

    async fn deliver(&self, delivery: &Arc<Delivery>) -> Outcome {
        let world = &self.world;
        let id = delivery.message.id;
        match self.draw(delivery) {
            Fate::Taken => self.land(delivery).await,
            Fate::TakenTwice => {
                world.route(self.route, |route| route.history.may_repeat(id, Cause::Broker));
                self.land(delivery).await;
                self.land(delivery).await;
            }
            Fate::TakenUnanswered => {
                self.land(delivery).await;
                return self.timed_out();
            }
            Fate::Lost => return self.timed_out(),
            Fate::Late => {
                let (link, delivery) = (self.clone(), Arc::clone(delivery));
                let delay = world.plan.publish_timeout() + world.millis(0..5_000);
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    link.land(&delivery).await;
                });
                return self.timed_out();
            }
            Fate::Refused if world.has(Planted::ReturnOk) => {}
            Fate::Refused => {
                world.route(self.route, |route| route.history.refused(id));
                return refused();
            }
        }
        Outcome::Acked
    }

    fn timed_out(&self) -> Outcome {
        if self.world.has(Planted::TimeoutOk) {
            Outcome::Acked
        } else if self.world.has(Planted::TimeoutIsRefusal) {
            refused()
        } else {
            unknown()
        }
    }
}

/// A publish call in progress. A relay that gives up waiting does not learn the outcomes.
struct Waiting<'l> {
    link: &'l Link,
    attempts: Vec<(MessageId, Term)>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Link { world, route, .. } = self.link;
        for (id, term) in self.attempts.drain(..) {
            world.route(*route, |route| route.attempts.told(id, term, &unknown()));
        }
    }
}

#[async_trait]
impl Broker for Link {
    fn capabilities(&self) -> BrokerCapabilities {
        let call_order = self.world.plan.routes[self.route].call_order;
        BrokerCapabilities { call_order, call_messages_max: 16 }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], _: Duration) -> Vec<Outcome> {
        let terms: Vec<Term> = messages.iter().map(|delivery| self.term(delivery)).collect();
        messages.iter().for_each(|delivery| self.started(delivery));
        let ids = messages.iter().map(|delivery| delivery.message.id);
        let _waiting = Waiting { link: self, attempts: ids.zip(terms.iter().copied()).collect() };
        self.process.step().await;
        let (sender, answer) = oneshot::channel();
        tokio::spawn(self.clone().transmit(messages.to_vec(), sender));
        let outcomes = match answer.await {
            Ok(outcomes) => outcomes,
            Err(_) => std::future::pending().await,
        };
        self.process.step().await;
        for ((delivery, outcome), term) in messages.iter().zip(&outcomes).zip(terms) {
            let id = delivery.message.id;
            self.world.route(self.route, |route| route.attempts.told(id, term, outcome));
            let word = match outcome {
                Outcome::Acked => "acked",
                Outcome::Rejected(_) => "rejected",
                Outcome::Unreachable(_) => "unreachable",
                Outcome::Unknown(_) => "unknown",
            };
            self.world.trace(format_args!("{} {} {word}", self.process.name, short(id)));
        }
        outcomes
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

/// A consumer's connection to the broker.
pub(crate) struct Subscribed {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    pub(crate) inner: MemorySubscriber,
}

#[async_trait]
impl Subscriber for Subscribed {
    /// No await follows after the message was taken, so a dropped call loses nothing.
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        self.process.step().await;
        let incoming = self.inner.receive().await?;
        let id = short(incoming.message.id);
        self.world.trace(format_args!("{} receives {id}", self.process.name));
        if self.world.has(Planted::AckBeforeCommit) {
            self.inner.acknowledge(incoming.receipt).await?;
        }
        Ok(incoming)
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        self.process.step().await;
        if self.world.strikes(Fault::ConsumerAckLost) {
            return match self.world.coin() {
                true => Ok(()),
                false => Err(BrokerError { message: "simulated".to_owned(), source: None }),
            };
        }
        self.inner.acknowledge(receipt).await
    }
}
