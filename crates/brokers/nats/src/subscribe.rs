//! Subscribing: one pull consumer on each stream that holds a wanted subject.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use async_nats::{
    Subject,
    jetstream::{
        self,
        consumer::{AckPolicy, DeliverPolicy, FromConsumer, pull},
        stream::{Info, RetentionPolicy},
    },
};
use async_trait::async_trait;
use futures::{
    StreamExt, TryStreamExt,
    stream::{BoxStream, SelectAll},
};
use posthaste_core::{
    BrokerError, Incoming, Sharing, Start, Subscriber, Subscription, TopicPattern,
};
use tokio::time::timeout;

use crate::{Config, config::Settings, connect::Session, headers, outcome::Trouble, subject};

/// Time to connect and find the consumers.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to hand an acknowledgement to the network.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most unacknowledged messages of a consumer.
const UNACKNOWLEDGED_MAX: usize = 256;
/// The same where they must stay in order.
const ORDERED_MAX: i64 = 1;
/// Messages asked for at a time. Those that a subscriber has and does not live to see come again late,
/// after newer ones, so they are few.
const PREFETCH: usize = 64;
/// Unacknowledged messages come again after this. Giving them back at once, when a subscriber goes,
/// is no use: the server then takes the first for an answer to the pull request that is still there,
/// and puts it last.
const ACKNOWLEDGE_WAIT: Duration = Duration::from_secs(20);
/// A listener's consumer is gone this long after the listener.
const LISTENER_GONE_AFTER: Duration = Duration::from_secs(10);
/// Receipts remembered. What was not acknowledged for so long has come again under another.
const RECEIPTS_MAX: usize = 4 * UNACKNOWLEDGED_MAX;
const PULL_EXPIRES: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_secs(5);

type Messages = SelectAll<BoxStream<'static, Result<jetstream::Message, String>>>;

/// Receives from JetStream.
pub struct NatsSubscriber {
    settings: Settings,
    name: Option<String>,
    start: Start,
    sharing: Sharing,
    /// What is wanted, as subjects.
    patterns: Vec<TopicPattern>,
    live: Option<Live>,
    /// Where a listener goes on in each stream.
    positions: HashMap<String, u64>,
    receipts: BTreeMap<u64, Receipt>,
    next_receipt: u64,
}

struct Live {
    session: Session,
    messages: Messages,
}

/// The broker's handle of a message.
struct Receipt {
    reply: Subject,
    stream: String,
    sequence: u64,
}

/// Subscribes. A name becomes a durable consumer of that name on each stream, shared by all
/// subscribers of the name; no name, a consumer that goes when the subscriber does.
///
/// An ordered subscription's consumer has one unacknowledged message at a time: the next one of the
/// stream is given out, to whichever subscriber of the name, once that one is acknowledged. This is
/// the only thing that keeps a consumer's messages in order across subscribers and redeliveries, and it
/// costs a round trip for each message.
///
/// # Errors
/// When NATS cannot be used, or no stream stores what is wanted, or an ordered subscription's name is
/// a consumer's that gives out more, or a subscription without a name finds a work queue, where
/// acknowledging a message removes it.
pub async fn subscribe(
    config: &Config,
    subscription: &Subscription,
) -> Result<NatsSubscriber, BrokerError> {
    let settings = Settings::new(config).map_err(|invalid| error(invalid.to_string()))?;
    if let Some(name) = &subscription.name {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || ".*>/\\".contains(c);
        if name.is_empty() || name.contains(is_odd) {
            let rule = "must not be empty nor hold a space, `.`, `*`, `>`, `/` or `\\`";
            return Err(error(format!("a consumer's name on NATS {rule}: {name:?}")));
        }
    }
    let patterns =
        subscription.topics.iter().map(|topics| settings.wire.destination.pattern(topics));
    let patterns: Vec<_> = patterns.collect();
    let mut subscriber = NatsSubscriber {
        settings,
        name: subscription.name.clone(),
        start: subscription.start,
        sharing: subscription.sharing,
        patterns,
        live: None,
        positions: HashMap::new(),
        receipts: BTreeMap::new(),
        next_receipt: 1,
    };
    subscriber.dial().await?;
    Ok(subscriber)
}

fn error(message: impl Into<String>) -> BrokerError {
    BrokerError { message: message.into(), source: None }
}

fn lost() -> BrokerError {
    error("the connection to NATS was lost; it is made again when needed")
}

