//! The loop that owns the subscriber.

use std::{
    any::Any,
    collections::HashSet,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::Arc,
    time::Duration,
};

use posthaste_core::{Backoff, InboxStore, Incoming, MessageId};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Consumer, ConsumerError,
    events::Events,
    slot::{Chain, Finished, Job, Origin, Report, Slot},
};
use crate::Database;

/// Batches per slot that may be unfinished, so that some wait while one is handled. The most
/// unfinished messages are this many batches of all slots, but never fewer than `IN_FLIGHT_MIN`, so
/// that a key that waits does not stop other keys.
const AHEAD: usize = 4;
const IN_FLIGHT_MIN: usize = 256;
/// Bytes of unfinished messages from which on no more messages are received.
const IN_FLIGHT_BYTES: usize = 64 * 1024 * 1024;
/// Most redriven dead letters that are read at a time.
const LETTERS_MAX: u32 = 100;
/// Longest pause between two attempts to reach the broker: waiting messages are handled within
/// seconds after an outage.
const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// How often ids are removed, and how many at a time.
const PURGE_EVERY: Duration = Duration::from_secs(60);
const PURGE_ROWS: u32 = 1000;

/// The state of the consumer's main loop; one task owns it.
struct Runner<DB: Database> {
    consumer: Consumer<DB>,
    store: Arc<dyn InboxStore>,
    events: Events,
    slots: Vec<UnboundedSender<Job>>,
    /// Hashes chains to slots. It has no random seed, so the same messages go to the same slots in
    /// every run.
    hasher: BuildHasherDefault<DefaultHasher>,
    /// Messages given to slots and not finished.
    in_flight: usize,
    /// Bytes of the messages in flight.
    in_flight_bytes: usize,
    /// Dead letters given to slots and not finished.
    letters: HashSet<MessageId>,
    /// The panic of a task of the consumer: the consumer ends with it.
    panic: Option<Box<dyn Any + Send>>,
}

pub(super) async fn run<DB: Database + 'static>(
    consumer: Consumer<DB>,
    stop: CancellationToken,
) -> Result<(), ConsumerError> {
    let events = Events::new(consumer.inbox.consumer());
    events.started(consumer.settings.concurrency, consumer.settings.batch);
    let store = DB::inbox_store(consumer.pool.clone());
    let (reports, mut received) = unbounded_channel();
    let stop_slots = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let mut slots = Vec::new();
    for _ in 0..consumer.settings.concurrency {
        let (sender, jobs) = unbounded_channel();
        let slot = Slot::new(
            consumer.pool.clone(),
            consumer.inbox.clone(),
            Arc::clone(&consumer.handlers),
            consumer.settings,
            events.clone(),
            jobs,
            reports.clone(),
            stop_slots.clone(),
        );
        tasks.spawn(slot.run());
        slots.push(sender);
    }
    drop(reports);
    tasks.spawn(clean(
        Arc::clone(&store),
        consumer.inbox.consumer().to_owned(),
        consumer.settings.window,
        events.clone(),
        stop_slots.clone(),
    ));
    let mut runner = Runner {
        consumer,
        store,
        events,
        slots,
        hasher: BuildHasherDefault::default(),
        in_flight: 0,
        in_flight_bytes: 0,
        letters: HashSet::new(),
        panic: None,
    };
    let outcome = runner.serve(&mut received, &mut tasks, stop).await;
    stop_slots.cancel();
    runner.drain(received, tasks).await;
    outcome
}

