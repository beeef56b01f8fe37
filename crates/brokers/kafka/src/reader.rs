//! The thread that reads for a subscriber. The client library's consumer calls back and blocks: here it
//! may.

use std::{
    collections::HashSet,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use posthaste_core::{BrokerError, Sharing, Start, TopicPattern};
use posthaste_wire::Received;
use rdkafka::{
    ClientContext, Message as _, Offset, TopicPartitionList,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext},
    error::KafkaError,
    message::{BorrowedMessage, Headers as _},
    types::{RDKafkaErrorCode as Code, RDKafkaRespErr},
};
use tokio::sync::oneshot;

use crate::{
    config::Settings,
    connect::{Health, asking, log},
    ledger::{Ledger, Place},
    queue::Queue,
    record::{CONTENT_TYPE, is_topic},
    round::PATIENCE,
};

/// Messages read ahead of the subscriber.
const PREFETCH: usize = 256;
/// How long one look for messages takes, and so how soon the end is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// How long the client is listened to for what it has to say.
const EVENTS: Duration = Duration::from_millis(10);
/// How long one question to the servers takes at most.
const QUESTION: Duration = Duration::from_millis(500);
/// How long a first connection and assignment may take.
const START: Duration = Duration::from_secs(30);
/// How long the servers may take to say where a partition stands.
const POSITIONS: Duration = Duration::from_secs(15);
/// How long a subscriber may leave the queue full before reading is paused.
const FULL: Duration = Duration::from_secs(2);

/// What a subscriber wants.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) name: Option<String>,
    /// Destinations.
    pub(crate) patterns: Vec<TopicPattern>,
    pub(crate) start: Start,
    pub(crate) sharing: Sharing,
}

/// A message as it was read.
pub(crate) struct Arrived {
    pub(crate) place: Place,
    pub(crate) assignment: u64,
    pub(crate) offset: i64,
    pub(crate) received: Received,
}

type Items = Queue<Result<Arrived, BrokerError>>;

/// A reading thread. It ends soon after this is dropped.
pub(crate) struct Reader {
    items: Arc<Items>,
    shared: Arc<Shared>,
}

/// What the thread and its subscriber both use.
pub(crate) struct Shared {
    pub(crate) ledger: Mutex<Ledger>,
    consumer: Mutex<Option<Arc<BaseConsumer<Context>>>>,
    is_stopped: AtomicBool,
}

impl Shared {
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn consumer(&self) -> MutexGuard<'_, Option<Arc<BaseConsumer<Context>>>> {
        self.consumer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// Starts a thread that connects and reads. `ready` is told when it has its partitions.
    pub(crate) fn start(
        plan: Plan,
        ledger: Ledger,
        ready: oneshot::Sender<()>,
    ) -> Result<Self, BrokerError> {
        let items = Arc::new(Queue::new(PREFETCH));
        let shared = Arc::new(Shared {
            ledger: Mutex::new(ledger),
            consumer: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        });
        let reading = Reading { plan, items: Arc::clone(&items), shared: Arc::clone(&shared) };
        let thread = thread::Builder::new().name("posthaste-kafka-reader".to_owned());
        thread.spawn(move || reading.run(ready)).map_err(|error: io::Error| BrokerError {
            message: format!("Kafka: no thread to read with: {error}"),
            source: Some(error.into()),
        })?;
        Ok(Self { items, shared })
    }

    /// The next message, or why there are no more. Cancel-safe.
    pub(crate) async fn next(&self) -> Result<Arrived, BrokerError> {
        self.items.pop().await
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.shared.ledger()
    }

    /// Has the position told to the servers soon.
    pub(crate) fn store(
        &self,
        (topic, partition): &Place,
        position: i64,
    ) -> Result<(), KafkaError> {
        // Held, so that the thread stays the last owner.
        let consumer = self.shared.consumer();
        let consumer = consumer.as_ref().ok_or(KafkaError::Canceled)?;
        let mut positions = TopicPartitionList::new();
        positions.add_partition_offset(topic, *partition, Offset::Offset(position))?;
        consumer.store_offsets(&positions)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
    }
}

struct Reading {
    plan: Plan,
    items: Arc<Items>,
    shared: Arc<Shared>,
}

impl Reading {
    fn run(&self, ready: oneshot::Sender<()>) {
        let ended = self.consumer().and_then(|consumer| {
            let result = self.read(&consumer, ready);
            // Taken out first: the last owner, which is this thread, waits for it to close.
            *self.shared.consumer() = None;
            self.shared.ledger().revoke_all();
            result
        });
        if let Err(error) = ended {
            self.items.push(Err(error));
        }
    }

