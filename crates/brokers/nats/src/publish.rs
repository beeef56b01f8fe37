//! Publishing.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_nats::{
    HeaderMap, Subject,
    client::{PublishError, PublishErrorKind},
    jetstream::context,
};
use async_trait::async_trait;
use foldhash::{HashMap, HashMapExt};
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Failure, Finding, Invalid,
    Outcome, TopicPattern,
};
use posthaste_wire::{Call, Connection, Link, Outgoing, Part, PerKey};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    Config,
    answers::{Answer, Expected},
    config::Settings,
    connect::{self, Session},
    headers,
    outcome::{Trouble, outcome},
    streams::Pace,
    subject,
};

/// Most messages worth giving in one call.
const CALL_MESSAGES_MAX: usize = 512;

/// Publishes to JetStream.
pub struct NatsBroker {
    settings: Settings,
    connection: Connection<Session>,
}

impl NatsBroker {
    /// Checks the configuration. Connects when there is something to publish.
    ///
    /// # Errors
    /// When the configuration cannot be right: names the field and the rule.
    pub fn open(config: Config) -> Result<Self, Invalid> {
        let settings = Settings::new(&config)?;
        let readable = |field, path: &std::path::Path, found: Result<(), String>| {
            found.map_err(|why| Invalid::new(field, &path.display().to_string(), &why))
        };
        if let Some(path) = &config.ca_file {
            readable("ca_file", path, connect::certificates(path).map(|_| ()))?;
        }
        if let Some(path) = &config.credentials_file {
            let found = std::fs::metadata(path).map(|_| ()).map_err(|error| error.to_string());
            readable("credentials_file", path, found)?;
        }
        Ok(Self { settings, connection: Connection::default() })
    }

    async fn session(&self, until: Instant) -> Result<Link<Session>, Trouble> {
        let dial = || Session::dial(&self.settings, until.duration_since(Instant::now()));
        let session = match timeout_at(until, self.connection.get(dial())).await {
            Ok(session) => session?,
            Err(_) => return Err(Trouble::NotDialled),
        };
        if !session.is_down() {
            return Ok(session);
        }
        self.replace(&session).await;
        match timeout_at(until, self.connection.get(dial())).await {
            Ok(session) => session,
            Err(_) => Err(Trouble::NotDialled),
        }
    }

    /// Closes a session, so that what it holds cannot arrive after what its successor sends.
    async fn replace(&self, session: &Link<Session>) {
        session.close().await;
        self.connection.discard(session);
    }

    /// The headers of a message; refuses what NATS would not take, or not carry unchanged.
    fn headers(
        &self,
        delivery: &Delivery,
        outgoing: &Outgoing<'_>,
        bytes_max: usize,
    ) -> Result<HeaderMap, Failure> {
        subject::check(&outgoing.destination)?;
        let Settings { wire, stream, .. } = &self.settings;
        let (headers, bytes) = headers::map(delivery, outgoing, wire.profile, stream.as_deref())?;
        let bytes = bytes + outgoing.body.len();
        if bytes > bytes_max {
            let detail = format!(
                "{bytes} bytes with headers are more than the {bytes_max} that the server takes \
                 (max_payload)"
            );
            return Err(Failure::new("too-large", detail));
        }
        Ok(headers)
    }
}

#[async_trait]
impl Broker for NatsBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::PerKey, call_messages_max: CALL_MESSAGES_MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let until = Instant::now() + deadline;
        let session = self.session(until).await;
        let bytes_max = session.as_ref().map_or(usize::MAX, |session| session.bytes_max);
        let mut call = Call::checked(
            &self.settings.wire,
            &headers::NAMES,
            PerKey::SameDestination,
            messages,
            |delivery, outgoing| self.headers(delivery, outgoing, bytes_max),
        );
        loop {
            let mut part = call.next_part();
            if part.is_empty() {
                return call.finish();
            }
            let outcomes = match &session {
                Ok(session) => self.send(session, &mut part, until).await,
                Err(trouble) => vec![outcome(trouble); part.len()],
            };
            call.report(part, outcomes);
        }
    }

    async fn examine(&self, topics: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        crate::examine::examine(&self.settings, topics).await
    }

    async fn close(&self) {
        // Nothing is on its way: every publish has its answer.
        if let Some(session) = self.connection.take() {
            session.close().await;
        }
    }
}

