//! Publishing. Each part of a call has a channel for itself, for two reasons: what RabbitMQ says when
//! it closes a channel is about that part and no other, and the driver hands a returned message to
//! whichever confirmation comes next, so that only all confirmations of a channel together tell which
//! messages were returned.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, UNIX_EPOCH},
};

use async_trait::async_trait;
use futures::FutureExt;
use lapin::{
    BasicProperties, Channel, Confirmation,
    options::BasicPublishOptions,
    types::{AMQPValue, FieldTable, ShortString},
};
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, Delivery, Failure, Finding, Invalid, MessageId,
    Outcome, TopicPattern,
};
use posthaste_wire::{Call, Connection, Link, Outgoing, Part, Sender};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    config::{Config, Settings},
    connect::Session,
    examine,
    outcome::{Stage, Trouble, answer, outcome},
};

/// Most messages of a call.
const CALL_MESSAGES_MAX: usize = 256;
/// How long closing in good order may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest routing key, header name or property, in bytes.
const SHORT_STRING_BYTES_MAX: usize = 255;
/// The largest frame of a RabbitMQ that has not been told otherwise.
const FRAME_BYTES_DEFAULT: usize = 128 * 1024;
/// What the frame with the headers holds besides them, at most: five properties and some sizes.
const PROPERTIES_BYTES_MAX: usize = 5 * 256 + 64;
/// The driver's mode of a message that is written to disk.
const PERSISTENT: u8 = 2;

/// Publishes to an exchange of RabbitMQ.
pub struct RabbitMqBroker {
    settings: Settings,
    connection: Connection<Session>,
    /// The largest frame that RabbitMQ takes, as it said when it was last connected to.
    frame_bytes_max: AtomicUsize,
}

/// One call of `publish`.
struct Attempt<'a> {
    broker: &'a RabbitMqBroker,
    until: Instant,
}

impl Sender for Attempt<'_> {
    type Answer = Outcome;

    async fn send(&mut self, part: &mut [&mut Part<'_>]) -> Vec<Outcome> {
        let Self { broker, until } = *self;
        let late =
            Outcome::Unreachable(Failure::new("timeout", "RabbitMQ cannot be reached in time"));
        let link = match timeout_at(until, broker.link()).await {
            Ok(Ok(link)) => link,
            Ok(Err(outcome)) => return vec![outcome; part.len()],
            Err(_) => return vec![late; part.len()],
        };
        let taken = match timeout_at(until, link.take_channel()).await {
            Ok(Ok(taken)) => taken,
            Ok(Err(trouble)) => {
                broker.connection.discard(&link);
                return vec![outcome(&trouble); part.len()];
            }
            Err(_) => {
                broker.give_up(&link).await;
                return vec![late; part.len()];
            }
        };
        let answers = broker.publish_on(&taken.channel, part, until).await;
        if answers.iter().all(Answer::is_confirmed) {
            link.give_back(taken);
        } else if answers.iter().any(|answer| matches!(answer, Answer::Missing)) {
            broker.give_up(&link).await;
        } else {
            // Others go on with theirs. The next one declares the exchange anew.
            broker.connection.discard(&link);
        }
        judge(&broker.settings, part, answers)
    }
}

/// What became of a message that was handed to the driver.
enum Answer {
    /// It never was: the channel is known to be closed.
    Unsent,
    /// Nothing yet.
    Missing,
    /// RabbitMQ has answered.
    Confirmed {
        /// Whether it acknowledges the message.
        outcome: Outcome,
        /// A message that came back as unroutable; not this one, but any of the part.
        returned: Option<MessageId>,
    },
    /// The channel or the connection failed.
    Failed(Outcome),
}

impl Answer {
    fn of(confirmed: lapin::Result<Confirmation>, stage: Stage) -> Self {
        let confirmation = match confirmed {
            Ok(confirmation) => confirmation,
            Err(error) => return Self::Failed(outcome(&Trouble { stage, error })),
        };
        let outcome = answer(&confirmation);
        let returned = confirmation.take_message().map(|message| {
            let id = message.properties.message_id().as_ref().map(ShortString::as_str);
            // One without an id of ours is nobody's, which is found out in `judge`.
            id.and_then(|id| id.parse().ok()).unwrap_or_else(MessageId::fresh)
        });
        Self::Confirmed { outcome, returned }
    }

