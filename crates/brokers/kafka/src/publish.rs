//! Publishing. Why order survives failures is told in the crate's documentation.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Failure, Finding, Invalid,
    Outcome, TopicPattern,
};
use posthaste_wire::{Call, Connection, Link, Names, Outgoing, Part, PerKey, Sender, Style};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::{Instant, timeout_at};

use crate::{
    Config,
    config::Settings,
    connect::{Manner, Producer},
    examine,
    outcome::{is_of_a_batch, outcome},
    record,
    round::{self, Answer, PATIENCE},
    topic::{self, Found},
};

/// Most messages of a call.
const CALL_MESSAGES_MAX: usize = 1024;
/// Bytes of a batch: below the million and a bit that a topic takes by default, so that only a message
/// larger than a batch is too large, and alone in it.
const BATCH_BYTES: usize = 512 * 1024;
/// Where a topic takes less, batches shrink to this.
const BATCH_BYTES_MIN: usize = 16 * 1024;
/// How long a topic that was refused is refused without asking again.
const REFUSAL: Duration = Duration::from_secs(5);
/// Most refused topics remembered.
const REFUSALS_MAX: usize = 1000;
/// Rounds in a row that bring nothing forward before the rest of a call is given up.
const IDLE_ROUNDS_MAX: u32 = 4;
/// How long the end may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) const NAMES: Names =
    Names { style: Style::Underscore, reserved: &["content-type"], reserved_prefixes: &[] };

/// Takes messages to a Kafka cluster.
pub struct KafkaBroker {
    settings: Settings,
    connection: Connection<Producer>,
    batch_bytes: AtomicUsize,
    /// Topics that are missing or not for us, and since when that is known.
    refused: Mutex<HashMap<String, (Instant, Failure)>>,
}

impl KafkaBroker {
    /// Checks the configuration. Connects when it is used.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn open(config: Config) -> Result<Self, Invalid> {
        Ok(Self {
            settings: Settings::check(&config)?,
            connection: Connection::default(),
            batch_bytes: AtomicUsize::new(BATCH_BYTES),
            refused: Mutex::default(),
        })
    }

    async fn dial(&self, manner: Manner) -> Result<Producer, Failure> {
        let batch_bytes = self.batch_bytes.load(Ordering::Relaxed);
        Producer::new(&self.settings, manner, batch_bytes).await
    }

    /// The current producer, unless it is known to be of no use.
    async fn producer(&self) -> Result<Link<Producer>, Failure> {
        let producer = self.connection.get(self.dial(Manner::Pipelined)).await?;
        let health = producer.health();
        let is_down = health.down_since().is_some_and(|since| since.elapsed() >= PATIENCE);
        if producer.fatal().is_none() && !is_down {
            return Ok(producer);
        }
        self.connection.discard(&producer);
        self.connection.get(self.dial(Manner::Pipelined)).await
    }

    fn refusal(&self, topic: &str) -> Option<Failure> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, failure) = refused.get(topic)?;
        (since.elapsed() < REFUSAL).then(|| failure.clone())
    }

    fn refuse(&self, topic: &str, failure: &Failure) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= REFUSALS_MAX {
            refused.clear();
        }
        refused.insert(topic.to_owned(), (Instant::now(), failure.clone()));
    }

    /// Looks up topics that the producer has not met, which is also how it gets to be connected.
    /// Messages to a topic that is missing or not for us are rejected.
    async fn prepare(
        &self,
        producer: &Link<Producer>,
        part: &[&mut Marked<'_>],
        outcomes: &mut [Option<Outcome>],
        until: Until,
    ) -> Result<(), Failure> {
        let mut seen: HashSet<&str> = HashSet::new();
        for message in part {
            let topic: &str = &message.outgoing.destination;
            if !seen.insert(topic) || producer.partitions().has(topic) {
                continue;
            }
            let refusal = match self.refusal(topic) {
                Some(failure) => failure,
                None => match topic::look_up(producer, topic, until).await? {
                    Found::There(partitions) => {
                        producer.partitions().found(topic, partitions);
                        continue;
                    }
                    Found::Refused(failure) => {
                        self.refuse(topic, &failure);
                        failure
                    }
                },
            };
            for (message, outcome) in part.iter().zip(&mut *outcomes) {
                if message.outgoing.destination == topic {
                    *outcome = Some(Outcome::Rejected(refusal.clone()));
                }
            }
        }
        Ok(())
    }
}