#[async_trait]
impl Subscriber for NatsSubscriber {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        loop {
            if self.live.is_none() {
                self.dial().await?;
            }
            let Some(live) = &mut self.live else { return Err(lost()) };
            let next = tokio::select! {
                biased;
                next = live.messages.next() => next,
                () = live.session.lost() => None,
            };
            let message = match next {
                Some(Ok(message)) => message,
                Some(Err(why)) => {
                    self.live = None;
                    return Err(error(format!("cannot receive from NATS: {why}")));
                }
                None => {
                    self.live = None;
                    return Err(lost());
                }
            };
            if let Some(incoming) = self.take(message).await? {
                return Ok(incoming);
            }
        }
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        let Some(found) = self.receipts.get(&receipt) else {
            return Err(error(format!("there is no unacknowledged message {receipt}")));
        };
        let Some(Live { session, .. }) = &self.live else { return Err(lost()) };
        let told = async {
            session.client.publish(found.reply.clone(), "+ACK".into()).await.is_ok()
                && session.client.flush().await.is_ok()
        };
        let told = tokio::select! {
            told = timeout(ACKNOWLEDGE_TIMEOUT, told) => told.unwrap_or(false),
            () = session.lost() => false,
        };
        if told {
            self.receipts.remove(&receipt);
            Ok(())
        } else {
            Err(lost())
        }
    }
}

impl NatsSubscriber {
    /// A message that is wanted, with a receipt. Others are acknowledged and forgotten.
    async fn take(&mut self, message: jetstream::Message) -> Result<Option<Incoming>, BrokerError> {
        let (Some(reply), Ok(info)) = (message.reply.clone(), message.info()) else {
            return Ok(None);
        };
        let (stream, sequence) = (info.stream.to_owned(), info.stream_sequence);
        let destination = message.subject.as_str();
        if !self.patterns.iter().any(|pattern| pattern.matches(destination)) {
            // If this gets lost it comes again.
            let _ = message.ack_with(jetstream::AckKind::Ack).await;
            self.passed(stream, sequence);
            return Ok(None);
        }
        let received = headers::received(
            destination,
            format!("{stream}/{sequence}"),
            message.headers.as_ref(),
            message.payload.clone(),
        );
        let (message, provenance) = self.settings.wire.decode(received, &headers::NAMES);
        let receipt = self.next_receipt;
        self.next_receipt += 1;
        self.passed(stream.clone(), sequence);
        let is_ordered = self.sharing == Sharing::Ordered;
        let consumer = self.name.as_deref().unwrap_or("listener");
        let lane = is_ordered.then(|| format!("{stream}/{consumer}").into());
        self.receipts.insert(receipt, Receipt { reply, stream, sequence });
        if self.receipts.len() > RECEIPTS_MAX {
            self.receipts.pop_first();
        }
        Ok(Some(Incoming { message, provenance, receipt, lane }))
    }

    fn passed(&mut self, stream: String, sequence: u64) {
        let next = self.positions.entry(stream).or_default();
        *next = (*next).max(sequence + 1);
    }

    async fn dial(&mut self) -> Result<(), BrokerError> {
        let dialled = timeout(DIAL_TIMEOUT, self.open()).await;
        self.live = Some(dialled.map_err(|_| Trouble::NotDialled)??);
        Ok(())
    }

    async fn open(&mut self) -> Result<Live, BrokerError> {
        let session = Session::dial(&self.settings, DIAL_TIMEOUT).await?;
        if self.name.is_none() {
            // What a listener has not acknowledged comes again under new receipts.
            for receipt in std::mem::take(&mut self.receipts).into_values() {
                let next = self.positions.entry(receipt.stream).or_default();
                *next = (*next).min(receipt.sequence);
            }
        }
        let mut messages = Messages::new();
        for (info, filters) in self.streams(&session).await? {
            messages.push(self.consumer(&session, &info, &filters).await?);
        }
        Ok(Live { session, messages })
    }