impl<DB: Database + 'static> Runner<DB> {
    /// Receives and acknowledges until told to stop, or until a task of the consumer ends.
    async fn serve(
        &mut self,
        reports: &mut UnboundedReceiver<Report>,
        tasks: &mut JoinSet<()>,
        stop: CancellationToken,
    ) -> Result<(), ConsumerError> {
        let settings = self.consumer.settings;
        let in_flight_max = (settings.concurrency * settings.batch * AHEAD).max(IN_FLIGHT_MIN);
        let backoff = Backoff { initial: Duration::from_millis(500), max: RECONNECT_MAX };
        let (mut failures, mut resume) = (0, Instant::now());
        let mut random = fastrand::Rng::new();
        let mut poll = interval(settings.poll);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_paused = Instant::now() < resume;
            let has_room = self.in_flight < in_flight_max && self.in_flight_bytes < IN_FLIGHT_BYTES;
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                report = reports.recv() => match report {
                    Some(Report::Fatal(error)) => return Err(error.into()),
                    Some(Report::Finished(finished)) => self.finished(finished).await,
                    None => return Ok(()),
                },
                // A slot ends early only by a panic; its pending reports come first.
                Some(ended) = tasks.join_next() => {
                    self.panic = ended.err().and_then(|error| error.try_into_panic().ok());
                    return Ok(());
                }
                _ = poll.tick(), if has_room => self.take_letters().await,
                incoming = self.consumer.subscriber.receive(),
                    if !is_paused && has_room => match incoming {
                        Ok(incoming) => {
                            failures = 0;
                            self.give(incoming, Origin::Broker);
                        }
                        Err(error) => {
                            failures += 1;
                            let pause = backoff.delay(failures, &mut random);
                            self.events.broker_failed(&error, pause);
                            resume = Instant::now() + pause;
                        }
                    },
                () = tokio::time::sleep_until(resume), if is_paused => {}
            }
        }
    }

    fn give(&mut self, incoming: Incoming, origin: Origin) {
        let chain = Chain::of(&incoming, self.consumer.inbox.mode(), origin);
        let hash = self.hasher.hash_one(&chain) as usize;
        let slot = &self.slots[hash % self.slots.len()];
        // A slot that has ended has reported a fatal error or panicked, which ends the consumer.
        let (is_single, bytes) = (origin == Origin::Letter, incoming.message.weight());
        if slot.send(Job { incoming, chain, origin, attempts: 0, is_single }).is_ok() {
            self.in_flight += 1;
            self.in_flight_bytes += bytes;
            self.events.in_flight(self.in_flight);
        }
    }

    async fn finished(&mut self, finished: Finished) {
        let Finished { receipt, id, origin, bytes } = finished;
        self.in_flight -= 1;
        self.in_flight_bytes -= bytes;
        self.events.in_flight(self.in_flight);
        match origin {
            Origin::Letter => {
                self.letters.remove(&id);
            }
            Origin::Broker => {
                if let Err(error) = self.consumer.subscriber.acknowledge(receipt).await {
                    self.events.not_acknowledged(&error);
                }
            }
        }
    }

    /// Gives redriven dead letters to the slots.
    async fn take_letters(&mut self) {
        let name = self.consumer.inbox.consumer().to_owned();
        // After a failed read the next poll finds the dead letters.
        let Ok(due) = self.store.due_letters(&name, LETTERS_MAX).await else { return };
        for letter in due {
            if self.letters.insert(letter.message.id) {
                let (message, provenance) = (letter.message, letter.provenance);
                let incoming = Incoming { message, provenance, receipt: 0, lane: None };
                self.give(incoming, Origin::Letter);
            }
        }
    }

    /// Waits for the messages that are being handled, and acknowledges them.
    async fn drain(&mut self, mut reports: UnboundedReceiver<Report>, mut tasks: JoinSet<()>) {
        self.slots.clear();
        let end = Instant::now() + self.consumer.settings.drain;
        let mut panic = self.panic.take();
        while let Ok(Some(ended)) = timeout_at(end, tasks.join_next()).await {
            panic = panic.or(ended.err().and_then(|error| error.try_into_panic().ok()));
        }
        tasks.shutdown().await;
        while let Ok(report) = reports.try_recv() {
            if let Report::Finished(finished) = report {
                self.finished(finished).await;
            }
        }
        self.events.stopped(self.in_flight);
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Removes ids older than the window at intervals, and updates the gauges of the inbox.
async fn clean(
    store: Arc<dyn InboxStore>,
    consumer: String,
    window: Duration,
    events: Events,
    stop: CancellationToken,
) {
    loop {
        // After a failure the next round tries again.
        while let Ok(purged) = store.purge_inbox(&consumer, window, PURGE_ROWS).await {
            events.purged(purged);
            if purged.ids.max(purged.discarded) < u64::from(PURGE_ROWS) || stop.is_cancelled() {
                break;
            }
        }
        if let Ok(all) = store.inbox_status().await
            && let Some(status) = all.iter().find(|status| status.consumer == consumer)
        {
            events.status(status);
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(PURGE_EVERY) => {}
        }
    }
}