    fn consumer(&self) -> Result<Arc<BaseConsumer<Context>>, BrokerError> {
        let Plan { settings, name, .. } = &self.plan;
        let mut config = asking(settings);
        let passing = || format!("posthaste-listener-{}", uuid::Uuid::new_v4());
        config.set("group.id", name.clone().unwrap_or_else(passing));
        config.set("enable.auto.offset.store", "false");
        config.set("enable.auto.commit", if name.is_some() { "true" } else { "false" });
        config.set("auto.commit.interval.ms", "100");
        // What "new" is, is decided once, when the subscription begins: a topic that comes into being
        // later is new as a whole.
        config.set("auto.offset.reset", "earliest");
        config.set("partition.assignment.strategy", "cooperative-sticky");
        config.set("session.timeout.ms", "10000");
        config.set("topic.metadata.refresh.interval.ms", "5000");
        config.set("queued.min.messages", PREFETCH.to_string());
        config.set("queued.max.messages.kbytes", "16384");
        let context = Context {
            health: Health::default(),
            shared: Arc::clone(&self.shared),
            is_passing: name.is_none(),
            start: self.plan.start,
            is_assigned: AtomicBool::new(false),
            failed: Mutex::default(),
        };
        let consumer = BaseConsumer::from_config_and_context(&config, context);
        let consumer = Arc::new(consumer.map_err(|error| failed(&error.to_string(), error))?);
        *self.shared.consumer() = Some(Arc::clone(&consumer));
        Ok(consumer)
    }

    fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Ordering::Acquire)
    }

    fn read(
        &self,
        consumer: &BaseConsumer<Context>,
        ready: oneshot::Sender<()>,
    ) -> Result<(), BrokerError> {
        let places = self.places(consumer)?;
        let has_places = !places.is_empty();
        self.shared.ledger().begin(places);
        let wanted = subscription(&self.plan.patterns);
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        consumer.subscribe(&wanted).map_err(|error| failed("cannot subscribe", error))?;
        let mut ready = Some(ready);
        let deadline = Instant::now() + START;
        while !self.is_stopped() {
            let is_assigned = consumer.context().is_assigned.load(Ordering::Acquire);
            if let Some(error) = consumer.context().failed().take() {
                return Err(error);
            }
            if (is_assigned || !has_places)
                && let Some(ready) = ready.take()
            {
                _ = ready.send(());
            }
            if ready.is_some() && Instant::now() > deadline {
                return Err(unusable("the group gave no partitions in time; is it authorized?"));
            }
            match consumer.poll(LOOK) {
                None => {}
                Some(Ok(message)) => self.arrived(consumer, &message)?,
                Some(Err(error)) => self.error(consumer, error)?,
            }
        }
        Ok(())
    }

    /// Every partition that there is of what is wanted. Tells whether the servers can be used, too.
    fn places(&self, consumer: &BaseConsumer<Context>) -> Result<HashSet<Place>, BrokerError> {
        let health = &consumer.context().health;
        let deadline = Instant::now() + START;
        loop {
            let metadata = match consumer.fetch_metadata(None, QUESTION) {
                Ok(metadata) => metadata,
                Err(error) => {
                    // The client says what is wrong when it is asked for messages.
                    while let Some(polled) = consumer.poll(EVENTS) {
                        self.push(polled.ok().and_then(|message| self.shared.arrived(&message)));
                    }
                    let is_down = health.down_since().is_some_and(|at| at.elapsed() > PATIENCE);
                    let is_over = is_down || Instant::now() > deadline || self.is_stopped();
                    let failure = health.is_refused().or_else(|| health.last().filter(|_| is_over));
                    if let Some(failure) = failure {
                        return Err(unusable(&failure.to_string()));
                    }
                    if is_over {
                        return Err(failed("no server answers", error));
                    }
                    continue;
                }
            };
            health.works();
            let topics = metadata.topics().iter();
            let wanted = topics.filter(|topic| {
                self.plan.patterns.iter().any(|pattern| pattern.matches(topic.name()))
            });
            let places = wanted.flat_map(|topic| {
                topic.partitions().iter().map(|partition| (topic.name().to_owned(), partition.id()))
            });
            return Ok(places.collect());
        }
    }

    fn push(&self, arrived: impl IntoIterator<Item = Arrived>) {
        arrived.into_iter().for_each(|arrived| self.items.push(Ok(arrived)));
    }

    /// Puts a message into the queue. Where there is no room for long, the consumer is paused and kept
    /// alive: one that asks for nothing would lose its partitions.
    fn arrived(
        &self,
        consumer: &BaseConsumer<Context>,
        message: &BorrowedMessage<'_>,
    ) -> Result<(), BrokerError> {
        let mut waiting: Vec<Arrived> = self.shared.arrived(message).into_iter().collect();
        if self.items.wait_for_room(FULL) {
            self.push(waiting);
            return Ok(());
        }
        let assignment = || consumer.assignment().unwrap_or_default();
        while !self.items.wait_for_room(LOOK) && !self.is_stopped() {
            // Every time, because new partitions may have come.
            _ = consumer.pause(&assignment());
            match consumer.poll(LOOK) {
                None => {}
                Some(Ok(message)) => waiting.extend(self.shared.arrived(&message)),
                Some(Err(error)) => self.error(consumer, error)?,
            }
        }
        self.push(waiting);
        consumer.resume(&assignment()).map_err(|error| failed("cannot go on reading", error))
    }

    /// What has to be told. The library looks after the rest.
    fn error(
        &self,
        consumer: &BaseConsumer<Context>,
        error: KafkaError,
    ) -> Result<(), BrokerError> {
        let is_fatal = matches!(error, KafkaError::MessageConsumptionFatal(_));
        match error.rdkafka_error_code() {
            Some(Code::AllBrokersDown) => self.places(consumer).map(drop),
            Some(
                Code::Authentication
                | Code::SSL
                | Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::SaslAuthenticationFailed,
            ) => Err(failed("cannot be read from", error)),
            _ if is_fatal => Err(failed("the consumer stopped", error)),
            _ => Ok(()),
        }
    }
}

