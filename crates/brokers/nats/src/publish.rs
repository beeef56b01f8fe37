//! Publishing.

use std::{sync::Arc, time::Duration};

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
use posthaste_wire::{Call, Connection, Link, Outgoing, Part, PerKey, Sender};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    Config,
    answers::{Answer, Expected},
    config::Settings,
    connect::Session,
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
        if let Some(path) = &config.credentials_file {
            std::fs::metadata(path).map_err(|error| {
                let path = path.display().to_string();
                Invalid::new("credentials_file", &path, &error.to_string())
            })?;
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
        let check = |delivery: &Delivery, outgoing: &Outgoing<'_>| {
            self.headers(delivery, outgoing, bytes_max)
        };
        let per_key = PerKey::SameDestination;
        Call::checked(&self.settings.wire, &headers::NAMES, per_key, messages, check)
            .run(Attempt { broker: self, session, until })
            .await
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

/// One call of `publish`.
struct Attempt<'a> {
    broker: &'a NatsBroker,
    /// Where messages go, or why none can. A session that was lost or got stuck is given up here.
    session: Result<Link<Session>, Trouble>,
    until: Instant,
}

impl Sender<HeaderMap> for Attempt<'_> {
    type Answer = Option<Outcome>;

    async fn send(&mut self, part: &mut [&mut Part<'_, HeaderMap>]) -> Vec<Option<Outcome>> {
        let session = match &self.session {
            Ok(session) => session,
            Err(trouble) => return vec![Some(outcome(trouble)); part.len()],
        };
        let now = together(session, part).await;
        let expected = session.answers.expect(now.len());
        let outcomes = vec![None; part.len()];
        let mut round =
            Round { session, until: self.until, outcomes, is_over: false, is_stale: false };
        let sent = round.hand_over(part, now, &expected).await;
        round.answers(part, &sent, expected).await;
        let Round { outcomes, is_over, is_stale, .. } = round;
        if is_over {
            self.broker.replace(session).await;
            self.session = Err(Trouble::LostBefore);
        } else if is_stale {
            // Others may be using it, so it is left open for them.
            self.broker.connection.discard(session);
        }
        outcomes
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

/// The places of messages that may go together now. The others of their keys have to wait for the
/// answers to these.
async fn together(session: &Session, part: &[&mut Part<'_, HeaderMap>]) -> Vec<usize> {
    let mut lanes: HashMap<&str, Lane> = HashMap::with_capacity(part.len());
    let mut now = Vec::with_capacity(part.len());
    for (index, message) in part.iter().enumerate() {
        let Some(key) = message.delivery.message.key.as_deref() else {
            now.push(index);
            continue;
        };
        let outgoing = &message.outgoing;
        let bytes = weight(outgoing);
        match lanes.get_mut(key) {
            None => {
                lanes.insert(key, Lane { bytes, pace: None, is_closed: false });
                now.push(index);
            }
            Some(lane) if !lane.is_closed => {
                let pace = match lane.pace {
                    Some(pace) => pace,
                    None => session.pace(&outgoing.destination).await,
                };
                lane.pace = Some(pace);
                lane.is_closed = match pace {
                    Pace::OneByOne => true,
                    Pace::Together { bytes_max } => bytes.max(lane.bytes) > bytes_max,
                };
                if !lane.is_closed {
                    now.push(index);
                }
            }
            Some(_) => {}
        }
    }
    now
}

/// Messages on their way together.
struct Round<'a> {
    session: &'a Session,
    until: Instant,
    outcomes: Vec<Option<Outcome>>,
    /// The session is lost or stuck.
    is_over: bool,
    /// The session remembers what may have changed by the next call.
    is_stale: bool,
}

impl Round<'_> {
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
        self.outcomes[index] = Some(outcome);
    }

    /// Gives messages to the driver, in order, and returns those that it took: all before the first
    /// that it did not take. Those behind that one are left for the next round.
    async fn hand_over(
        &mut self,
        part: &mut [&mut Part<'_, HeaderMap>],
        now: Vec<usize>,
        expected: &Expected<'_>,
    ) -> Vec<usize> {
        let mut taken = Vec::with_capacity(now.len());
        let mut subject = Subject::from_static("");
        for index in now {
            if self.session.is_down() {
                self.fail(index, &Trouble::LostBefore);
                break;
            }
            let headers = std::mem::take(&mut part[index].prepared);
            let outgoing = &part[index].outgoing;
            if *subject != *outgoing.destination {
                subject = Subject::from(outgoing.destination.as_ref());
            }
            let (reply, body) = (expected.subject(taken.len()), outgoing.body.clone());
            let client = &self.session.client;
            let sent = client.publish_with_reply_and_headers(subject.clone(), reply, headers, body);
            let trouble = match timeout_at(self.until, sent).await {
                Ok(Ok(())) => {
                    taken.push(index);
                    continue;
                }
                Ok(Err(error)) => not_taken(error),
                Err(_) => Trouble::NotTaken,
            };
            self.fail(index, &trouble);
            break;
        }
        taken
    }

    /// Waits for answers, until there are no more to expect.
    async fn answers(
        &mut self,
        part: &[&mut Part<'_, HeaderMap>],
        sent: &[usize],
        expected: Expected<'_>,
    ) {
        let session = self.session;
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
            let destination = &part[index].outgoing.destination;
            match answer {
                Some(Answer::Stored) => self.outcomes[index] = Some(Outcome::Acked),
                Some(Answer::Nobody) => {
                    let trouble = self.nobody(destination).await;
                    self.fail(index, &trouble);
                }
                Some(Answer::Refused(error)) => self.fail(index, &Trouble::Answer(error)),
                Some(Answer::Denied) => self.fail(index, &Trouble::Denied(destination.to_string())),
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
