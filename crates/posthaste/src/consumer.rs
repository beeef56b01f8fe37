//! A consumer inside your process: a subscriber, an inbox, and handlers by event type.
//!
//! `runner.rs` owns the subscriber: it receives messages, gives them to slots, and acknowledges
//! them after the commit. `slot.rs` handles messages, one after another; a key (or a lane, in
//! watermark mode) always goes to the same slot, which keeps its order. `events.rs` holds all
//! telemetry.

mod events;
mod handler;
mod runner;
mod slot;

use std::{collections::HashMap, sync::Arc, time::Duration};

use posthaste_core::{Backoff, InboxMode, Invalid, Subscriber};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use handler::{Handler, Handlers};
pub use handler::{HandlerError, HandlerFuture};

use crate::{Database, Inbox, InboxError, relay::BuildError};

/// How long ids are kept by default: duplicates that come later take effect again.
const WINDOW_DEFAULT: Duration = Duration::from_secs(7 * 86_400);

/// The error that ended a consumer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The inbox cannot be used; the error says what to do. No message was dropped: unhandled
    /// messages were not acknowledged.
    #[error(transparent)]
    Inbox(#[from] InboxError),
}

/// The settings of a consumer; see the builder's methods.
#[derive(Clone, Copy, Debug)]
struct Settings {
    concurrency: usize,
    batch: usize,
    backoff: Backoff,
    attempts_max: u32,
    window: Duration,
    redelivery_horizon: Option<Duration>,
    poll: Duration,
    drain: Duration,
}

/// A consumer, ready to run. Every message that it receives takes effect once and is acknowledged
/// after the commit. A message whose handler keeps failing becomes a dead letter of the consumer.
///
/// ```no_run
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: sqlx::SqlitePool, subscriber: Box<dyn posthaste::Subscriber>)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use posthaste::{Consumer, sqlite::Inbox};
///
/// let consumer = Consumer::builder(pool, Inbox::new("billing"), subscriber)
///     .on("OrderPlaced", |tx, incoming| {
///         Box::pin(async move {
///             let order: u64 = serde_json::from_slice(&incoming.message.payload)?;
///             sqlx::query("INSERT INTO invoice (order_id) VALUES (?)")
///                 .bind(order.cast_signed())
///                 .execute(tx)
///                 .await?;
///             Ok(())
///         })
///     })
///     .build()?;
/// let running = consumer.spawn();
/// running.shutdown().await?;
/// # Ok(()) }
/// ```
pub struct Consumer<DB: Database> {
    pool: DB::Pool,
    inbox: Inbox<DB>,
    subscriber: Box<dyn Subscriber>,
    handlers: Arc<Handlers<DB>>,
    settings: Settings,
}

impl<DB: Database + 'static> Consumer<DB> {
    /// Starts building a consumer. Give the subscriber's subscription a name: otherwise messages
    /// that are unhandled when the program ends are lost. In watermark mode the subscription must
    /// be ordered.
    pub fn builder(
        pool: DB::Pool,
        inbox: Inbox<DB>,
        subscriber: Box<dyn Subscriber>,
    ) -> ConsumerBuilder<DB> {
        let settings = Settings {
            concurrency: 4,
            batch: 1,
            backoff: Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(60) },
            attempts_max: 10,
            window: WINDOW_DEFAULT,
            redelivery_horizon: None,
            poll: Duration::from_secs(5),
            drain: Duration::from_secs(30),
        };
        let handlers = Handlers { by_type: HashMap::new(), otherwise: None };
        ConsumerBuilder { pool, inbox, subscriber, handlers, settings, problems: Vec::new() }
    }

    /// Runs in a task until [`RunningConsumer::shutdown`].
    #[must_use]
    pub fn spawn(self) -> RunningConsumer {
        let stop = CancellationToken::new();
        let task = tokio::spawn(self.run(stop.clone()));
        RunningConsumer { stop, task }
    }

    /// Runs until `stop` is cancelled. Then the consumer receives no more, finishes and
    /// acknowledges the messages that are being handled, and leaves the others to the broker, which
    /// delivers them again.
    ///
    /// # Errors
    /// Any [`ConsumerError`]. The consumer waits for outages of the broker and the database to end.
    ///
    /// # Panics
    /// When one of its tasks panics; a panic of a handler is caught. Unhandled messages were not
    /// acknowledged.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ConsumerError> {
        runner::run(self, stop).await
    }
}

/// A running consumer. Dropping this handle does not stop the consumer.
pub struct RunningConsumer {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ConsumerError>>,
}

impl RunningConsumer {
    /// Stops receiving, waits for the messages that are being handled (at most
    /// [`ConsumerBuilder::drain`]) and acknowledges them.
    ///
    /// # Errors
    /// The error that ended the consumer, if it ended before; a panic of its task is a panic here.
    pub async fn shutdown(self) -> Result<(), ConsumerError> {
        self.stop.cancel();
        self.finished().await
    }

    /// Waits until the consumer ends by an error.
    ///
    /// # Errors
    /// The error that ended the consumer; a panic of its task is a panic here.
    pub async fn finished(self) -> Result<(), ConsumerError> {
        self.task.await.unwrap_or_else(|error: JoinError| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Ok(()),
        })
    }

    /// Ends the consumer at once, as a crash would: transactions of handlers are rolled back.
    pub fn kill(self) {
        self.task.abort();
    }
}

