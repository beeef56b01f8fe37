//! The loop that owns the subscriber.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
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
    slot::{Chain, Job, Origin, Report, Slot},
};
use crate::Database;

/// Messages received and not finished, at most: so many batches of each slot, so that some wait while
/// one is handled, and never fewer than this, so that a key that waits does not stop the others.
const AHEAD: usize = 4;
const IN_FLIGHT_MIN: usize = 256;
/// Redriven dead letters taken at a time.
const LETTERS_MAX: u32 = 100;
/// Longest pause between two tries to reach a broker that is away: what waits there is handled within
/// seconds of its return.
const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// How often ids are forgotten, and how many at a time.
const PURGE_EVERY: Duration = Duration::from_secs(60);
const PURGE_ROWS: u32 = 1000;

/// What the loop knows.
struct Runner<DB: Database> {
    consumer: Consumer<DB>,
    store: Arc<dyn InboxStore>,
    events: Events,
    slots: Vec<UnboundedSender<Job>>,
    hasher: RandomState,
    /// Given to slots and not finished.
    in_flight: usize,
    /// Dead letters given to slots and not finished.
    letters: HashSet<MessageId>,
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
        hasher: RandomState::new(),
        in_flight: 0,
        letters: HashSet::new(),
    };
    let outcome = runner.serve(&mut received, stop).await;
    stop_slots.cancel();
    runner.drain(received, tasks).await;
    outcome
}

impl<DB: Database + 'static> Runner<DB> {
    /// Receives and acknowledges until told to stop.
    async fn serve(
        &mut self,
        reports: &mut UnboundedReceiver<Report>,
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
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                report = reports.recv() => match report {
                    Some(Report::Fatal(error)) => return Err(error.into()),
                    Some(Report::Finished { receipt, id, origin }) => {
                        self.finished(receipt, id, origin).await;
                    }
                    // Every slot ended without a word: one of them panicked.
                    None => return Ok(()),
                },
                _ = poll.tick() => self.take_letters().await,
                incoming = self.consumer.subscriber.receive(),
                    if !is_paused && self.in_flight < in_flight_max => match incoming {
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
        // A slot that is gone has reported why, or panicked, which ends the consumer.
        let is_single = origin == Origin::Letter;
        if slot.send(Job { incoming, chain, origin, attempts: 0, is_single }).is_ok() {
            self.in_flight += 1;
            self.events.in_flight(self.in_flight);
        }
    }

    async fn finished(&mut self, receipt: u64, id: MessageId, origin: Origin) {
        self.in_flight -= 1;
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

    /// Dead letters that a person sent again.
    async fn take_letters(&mut self) {
        let name = self.consumer.inbox.consumer().to_owned();
        // What cannot be read now is there at the next look.
        let Ok(due) = self.store.due_letters(&name, LETTERS_MAX).await else { return };
        for letter in due {
            if self.letters.insert(letter.message.id) {
                let (message, provenance) = (letter.message, letter.provenance);
                let incoming = Incoming { message, provenance, receipt: 0, lane: None };
                self.give(incoming, Origin::Letter);
            }
        }
    }

    /// Waits for what is being handled, and acknowledges it.
    async fn drain(&mut self, mut reports: UnboundedReceiver<Report>, mut tasks: JoinSet<()>) {
        self.slots.clear();
        let end = Instant::now() + self.consumer.settings.drain;
        let mut panic = None;
        while let Ok(Some(ended)) = timeout_at(end, tasks.join_next()).await {
            panic = panic.or(ended.err().and_then(|error| error.try_into_panic().ok()));
        }
        tasks.shutdown().await;
        while let Ok(report) = reports.try_recv() {
            if let Report::Finished { receipt, id, origin } = report {
                self.finished(receipt, id, origin).await;
            }
        }
        self.events.stopped(self.in_flight);
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Forgets what is older than the window, now and then, and measures what is kept.
async fn clean(
    store: Arc<dyn InboxStore>,
    consumer: String,
    window: Duration,
    events: Events,
    stop: CancellationToken,
) {
    loop {
        // What fails is tried again in the next round.
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
            () = stop.cancelled() => return,
            () = sleep(PURGE_EVERY) => {}
        }
    }
}