/// What is remembered of a message between the rounds of its call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// It was refused because of its timestamp, and goes without.
    pub(crate) is_untimed: bool,
    /// The error of its batch, for which it or another message may be to blame: it goes alone.
    suspected: Option<Code>,
}

/// A message of a call, with its marks.
pub(crate) type Marked<'a> = Part<'a, Marks>;

/// One call of `publish`.
struct Attempt<'a> {
    broker: &'a KafkaBroker,
    until: Until,
    /// Sends messages alone; made for the first that goes so.
    alone: Option<Producer>,
    /// Rounds in a row that sent nothing and marked no message as untimed.
    idle_rounds: u32,
}

impl Sender<Marks> for Attempt<'_> {
    type Answer = Option<Outcome>;

    /// Sends all at once, or those alone that a refused batch has made suspects. A message that the
    /// failure of others kept from being sent is left for the next round.
    async fn send(&mut self, part: &mut [&mut Marked<'_>]) -> Vec<Option<Outcome>> {
        let untimed = |part: &[&mut Marked<'_>]| {
            part.iter().filter(|message| message.prepared.is_untimed).count()
        };
        let before = untimed(part);
        let mut outcomes = vec![None; part.len()];
        let sent = if part.iter().any(|message| message.prepared.suspected.is_some()) {
            self.send_alone(part, &mut outcomes).await
        } else {
            self.send_together(part, &mut outcomes).await
        };
        let is_idle = outcomes.iter().all(Option::is_none) && before == untimed(part);
        self.idle_rounds = if is_idle { self.idle_rounds + 1 } else { 0 };
        let rest = match sent {
            Err(failure) => Some(Outcome::Unreachable(failure)),
            // A producer that stops again and again without a message to blame.
            Ok(()) if self.idle_rounds == IDLE_ROUNDS_MAX => Some(outcome(Code::Fatal)),
            Ok(()) => None,
        };
        if rest.is_some() {
            let left = outcomes.iter_mut().filter(|outcome| outcome.is_none());
            left.for_each(|left| left.clone_from(&rest));
        }
        outcomes
    }
}