/// A part of a call on its way.
struct Sending<'a, 'b> {
    session: &'a Session,
    part: &'a [Part<'b, HeaderMap>],
    /// Of each message of the part, until it is handed over.
    headers: Vec<HeaderMap>,
    until: Instant,
    outcomes: Vec<Option<Outcome>>,
    /// Keys that a message failed of.
    failed: HashSet<&'a str>,
    /// The session is lost or stuck.
    is_over: bool,
    /// The session remembers what may have changed by the next call.
    is_stale: bool,
}

impl NatsBroker {
    /// Sends a part and waits for the answers.
    async fn send(
        &self,
        session: &Link<Session>,
        part: &mut [Part<'_, HeaderMap>],
        until: Instant,
    ) -> Vec<Outcome> {
        let headers = part.iter_mut().map(|part| std::mem::take(&mut part.prepared)).collect();
        let outcomes = vec![None; part.len()];
        let failed = HashSet::new();
        let (is_over, is_stale) = (false, false);
        let mut sending =
            Sending { session, part, headers, until, outcomes, failed, is_over, is_stale };
        let mut waiting: Vec<usize> = (0..part.len()).collect();
        while !waiting.is_empty() {
            let (now, later) = sending.round(waiting).await;
            let expected = session.answers.expect(now.len());
            let sent = sending.hand_over(now, &expected).await;
            sending.answers(&sent, expected).await;
            waiting = later;
        }
        if sending.is_over {
            self.replace(session).await;
        } else if sending.is_stale {
            // Others may be using it, so it is left open for them.
            self.connection.discard(session);
        }
        let held =
            || Outcome::Unreachable(Failure::new("held", "an earlier message of the key failed"));
        sending.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(held)).collect()
    }
}

/// Why the driver did not take a message.
fn not_taken(error: PublishError) -> Trouble {
    let kind = match error.kind() {
        // The task that it would go to has ended.
        PublishErrorKind::Send => return Trouble::LostBefore,
        PublishErrorKind::MaxPayloadExceeded => context::PublishErrorKind::MaxPayloadExceeded,
        PublishErrorKind::InvalidSubject => context::PublishErrorKind::Other,
    };
    Trouble::Answer(context::PublishError::with_source(kind, error))
}

/// What is on its way of a key in a round.
struct Lane {
    /// Bytes of the first.
    bytes: usize,
    /// Whether more may follow, once it is known.
    pace: Option<Pace>,
    is_closed: bool,
}

