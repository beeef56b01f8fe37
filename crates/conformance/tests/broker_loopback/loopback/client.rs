//! The adapter.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Failure, Finding, MessageId,
    Outcome, TopicPattern,
};
use posthaste_wire::{Call, Connection, Link, Names, Outgoing, Part, PerKey, Sender, Wire};
use tokio::time::{Instant, timeout_at};

use super::{
    Flaw, Loopback, SIZE_MAX, names,
    server::{Epoch, Gone, Record, Server},
};

const CALL_MESSAGES_MAX: usize = 256;

pub(super) struct Client {
    server: Arc<Server>,
    wire: Wire,
    order: CallOrder,
    names: Names,
    flaw: Flaw,
    connection: Connection<Epoch>,
    sent: AtomicU64,
    buffer: Mutex<Vec<Record>>,
    queue: tokio::sync::Mutex<()>,
    is_closed: AtomicBool,
}

impl Client {
    pub(super) fn new(server: Arc<Server>, wire: Wire, like: Loopback) -> Self {
        let Loopback { order, style, flaw } = like;
        Self {
            server,
            wire,
            order,
            names: names(style),
            flaw,
            connection: Connection::default(),
            sent: AtomicU64::new(0),
            buffer: Mutex::default(),
            queue: tokio::sync::Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn check(&self, delivery: &Delivery, outgoing: &Outgoing<'_>) -> Result<(), Failure> {
        if self.has(Flaw::ChecksNothing) {
            return Ok(());
        }
        let topic = &*outgoing.destination;
        if topic.chars().any(|c| c.is_control() || c == ' ') || topic.len() > 200 {
            return Err(Failure::new("topic", format!("{topic:?} is no name here")));
        }
        // The flaw is about names as well, so these have to get through.
        let is_strict = !self.has(Flaw::LineBreakEndsAHeader);
        for (name, value) in &delivery.message.headers {
            let is_legal = !name.contains(':') && !value.contains('\0');
            if !is_legal || is_strict && name.chars().any(char::is_control) {
                return Err(Failure::new("header", format!("{name:?} is no header here")));
            }
        }
        let headers: usize = outgoing.headers.iter().map(|(n, v)| n.len() + v.len()).sum();
        let size = headers + outgoing.body.len() + topic.len();
        if size > SIZE_MAX {
            let mut detail = format!("{size} bytes, {SIZE_MAX} is the most");
            if self.has(Flaw::ShowsPayloads) {
                detail.push_str(&String::from_utf8_lossy(&delivery.message.payload[..100]));
            }
            return Err(Failure::new("too-large", detail));
        }
        Ok(())
    }

    /// What goes to the server, but for flaws that of `posthaste-wire`.
    fn record(&self, part: &Part<'_>) -> Record {
        let Part { delivery, outgoing, .. } = part;
        let message = &delivery.message;
        let text = |(name, value): &(_, _)| (String::clone(name), String::clone(value));
        let owned = outgoing.headers.iter().map(|(n, v)| (n.to_string(), v.to_string()));
        let mut record = Record {
            destination: outgoing.destination.to_string(),
            headers: owned.collect(),
            content_type: outgoing.content_type.to_owned(),
            body: outgoing.body.clone(),
        };
        let headers = &mut record.headers;
        let set = |headers: &mut Vec<(String, String)>, name: &str, value: String| {
            headers.retain(|(other, _)| other != name);
            headers.push((name.to_owned(), value));
        };
        match self.flaw {
            Flaw::DropsAHeader if !message.headers.is_empty() => drop(headers.pop()),
            Flaw::PayloadIsText => {
                record.body = String::from_utf8_lossy(&outgoing.body).into_owned().into();
            }
            Flaw::EmptyKeyForNone if message.key.is_none() => {
                set(headers, "ce_partitionkey", String::new());
            }
            Flaw::TimeToTheSecond => {
                let time = headers.iter().find(|(name, _)| name == "ce_time").map(text);
                let second = time.map(|(_, time)| format!("{}Z", &time[..19]));
                set(headers, "ce_time", second.unwrap_or_default());
            }
            Flaw::IgnoresTheTemplate => record.destination.clone_from(&message.topic),
            Flaw::LineBreakEndsAHeader => break_lines(headers),
            Flaw::TrimsHeaders => {
                for (_, value) in headers {
                    *value = value.trim().to_owned();
                }
            }
            Flaw::NewIdOnResend if delivery.attempt > 1 => {
                set(headers, "ce_id", MessageId::fresh().to_string());
            }
            _ => {}
        }
        record
    }

    /// Hands everything in, then waits for the answers.
    async fn send(&self, part: &[&mut Part<'_>], until: Instant) -> Vec<Outcome> {
        let link = match timeout_at(until, self.connection.get(self.server.dial())).await {
            Ok(Ok(link)) => link,
            Ok(Err(Gone)) => return vec![self.down(); part.len()],
            Err(_) => return vec![self.silent(false); part.len()],
        };
        let mut tickets = Vec::with_capacity(part.len());
        for message in part {
            // Other calls get in between, as they do on a real connection.
            if fastrand::u8(..4) == 0 {
                tokio::task::yield_now().await;
            }
            tickets.push(self.hand_in(&link, message));
        }
        let mut outcomes = Vec::with_capacity(part.len());
        for ticket in tickets {
            outcomes.push(self.outcome(&link, ticket, until).await);
        }
        let is_whole = outcomes.iter().all(|outcome| *outcome == Outcome::Acked);
        if !is_whole && !self.has(Flaw::NeverRedials) {
            self.connection.discard(&link);
        }
        outcomes
    }

    /// A ticket, or none where the answer is known already.
    fn hand_in(&self, link: &Link<Epoch>, message: &Part<'_>) -> Result<Option<u64>, Gone> {
        let record = self.record(message);
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        match self.flaw {
            Flaw::AcksUnstored if number % 100 == 99 => return Ok(None),
            Flaw::StoresTwice if number % 100 == 99 => {
                self.server.send(**link, record.clone())?;
            }
            Flaw::AcksWhatItBuffers => {
                let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
                buffer.push(record);
                if buffer.len() > 8 {
                    self.server.send(**link, buffer.remove(0))?;
                }
                return Ok(None);
            }
            _ => {}
        }
        self.server.send(**link, record).map(Some)
    }

    async fn outcome(
        &self,
        link: &Link<Epoch>,
        ticket: Result<Option<u64>, Gone>,
        until: Instant,
    ) -> Outcome {
        let Ok(ticket) = ticket else { return self.down() };
        let Some(ticket) = ticket else { return Outcome::Acked };
        let answer = self.server.answer(**link, ticket);
        let answered = match self.flaw {
            Flaw::IgnoresTheDeadline => Ok(answer.await),
            _ => timeout_at(until, answer).await,
        };
        match answered {
            Ok(Ok(())) => Outcome::Acked,
            Ok(Err(Gone)) => {
                Outcome::Unknown(Failure::new("connection", "it broke before the answer"))
            }
            Err(_) if self.has(Flaw::TimeoutIsSuccess) => Outcome::Acked,
            Err(_) => self.silent(true),
        }
    }

    fn down(&self) -> Outcome {
        let failure = Failure::new("connection", "nobody listens");
        match self.flaw {
            Flaw::StoppedIsRejected => Outcome::Rejected(failure),
            Flaw::StoppedIsUnknown => Outcome::Unknown(failure),
            _ => Outcome::Unreachable(failure),
        }
    }

    fn silent(&self, is_sent: bool) -> Outcome {
        let failure = Failure::new("timeout", "no answer before the deadline");
        if is_sent { Outcome::Unknown(failure) } else { Outcome::Unreachable(failure) }
    }

    async fn attempt(&self, messages: &[Arc<Delivery>], until: Instant) -> Vec<Outcome> {
        let per_key = match self.order {
            CallOrder::OnePerKey => PerKey::One,
            CallOrder::PerKey | CallOrder::Total => PerKey::SameDestination,
        };
        let check = |delivery: &Delivery, outgoing: &Outgoing<'_>| self.check(delivery, outgoing);
        Call::checked(&self.wire, &self.names, per_key, messages, check)
            .run(Attempt { client: self, until })
            .await
    }
}

/// One call of `publish`.
struct Attempt<'a> {
    client: &'a Client,
    until: Instant,
}

impl Sender for Attempt<'_> {
    type Answer = Outcome;

    async fn send(&mut self, part: &mut [&mut Part<'_>]) -> Vec<Outcome> {
        if self.client.has(Flaw::AnyOrderInACall) {
            part.reverse();
        }
        self.client.send(part, self.until).await
    }
}

/// What becomes of a line break where headers are lines.
fn break_lines(headers: &mut Vec<(String, String)>) {
    for at in 0..headers.len() {
        let Some((kept, more)) = headers[at].1.split_once("\r\n") else { continue };
        let (kept, more) = (kept.to_owned(), more.to_owned());
        headers[at].1 = kept;
        if let Some((name, value)) = more.split_once(": ") {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
}

#[async_trait]
impl Broker for Client {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: self.order, call_messages_max: CALL_MESSAGES_MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let is_closed = self.is_closed.load(Ordering::Relaxed);
        assert!(!(is_closed && self.has(Flaw::PanicsAfterClose)), "used after it was closed");
        let _turn = match self.flaw {
            Flaw::CallsQueue => Some(self.queue.lock().await),
            _ => None,
        };
        let until = Instant::now() + deadline;
        let mut outcomes = if self.has(Flaw::GoesOnAfterAFailure) {
            let mut outcomes = Vec::new();
            for message in messages {
                outcomes.extend(self.attempt(std::slice::from_ref(message), until).await);
            }
            outcomes
        } else {
            self.attempt(messages, until).await
        };
        let rejected = outcomes.iter().find(|it| matches!(it, Outcome::Rejected(_))).cloned();
        match (self.flaw, rejected) {
            (Flaw::SwapsOutcomes, _) => outcomes.reverse(),
            (Flaw::ForgetsAnOutcome, _) if messages.len() == CALL_MESSAGES_MAX => {
                outcomes.pop();
            }
            (Flaw::FailsTogether, Some(rejected)) => outcomes.fill(rejected),
            (Flaw::NothingIsHopeless, _) => {
                for outcome in &mut outcomes {
                    if let Outcome::Rejected(failure) = outcome {
                        failure.is_hopeless = false;
                    }
                }
            }
            (Flaw::TooLargeIsUnknown, Some(Outcome::Rejected(failure)))
                if failure.class == "too-large" =>
            {
                outcomes.fill(Outcome::Unknown(failure));
            }
            _ => {}
        }
        outcomes
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        match self.server.dial().await {
            Err(Gone) if !self.has(Flaw::ExaminesNothing) => {
                let message = match self.flaw {
                    Flaw::ShowsThePassword => "nobody listens at loop://me:hunter2@here",
                    _ => "nobody listens at loop://me:***@here; start the server",
                };
                Err(BrokerError { message: message.to_owned(), source: None })
            }
            _ => Ok(vec![Finding::ok("reachable"), Finding::problem("in memory", "use a disk")]),
        }
    }

    async fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        if self.has(Flaw::CloseWaitsForTheServer) {
            let _ = self.server.dial().await;
        }
        drop(self.connection.take());
    }
}