impl Attempt<'_> {
    /// One try for all of them. An error is about those without an outcome: they were not sent.
    async fn send_together(
        &self,
        part: &mut [&mut Marked<'_>],
        outcomes: &mut [Option<Outcome>],
    ) -> Result<(), Failure> {
        let Self { broker, until, .. } = *self;
        let producer = until.limit(broker.producer()).await?;
        broker.prepare(&producer, part, outcomes, until).await?;
        let now = sendable(&producer, part, outcomes);
        let answers = round::pipeline(&producer, part, &now, until).await;
        acknowledged(&producer, part, &now, &answers);
        let fatal = producer.fatal();
        let is_lost = answers.iter().any(|answer| matches!(answer, Answer::Lost(_)));
        if fatal.is_some() || is_lost {
            broker.connection.discard(&producer);
        }
        if is_lost {
            // It may still wait in the client, and must not go out behind our back.
            _ = timeout_at(until.end, producer.purge(true)).await;
        }
        if fatal == Some(Code::ClusterAuthorizationFailed) {
            // The client never got the number without which nothing can be sent.
            return Err(Failure::new("auth", "the user may not publish idempotently"));
        }
        let batch_bytes = broker.batch_bytes.load(Ordering::Relaxed);
        for (index, answer) in now.into_iter().zip(answers) {
            let message = &mut *part[index];
            outcomes[index] = match answer {
                Answer::Failed(Code::PurgeQueue) if fatal.is_some() => None,
                // The servers' clocks are behind: better the time of arrival than no arrival.
                Answer::Failed(Code::InvalidTimestamp) if !message.prepared.is_untimed => {
                    message.prepared.is_untimed = true;
                    None
                }
                Answer::Failed(code)
                    if is_of_a_batch(code) && record::bytes(message) <= batch_bytes =>
                {
                    message.prepared.suspected = Some(code);
                    None
                }
                Answer::Failed(code @ Code::TopicAuthorizationFailed) => {
                    let denied = outcome(code);
                    if let Outcome::Rejected(failure) = &denied {
                        broker.refuse(&message.outgoing.destination, failure);
                    }
                    Some(denied)
                }
                answer => answer.outcome(),
            };
        }
        Ok(())
    }

    /// Finds out which messages of a refused batch were to blame: each goes alone, in order, up to the
    /// first that fails.
    async fn send_alone(
        &mut self,
        part: &mut [&mut Marked<'_>],
        outcomes: &mut [Option<Outcome>],
    ) -> Result<(), Failure> {
        let late = || Failure::new("timeout", "no time left to try it alone");
        let until = self.until;
        let producer = match self.alone.take() {
            Some(producer) => producer,
            None => until.limit(self.broker.dial(Manner::Alone)).await?,
        };
        let producer = &*self.alone.insert(producer);
        for index in 0..part.len() {
            let Some(code) = part[index].prepared.suspected else { continue };
            if Instant::now() >= until.answers {
                return Err(late());
            }
            let mut answer = round::alone(producer, part, index, until).await;
            if answer == Answer::Failed(Code::InvalidTimestamp) && !part[index].prepared.is_untimed
            {
                part[index].prepared.is_untimed = true;
                answer = round::alone(producer, part, index, until).await;
            }
            part[index].prepared.suspected = None;
            if code == Code::MessageSizeTooLarge && answer == Answer::Acked {
                // Alone it fits, so the topic takes less than a batch. How much less it does not say.
                self.broker.batch_bytes.store(BATCH_BYTES_MIN, Ordering::Relaxed);
            }
            let is_lost = matches!(answer, Answer::Lost(_));
            outcomes[index] = answer.outcome();
            if is_lost {
                _ = timeout_at(until.end, producer.purge(true)).await;
                return Err(late());
            }
            if outcomes[index] != Some(Outcome::Acked) {
                break;
            }
        }
        Ok(())
    }
}

/// The messages without an outcome that may be sent now: all of them, but one of a key where its
/// partition has not met the producer.
fn sendable(
    producer: &Producer,
    part: &[&mut Marked<'_>],
    outcomes: &[Option<Outcome>],
) -> Vec<usize> {
    let partitions = producer.partitions();
    let mut begun: HashSet<&str> = HashSet::new();
    let is_sendable = |&index: &usize| {
        let Part { delivery, outgoing, .. } = &*part[index];
        let is_in_turn = |key: &str| !partitions.is_new(&outgoing.destination, key);
        let key = delivery.message.key.as_deref();
        outcomes[index].is_none() && key.is_none_or(|key| is_in_turn(key) || begun.insert(key))
    };
    (0..part.len()).filter(is_sendable).collect()
}

/// Takes note of partitions that have met the producer by now.
fn acknowledged(producer: &Producer, part: &[&mut Marked<'_>], sent: &[usize], answers: &[Answer]) {
    let mut partitions = producer.partitions();
    for (&index, answer) in sent.iter().zip(answers) {
        let Part { delivery, outgoing, .. } = &*part[index];
        if let (Answer::Acked, Some(key)) = (answer, &delivery.message.key) {
            partitions.acknowledged(&outgoing.destination, key);
        }
    }
}

/// When to be done, and when to stop waiting in order to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    /// Answers are waited for until then.
    pub(crate) answers: Instant,
    /// The call has to return.
    pub(crate) end: Instant,
}

impl Until {
    /// Most time kept for cleaning up.
    const RESERVE_MAX: Duration = Duration::from_millis(200);

    pub(crate) fn after(deadline: Duration) -> Self {
        let end = Instant::now() + deadline;
        Self { answers: end - (deadline / 10).min(Self::RESERVE_MAX), end }
    }

    async fn limit<T>(self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let limited = tokio::time::timeout_at(self.answers, work).await;
        limited.unwrap_or_else(|_| Err(Failure::new("timeout", "no client in time")))
    }
}

#[async_trait]
impl Broker for KafkaBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::PerKey, call_messages_max: CALL_MESSAGES_MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let until = Until::after(deadline);
        let check = |_: &Delivery, outgoing: &Outgoing<'_>| {
            record::check(outgoing).map(|()| Marks::default())
        };
        Call::checked(&self.settings.wire, &NAMES, PerKey::SameDestination, messages, check)
            .run(Attempt { broker: self, until, alone: None, idle_rounds: 0 })
            .await
    }

    async fn examine(&self, topics: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        examine::examine(&self.settings, topics).await
    }

    async fn close(&self) {
        if let Some(producer) = self.connection.take() {
            producer.close(CLOSE_PATIENCE).await;
        }
    }
}
