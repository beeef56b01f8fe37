//! Publishing: entries are added to streams, by one transaction for each stream.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Failure, Finding, Invalid,
    Outcome, TopicPattern,
};
use posthaste_wire::{Call, Connection, Link, Outgoing, Part, PerKey, Profile, Sender, unmapped};
use redis::{Cmd, Pipeline, Value};
use tokio::{
    task::yield_now,
    time::{Instant, timeout_at},
};

use crate::{
    CONTENT_TYPE, Config, DATA, KEY, NAMES,
    config::Target,
    connect::Session,
    examine::examine,
    outcome::{Fault, outcome},
};

/// Most messages of a call.
const CALL_MESSAGES_MAX: usize = 256;
/// About how much is sent before an answer is waited for: the server holds a transaction in memory.
const ROUND_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What an endless deadline is taken for.
const DEADLINE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// What is left for the answer of a server that waits for its replicas as long as it may.
const WAIT_MARGIN: Duration = Duration::from_millis(100);

/// Publishes to Redis Streams. Connects when there is something to publish, and again after a
/// connection failed.
pub struct RedisBroker {
    config: Config,
    target: Target,
    connection: Connection<Session>,
}

impl RedisBroker {
    /// Checks the configuration and nothing else: the server may be down.
    ///
    /// # Errors
    /// Names the field, its value without secrets, and what would be right.
    pub fn open(config: Config) -> Result<Self, Invalid> {
        let target = config.target()?;
        Ok(Self { config, target, connection: Connection::default() })
    }

    /// A connection that is not known to be closed.
    async fn link(&self, until: Instant) -> Result<Link<Session>, Fault> {
        let asked_at = Instant::now();
        let dial = async {
            let link = self.connection.get(Session::dial(&self.target)).await?;
            // Lets a connection that was closed meanwhile notice it.
            yield_now().await;
            if !link.is_spent() {
                return Ok(link);
            }
            self.connection.discard(&link);
            self.connection.get(Session::dial(&self.target)).await
        };
        let result = timeout_at(until, dial).await;
        result.unwrap_or_else(|_| Err(Fault::NoTime(asked_at.elapsed())))
    }

    /// Sends some messages at once and waits for the answers.
    async fn send_round(
        &self,
        link: &Link<Session>,
        messages: &[&mut Part<'_>],
        until: Instant,
    ) -> Vec<Outcome> {
        let asked_at = Instant::now();
        // Nothing of this round is handed to a connection that an earlier one broke.
        let unusable = if link.is_closed() {
            Some(Fault::Dial(io::Error::from(io::ErrorKind::NotConnected).into()))
        } else {
            (asked_at >= until).then_some(Fault::NoTime(Duration::ZERO))
        };
        if let Some(fault) = unusable {
            return vec![outcome(&fault); messages.len()];
        }
        let mut request = Request::new(messages, &self.config);
        if self.config.wait_replicas > 0 {
            let patience = (until - asked_at).saturating_sub(WAIT_MARGIN);
            request.wait(self.config.wait_replicas, patience);
        }
        let fault = match timeout_at(until, link.pipeline(&request.pipeline)).await {
            Ok(Ok(answers)) => return request.outcomes(answers),
            Ok(Err(error)) => Fault::Lost(error),
            Err(_) => Fault::Late(asked_at.elapsed()),
        };
        // What is still on its way must not land after it has been sent again elsewhere.
        link.close().await;
        vec![outcome(&fault); messages.len()]
    }
}

/// One call of `publish`.
struct Attempt<'a> {
    broker: &'a RedisBroker,
    until: Instant,
}

impl Sender for Attempt<'_> {
    type Answer = Option<Outcome>;

    async fn send(&mut self, part: &mut [&mut Part<'_>]) -> Vec<Option<Outcome>> {
        let link = match self.broker.link(self.until).await {
            Ok(link) => link,
            Err(fault) => return vec![Some(outcome(&fault)); part.len()],
        };
        let messages = &part[..round_length(part)];
        let outcomes = self.broker.send_round(&link, messages, self.until).await;
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unreachable(_))) {
            // A server that cannot be used now may not be the one to be used next.
            link.retire();
        }
        let mut answers: Vec<Option<Outcome>> = outcomes.into_iter().map(Some).collect();
        answers.resize(part.len(), None);
        answers
    }
}

#[async_trait]
impl Broker for RedisBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::PerKey, call_messages_max: CALL_MESSAGES_MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let now = Instant::now();
        let until = now.checked_add(deadline).unwrap_or(now + DEADLINE_MAX);
        let wire = &self.config.wire;
        Call::checked(wire, &NAMES, PerKey::SameDestination, messages, check)
            .run(Attempt { broker: self, until })
            .await
    }

    async fn examine(&self, topics: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        examine(&self.config, &self.target, topics).await
    }

    async fn close(&self) {
        if let Some(link) = self.connection.take() {
            link.close().await;
        }
    }
}

/// Redis takes any name; people and their tools do not.
fn check(_: &Delivery, outgoing: &Outgoing<'_>) -> Result<(), Failure> {
    let name = &outgoing.destination;
    if name.chars().any(char::is_control) {
        let detail = format!("stream name {name:?} has control characters");
        return Err(Failure::new("topic", detail));
    }
    Ok(())
}

fn key<'a>(message: &Part<'a>) -> Option<&'a str> {
    message.delivery.message.key.as_deref()
}

/// How many of the messages to send before waiting: at least one.
fn round_length(messages: &[&mut Part<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |message: &&&mut Part<'_>| {
        bytes += message.outgoing.body.len();
        bytes <= ROUND_BYTES_MAX
    };
    messages.iter().take_while(fits).count().max(1)
}