    /// The streams that hold what is wanted, each with the filters that concern it.
    async fn streams(
        &mut self,
        session: &Session,
    ) -> Result<Vec<(Info, Vec<String>)>, BrokerError> {
        let filters: Vec<String> = self.patterns.iter().map(subject::filter).collect();
        let is_open = |filter: &String| filter == ">" || filter.ends_with(".>");
        let mut found: Vec<Info> = Vec::new();
        if let Some(name) = &self.settings.stream {
            found.extend(session.stream(name).await?);
        } else if filters.iter().any(is_open) {
            let listed = session.context.streams().try_collect::<Vec<_>>().await;
            let listed = listed.map_err(|why| error(format!("cannot list the streams: {why}")))?;
            found.extend(listed);
        } else {
            for filter in &filters {
                let info = session.stream_of(filter).await?;
                let is_new = |info: &Info| found.iter().all(|i| i.config.name != info.config.name);
                found.extend(info.filter(is_new));
            }
        }
        let mut streams = Vec::new();
        for info in found {
            let holds = |filter: &&String| {
                info.config.subjects.iter().any(|subject| subject::overlap(subject, filter))
            };
            let own: Vec<String> = filters.iter().filter(holds).cloned().collect();
            if !own.is_empty() {
                streams.push((info, own));
            }
        }
        let is_taken = |(info, _): &&(Info, _)| info.config.retention == RetentionPolicy::WorkQueue;
        if let (None, Some((info, _))) = (&self.name, streams.iter().find(is_taken)) {
            let name = &info.config.name;
            return Err(error(format!(
                "stream {name} is a work queue: a passing listener would take its messages away \
                 from their consumer; subscribe with that consumer's name, or make a stream that \
                 mirrors it"
            )));
        }
        if streams.is_empty() {
            let wanted = filters.join(", ");
            return Err(error(format!("no stream stores {wanted}; make one: nats stream add")));
        }
        Ok(streams)
    }

    /// The messages of one stream.
    async fn consumer(
        &mut self,
        session: &Session,
        info: &Info,
        filters: &[String],
    ) -> Result<BoxStream<'static, Result<jetstream::Message, String>>, BrokerError> {
        let stream_name = info.config.name.clone();
        let failed = {
            let stream_name = stream_name.clone();
            move |why: String| error(format!("cannot consume from stream {stream_name}: {why}"))
        };
        let config = self.consumer_config(info, filters);
        let max_ack_pending = config.max_ack_pending;
        let context = session.context.clone();
        let opening = session.run(async move {
            let stream = context.get_stream_no_info(stream_name).await.map_err(text)?;
            let consumer = match config.durable_name.clone() {
                Some(name) => {
                    let wanted = config.filter_subject.clone();
                    let found = stream.get_or_create_consumer(&name, config).await.map_err(text)?;
                    let current = found.cached_info().config.clone();
                    let mut current =
                        pull::Config::try_from_consumer_config(current).map_err(text)?;
                    if max_ack_pending == ORDERED_MAX && current.max_ack_pending != ORDERED_MAX {
                        return Err(format!(
                            "consumer {name} is there and gives out up to {} messages at a time, so \
                             not in order; delete it, or give another name",
                            current.max_ack_pending
                        ));
                    }
                    if current.filter_subject == wanted {
                        found
                    } else {
                        current.filter_subject = wanted;
                        stream.create_consumer(current).await.map_err(text)?
                    }
                }
                None => stream.create_consumer(config).await.map_err(text)?,
            };
            let pulling = consumer.stream().max_messages_per_batch(PREFETCH);
            pulling.expires(PULL_EXPIRES).heartbeat(HEARTBEAT).messages().await.map_err(text)
        });
        let messages = opening.await?.map_err(failed)?;
        Ok(messages.map_err(text).boxed())
    }

    fn consumer_config(&mut self, info: &Info, filters: &[String]) -> pull::Config {
        let wanted = subject::union(filters);
        let is_legal =
            info.config.subjects.iter().any(|subject| subject::is_within(&wanted, subject));
        let common = pull::Config {
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACKNOWLEDGE_WAIT,
            max_ack_pending: match self.sharing {
                Sharing::Competing => i64::try_from(UNACKNOWLEDGED_MAX).unwrap_or(i64::MAX),
                Sharing::Ordered => ORDERED_MAX,
            },
            // A filter must not be wider than the stream; what is not wanted is left out here.
            filter_subject: if is_legal { wanted } else { String::new() },
            ..pull::Config::default()
        };
        if let Some(name) = &self.name {
            let deliver_policy = match self.start {
                Start::Beginning => DeliverPolicy::All,
                Start::New => DeliverPolicy::New,
            };
            return pull::Config { durable_name: Some(name.clone()), deliver_policy, ..common };
        }
        // By number, so that one that connects again goes on where it was.
        let first = match self.start {
            Start::Beginning => 1,
            Start::New => info.state.last_sequence + 1,
        };
        let next = *self.positions.entry(info.config.name.clone()).or_insert(first);
        // Beyond its end: it is another stream of the name.
        let next = if next > info.state.last_sequence + 1 { 1 } else { next };
        pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: next.max(1) },
            inactive_threshold: LISTENER_GONE_AFTER,
            ..common
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
