//! One slot: handles its messages in order, several in one transaction if allowed.
//!
//! When a handler fails, the slot holds the *chain* of the message: the messages that must not
//! overtake it, that is, later messages of its key or, in watermark mode, of its lane. Other chains
//! go on.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use posthaste_core::{
    Backoff, Failure, InboxError, InboxMode, Incoming, Input, Letter, MessageId, StoreError,
    StoreErrorKind, Tally,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    Settings,
    events::Events,
    handler::{Handlers, Trouble},
};
use crate::{Database, Handled, Inbox};

/// Identifies messages that must be handled in order: those of a key or of a lane. A message
/// without either is alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Chain {
    Key(String),
    Lane(Arc<str>),
    Alone(MessageId),
}

impl Chain {
    pub(super) fn of(incoming: &Incoming, mode: InboxMode, origin: Origin) -> Self {
        match (&incoming.message.key, &incoming.lane) {
            (_, Some(lane)) if mode == InboxMode::Watermark && origin == Origin::Broker => {
                Self::Lane(Arc::clone(lane))
            }
            (Some(key), _) => Self::Key(key.clone()),
            _ => Self::Alone(incoming.message.id),
        }
    }
}

/// The origin of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Broker,
    /// The message is a redriven dead letter.
    Letter,
}

/// A message to be handled.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) incoming: Incoming,
    pub(super) chain: Chain,
    pub(super) origin: Origin,
    /// Failures of the handler so far.
    pub(super) attempts: u32,
    /// Whether the message needs its own transaction: a shared one failed, or it is a dead letter.
    pub(super) is_single: bool,
}

/// A finished message.
pub(super) struct Finished {
    pub(super) receipt: u64,
    pub(super) id: MessageId,
    pub(super) origin: Origin,
    /// Size of the message in memory.
    pub(super) bytes: usize,
}

/// A report of a slot to the runner.
pub(super) enum Report {
    /// The message is committed, now or before: acknowledge it.
    Finished(Finished),
    /// The consumer cannot go on.
    Fatal(InboxError),
}

/// Messages of a chain that wait until its first message is tried again.
struct Held {
    jobs: VecDeque<Job>,
    due: Instant,
}

/// A slot's state; one task owns it.
pub(super) struct Slot<DB: Database> {
    pub(super) pool: DB::Pool,
    pub(super) inbox: Inbox<DB>,
    pub(super) handlers: Arc<Handlers<DB>>,
    pub(super) settings: Settings,
    pub(super) events: Events,
    pub(super) jobs: UnboundedReceiver<Job>,
    pub(super) reports: UnboundedSender<Report>,
    pub(super) stop: CancellationToken,
    /// Messages that were given to the slot and not begun, in order.
    ready: VecDeque<Job>,
    held: BTreeMap<Chain, Held>,
    random: fastrand::Rng,
}

/// The result of a transaction.
enum Outcome {
    Done,
    /// The same transaction may succeed later; the messages are not at fault.
    Later(InboxError),
    /// The handler failed.
    Failed {
        failure: Failure,
        is_final: bool,
    },
    Fatal(InboxError),
}