    fn is_confirmed(&self) -> bool {
        matches!(self, Self::Confirmed { .. })
    }
}

impl RabbitMqBroker {
    /// A broker for this configuration. Connects when there is something to publish, so RabbitMQ
    /// need not be there yet.
    ///
    /// # Errors
    /// When the configuration breaks a rule; the field, its value and the rule are named.
    pub fn open(config: Config) -> Result<Self, Invalid> {
        Ok(Self {
            settings: Settings::check(config)?,
            connection: Connection::default(),
            frame_bytes_max: AtomicUsize::new(FRAME_BYTES_DEFAULT),
        })
    }

    /// A connection on which something may be sent, or the outcome for everything.
    async fn link(&self) -> Result<Link<Session>, Outcome> {
        // The connection at hand may have been lost, a new one not yet.
        for _ in 0..2 {
            let dialled = self.connection.get(Session::open(&self.settings)).await;
            let link = dialled.map_err(|trouble| outcome(&trouble))?;
            if link.is_blocked() {
                let detail = "RabbitMQ takes no messages for now: it is short of memory or disk";
                return Err(Outcome::Unreachable(Failure::new("throttled", detail)));
            }
            if link.is_usable() {
                self.frame_bytes_max.store(link.frame_bytes_max(), Relaxed);
                return Ok(link);
            }
            self.connection.discard(&link);
        }
        let detail = "RabbitMQ closes the connection at once";
        Err(Outcome::Unreachable(Failure::new("connection", detail)))
    }

    /// Sends nothing more on a connection that left something unanswered.
    async fn give_up(&self, link: &Link<Session>) {
        link.hang_up();
        // One that is blocked is kept, to tell when that is over.
        if !link.is_blocked() {
            self.connection.discard(link);
        }
    }