/// Builds a [`Consumer`].
pub struct ConsumerBuilder<DB: Database> {
    pool: DB::Pool,
    inbox: Inbox<DB>,
    subscriber: Box<dyn Subscriber>,
    handlers: Handlers<DB>,
    settings: Settings,
    problems: Vec<Invalid>,
}

impl<DB: Database + 'static> ConsumerBuilder<DB> {
    /// Handles messages of this event type. The handler works on the given transaction; effects
    /// outside the transaction may happen more than once.
    #[must_use]
    pub fn on<F>(mut self, event_type: &str, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut DB::Connection, &'c crate::Incoming) -> HandlerFuture<'c>
            + Send
            + Sync
            + 'static,
    {
        self.add(event_type, Handler::One(Box::new(handler)));
        self
    }

    /// Handles messages of this event type together: one call gets all consecutive messages of a
    /// transaction ([`batch`](Self::batch)), in their order. So the handler needs one statement
    /// where [`on`](Self::on) needs one for each message. If the handler fails, its messages are
    /// handled again one by one.
    #[must_use]
    pub fn on_all<F>(mut self, event_type: &str, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut DB::Connection, &'c [&'c crate::Incoming]) -> HandlerFuture<'c>
            + Send
            + Sync
            + 'static,
    {
        self.add(event_type, Handler::All(Box::new(handler)));
        self
    }

    fn add(&mut self, event_type: &str, handler: Handler<DB>) {
        if self.handlers.by_type.insert(event_type.to_owned(), handler).is_some() {
            self.problems.push(Invalid::new("event type", event_type, "must be given once"));
        }
    }

    /// Handles messages of all other types. Without this handler they become dead letters.
    #[must_use]
    pub fn otherwise<F>(mut self, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut DB::Connection, &'c crate::Incoming) -> HandlerFuture<'c>
            + Send
            + Sync
            + 'static,
    {
        self.handlers.otherwise = Some(Handler::One(Box::new(handler)));
        self
    }

    /// Sets the number of concurrent transactions, 4 by default. Messages of one key (in watermark
    /// mode: of one lane) are handled one after another.
    #[must_use]
    pub fn concurrency(mut self, transactions: usize) -> Self {
        self.settings.concurrency = transactions;
        self
    }

    /// Sets the most messages in one transaction, 1 by default. If one of them fails, they are
    /// handled again one by one.
    #[must_use]
    pub fn batch(mut self, messages: usize) -> Self {
        self.settings.batch = messages;
        self
    }

    /// Sets the pauses after failures of a handler, and the number of failures after which the
    /// message becomes a dead letter. The default is 10 failures, with pauses from up to 1 s to up
    /// to 60 s. Later messages of the key (in watermark mode: of the lane) wait meanwhile.
    #[must_use]
    pub fn retry(mut self, backoff: Backoff, attempts_max: u32) -> Self {
        self.settings.backoff = backoff;
        self.settings.attempts_max = attempts_max;
        self
    }

    /// Sets the de-duplication window of the modes by id, 7 days by default: ids are removed after
    /// it, and a duplicate that comes later takes effect again.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.settings.window = window;
        self
    }

    /// Sets the longest time after which the broker can deliver a message again: its retention, or
    /// the age of a backup from which it may be restored. [`build`](Self::build) fails if the
    /// window does not exceed it.
    #[must_use]
    pub fn redelivery_horizon(mut self, horizon: Duration) -> Self {
        self.settings.redelivery_horizon = Some(horizon);
        self
    }

    /// Sets how often the consumer looks for redriven dead letters, 5 s by default.
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        self.settings.poll = poll;
        self
    }

    /// Sets the longest wait for handlers at a stop, 30 s by default. Unfinished messages are then
    /// rolled back and come again.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.settings.drain = drain;
        self
    }

    /// Builds the consumer.
    ///
    /// # Errors
    /// All problems at once.
    pub fn build(mut self) -> Result<Consumer<DB>, BuildError> {
        self.check();
        if !self.problems.is_empty() {
            return Err(BuildError { what: "consumer", problems: self.problems });
        }
        Ok(Consumer {
            pool: self.pool,
            inbox: self.inbox,
            subscriber: self.subscriber,
            handlers: Arc::new(self.handlers),
            settings: self.settings,
        })
    }

    fn check(&mut self) {
        let settings = self.settings;
        self.problems.extend(self.inbox.validate().err());
        let mut problem = |field, value: String, rule: &str| {
            self.problems.push(Invalid::new(field, &value, rule));
        };
        if self.handlers.by_type.is_empty() && self.handlers.otherwise.is_none() {
            problem("handlers", String::new(), "must be at least one");
        }
        for (field, value) in [
            ("concurrency", settings.concurrency),
            ("batch", settings.batch),
            ("attempts_max", settings.attempts_max as usize),
        ] {
            if value == 0 {
                problem(field, value.to_string(), "must be at least 1");
            }
        }
        if settings.poll.is_zero() {
            problem("poll", format!("{:?}", settings.poll), "must be longer than zero");
        }
        let horizon = settings.redelivery_horizon.unwrap_or_default();
        if self.inbox.mode() != InboxMode::Watermark && settings.window <= horizon {
            let rule = format!(
                "must exceed the broker's redelivery horizon ({horizon:?}), or late duplicates take \
                 effect again; watermark mode needs no window"
            );
            problem("window", format!("{:?}", settings.window), &rule);
        }
    }
}
