//! Publishing: one batch outstanding, acknowledged from its first message on.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Finding, Invalid, Outcome,
    TopicPattern,
};
use posthaste_wire::Outcomes;
use tokio::{
    sync::Mutex,
    task::yield_now,
    time::{Instant, timeout_at},
};

use crate::{
    Config, Frames,
    config::Target,
    connect::Session,
    examine::examine,
    frame::{Batch, Event, Tag, Writer},
    outcome::{Fault, outcome},
};

/// Most messages of a call.
const CALL_MESSAGES_MAX: usize = 5000;
/// What an endless deadline is taken for.
const DEADLINE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Most acknowledgements that are kept for messages nobody has asked about. Forgetting one costs a
/// duplicate.
const ACKED_MAX: usize = 100_000;

/// Publishes to a consumer that listens. Connects when there is something to publish, and again
/// after a connection failed.
pub struct TcpBroker {
    target: Target,
    writer: Writer,
    /// Locked for a whole call: calls of several shards follow each other.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The connection, while nobody uses it.
    session: Option<Session>,
    /// The batch that was sent last and not acknowledged. With native frames the next call forgets
    /// it; with original frames it stays until it is acknowledged.
    pending: Option<Batch>,
    /// Messages of a batch that was acknowledged in another call than the one they came with.
    acked: HashSet<Tag>,
}

impl TcpBroker {
    /// Checks the configuration and nothing else: the consumer may be down.
    ///
    /// # Errors
    /// Names the field, its value without secrets, and what would be right.
    pub fn open(config: Config) -> Result<Self, Invalid> {
        let target = config.target()?;
        let writer = Writer::new(config.line_wire(), config.frames, config.frame_bytes_max);
        Ok(Self { target, writer, state: Mutex::default() })
    }

    /// The messages of a call that can be sent. A message without a frame is rejected, and holds back
    /// the later messages of its key.
    fn events(&self, messages: &[Arc<Delivery>], outcomes: &mut Outcomes<'_>) -> Vec<Event> {
        let mut events = Vec::with_capacity(messages.len());
        for (index, delivery) in messages.iter().enumerate() {
            if !outcomes.is_open(index) {
                continue;
            }
            match self.writer.event(index, delivery) {
                Ok(event) => events.push(event),
                Err(failure) => outcomes.settle(index, Outcome::Rejected(failure.hopeless())),
            }
        }
        events
    }

    /// Sends batch after batch until every event has its outcome.
    async fn send(
        &self,
        state: &mut State,
        mut events: Vec<Event>,
        outcomes: &mut Outcomes<'_>,
        until: Instant,
    ) {
        if self.writer.frames() == Frames::Native {
            // What a call left that was dropped half-way.
            (state.pending, state.acked) = (None, HashSet::new());
        }
        loop {
            let fault = self.settle_pending(state, until).await;
            events.retain(|event| {
                let is_acked = state.acked.remove(&event.tag);
                if is_acked {
                    outcomes.settle(event.index, Outcome::Acked);
                }
                !is_acked
            });
            if let Some(fault) = fault {
                return state.failed(&events, &fault, outcomes);
            }
            if events.is_empty() {
                return;
            }
            state.pending = Some(self.writer.batch(&events));
        }
    }

    /// Sends the pending batch, if there is one, and waits for its acknowledgement.
    async fn settle_pending(&self, state: &mut State, until: Instant) -> Option<Fault> {
        let State { session, pending, acked } = state;
        let batch = pending.as_ref()?;
        if Instant::now() >= until {
            return Some(Fault::NoTime(Duration::ZERO));
        }
        // Out of its place while it is used: whoever drops this call takes it along.
        let mut used = match self.session(session.take(), until).await {
            Ok(used) => used,
            Err(fault) => return Some(fault),
        };
        let (count, fault) = used.exchange(batch, until).await;
        if acked.len() > ACKED_MAX {
            acked.clear();
        }
        acked.extend(&batch.messages[..count]);
        match fault {
            None => {
                *pending = None;
                *session = Some(used);
            }
            // Whatever comes late on this connection can only be about the same batch, and the
            // original consumers accept no second connection.
            Some(Fault::Late(_)) if self.writer.frames() == Frames::Original => {
                *session = Some(used);
            }
            Some(_) => {}
        }
        fault
    }

    /// A connection that is not known to be closed.
    async fn session(&self, kept: Option<Session>, until: Instant) -> Result<Session, Fault> {
        let asked_at = Instant::now();
        if let Some(mut session) = kept {
            // Lets a connection that was closed meanwhile notice it.
            yield_now().await;
            if session.is_open() {
                return Ok(session);
            }
        }
        let dialled = timeout_at(until, Session::dial(&self.target)).await;
        dialled.unwrap_or_else(|_| Err(Fault::NoTime(asked_at.elapsed())))
    }
}

impl State {
    /// What a fault of the pending batch means for the messages of the call.
    fn failed(&self, events: &[Event], fault: &Fault, outcomes: &mut Outcomes<'_>) {
        let was_sent = matches!(fault, Fault::Lost(_) | Fault::Late(_) | Fault::Answer(_));
        let batch = self.pending.iter().flat_map(|batch| &batch.messages);
        let batch: HashSet<&Tag> = batch.collect();
        let (of_it, beside) = (outcome(fault), outcome(&Fault::Held));
        for event in events {
            let is_held = was_sent && !batch.contains(&event.tag);
            outcomes.settle(event.index, if is_held { beside.clone() } else { of_it.clone() });
        }
    }
}

#[async_trait]
impl Broker for TcpBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::Total, call_messages_max: CALL_MESSAGES_MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let now = Instant::now();
        let until = now.checked_add(deadline).unwrap_or(now + DEADLINE_MAX);
        let mut outcomes = Outcomes::new(messages);
        let events = self.events(messages, &mut outcomes);
        match timeout_at(until, self.state.lock()).await {
            Ok(mut state) => self.send(&mut state, events, &mut outcomes, until).await,
            Err(_) => outcomes.settle_rest(&outcome(&Fault::Busy(now.elapsed()))),
        }
        outcomes.finish()
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        examine(&self.target, self.writer.frames()).await
    }

    async fn close(&self) {
        // Acknowledged or given up: nothing is buffered.
        self.state.lock().await.session = None;
    }
}