    /// Publishes a part on a channel and waits for the answers.
    async fn publish_on(
        &self,
        channel: &Channel,
        part: &[&mut Part<'_>],
        until: Instant,
    ) -> Vec<Answer> {
        let stage = Stage::Sent { is_alone: part.len() == 1 };
        let mut answers = Vec::with_capacity(part.len());
        let mut waiting = Vec::with_capacity(part.len());
        for (index, message) in part.iter().enumerate() {
            if !channel.status().connected() {
                answers.push(Answer::Unsent);
                continue;
            }
            let mut confirmed = Box::pin(self.publish_one(channel, message, stage));
            // To poll it is to hand it to the driver: all of them at once, and in order.
            match (&mut confirmed).now_or_never() {
                Some(answer) => answers.push(answer),
                None => {
                    answers.push(Answer::Missing);
                    waiting.push((index, confirmed));
                }
            }
        }
        let all_answered = async {
            for (index, confirmed) in &mut waiting {
                answers[*index] = confirmed.await;
            }
        };
        if timeout_at(until, all_answered).await.is_err() {
            // One without an answer says nothing of those behind it.
            for (index, confirmed) in waiting {
                if matches!(answers[index], Answer::Missing) {
                    answers[index] = confirmed.now_or_never().unwrap_or(Answer::Missing);
                }
            }
        }
        answers
    }

    async fn publish_one(&self, channel: &Channel, message: &Part<'_>, stage: Stage) -> Answer {
        let Outgoing { destination, body, .. } = &message.outgoing;
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let (exchange, key) = (self.settings.exchange.clone(), short(destination));
        let sent = channel.basic_publish(exchange, key, options, body, properties(message));
        let confirmed = match sent.await {
            Ok(confirmed) => confirmed.await,
            Err(error) => Err(error),
        };
        Answer::of(confirmed, stage)
    }

    /// What RabbitMQ would not take.
    fn check(&self, delivery: &Delivery, outgoing: &Outgoing<'_>) -> Result<(), Failure> {
        let is_short = |text: &str| text.len() <= SHORT_STRING_BYTES_MAX;
        let key = &*outgoing.destination;
        if !is_short(key) || key.chars().any(char::is_control) {
            let detail = format!(
                "routing key {key:?} has more than {SHORT_STRING_BYTES_MAX} bytes, or control \
                 characters"
            );
            return Err(Failure::new("topic", detail));
        }
        let mut bytes = PROPERTIES_BYTES_MAX;
        for (name, value) in &outgoing.headers {
            // RabbitMQ reads more routing keys from these, and closes the channel over a text.
            if !is_short(name) || matches!(&**name, "CC" | "BCC") {
                let detail = format!("header {name:?} has a name that RabbitMQ does not take");
                return Err(Failure::new("header", detail));
            }
            bytes += name.len() + value.len() + 6;
        }
        let event_type = delivery.message.event_type.as_deref().unwrap_or_default();
        if !is_short(event_type) || !is_short(outgoing.content_type) {
            return Err(Failure::new("header", "the type or the content type is over 255 bytes"));
        }
        let bytes_max = self.frame_bytes_max.load(Relaxed);
        if bytes > bytes_max {
            let detail = format!("the headers take {bytes} bytes, and RabbitMQ takes {bytes_max}");
            return Err(Failure::new("too-large", detail));
        }
        Ok(())
    }
}

/// One outcome for each message of a part.
fn judge(settings: &Settings, part: &[&mut Part<'_>], answers: Vec<Answer>) -> Vec<Outcome> {
    let returned: HashSet<MessageId> = answers
        .iter()
        .filter_map(|answer| match answer {
            Answer::Confirmed { returned, .. } => *returned,
            _ => None,
        })
        .collect();
    let is_returned = |message: &Part<'_>| returned.contains(&message.delivery.message.id);
    // RabbitMQ confirms what it returns, in that order. Where one of those is not confirmed, the
    // return of one that is could be held back by the driver, waiting for the next confirmation.
    let confirmed = part.iter().zip(&answers).filter(|(_, answer)| answer.is_confirmed());
    let told_apart = confirmed.filter(|(message, _)| is_returned(message)).count();
    let is_muddled = told_apart < returned.len();
    let judged = part.iter().zip(answers).map(|(message, answer)| match answer {
        _ if is_returned(message) => {
            Outcome::Rejected(unroutable(settings, &message.outgoing.destination))
        }
        Answer::Unsent => {
            let detail = "the connection was lost before it could be sent";
            Outcome::Unreachable(Failure::new("connection", detail))
        }
        Answer::Missing => Outcome::Unknown(Failure::new("timeout", "no confirmation in time")),
        Answer::Confirmed { outcome: Outcome::Acked, .. } if is_muddled => {
            let detail = "confirmed, but perhaps returned as unroutable";
            Outcome::Unknown(Failure::new("connection", detail))
        }
        Answer::Confirmed { outcome, .. } | Answer::Failed(outcome) => outcome,
    });
    judged.collect()
}

fn unroutable(settings: &Settings, key: &str) -> Failure {
    let exchange = settings.exchange.as_str();
    Failure::new(
        "unroutable",
        if settings.is_default_exchange() {
            format!("there is no queue {key:?}")
        } else {
            format!("no queue is bound to exchange {exchange:?} for routing key {key:?}")
        },
    )
}

fn properties(message: &Part<'_>) -> BasicProperties {
    let (Delivery { message, enqueued_at, .. }, outgoing) = (message.delivery, &message.outgoing);
    let mut headers = FieldTable::default();
    for (name, value) in &outgoing.headers {
        headers.insert(short(name), AMQPValue::LongString(value.as_bytes().into()));
    }
    let seconds = enqueued_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(message.id.to_string().into())
        .with_timestamp(seconds)
        .with_content_type(short(outgoing.content_type))
        .with_app_id("posthaste".into());
    if !outgoing.headers.is_empty() {
        properties = properties.with_headers(headers);
    }
    match &message.event_type {
        Some(event_type) => properties.with_type(short(event_type)),
        None => properties,
    }
}

fn short(text: &str) -> ShortString {
    ShortString::try_new(text).expect("`check` refuses what is longer")
}

#[async_trait]
impl Broker for RabbitMqBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        let call_order = self.settings.ordering.call_order();
        BrokerCapabilities { call_order, call_messages_max: CALL_MESSAGES_MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let until = Instant::now() + deadline;
        let check = |delivery: &Delivery, outgoing: &Outgoing<'_>| self.check(delivery, outgoing);
        let wire = &self.settings.wire;
        let per_key = self.settings.ordering.per_key();
        Call::checked(wire, &self.settings.names, per_key, messages, check)
            .run(Attempt { broker: self, until })
            .await
    }

    async fn examine(&self, topics: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        examine::examine(&self.settings, topics).await
    }

    async fn close(&self) {
        if let Some(link) = self.connection.take() {
            // What does not close in time is cut off when it is dropped.
            let _ = timeout(CLOSE_TIMEOUT, link.close()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::Message;
    use posthaste_wire::{Ordering, Wire};

    use super::*;

    /// Sends nothing, and gives these answers.
    struct Judged<'a> {
        settings: &'a Settings,
        answers: Vec<Answer>,
    }

    impl Sender for Judged<'_> {
        type Answer = Outcome;

        async fn send(&mut self, part: &mut [&mut Part<'_>]) -> Vec<Outcome> {
            judge(self.settings, part, std::mem::take(&mut self.answers))
        }
    }

    /// The outcomes of a part of `answers.len()` messages; a return is named by its place.
    fn judged(answers: &[(&str, Option<usize>)]) -> Vec<String> {
        let settings = Settings::check(Config::new("amqp://localhost")).expect("is good");
        let messages: Vec<_> = answers
            .iter()
            .map(|_| {
                let message = Message::from_bytes("t", None, "");
                let enqueued_at = UNIX_EPOCH;
                Arc::new(Delivery {
                    seq: 1,
                    message,
                    enqueued_at,
                    attempt: 1,
                    redriven: 0,
                    floor: None,
                })
            })
            .collect();
        let wire = Wire::default();
        let answers = answers.iter().map(|(answer, returned)| match *answer {
            "ack" => Answer::Confirmed {
                outcome: Outcome::Acked,
                returned: returned
                    .map(|at| messages.get(at).map_or_else(MessageId::fresh, |m| m.message.id)),
            },
            "missing" => Answer::Missing,
            _ => Answer::Unsent,
        });
        let call = Call::new(&wire, &settings.names, Ordering::Strict.per_key(), &messages);
        let judged = call.run(Judged { settings: &settings, answers: answers.collect() });
        let told =
            judged.now_or_never().expect("waits for nobody").into_iter().map(
                |outcome| match outcome {
                    Outcome::Acked => "acked".to_owned(),
                    Outcome::Rejected(failure)
                    | Outcome::Unreachable(failure)
                    | Outcome::Unknown(failure) => failure.class.to_owned(),
                },
            );
        told.collect()
    }

    #[test]
    fn a_return_belongs_to_the_message_it_names_whoever_brought_it() {
        let outcomes = judged(&[("ack", Some(2)), ("ack", None), ("ack", None)]);
        assert_eq!(outcomes, ["acked", "acked", "unroutable"]);
    }

    #[test]
    fn an_acknowledgement_is_doubtful_while_a_return_is_out_of_step() {
        let outcomes = judged(&[("ack", Some(2)), ("ack", None), ("missing", None)]);
        assert_eq!(outcomes, ["connection", "connection", "unroutable"]);
        let outcomes = judged(&[("ack", Some(99)), ("ack", None)]);
        assert_eq!(outcomes, ["connection", "connection"], "a return of something never sent");
    }

    #[test]
    fn what_is_missing_says_nothing_of_the_others() {
        let outcomes = judged(&[("ack", None), ("missing", None), ("unsent", None)]);
        assert_eq!(outcomes, ["acked", "timeout", "connection"]);
    }
}