impl<'a> Sending<'a, '_> {
    fn key(&self, index: usize) -> Option<&'a str> {
        self.part[index].delivery.message.key.as_deref()
    }

    fn has_failed(&self, index: usize) -> bool {
        self.key(index).is_some_and(|key| self.failed.contains(key))
    }

    fn settle(&mut self, index: usize, outcome: Outcome) {
        if outcome != Outcome::Acked
            && let Some(key) = self.key(index)
        {
            self.failed.insert(key);
        }
        self.outcomes[index] = Some(outcome);
    }

    fn fail(&mut self, index: usize, trouble: &Trouble) {
        self.is_over |= matches!(
            trouble,
            Trouble::Lost | Trouble::LostBefore | Trouble::Silence | Trouble::NotTaken
        );
        self.is_stale |= matches!(trouble, Trouble::Denied(_));
        let outcome = outcome(trouble);
        if matches!(&outcome, Outcome::Unreachable(failure) if failure.class == "full") {
            self.session.streams.be_careful();
        }
        self.settle(index, outcome);
    }

    /// Gives messages to the driver, in order, and returns those that it took.
    async fn hand_over(&mut self, now: Vec<usize>, expected: &Expected<'_>) -> Vec<usize> {
        let mut taken = Vec::with_capacity(now.len());
        let mut subject = Subject::from_static("");
        for index in now {
            if self.has_failed(index) {
                continue;
            }
            if self.session.is_down() {
                self.fail(index, &Trouble::LostBefore);
                continue;
            }
            let outgoing = &self.part[index].outgoing;
            let headers = std::mem::take(&mut self.headers[index]);
            if *subject != *outgoing.destination {
                subject = Subject::from(outgoing.destination.as_ref());
            }
            let (reply, body) = (expected.subject(taken.len()), outgoing.body.clone());
            let client = &self.session.client;
            let sent = client.publish_with_reply_and_headers(subject.clone(), reply, headers, body);
            match timeout_at(self.until, sent).await {
                Ok(Ok(())) => taken.push(index),
                Ok(Err(error)) => self.fail(index, &not_taken(error)),
                Err(_) => self.fail(index, &Trouble::NotTaken),
            }
        }
        taken
    }

    /// Splits what waits into what may go together now and what has to wait for its answers.
    async fn round(&self, waiting: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
        let mut lanes: HashMap<&str, Lane> = HashMap::with_capacity(waiting.len());
        let (mut now, mut later) = (Vec::with_capacity(waiting.len()), Vec::new());
        for index in waiting {
            if self.has_failed(index) {
                continue;
            }
            let Some(key) = self.key(index) else {
                now.push(index);
                continue;
            };
            let outgoing = &self.part[index].outgoing;
            let bytes = weight(outgoing);
            match lanes.get_mut(key) {
                None => {
                    lanes.insert(key, Lane { bytes, pace: None, is_closed: false });
                    now.push(index);
                }
                Some(lane) => {
                    if !lane.is_closed {
                        let pace = match lane.pace {
                            Some(pace) => pace,
                            None => self.session.pace(&outgoing.destination).await,
                        };
                        lane.pace = Some(pace);
                        lane.is_closed = match pace {
                            Pace::OneByOne => true,
                            Pace::Together { bytes_max } => bytes.max(lane.bytes) > bytes_max,
                        };
                    }
                    if lane.is_closed { later.push(index) } else { now.push(index) }
                }
            }
        }
        (now, later)
    }

    /// Waits for answers, until there are no more to expect.
    async fn answers(&mut self, sent: &[usize], expected: Expected<'_>) {
        let (session, part) = (self.session, self.part);
        let subject = |place: usize| part[sent[place]].outgoing.destination.as_ref();
        let none = tokio::select! {
            biased;
            () = expected.all(sent.len()) => Trouble::Silence,
            () = session.no_answers(|denied| {
                expected.deny(|place| place < sent.len() && denied(subject(place)));
            }) => Trouble::Lost,
            () = sleep_until(self.until) => Trouble::Silence,
        };
        for (answer, &index) in expected.take().into_iter().zip(sent) {
            match answer {
                Some(Answer::Stored) => self.settle(index, Outcome::Acked),
                Some(Answer::Nobody) => {
                    let trouble = self.nobody(&part[index].outgoing.destination).await;
                    self.fail(index, &trouble);
                }
                Some(Answer::Refused(error)) => self.fail(index, &Trouble::Answer(error)),
                Some(Answer::Denied) => {
                    let subject = part[index].outgoing.destination.to_string();
                    self.fail(index, &Trouble::Denied(subject));
                }
                None => self.fail(index, &none),
            }
        }
    }

    async fn nobody(&self, subject: &str) -> Trouble {
        let asked = timeout_at(self.until, self.session.no_responders(subject)).await;
        asked.unwrap_or_else(|_| Trouble::NotLooked(subject.to_owned()))
    }
}

/// Bytes of a message in a stream, at most: percent-encoding makes three of one.
fn weight(outgoing: &Outgoing<'_>) -> usize {
    let headers: usize =
        outgoing.headers.iter().map(|(name, value)| name.len() + 3 * value.len() + 4).sum();
    outgoing.body.len() + headers + 3 * outgoing.content_type.len() + 512
}