/// Commands for some messages, and how to read the answers.
struct Request {
    pipeline: Pipeline,
    /// The messages of each stream, by their place in the request.
    groups: Vec<Vec<usize>>,
    messages: usize,
    wait_replicas: Option<u32>,
}

impl Request {
    fn new(messages: &[&mut Part<'_>], config: &Config) -> Self {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut group_of: HashMap<&str, usize> = HashMap::new();
        for (place, message) in messages.iter().enumerate() {
            let group = *group_of.entry(&message.outgoing.destination).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(place);
        }
        let mut pipeline = Pipeline::with_capacity(messages.len() + 2 * groups.len() + 1);
        for group in &groups {
            let is_alone = group.len() == 1;
            if !is_alone {
                pipeline.cmd("MULTI");
            }
            for &place in group {
                pipeline.add_command(add(messages[place], config));
            }
            if !is_alone {
                pipeline.cmd("EXEC");
            }
        }
        Self { pipeline, groups, messages: messages.len(), wait_replicas: None }
    }

    /// Adds the wish that replicas confirm.
    fn wait(&mut self, replicas: u32, patience: Duration) {
        // Zero would be for ever.
        let milliseconds = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1);
        self.pipeline.cmd("WAIT").arg(replicas).arg(milliseconds);
        self.wait_replicas = Some(replicas);
    }

    /// One outcome for each message.
    fn outcomes(&self, answers: Vec<Value>) -> Vec<Outcome> {
        let mut answers = answers.into_iter();
        let mut outcomes = vec![None; self.messages];
        for group in &self.groups {
            let found = match group.len() {
                1 => answers.by_ref().take(1).map(added).collect(),
                count => transaction(answers.by_ref().take(count + 2).collect(), count),
            };
            for (&place, outcome) in group.iter().zip(found) {
                outcomes[place] = Some(outcome);
            }
        }
        let missing = || unmapped("redis", "fewer answers than messages");
        let mut outcomes: Vec<Outcome> =
            outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect();
        let unsure = self.wait_replicas.and_then(|wanted| not_confirmed(wanted, answers.next()));
        if let Some(unsure) = unsure {
            let acked = outcomes.iter_mut().filter(|outcome| **outcome == Outcome::Acked);
            acked.for_each(|acked| *acked = unsure.clone());
        }
        outcomes
    }
}

/// The command that adds a message to its stream.
fn add(message: &Part<'_>, config: &Config) -> Cmd {
    let outgoing = &message.outgoing;
    let headers: usize = outgoing.headers.iter().map(|(n, v)| n.len() + v.len()).sum();
    let bytes = outgoing.body.len() + headers + outgoing.destination.len() + 128;
    let mut command = Cmd::with_capacity(2 * outgoing.headers.len() + 12, bytes);
    command.arg("XADD").arg(&*outgoing.destination);
    if let Some(length) = config.max_length {
        command.arg("MAXLEN").arg("~").arg(length);
    }
    command.arg("*");
    for (name, value) in &outgoing.headers {
        command.arg(&**name).arg(&**value);
    }
    let has_no_attributes = matches!(config.wire.profile, Profile::Raw | Profile::Debezium);
    if let Some(key) = key(message).filter(|_| has_no_attributes) {
        command.arg(KEY).arg(key);
    }
    command.arg(CONTENT_TYPE).arg(outgoing.content_type).arg(DATA).arg(&outgoing.body[..]);
    command
}

/// The answer to `XADD`: the entry's id.
fn added(answer: Value) -> Outcome {
    match answer {
        Value::BulkString(_) => Outcome::Acked,
        Value::ServerError(error) => outcome(&Fault::Refused(error)),
        other => unmapped("redis", format!("XADD was answered with {}", kind_of(&other))),
    }
}

/// The answers to `MULTI`, so many `XADD`, and `EXEC`.
fn transaction(mut answers: Vec<Value>, count: usize) -> Vec<Outcome> {
    let last = answers.pop();
    if matches!(answers.first(), Some(Value::ServerError(_))) {
        // There was no transaction, so each stands alone, as it was answered.
        return answers.into_iter().skip(1).map(added).collect();
    }
    match last {
        Some(Value::Array(added_all)) => added_all.into_iter().map(added).collect(),
        Some(Value::ServerError(discarded)) => {
            // All of it, because of the first that could not be queued.
            let cause = answers.into_iter().find_map(|answer| match answer {
                Value::ServerError(error) => Some(error),
                _ => None,
            });
            vec![outcome(&Fault::Refused(cause.unwrap_or(discarded))); count]
        }
        other => {
            let other = other.as_ref().map_or("nothing", kind_of);
            vec![unmapped("redis", format!("EXEC was answered with {other}")); count]
        }
    }
}

/// What the answer to `WAIT` makes of an acknowledgement, if it is not good enough.
fn not_confirmed(wanted: u32, answer: Option<Value>) -> Option<Outcome> {
    let confirmed = match answer {
        Some(Value::Int(confirmed)) if confirmed >= i64::from(wanted) => return None,
        Some(Value::Int(confirmed)) => confirmed,
        Some(Value::ServerError(error)) => {
            let detail = format!("nobody knows about replicas: {error}");
            return Some(Outcome::Unknown(Failure::new("replication", detail)));
        }
        _ => 0,
    };
    Some(outcome(&Fault::Replicas { confirmed, wanted }))
}

/// What an answer is, without what is in it.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a text",
        Value::Array(_) => "an array",
        _ => "something else",
    }
}
