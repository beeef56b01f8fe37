//! Decides which messages are new for a consumer, on the connection of the handler's transaction:
//! [`admit`](InboxRule::admit) runs before the handler, [`conclude`](InboxRule::conclude) after it.

use std::collections::{BTreeMap, HashSet};

use uuid::Uuid;

use crate::{
    InboxConnection, Incoming, Invalid, Judgement, LaneKey, MessageId, NAME_BYTES_MAX, Place,
    Provenance, StoreError, StoreErrorKind, Tally, Watermark,
};

/// Most pages that one statement writes.
const PAGES_WRITTEN_MAX: usize = 256;
/// Most pages that one transaction removes. Handling a message writes at most one page, so removing
/// keeps up.
const PAGES_REMOVED_MAX: u32 = 64;

/// How an inbox records handled messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxMode {
    /// By id, recorded before the handler runs: of two replicas with the same message one waits for
    /// the other, and the handler never runs twice at once.
    IdsFirst,
    /// By id, recorded after the handler ran: no replica waits, but two replicas may run the
    /// handler for the same message, and one of them is rolled back.
    IdsLast,
    /// By position, for lanes that are consumed in order: exact without a window, and of bounded
    /// size.
    Watermark,
}

/// A message as an inbox sees it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'m> {
    /// Id of the message.
    pub id: MessageId,
    /// Topic of the message.
    pub topic: &'m str,
    /// Key of the message.
    pub key: Option<&'m str>,
    /// Source, seq and floor of the message; `None` if they are not known.
    pub provenance: Option<&'m Provenance>,
    /// The lane in which the message came, if the subscription is ordered.
    pub lane: Option<&'m str>,
}

impl<'m> From<&'m Incoming> for Input<'m> {
    fn from(incoming: &'m Incoming) -> Self {
        Self {
            id: incoming.message.id,
            topic: &incoming.message.topic,
            key: incoming.message.key.as_deref(),
            provenance: Some(&incoming.provenance),
            lane: incoming.lane.as_deref(),
        }
    }
}

/// For messages that were received without a [`Subscriber`](crate::Subscriber): the id is enough
/// for the modes by id.
impl From<MessageId> for Input<'_> {
    fn from(id: MessageId) -> Self {
        Self { id, topic: "", key: None, provenance: None, lane: None }
    }
}

/// Why an inbox cannot decide whether a message is new, or cannot record it. The message has not
/// taken effect, unless the error is a failed commit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The message carries no position in its log.
    #[error(
        "[PH-3001] message {id} carries no position: its sender is no Posthaste relay, or its wire \
         form leaves the position out; consumer `{consumer}` cannot use watermark mode here, id mode \
         works everywhere"
    )]
    NoPosition {
        /// The consumer.
        consumer: String,
        /// The message.
        id: MessageId,
    },
    /// The message did not come in a lane that is consumed in order.
    #[error(
        "[PH-3002] message {id} did not come in an ordered lane, so a watermark could drop messages \
         that another handler has not finished; consumer `{consumer}` must subscribe with \
         `Sharing::Ordered`, or use id mode"
    )]
    NotOrdered {
        /// The consumer.
        consumer: String,
        /// The message.
        id: MessageId,
    },
    /// The source sends from a log that the consumer does not know.
    #[error(
        "[PH-3003] source `{source_name}` sends from log {log}, which consumer `{consumer}` does not \
         know: the source was restored from a backup or promoted, the topics of its route changed, or \
         two routes or outboxes of that name send the same topic; `posthaste inbox adopt --consumer \
         {consumer} --source {source_name} --log {log}` goes on with the log, and messages that the \
         source sends again take effect again"
    )]
    OtherLog {
        /// The consumer.
        consumer: String,
        /// The source.
        source_name: String,
        /// The unknown log.
        log: Uuid,
    },
    /// The source hands out positions of the same log a second time.
    #[error(
        "[PH-3004] source `{source_name}` sends message {id} at a position of log {log} where consumer \
         `{consumer}` has handled an earlier message: the source was restored from a backup without \
         `posthaste migrate --adopt`; `posthaste inbox adopt --again --consumer {consumer} --source \
         {source_name} --log {log}` goes on with the log, and messages that the source sends again \
         take effect again"
    )]
    ReusedPosition {
        /// The consumer.
        consumer: String,
        /// The source.
        source_name: String,
        /// The log whose positions the source hands out a second time.
        log: Uuid,
        /// The message.
        id: MessageId,
    },
}

impl InboxError {
    /// The stable code of `docs/reference/errors.md`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind.code(),
            Self::NoPosition { .. } => "PH-3001",
            Self::NotOrdered { .. } => "PH-3002",
            Self::OtherLog { .. } => "PH-3003",
            Self::ReusedPosition { .. } => "PH-3004",
        }
    }

    /// Whether the same call may succeed later without a person acting.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_retryable())
    }
}

