//! Clients of the library, and what they say about their connections.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use posthaste_core::Failure;
use rdkafka::{
    ClientConfig, ClientContext,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    error::KafkaError,
    message::DeliveryResult,
    producer::{Producer as _, ProducerContext, PurgeConfig, ThreadedProducer},
    types::RDKafkaErrorCode as Code,
};
use tokio::{runtime::Handle, sync::Notify, task::spawn_blocking, time::Instant};

use crate::{config::Settings, outcome, partition::Partitions};

/// Largest message the client lets through: more than any topic takes by default, and enough for the
/// largest payload with its headers. The topic's own limit is the topic's to enforce.
const MESSAGE_BYTES_MAX: &str = "16777216";
/// Most messages and kilobytes that wait in the client; then it says that it is full.
const QUEUE_MESSAGES_MAX: &str = "100000";
const QUEUE_KILOBYTES_MAX: &str = "131072";

/// How messages are handed to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As many at once as there are. The first that fails for good stops the client.
    Pipelined,
    /// One at a time, so that a failure is about that one. The client goes on after it.
    Alone,
}

/// A producer, and what its connections are like.
pub(crate) struct Producer {
    /// `None` only while it is dropped.
    client: Option<Client>,
    /// Topics that it has found.
    partitions: Mutex<Partitions>,
}

type Client = ThreadedProducer<Context>;

impl Producer {
    /// A new one, which connects when it is used.
    pub(crate) async fn new(
        settings: &Settings,
        manner: Manner,
        batch_bytes: usize,
    ) -> Result<Self, Failure> {
        let mut config = settings.client();
        config.set("acks", "all").set("enable.idempotence", "true");
        // See the crate's documentation: order and no false acknowledgement.
        config.set("max.in.flight.requests.per.connection", "1");
        let is_pipelined = manner == Manner::Pipelined;
        config.set("enable.gapless.guarantee", if is_pipelined { "true" } else { "false" });
        // So that the client says when it starts a new sequence: see `Context::log`.
        config.set("debug", "eos").set_log_level(RDKafkaLogLevel::Debug);
        // The call's own deadline ends a message: the client would drop one and send the next.
        config.set("message.timeout.ms", "0");
        // While a batch is on its way, the next one fills: there is no use in waiting before.
        config.set("linger.ms", "0");
        config.set("batch.size", batch_bytes.to_string());
        config.set("message.max.bytes", MESSAGE_BYTES_MAX);
        config.set("queue.buffering.max.messages", QUEUE_MESSAGES_MAX);
        config.set("queue.buffering.max.kbytes", QUEUE_KILOBYTES_MAX);
        // As Java producers do, so that consumers find a key where theirs put it.
        config.set("partitioner", "murmur2_random");
        config.set("compression.codec", settings.compression.name());
        let client = blocking(move || Client::from_config_and_context(&config, Context::default()));
        let client = client.await.and_then(|client| {
            client.map_err(|error| Failure::new("configuration", error.to_string()))
        })?;
        Ok(Self { client: Some(client), partitions: Mutex::default() })
    }

    pub(crate) fn client(&self) -> &Client {
        self.client.as_ref().expect("it is there until the drop")
    }

    pub(crate) fn health(&self) -> &Health {
        &self.client().context().health
    }

    pub(crate) fn partitions(&self) -> MutexGuard<'_, Partitions> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Throws away what waits in the client and, if asked, gives up what is on its way. All of it is
    /// reported.
    pub(crate) async fn purge(&self, with_in_flight: bool) {
        let client = self.client().clone();
        let what = PurgeConfig::default().queue();
        let what = if with_in_flight { what.inflight() } else { what };
        _ = blocking(move || client.purge(what)).await;
    }

    /// What made the client stop for good, if anything did.
    pub(crate) fn fatal(&self) -> Option<Code> {
        if self.client().context().has_restarted() {
            return Some(RESTARTED);
        }
        self.client().client().fatal_error().map(|(code, _)| code)
    }

    /// Sends what waits, and ends the client.
    pub(crate) async fn close(&self, patience: Duration) {
        let client = self.client().clone();
        _ = blocking(move || client.flush(patience)).await;
    }
}

/// Ending a client takes a moment, in which nobody may wait on the executor.
impl Drop for Producer {
    fn drop(&mut self) {
        let client = self.client.take();
        match Handle::try_current() {
            Ok(runtime) => _ = runtime.spawn_blocking(move || drop(client)),
            Err(_) => drop(client),
        }
    }
}

/// Runs what blocks where it may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let ended = spawn_blocking(work).await;
    ended.map_err(|error| Failure::new("connection", format!("the client failed: {error}")))
}

/// What the client calls back.
#[derive(Default)]
pub(crate) struct Context {
    pub(crate) health: Health,
    /// The client has started, or is about to start, a new sequence.
    has_restarted: AtomicBool,
}

impl Context {
    fn has_restarted(&self) -> bool {
        self.has_restarted.load(Ordering::Acquire)
    }
}

