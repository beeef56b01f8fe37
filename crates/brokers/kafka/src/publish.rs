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
use posthaste_wire::{Call, Connection, Link, Names, Part, PerKey, Style};
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

    /// Sends a part: all of it at once, and again what a failure of others kept from being sent.
    async fn send(&self, part: &[Part<'_>], until: Until) -> Vec<Outcome> {
        let mut work = Work::new(part);
        let mut idle_rounds = 0;
        while !work.todo.is_empty() {
            let before = (work.todo.len(), work.untimed.len());
            match self.round(&mut work, until).await {
                Ok(()) => {}
                Err(failure) => {
                    work.settle_all(&Outcome::Unreachable(failure));
                    break;
                }
            }
            // A producer that stops again and again without a message to blame.
            let is_idle = before == (work.todo.len(), work.untimed.len());
            idle_rounds = if is_idle { idle_rounds + 1 } else { 0 };
            if idle_rounds == 2 {
                work.settle_all(&outcome(Code::Fatal));
            }
        }
        work.finish()
    }

    /// One try for what is left. An error is about all of it: nothing was sent.
    async fn round(&self, work: &mut Work<'_>, until: Until) -> Result<(), Failure> {
        let producer = until.limit(self.producer()).await?;
        self.prepare(&producer, work, until).await?;
        let todo = work.next(&producer);
        let answers = round::pipeline(&producer, work.part, &todo, &work.untimed, until).await;
        work.acknowledged(&producer, &todo, &answers);
        let fatal = producer.fatal();
        let is_lost = answers.iter().any(|answer| matches!(answer, Answer::Lost(_)));
        if fatal.is_some() || is_lost {
            self.connection.discard(&producer);
        }
        if is_lost {
            // It may still wait in the client, and must not go out behind our back.
            _ = timeout_at(until.end, producer.purge(true)).await;
        }
        if fatal == Some(Code::ClusterAuthorizationFailed) {
            // The client never got the number without which nothing can be sent.
            work.todo.extend(todo);
            return Err(Failure::new("auth", "the user may not publish idempotently"));
        }
        let batch_bytes = self.batch_bytes.load(Ordering::Relaxed);
        let part = work.part;
        let mut suspects = Vec::new();
        let mut untimed = std::mem::take(&mut work.untimed);
        work.take(todo, answers, |index, code| match code {
            Code::PurgeQueue if fatal.is_some() => None,
            // The servers' clocks are behind: better the time of arrival than no arrival.
            Code::InvalidTimestamp if untimed.insert(index) => None,
            _ if is_of_a_batch(code) && record::bytes(&part[index]) <= batch_bytes => {
                suspects.push((index, code));
                None
            }
            Code::TopicAuthorizationFailed => {
                let denied = outcome(code);
                if let Outcome::Rejected(failure) = &denied {
                    self.refuse(&part[index].outgoing.destination, failure);
                }
                Some(denied)
            }
            _ => Some(outcome(code)),
        });
        work.untimed = untimed;
        self.send_alone(work, suspects, until).await
    }

    /// Finds out which of a refused batch was to blame: each alone, in order.
    async fn send_alone(
        &self,
        work: &mut Work<'_>,
        suspects: Vec<(usize, Code)>,
        until: Until,
    ) -> Result<(), Failure> {
        if suspects.is_empty() {
            return Ok(());
        }
        let producer = until.limit(self.dial(Manner::Alone)).await?;
        for (index, code) in suspects {
            // It may be held back by now.
            let Some(at) = work.todo.iter().position(|&todo| todo == index) else { continue };
            if Instant::now() >= until.answers {
                return Err(Failure::new("timeout", "no time left to try it alone"));
            }
            work.todo.remove(at);
            let part = work.part;
            let mut answers =
                round::pipeline(&producer, part, &[index], &work.untimed, until).await;
            let is_early = answers == [Answer::Failed(Code::InvalidTimestamp)];
            if is_early && work.untimed.insert(index) {
                answers = round::pipeline(&producer, part, &[index], &work.untimed, until).await;
            }
            let is_lost = matches!(answers[..], [Answer::Lost(_)]);
            if code == Code::MessageSizeTooLarge && answers == [Answer::Acked] {
                // Alone it fits, so the topic takes less than a batch. How much less it does not say.
                self.batch_bytes.store(BATCH_BYTES_MIN, Ordering::Relaxed);
            }
            work.take(vec![index], answers, |_, code| Some(outcome(code)));
            if is_lost {
                _ = timeout_at(until.end, producer.purge(true)).await;
                return Err(Failure::new("timeout", "no time left to try it alone"));
            }
        }
        Ok(())
    }

    /// Looks up topics that the producer has not met, which is also how it gets to be connected.
    async fn prepare(
        &self,
        producer: &Link<Producer>,
        work: &mut Work<'_>,
        until: Until,
    ) -> Result<(), Failure> {
        let mut seen: HashSet<&str> = HashSet::new();
        let part = work.part;
        for index in work.todo.clone() {
            let topic: &str = &part[index].outgoing.destination;
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
            work.settle_topic(topic, &Outcome::Rejected(refusal));
        }
        Ok(())
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

/// A part on its way: what is left to do of it, and the outcomes so far.
struct Work<'a> {
    part: &'a [Part<'a>],
    outcomes: Vec<Option<Outcome>>,
    /// What has no outcome yet, in order.
    todo: Vec<usize>,
    /// What was refused because of its timestamp, and goes without.
    untimed: HashSet<usize>,
}