impl<DB: Database + 'static> Slot<DB> {
    #[allow(clippy::too_many_arguments, reason = "one constructor, called once")]
    pub(super) fn new(
        pool: DB::Pool,
        inbox: Inbox<DB>,
        handlers: Arc<Handlers<DB>>,
        settings: Settings,
        events: Events,
        jobs: UnboundedReceiver<Job>,
        reports: UnboundedSender<Report>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            pool,
            inbox,
            handlers,
            settings,
            events,
            jobs,
            reports,
            stop,
            ready: VecDeque::new(),
            held: BTreeMap::new(),
            random: fastrand::Rng::new(),
        }
    }

    /// Handles messages until told to stop; a transaction that has begun is finished.
    pub(super) async fn run(mut self) {
        let mut outages = 0;
        while let Some(batch) = self.next_batch().await {
            match self.transact(&batch).await {
                Outcome::Done => {
                    outages = 0;
                    self.finish(batch);
                }
                Outcome::Later(error) => {
                    outages += 1;
                    self.wait(batch, &error, outages).await;
                }
                Outcome::Failed { failure, is_final } => {
                    if let Some(fatal) = self.fail(batch, failure, is_final).await {
                        let _ = self.reports.send(Report::Fatal(fatal));
                        return;
                    }
                }
                Outcome::Fatal(error) => {
                    // The runner is gone only when the whole consumer ends.
                    let _ = self.reports.send(Report::Fatal(error));
                    return;
                }
            }
        }
    }

    /// The next messages that may share a transaction; `None` when it is time to stop.
    async fn next_batch(&mut self) -> Option<Vec<Job>> {
        loop {
            if self.stop.is_cancelled() {
                return None;
            }
            while let Ok(job) = self.jobs.try_recv() {
                self.ready.push_back(job);
            }
            self.release_due();
            let batch = self.take_batch();
            if !batch.is_empty() {
                return Some(batch);
            }
            let due = self.held.values().map(|held| held.due).min();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                job = self.jobs.recv() => self.ready.push_back(job?),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Queues chains whose pause is over behind the others, so that a chain that keeps failing does
    /// not delay them.
    fn release_due(&mut self) {
        let now = Instant::now();
        let due = self.held.extract_if(.., |_, held| held.due <= now);
        for (chain, held) in due.collect::<Vec<_>>() {
            let (later, others) = self.ready.drain(..).partition(|job| job.chain == chain);
            self.ready = others;
            self.ready.extend(held.jobs);
            self.ready.extend::<VecDeque<Job>>(later);
        }
    }

    fn take_batch(&mut self) -> Vec<Job> {
        let mut batch: Vec<Job> = Vec::new();
        while batch.len() < self.settings.batch
            && let Some(job) = self.ready.pop_front()
        {
            if let Some(held) = self.held.get_mut(&job.chain) {
                held.jobs.push_back(job);
            } else if !job.is_single {
                batch.push(job);
            } else if batch.is_empty() {
                return vec![job];
            } else {
                self.ready.push_front(job);
                return batch;
            }
        }
        batch
    }

    async fn transact(&self, batch: &[Job]) -> Outcome {
        match batch {
            [letter] if letter.origin == Origin::Letter => self.handle_letter(letter).await,
            batch => self.handle(batch).await,
        }
    }

    /// Handles messages in one transaction: all of them, or none.
    async fn handle(&self, batch: &[Job]) -> Outcome {
        let inputs: Vec<Input<'_>> = batch.iter().map(|job| Input::from(&job.incoming)).collect();
        let mut open = match self.inbox.begin_all(&self.pool, &inputs).await {
            Ok(open) => open,
            Err(error) => return of_inbox(error),
        };
        let new = batch.iter().enumerate().filter(|(index, _)| open.is_new(*index));
        let new: Vec<&Incoming> = new.map(|(_, job)| &job.incoming).collect();
        if let Err(trouble) = self.handlers.call(&mut open, &new).await {
            open.rollback().await;
            return of_handler(trouble);
        }
        let (count, tally) = (open.admitted().count(), open.admitted().tally());
        if count == 0 {
            open.rollback().await;
            self.events.committed(0, batch.len(), tally);
            return Outcome::Done;
        }
        match open.commit().await {
            Ok(Handled::Done(())) => {
                self.events.committed(count, batch.len() - count, tally);
                Outcome::Done
            }
            Ok(Handled::Duplicate) if batch.len() == 1 => {
                self.events.committed(0, 1, tally);
                Outcome::Done
            }
            Ok(Handled::Duplicate) => Outcome::Later(raced()),
            Err(error) => of_commit(error),
        }
    }

    /// Handles a redriven dead letter; its inbox record exists already.
    async fn handle_letter(&self, job: &Job) -> Outcome {
        let id = job.incoming.message.id;
        let mut transaction = match DB::begin(&self.pool).await {
            Ok(transaction) => transaction,
            Err(error) => return of_inbox(error.into()),
        };
        let taken = match DB::inbox(&mut transaction) {
            Ok(mut inbox) => inbox.unbury(self.inbox.consumer(), id).await,
            Err(error) => Err(error),
        };
        match taken {
            Ok(true) => {}
            Ok(false) => {
                DB::rollback(transaction).await;
                return Outcome::Done;
            }
            Err(error) => {
                DB::rollback(transaction).await;
                return of_inbox(error.into());
            }
        }
        if let Err(trouble) = self.handlers.call(&mut transaction, &[&job.incoming]).await {
            DB::rollback(transaction).await;
            return of_handler(trouble);
        }
        match DB::commit(transaction).await {
            Ok(()) => {
                self.events.committed(1, 0, Tally::default());
                Outcome::Done
            }
            Err(error) => of_commit(error.into()),
        }
    }

    fn finish(&self, batch: Vec<Job>) {
        for job in batch {
            let Job { incoming: Incoming { receipt, message, .. }, origin, .. } = job;
            let finished = Finished { receipt, id: message.id, origin, bytes: message.weight() };
            let _ = self.reports.send(Report::Finished(finished));
        }
    }

    /// Puts the messages back and pauses.
    async fn wait(&mut self, batch: Vec<Job>, error: &InboxError, outages: u32) {
        let backoff = Backoff { initial: Duration::from_millis(50), max: Duration::from_secs(5) };
        let pause = backoff.delay(outages, &mut self.random);
        if outages > 1 {
            self.events.waiting(error, pause);
        }
        self.put_back(batch);
        tokio::select! {
            biased;
            () = sleep(pause) => {}
            () = self.stop.cancelled() => {}
        }
    }

    fn put_back(&mut self, batch: Vec<Job>) {
        for job in batch.into_iter().rev() {
            self.ready.push_front(job);
        }
    }

    /// Reacts to a failed handler. If the transaction had several messages, the failing one is
    /// unknown, so they are tried one by one. A single message is held, or becomes a dead letter.
    async fn fail(
        &mut self,
        mut batch: Vec<Job>,
        failure: Failure,
        is_final: bool,
    ) -> Option<InboxError> {
        if batch.len() > 1 {
            batch.iter_mut().for_each(|job| job.is_single = true);
            self.put_back(batch);
            return None;
        }
        let mut job = batch.pop()?;
        job.attempts += 1;
        job.is_single = true;
        if !is_final && job.attempts < self.settings.attempts_max {
            let pause = self.settings.backoff.delay(job.attempts, &mut self.random);
            self.events.failed(job.incoming.message.id, &failure, job.attempts, pause);
            let chain = job.chain.clone();
            let held = Held { jobs: VecDeque::from([job]), due: Instant::now() + pause };
            self.held.insert(chain, held);
            return None;
        }
        match self.bury(&job, &failure).await {
            Ok(is_buried) => {
                if is_buried {
                    self.events.dead_lettered(job.incoming.message.id, &failure, job.attempts);
                }
                self.finish(vec![job]);
                None
            }
            Err(error) if error.is_retryable() => {
                job.attempts -= 1;
                self.wait(vec![job], &error, 2).await;
                None
            }
            Err(error) => Some(error),
        }
    }

    /// Makes the message a dead letter and records it as handled, in one transaction. Does nothing
    /// if another replica has handled the message meanwhile, because it took effect.
    async fn bury(&self, job: &Job, failure: &Failure) -> Result<bool, InboxError> {
        let letter = Letter {
            consumer: self.inbox.consumer().to_owned(),
            message: job.incoming.message.clone(),
            provenance: job.incoming.provenance.clone(),
            attempts: job.attempts,
        };
        if job.origin == Origin::Letter {
            let mut transaction = DB::begin(&self.pool).await?;
            let is_buried = DB::inbox(&mut transaction)?.rebury(&letter, failure).await?;
            DB::commit(transaction).await?;
            return Ok(is_buried);
        }
        let mut open = self.inbox.begin_all(&self.pool, &[Input::from(&job.incoming)]).await?;
        if !open.is_new(0) {
            open.rollback().await;
            return Ok(false);
        }
        DB::inbox(&mut open)?.bury(&letter, failure).await?;
        Ok(open.commit().await? == Handled::Done(()))
    }
}

fn of_inbox(error: InboxError) -> Outcome {
    if error.is_retryable() { Outcome::Later(error) } else { Outcome::Fatal(error) }
}

/// The outcome of a failed commit after the handler ran. A transaction that cannot be committed,
/// for example because of a deferred constraint or of a failed statement that the handler ignored,
/// is a failure of the handler.
fn of_commit(error: InboxError) -> Outcome {
    match error {
        InboxError::Store(error) if error.kind != StoreErrorKind::Unavailable => {
            Outcome::Failed { failure: Failure::new("commit", error.to_string()), is_final: false }
        }
        error => of_inbox(error),
    }
}

fn of_handler(trouble: Trouble) -> Outcome {
    match trouble {
        Trouble::Outage(error) => Outcome::Later(error.into()),
        Trouble::Failed { failure, is_final } => Outcome::Failed { failure, is_final },
    }
}

/// The error when another replica handled one of several messages meanwhile.
fn raced() -> InboxError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        "record",
        "another replica handled some of these messages meanwhile; they are tried again",
    )
    .into()
}