/// A consumer's name and mode.
#[derive(Clone, Debug)]
pub struct InboxRule {
    /// Name of the consumer: two consumers with different names both handle the same message.
    pub consumer: String,
    /// How the inbox records handled messages.
    pub mode: InboxMode,
}

/// Which messages of a transaction are new, and what to record once they are handled.
#[derive(Debug, Default)]
pub struct Admitted {
    /// For each given message, in order, whether it is new and the handler is to run.
    pub is_new: Vec<bool>,
    /// Ids that `conclude` records.
    ids: Vec<MessageId>,
    /// Locked lanes, with the watermarks and counts that `conclude` writes.
    lanes: BTreeMap<LaneKey, (Watermark, Tally)>,
}

impl Admitted {
    /// The number of new messages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.is_new.iter().filter(|is_new| **is_new).count()
    }

    /// Counts of the new messages by their order, as watermarks found it.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        for (_, tally) in self.lanes.values() {
            sum.handled += tally.handled;
            sum.reordered += tally.reordered;
            sum.impossible += tally.impossible;
        }
        sum
    }
}

impl InboxRule {
    /// Checks the consumer's name.
    ///
    /// # Errors
    /// See [`Invalid`].
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.consumer.is_empty() || self.consumer.len() > NAME_BYTES_MAX {
            let rule = format!("must be 1 to {NAME_BYTES_MAX} bytes");
            return Err(Invalid::new("consumer", &self.consumer, &rule));
        }
        Ok(())
    }

    /// Decides which messages are new. The caller then runs the handler for the new messages, in
    /// order and in the same transaction; if one handler fails, the caller rolls everything back.
    ///
    /// # Errors
    /// Any [`InboxError`]; roll back. Kind `Refused` if the consumer's name breaks its limit.
    pub async fn admit(
        &self,
        connection: &mut dyn InboxConnection,
        inputs: &[Input<'_>],
    ) -> Result<Admitted, InboxError> {
        self.validate().map_err(|invalid| {
            StoreError::new(StoreErrorKind::Refused, "admit", invalid.to_string())
        })?;
        match self.mode {
            InboxMode::Watermark => self.admit_by_position(connection, inputs).await,
            InboxMode::IdsFirst | InboxMode::IdsLast => self.admit_by_id(connection, inputs).await,
        }
    }

    /// Records the new messages as handled; commit after it. `false` means that another replica has
    /// handled one of them meanwhile: roll back, then admit again.
    ///
    /// # Errors
    /// Any [`InboxError`]; roll back.
    pub async fn conclude(
        &self,
        connection: &mut dyn InboxConnection,
        admitted: &Admitted,
    ) -> Result<bool, InboxError> {
        if !admitted.ids.is_empty() {
            let recorded = connection.record(&self.consumer, &admitted.ids).await?;
            if recorded < admitted.ids.len() as u64 {
                return Ok(false);
            }
        }
        for (lane, (watermark, tally)) in &admitted.lanes {
            if tally.handled > 0 {
                let mut watermark = watermark.clone();
                turn_pages(connection, lane, &mut watermark).await?;
                connection.write_lane(lane, &watermark.to_string(), *tally).await?;
            }
        }
        Ok(true)
    }

    async fn admit_by_id(
        &self,
        connection: &mut dyn InboxConnection,
        inputs: &[Input<'_>],
    ) -> Result<Admitted, InboxError> {
        let ids: Vec<MessageId> = inputs.iter().map(|input| input.id).collect();
        if let ([id], InboxMode::IdsFirst) = (ids.as_slice(), self.mode) {
            let is_new = connection.record(&self.consumer, &[*id]).await? > 0;
            return Ok(Admitted { is_new: vec![is_new], ..Admitted::default() });
        }
        let mut seen: HashSet<MessageId> =
            connection.recorded(&self.consumer, &ids).await?.into_iter().collect();
        let is_new: Vec<bool> = ids.iter().map(|id| seen.insert(*id)).collect();
        let new = ids.iter().zip(&is_new).filter(|(_, is_new)| **is_new).map(|(id, _)| *id);
        let new: Vec<MessageId> = new.collect();
        if self.mode == InboxMode::IdsLast {
            return Ok(Admitted { is_new, ids: new, ..Admitted::default() });
        }
        if !new.is_empty() && connection.record(&self.consumer, &new).await? < new.len() as u64 {
            let message = "another replica handled some of these messages meanwhile; try again";
            return Err(StoreError::new(StoreErrorKind::Unavailable, "record", message).into());
        }
        Ok(Admitted { is_new, ..Admitted::default() })
    }

    async fn admit_by_position(
        &self,
        connection: &mut dyn InboxConnection,
        inputs: &[Input<'_>],
    ) -> Result<Admitted, InboxError> {
        let mut admitted = Admitted::default();
        // Lanes are locked in a fixed order, whatever the order of the messages, so that two
        // transactions never deadlock.
        let mut places = Vec::with_capacity(inputs.len());
        for input in inputs {
            let (lane, place) = self.place(input)?;
            admitted.lanes.entry(lane.clone()).or_default();
            places.push((lane, place));
        }
        let sources: BTreeMap<&LaneKey, &str> =
            places.iter().zip(inputs).map(|((lane, _), input)| (lane, source_of(input))).collect();
        for (lane, (watermark, _)) in &mut admitted.lanes {
            *watermark = self.lock(connection, lane, sources[lane]).await?;
            let of_lane = places.iter().filter(|(of, _)| of == lane).map(|(_, place)| place);
            for wanted in watermark.wanted(&of_lane.collect::<Vec<_>>()) {
                let pages = connection.read_pages(lane, &wanted).await?;
                watermark.read(&wanted, &pages).map_err(|why| unreadable(lane, &why))?;
            }
        }
        for ((lane, place), input) in places.iter().zip(inputs) {
            let (watermark, tally) = admitted.lanes.get_mut(lane).expect("put in above");
            let is_new = match watermark.judge(place) {
                Judgement::Copy => false,
                Judgement::Reused => {
                    return Err(InboxError::ReusedPosition {
                        consumer: self.consumer.clone(),
                        source_name: source_of(input).to_owned(),
                        log: lane.log,
                        id: input.id,
                    });
                }
                Judgement::New { is_reordered, is_impossible } => {
                    watermark.record(place);
                    tally.handled += 1;
                    tally.reordered += u64::from(is_reordered);
                    tally.impossible += u64::from(is_impossible);
                    true
                }
            };
            admitted.is_new.push(is_new);
        }
        Ok(admitted)
    }

    fn place<'m>(&self, input: &Input<'m>) -> Result<(LaneKey, Place<'m>), InboxError> {
        let consumer = || self.consumer.clone();
        let position = input.provenance.and_then(|it| Some((it.seq?, it.floor.as_ref()?)));
        let Some((seq, floor)) = position else {
            return Err(InboxError::NoPosition { consumer: consumer(), id: input.id });
        };
        let Some(lane) = input.lane else {
            return Err(InboxError::NotOrdered { consumer: consumer(), id: input.id });
        };
        let lane = LaneKey {
            consumer: consumer(),
            log: floor.log,
            lane: lane.to_owned(),
            topic: input.topic.to_owned(),
        };
        let written_at = input.provenance.and_then(|it| it.enqueued_at);
        Ok((lane, Place { seq, key: input.key, floor, written_at }))
    }

    async fn lock(
        &self,
        connection: &mut dyn InboxConnection,
        lane: &LaneKey,
        source: &str,
    ) -> Result<Watermark, InboxError> {
        let text = connection.lock_lane(lane).await?;
        if text.is_empty() && !connection.accept_log(lane, source).await? {
            return Err(InboxError::OtherLog {
                consumer: self.consumer.clone(),
                source_name: source.to_owned(),
                log: lane.log,
            });
        }
        text.parse().map_err(|why: String| unreadable(lane, &why).into())
    }
}

/// Moves handled seqs to pages if the watermark has too many, and removes a bounded number of pages
/// that its floors have passed.
async fn turn_pages(
    connection: &mut dyn InboxConnection,
    lane: &LaneKey,
    watermark: &mut Watermark,
) -> Result<(), StoreError> {
    for overflow in watermark.overflow() {
        let shard = overflow.there.shard;
        let there = if overflow.there.numbers.is_empty() {
            Vec::new()
        } else {
            connection.read_pages(lane, &overflow.there).await?
        };
        let pages = overflow.into_pages(&there).map_err(|why| unreadable(lane, &why))?;
        for pages in pages.chunks(PAGES_WRITTEN_MAX) {
            connection.write_pages(lane, shard, pages).await?;
        }
    }
    for (shard, passed) in watermark.passed() {
        let next = connection.remove_pages(lane, shard, passed, PAGES_REMOVED_MAX).await?;
        watermark.removed(shard, next);
    }
    Ok(())
}

fn unreadable(lane: &LaneKey, why: &str) -> StoreError {
    let message = format!("the watermark of lane `{}` cannot be read: {why}", lane.lane);
    StoreError::new(StoreErrorKind::Refused, "lock_lane", message)
}

fn source_of<'m>(input: &Input<'m>) -> &'m str {
    input.provenance.and_then(|provenance| provenance.source.as_deref()).unwrap_or("")
}