impl Shared {
    /// A message, unless its partition is not ours any more.
    fn arrived(&self, message: &BorrowedMessage<'_>) -> Option<Arrived> {
        let place = (message.topic().to_owned(), message.partition());
        let assignment = self.ledger().assignment(&place)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut received = Received {
            destination: place.0.clone(),
            body: Bytes::copy_from_slice(message.payload().unwrap_or_default()),
            key: message.key().map(text),
            coordinates: format!("{}/{}/{}", place.0, place.1, message.offset()),
            ..Received::default()
        };
        for header in message.headers().into_iter().flat_map(|headers| headers.iter()) {
            let value = header.value.map(text).unwrap_or_default();
            if header.key.eq_ignore_ascii_case(CONTENT_TYPE) {
                received.content_type = Some(value);
            } else {
                received.headers.push((header.key.to_owned(), value));
            }
        }
        Some(Arrived { place, assignment, offset: message.offset(), received })
    }
}

/// The library's words for these patterns: names, and regular expressions where there is a `*`.
fn subscription(patterns: &[TopicPattern]) -> Vec<String> {
    let words = patterns.iter().map(TopicPattern::as_str);
    // Others match no topic that Kafka can have.
    let possible = words.filter(|words| is_topic(&words.replace('*', "x")));
    let expression = |words: &str| format!("^{}$", words.replace('.', "\\.").replace('*', ".*"));
    possible
        .map(|words| if words.contains('*') { expression(words) } else { words.to_owned() })
        .collect()
}

/// Whether the library can be asked for any of these.
pub(crate) fn is_possible(patterns: &[TopicPattern]) -> bool {
    !subscription(patterns).is_empty()
}

fn unusable(what: &str) -> BrokerError {
    BrokerError { message: format!("Kafka: {what}"), source: None }
}

fn failed(what: &str, error: KafkaError) -> BrokerError {
    BrokerError { message: format!("Kafka: {what}: {error}"), source: Some(error.into()) }
}

/// What the consumer calls back, on the reading thread.
pub(crate) struct Context {
    health: Health,
    shared: Arc<Shared>,
    is_passing: bool,
    start: Start,
    is_assigned: AtomicBool,
    /// Why partitions that were given cannot be read. It ends the reader.
    failed: Mutex<Option<BrokerError>>,
}

impl Context {
    fn failed(&self) -> MutexGuard<'_, Option<BrokerError>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes partitions over.
    fn assigned(
        &self,
        consumer: &BaseConsumer<Self>,
        list: &mut TopicPartitionList,
    ) -> Result<(), BrokerError> {
        let begins = match (self.is_passing, self.start) {
            (true, _) => self.passing_positions(consumer, list)?,
            (false, Start::New) => self.group_positions(consumer, list)?,
            // The library goes on where the group is, or begins with what is oldest.
            (false, Start::Beginning) => Vec::new(),
        };
        for ((topic, partition), offset) in &begins {
            let set = list.set_partition_offset(topic, *partition, Offset::Offset(*offset));
            set.map_err(|error| failed("cannot set a position", error))?;
        }
        let mut ledger = self.shared.ledger();
        places(list).into_iter().for_each(|place| ledger.assign(place));
        begins.into_iter().for_each(|(place, offset)| ledger.begin_at(&place, offset));
        Ok(())
    }