impl<'a> Work<'a> {
    fn new(part: &'a [Part<'a>]) -> Self {
        let (outcomes, todo) = (vec![None; part.len()], (0..part.len()).collect());
        Self { part, outcomes, todo, untimed: HashSet::new() }
    }

    /// Takes out what may be sent now: everything, but one message of a key where its partition has
    /// not met the producer.
    fn next(&mut self, producer: &Producer) -> Vec<usize> {
        let part = self.part;
        let partitions = producer.partitions();
        let mut begun: HashSet<&str> = HashSet::new();
        let (now, later) = self.todo.drain(..).partition(|&index| {
            let topic = &part[index].outgoing.destination;
            let key = part[index].delivery.message.key.as_deref();
            key.is_none_or(|key| !partitions.is_new(topic, key) || begun.insert(key))
        });
        self.todo = later;
        now
    }

    /// Takes note of partitions that have met the producer by now.
    fn acknowledged(&self, producer: &Producer, todo: &[usize], answers: &[Answer]) {
        let mut partitions = producer.partitions();
        for (&index, answer) in todo.iter().zip(answers) {
            let Part { delivery, outgoing, .. } = &self.part[index];
            if let (Answer::Acked, Some(key)) = (answer, &delivery.message.key) {
                partitions.acknowledged(&outgoing.destination, key);
            }
        }
    }

    /// Takes in what became of these. `judge` gives the outcome of an error, or none if it is to be
    /// tried again. What failed for good holds back what follows it in its key.
    fn take(
        &mut self,
        todo: Vec<usize>,
        answers: Vec<Answer>,
        mut judge: impl FnMut(usize, Code) -> Option<Outcome>,
    ) {
        for (index, answer) in todo.into_iter().zip(answers) {
            let done = match answer {
                Answer::Acked => Some(Outcome::Acked),
                Answer::Failed(code) => judge(index, code),
                Answer::Unsent => None,
                Answer::Throttled => Some(outcome(Code::QueueFull)),
                Answer::Lost(failure) => Some(Outcome::Unknown(failure)),
            };
            match done {
                None => self.todo.push(index),
                done => self.outcomes[index] = done,
            }
        }
        self.todo.sort_unstable();
        self.hold_back();
    }

    fn settle_topic(&mut self, topic: &str, outcome: &Outcome) {
        let part = self.part;
        let (of_topic, others): (Vec<usize>, Vec<usize>) =
            self.todo.drain(..).partition(|&index| part[index].outgoing.destination == topic);
        self.todo = others;
        for index in of_topic {
            self.outcomes[index] = Some(outcome.clone());
        }
        self.hold_back();
    }

    fn settle_all(&mut self, outcome: &Outcome) {
        for index in self.todo.drain(..) {
            self.outcomes[index] = Some(outcome.clone());
        }
    }

    /// What follows a message of its key that was not taken is not sent any more.
    fn hold_back(&mut self) {
        if self.todo.is_empty() {
            return;
        }
        let key = |index: usize| self.part[index].delivery.message.key.as_deref();
        let is_failed = |index: &usize| {
            self.outcomes[*index].as_ref().is_some_and(|outcome| *outcome != Outcome::Acked)
        };
        let mut failed: HashMap<&str, usize> = HashMap::new();
        for index in (0..self.part.len()).filter(is_failed) {
            if let Some(key) = key(index) {
                failed.entry(key).or_insert(index);
            }
        }
        let is_held =
            |index: usize| key(index).and_then(|key| failed.get(key)).is_some_and(|&at| at < index);
        let (held, todo): (Vec<usize>, Vec<usize>) =
            self.todo.iter().copied().partition(|&index| is_held(index));
        self.todo = todo;
        for index in held {
            let failure = Failure::new("held", "an earlier message of the key failed");
            self.outcomes[index] = Some(Outcome::Unreachable(failure));
        }
    }

    fn finish(self) -> Vec<Outcome> {
        let lost = || Outcome::Unknown(Failure::new("adapter", "the adapter lost its outcome"));
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(lost)).collect()
    }
}

#[async_trait]
impl Broker for KafkaBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::PerKey, call_messages_max: CALL_MESSAGES_MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let until = Until::after(deadline);
        let per_key = PerKey::SameDestination;
        let mut call =
            Call::checked(&self.settings.wire, &NAMES, per_key, messages, |_, outgoing| {
                record::check(outgoing)
            });
        loop {
            let part = call.next_part();
            if part.is_empty() {
                return call.finish();
            }
            let outcomes = self.send(&part, until).await;
            call.report(part, outcomes);
        }
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
