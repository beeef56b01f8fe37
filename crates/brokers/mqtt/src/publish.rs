//! Publishing: a call is written as fast as the server allows, then its answers are awaited.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, Delivery, Finding, Invalid, Outcome, TopicPattern,
};
use posthaste_wire::{Call, Connection, Link, Names, Outgoing, Part, Sender, Style};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};

use crate::{
    Config,
    config::Target,
    connect::{Introduction, dial},
    examine::examine,
    outcome::{Trouble, acknowledged},
    packet::Publication,
    session::{Answer, Session},
};

/// Most messages of a call.
const CALL_MESSAGES_MAX: usize = 1024;

/// The names of headers: those of CloudEvents as they are, and no others of the server's own.
pub(crate) const NAMES: Names =
    Names { style: Style::Plain, reserved: &[], reserved_prefixes: &[] };

/// Publishes to an MQTT 5 server.
pub struct MqttBroker {
    config: Config,
    target: Target,
    connection: Connection<Session>,
}

impl MqttBroker {
    /// Checks the configuration. Connects when the first message comes, so a server that is down
    /// keeps nobody from starting.
    ///
    /// # Errors
    /// When a field of the configuration is wrong.
    pub fn open(config: Config) -> Result<Self, Invalid> {
        let target = config.target()?;
        Ok(Self { config, target, connection: Connection::default() })
    }

    async fn session(&self) -> Result<Link<Session>, Trouble> {
        let connect = || async {
            // Nobody subscribes here: the other end is closed at once.
            let (incoming, _) = mpsc::channel(1);
            let introduction = Introduction::of_publisher(self.target.client_id.clone());
            dial(&self.target, &introduction, incoming).await
        };
        let session = self.connection.get(connect()).await?;
        // One that failed meanwhile has closed itself; here it is replaced.
        if !session.has_ended() {
            return Ok(session);
        }
        self.connection.discard(&session);
        self.connection.get(connect()).await
    }

    /// What is unanswered at the deadline may have arrived; then the connection is given up. The last
    /// answer is awaited first: they come in the order of the messages as a rule, so the others are there
    /// by then, and wake nobody.
    async fn await_answers(
        &self,
        session: &Session,
        mut answers: Vec<oneshot::Receiver<Answer>>,
        deadline: Instant,
    ) -> Vec<Outcome> {
        let mut found: Vec<Option<Answer>> = answers.iter().map(|_| None).collect();
        let all = async {
            let mut waiting = answers.iter_mut().zip(&mut found);
            let last = waiting.next_back();
            for (answer, found) in last.into_iter().chain(waiting) {
                *found = answer.await.ok();
            }
        };
        if timeout_at(deadline, all).await.is_err() {
            for (answer, found) in answers.iter_mut().zip(&mut found) {
                *found = found.take().or_else(|| answer.try_recv().ok());
            }
            session.end(Trouble::Timeout("acknowledgement"));
        }
        found.into_iter().map(|answer| self.outcome(session, answer)).collect()
    }

    fn outcome(&self, session: &Session, answer: Option<Answer>) -> Outcome {
        let Some(Answer::Puback(reason)) = answer else { return session.trouble().unanswered() };
        if reason.code == 0x91 {
            session.end(Trouble::Malformed("it counts packets otherwise than we do".to_owned()));
        }
        acknowledged(&reason, self.config.unmatched)
    }
}

/// One call of `publish`. Messages that the server was not given are surely not there.
struct Attempt<'a> {
    broker: &'a MqttBroker,
    session: &'a Session,
    deadline: Instant,
}

impl Sender for Attempt<'_> {
    type Answer = Outcome;

    async fn send(&mut self, parts: &mut [&mut Part<'_>]) -> Vec<Outcome> {
        let Self { broker, session, deadline } = *self;
        let publications: Vec<_> = parts
            .iter()
            .map(|part| Publication::new(&part.outgoing, part.delivery.message.id))
            .collect();
        let mut answers = Vec::with_capacity(parts.len());
        let unsent = match timeout_at(deadline, session.publish(&publications, &mut answers)).await
        {
            Ok(Ok(())) => None,
            Ok(Err(trouble)) => Some(trouble),
            Err(_) if session.has_ended() => Some(session.trouble()),
            Err(_) => Some(Trouble::Full),
        };
        let mut outcomes = broker.await_answers(session, answers, deadline).await;
        if let Some(trouble) = unsent {
            outcomes.resize(parts.len(), trouble.unsent());
        }
        outcomes
    }
}

#[async_trait]
impl Broker for MqttBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        let call_order = self.config.ordering.call_order();
        BrokerCapabilities { call_order, call_messages_max: CALL_MESSAGES_MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let deadline = Instant::now() + deadline;
        let dialled = timeout_at(deadline, self.session()).await;
        let session = match dialled.unwrap_or(Err(Trouble::Timeout("connection"))) {
            Ok(session) => session,
            Err(trouble) => return vec![trouble.unsent(); messages.len()],
        };
        let per_key = self.config.ordering.per_key();
        let bytes_max = session.terms.packet_bytes_max;
        let check = |delivery: &Delivery, outgoing: &Outgoing<'_>| {
            Publication::new(outgoing, delivery.message.id).check(bytes_max)
        };
        Call::checked(&self.config.wire, &NAMES, per_key, messages, check)
            .run(Attempt { broker: self, session: &session, deadline })
            .await
    }

    async fn examine(&self, topics: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        examine(&self.config, &self.target, topics).await
    }

    async fn close(&self) {
        if let Some(session) = self.connection.take() {
            session.close().await;
        }
    }
}