    /// Where a passing listener starts: where it was, or at the end of what there was when it began.
    fn passing_positions(
        &self,
        consumer: &BaseConsumer<Self>,
        list: &TopicPartitionList,
    ) -> Result<Vec<(Place, i64)>, BrokerError> {
        let mut begins = Vec::new();
        for place in places(list) {
            let last = self.shared.ledger().last_position(&place);
            let is_old = self.start == Start::New && self.shared.ledger().is_old(&place);
            let begin = match last {
                None if is_old => Some(ends(consumer, &place)?.1),
                last => last,
            };
            begins.extend(begin.map(|offset| (place, offset)));
        }
        Ok(begins)
    }

    /// Where a group starts in partitions that it has no position in. Only servers that say so make it
    /// one of these: to start again at the end would skip messages.
    fn group_positions(
        &self,
        consumer: &BaseConsumer<Self>,
        list: &TopicPartitionList,
    ) -> Result<Vec<(Place, i64)>, BrokerError> {
        if list.count() == 0 {
            return Ok(Vec::new());
        }
        let unknown = |error| failed("the group's positions cannot be looked up", error);
        let known = consumer.committed_offsets(list.clone(), POSITIONS).map_err(unknown)?;
        let (mut begins, mut begun) = (Vec::new(), TopicPartitionList::new());
        for found in known.elements() {
            found.error().map_err(unknown)?;
            if matches!(found.offset(), Offset::Offset(_)) {
                continue;
            }
            let place = (found.topic().to_owned(), found.partition());
            let (low, high) = ends(consumer, &place)?;
            let offset = if self.shared.ledger().is_old(&place) { high } else { low };
            let added = begun.add_partition_offset(&place.0, place.1, Offset::Offset(offset));
            added.map_err(|error| failed("cannot set a position", error))?;
            begins.push((place, offset));
        }
        if !begins.is_empty() {
            // Whoever of the group comes next goes on here, even if we handle nothing.
            let kept = consumer.commit(&begun, CommitMode::Sync);
            kept.map_err(|error| failed("the group's positions cannot be kept", error))?;
        }
        Ok(begins)
    }
}

/// The first offset of a partition, and the one behind its last. A partition that is new, or that moves
/// to another server, has no leader for a moment, which is waited for.
fn ends(
    consumer: &BaseConsumer<Context>,
    (topic, partition): &Place,
) -> Result<(i64, i64), BrokerError> {
    let deadline = Instant::now() + POSITIONS;
    loop {
        match consumer.fetch_watermarks(topic, *partition, POSITIONS) {
            Err(error) if has_no_leader(&error) && Instant::now() < deadline => {
                thread::park_timeout(LOOK);
            }
            ends => {
                return ends
                    .map_err(|error| failed("the ends of a partition cannot be looked up", error));
            }
        }
    }
}

fn has_no_leader(error: &KafkaError) -> bool {
    let codes = [Code::NotLeaderForPartition, Code::LeaderNotAvailable];
    error.rdkafka_error_code().is_some_and(|code| codes.contains(&code))
}

fn places(list: &TopicPartitionList) -> Vec<Place> {
    list.elements().iter().map(|one| (one.topic().to_owned(), one.partition())).collect()
}

impl ClientContext for Context {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        log(facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.health.failed(&error, reason);
    }
}

impl ConsumerContext for Context {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        event: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let result = if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            match self.assigned(consumer, list) {
                Ok(()) => self.is_assigned.store(true, Ordering::Release),
                // What arrives is not ours before the ledger says so: the reader ends with nothing
                // read. The library wants every assignment answered, even then.
                Err(error) => *self.failed() = Some(error),
            }
            consumer.incremental_assign(list)
        } else {
            let mut ledger = self.shared.ledger();
            places(list).iter().for_each(|place| ledger.revoke(place));
            drop(ledger);
            consumer.incremental_unassign(list)
        };
        if let Err(error) = result {
            tracing::debug!(target: "librdkafka", "rebalance: {error}");
        }
    }

    fn main_queue_min_poll_interval(&self) -> rdkafka::util::Timeout {
        LOOK.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_names_and_expressions() {
        let patterns: Vec<TopicPattern> =
            ["orders", "shop.*.v1", "*", "né", "a b*"].map(|text| text.parse().unwrap()).into();
        assert_eq!(subscription(&patterns), ["orders", "^shop\\..*\\.v1$", "^.*$"]);
        assert!(!is_possible(&patterns[3..]));
    }
}
