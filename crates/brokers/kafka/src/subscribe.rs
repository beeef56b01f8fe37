//! Subscribing: a consumer group for a name, a group of its own for a passing listener.

use async_trait::async_trait;
use posthaste_core::{BrokerError, Incoming, Sharing, Subscriber, Subscription};
use tokio::sync::oneshot;

use crate::{
    Config,
    config::Settings,
    ledger::Ledger,
    publish::NAMES,
    reader::{Arrived, Plan, Reader, is_possible},
};

/// Most messages that may be received and not acknowledged.
const UNACKNOWLEDGED_MAX: usize = 65_536;

/// Receives messages from a Kafka cluster.
pub struct KafkaSubscriber {
    plan: Plan,
    /// `None` after an error.
    reader: Option<Reader>,
    /// What the last reader left.
    ledger: Ledger,
}

/// Subscribes, and returns when the group has given its partitions: what is published from then on
/// arrives. A name is the consumer group's. A listener without one has a group of its own, named
/// `posthaste-listener-…`, which ends with it.
///
/// # Errors
/// When the configuration is wrong, the cluster cannot be used, or no wanted topic could exist.
pub async fn subscribe(
    config: &Config,
    subscription: &Subscription,
) -> Result<KafkaSubscriber, BrokerError> {
    let wrong = |message: String| BrokerError { message, source: None };
    let settings = Settings::check(config).map_err(|invalid| wrong(invalid.to_string()))?;
    let destination = &settings.wire.destination;
    let patterns: Vec<_> =
        subscription.topics.iter().map(|topics| destination.pattern(topics)).collect();
    if !is_possible(&patterns) {
        return Err(wrong("Kafka: no topic can match what is subscribed to".to_owned()));
    }
    let plan = Plan {
        settings,
        name: subscription.name.clone(),
        patterns,
        start: subscription.start,
        sharing: subscription.sharing,
    };
    let (ready, is_ready) = oneshot::channel();
    let reader = Reader::start(plan.clone(), Ledger::default(), ready)?;
    if is_ready.await.is_err() {
        // It ended before it was ready, and has left its reason.
        let failed = reader.next().await;
        return Err(failed.err().unwrap_or_else(|| wrong("Kafka: the reader ended".to_owned())));
    }
    Ok(KafkaSubscriber { plan, reader: Some(reader), ledger: Ledger::default() })
}

impl KafkaSubscriber {
    fn reader(&mut self) -> Result<&Reader, BrokerError> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => {
                let ledger = std::mem::take(&mut self.ledger);
                Reader::start(self.plan.clone(), ledger, oneshot::channel().0)?
            }
        };
        Ok(self.reader.insert(reader))
    }

    fn incoming(&self, reader: &Reader, arrived: Arrived) -> Option<Incoming> {
        let Arrived { place, assignment, offset, received } = arrived;
        let mut ledger = reader.ledger();
        let receipt = ledger.receive(&place, assignment, offset)?;
        if self.plan.name.is_none() {
            // Nobody keeps a position for a passing listener: what it got, it had.
            _ = ledger.acknowledge(receipt);
        }
        let (message, provenance) = self.plan.settings.wire.decode(received, &NAMES);
        // A group gives each partition to one of its members, who goes on at the position it has.
        let is_ordered = self.plan.sharing == Sharing::Ordered;
        let lane = is_ordered.then(|| format!("{}/{}", place.0, place.1).into());
        Some(Incoming { message, provenance, receipt, lane })
    }
}

#[async_trait]
impl Subscriber for KafkaSubscriber {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        loop {
            if self.reader()?.ledger().unacknowledged() >= UNACKNOWLEDGED_MAX {
                let message =
                    format!("Kafka: {UNACKNOWLEDGED_MAX} messages received, none acknowledged");
                return Err(BrokerError { message, source: None });
            }
            let arrived = self.reader()?.next().await;
            let Some(reader) = &self.reader else { continue };
            match arrived {
                Ok(arrived) => {
                    if let Some(incoming) = self.incoming(reader, arrived) {
                        return Ok(incoming);
                    }
                }
                Err(error) => {
                    self.ledger = std::mem::take(&mut *reader.ledger());
                    self.reader = None;
                    return Err(error);
                }
            }
        }
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        if self.plan.name.is_none() {
            return Ok(());
        }
        let gone = || BrokerError {
            message: "Kafka: the partition is not ours any more; the message will come again"
                .into(),
            source: None,
        };
        let reader = self.reader.as_ref().ok_or_else(gone)?;
        let position = reader.ledger().acknowledge(receipt).map_err(|()| gone())?;
        let Some((place, position)) = position else { return Ok(()) };
        reader.store(&place, position).map_err(|error| BrokerError {
            message: format!("Kafka: cannot acknowledge, the message will come again: {error}"),
            source: Some(error.into()),
        })
    }
}