/// The report of what a client says after it started a new sequence.
const RESTARTED: Code = Code::UnknownProducerId;

impl ClientContext for Context {
    /// A server that does not know the producer's sequence makes the client start a new one and send
    /// again. It may then send a later batch first, and take that one's acknowledgement for one of
    /// the batch before. It says nowhere else that it does so; and it says it here, on the queue of
    /// the reports, before it reports anything that follows.
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        // Not where it gave a message up: then it says so of the message. Nor where it has stopped for
        // good: a batch that was made before is refused then, and there is no new sequence.
        let reasons = ["unknown producer id", "skipped sequence numbers"];
        let is_restart = message.contains("in state Assigned")
            && reasons.iter().any(|reason| message.contains(reason));
        if facility == "DRAIN" && is_restart {
            self.has_restarted.store(true, Ordering::Release);
        }
        log(facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.health.failed(&error, reason);
    }
}

/// The library's log lines, for those who look for them: whatever matters is in outcomes.
pub(crate) fn log(facility: &str, message: &str) {
    tracing::debug!(target: "librdkafka", facility, "{message}");
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        let report = match result {
            Ok(_) if self.has_restarted() => Err(RESTARTED),
            Ok(_) => {
                self.health.works();
                Ok(())
            }
            Err((error, _)) => Err(error.rdkafka_error_code().unwrap_or(Code::Unknown)),
        };
        ticket.reports.set(ticket.index, report);
    }
}

/// Goes with a message into the client and comes back with its report.
pub(crate) struct Ticket {
    pub(crate) reports: Arc<Reports>,
    pub(crate) index: usize,
}

/// What became of the messages of a round.
pub(crate) struct Reports {
    slots: Box<[OnceLock<Result<(), Code>>]>,
    missing: AtomicUsize,
    has_failed: AtomicBool,
    /// Told when nothing is missing any more.
    pub(crate) complete: Notify,
}

impl Reports {
    pub(crate) fn new(len: usize) -> Self {
        Self {
            slots: (0..len).map(|_| OnceLock::new()).collect(),
            missing: AtomicUsize::new(len),
            has_failed: AtomicBool::new(false),
            complete: Notify::new(),
        }
    }

    pub(crate) fn set(&self, index: usize, report: Result<(), Code>) {
        if report.is_err() {
            self.has_failed.store(true, Ordering::Release);
        }
        if self.slots[index].set(report).is_ok() {
            self.forget();
        }
    }

    /// One of them is not waited for any more.
    pub(crate) fn forget(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.complete.notify_one();
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<(), Code>> {
        self.slots[index].get().copied()
    }

    pub(crate) fn are_complete(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }

    pub(crate) fn have_failure(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }
}

/// What a client says about its connections.
#[derive(Default)]
pub(crate) struct Health {
    trouble: Mutex<Trouble>,
    /// Told at every change.
    pub(crate) changed: Notify,
}

#[derive(Clone, Debug, Default)]
struct Trouble {
    /// The last error that says more than that all servers are down.
    last: Option<(Code, String)>,
    down_since: Option<Instant>,
}

impl Health {
    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failed(&self, error: &KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", "{error}: {reason}");
        let Some(code) = error.rdkafka_error_code() else { return };
        let mut trouble = self.trouble();
        match code {
            Code::AllBrokersDown => _ = trouble.down_since.get_or_insert_with(Instant::now),
            _ => {
                // An address at which nobody listens says less than a server that refuses us.
                let is_said = matches!(&trouble.last, Some((last, _)) if is_refusal(*last));
                if !is_said || is_refusal(code) {
                    trouble.last = Some((code, reason.to_owned()));
                }
            }
        }
        drop(trouble);
        self.changed.notify_waiters();
    }

    /// The servers answer.
    pub(crate) fn works(&self) {
        let mut trouble = self.trouble();
        (trouble.down_since, trouble.last) = (None, None);
    }

    pub(crate) fn down_since(&self) -> Option<Instant> {
        self.trouble().down_since
    }

    /// What will not go away by trying again: credentials, certificates.
    pub(crate) fn is_refused(&self) -> Option<Failure> {
        let is_refused = matches!(&self.trouble().last, Some((code, _)) if is_refusal(*code));
        self.last().filter(|_| is_refused)
    }

    /// Why there is no connection, as far as it is known.
    pub(crate) fn last(&self) -> Option<Failure> {
        self.trouble().last.as_ref().map(|(code, reason)| outcome::unusable(*code, reason))
    }
}

/// Whether credentials or a certificate are at fault.
fn is_refusal(code: Code) -> bool {
    matches!(outcome::unusable(code, "").class, "auth" | "tls")
}

/// Settings of a client that asks and does not publish.
pub(crate) fn asking(settings: &Settings) -> ClientConfig {
    let mut config = settings.client();
    config.set("allow.auto.create.topics", "false");
    config
}
