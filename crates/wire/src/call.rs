//! The order of a call: which of its messages may be on their way together.

use std::{borrow::Cow, sync::Arc};

use foldhash::{HashMap, HashMapExt};
use posthaste_core::{CallOrder, Delivery, Failure, Outcome};

use crate::{Names, Outgoing, Wire};

/// How many messages of a key may be on their way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerKey {
    /// One: the broker may refuse it and take the next.
    One,
    /// Those to one destination in a row: the broker keeps their order, and what makes it refuse one
    /// makes it refuse those behind it.
    SameDestination,
}

/// The user's choice where a broker keeps the order of what is sent, but may refuse one message and
/// take the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// One message of a key is on its way at a time: one that is refused is never overtaken.
    #[default]
    Strict,
    /// As many as a call holds, as long as they go to one destination: faster for a hot key. When the
    /// broker refuses one and takes the next of its key, that one arrives first.
    Pipelined,
}

impl Ordering {
    /// Every ordering, with its name in configuration.
    pub const ALL: [(&'static str, Self); 2] =
        [("strict", Self::Strict), ("pipelined", Self::Pipelined)];

    /// What a call may hold.
    #[must_use]
    pub fn call_order(self) -> CallOrder {
        match self {
            Self::Strict => CallOrder::OnePerKey,
            Self::Pipelined => CallOrder::PerKey,
        }
    }

    /// What may be on its way together.
    #[must_use]
    pub fn per_key(self) -> PerKey {
        match self {
            Self::Strict => PerKey::One,
            Self::Pipelined => PerKey::SameDestination,
        }
    }
}

/// A call on its way to the broker: [`run`](Self::run) hands its messages out, holds back later
/// messages of a key that failed, and collects one outcome for each message. An adapter only sends.
#[derive(Debug)]
pub struct Call<'a, T = ()> {
    per_key: PerKey,
    /// The messages that have a wire form, in order.
    parts: Vec<Part<'a, T>>,
    outcomes: Outcomes<'a>,
}

/// One message of a call.
#[derive(Debug)]
pub struct Part<'a, T = ()> {
    index: usize,
    /// The message.
    pub delivery: &'a Delivery,
    /// Its wire form.
    pub outgoing: Outgoing<'a>,
    /// What the check of the call made of it; an adapter may change it between rounds.
    pub prepared: T,
}

impl<'a> Call<'a> {
    /// A call of these messages. A message without a wire form is rejected here and now, as hopeless.
    #[must_use]
    pub fn new(
        wire: &'a Wire,
        names: &Names,
        per_key: PerKey,
        messages: &'a [Arc<Delivery>],
    ) -> Self {
        Self::checked(wire, names, per_key, messages, |_, _| Ok(()))
    }
}

impl<'a, T> Call<'a, T> {
    /// As [`new`](Call::new), and a message that `check` refuses is rejected, too, as hopeless: names
    /// and sizes that the broker would not take. What it returns is kept with the message.
    #[must_use]
    pub fn checked(
        wire: &'a Wire,
        names: &Names,
        per_key: PerKey,
        messages: &'a [Arc<Delivery>],
        check: impl Fn(&Delivery, &Outgoing<'_>) -> Result<T, Failure>,
    ) -> Self {
        let mut parts = Vec::with_capacity(messages.len());
        let mut outcomes = Outcomes::new(messages);
        for (index, delivery) in messages.iter().enumerate() {
            let encoded = wire.encode(delivery, names).and_then(|outgoing| {
                let prepared = check(delivery, &outgoing)?;
                Ok(Part { index, delivery, outgoing, prepared })
            });
            match encoded {
                Ok(part) => parts.push(part),
                Err(failure) => outcomes.settle(index, Outcome::Rejected(failure.hopeless())),
            }
        }
        Self { per_key, parts, outcomes }
    }

    /// Sends the call in rounds and returns one outcome for each of its messages, in order.
    ///
    /// A message without an answer is unknown. Messages behind one of their key that is not
    /// acknowledged are not handed out any more: they are unreachable, of class `held`.
    pub async fn run(mut self, mut sender: impl Sender<T>) -> Vec<Outcome> {
        let missing =
            || Some(Outcome::Unknown(Failure::new("adapter", "the adapter gave no outcome")));
        let mut idle_rounds = 0;
        loop {
            let open = self.parts.iter().filter(|part| self.outcomes.is_open(part.index)).count();
            if open == 0 {
                return self.outcomes.finish();
            }
            // A call of one message, which is common, needs no list.
            let (mut one, mut many);
            let round = if open == 1 {
                one = self.parts.iter_mut().find(|part| self.outcomes.is_open(part.index));
                one.as_mut_slice()
            } else {
                many = next_round(&mut self.parts, &self.outcomes, self.per_key, open);
                many.as_mut_slice()
            };
            let mut answers = sender.send(round).await.into_iter();
            let mut is_idle = true;
            for part in round {
                if let Some(outcome) = answers.next().map_or_else(missing, Into::into) {
                    is_idle = false;
                    self.outcomes.settle(part.index, outcome);
                }
            }
            idle_rounds = if is_idle { idle_rounds + 1 } else { 0 };
            if idle_rounds == IDLE_ROUNDS_MAX {
                let stuck = Failure::new("adapter", "the adapter sends nothing");
                self.outcomes.settle_rest(&Outcome::Unreachable(stuck));
            }
        }
    }
}

/// What an adapter does with a call: it sends what [`Call::run`] hands out.
pub trait Sender<T = ()>: Send {
    /// `Outcome`, or `Option<Outcome>` where a message may be left for the next round.
    type Answer: Into<Option<Outcome>>;

    /// Sends the messages of a round, which may be on their way together, and answers for each, in
    /// the same order. `None` is the answer for a message that was surely not sent and may come
    /// again in the next round; of one key, only messages behind those that were sent may be left.
    fn send(
        &mut self,
        round: &mut [&mut Part<'_, T>],
    ) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// Rounds in a row in which nothing is sent. No adapter needs as many.
const IDLE_ROUNDS_MAX: usize = 100;

/// Those of the open messages that may be sent together now, in order.
fn next_round<'r, 'a, T>(
    parts: &'r mut [Part<'a, T>],
    outcomes: &Outcomes<'_>,
    per_key: PerKey,
    count: usize,
) -> Vec<&'r mut Part<'a, T>> {
    let mut round = Vec::with_capacity(count);
    let open = parts.iter_mut().filter(|part| outcomes.is_open(part.index));
    let mut lanes: HashMap<&str, Lane<'a>> = HashMap::with_capacity(count);
    round.extend(open.filter(|part| {
        let delivery: &'a Delivery = part.delivery;
        let Some(key) = delivery.message.key.as_deref() else { return true };
        let destination = &part.outgoing.destination;
        match lanes.get_mut(key) {
            None => {
                lanes.insert(key, Lane { destination: destination.clone(), is_closed: false });
                true
            }
            Some(lane) => lane.fits(per_key, destination),
        }
    }));
    round
}

struct Lane<'a> {
    destination: Cow<'a, str>,
    /// Something of the key had to wait, so all after it has to.
    is_closed: bool,
}

impl Lane<'_> {
    fn fits(&mut self, per_key: PerKey, destination: &str) -> bool {
        self.is_closed |= per_key == PerKey::One || self.destination != destination;
        !self.is_closed
    }
}

/// The outcomes of a call as they become known. A message that is not acknowledged holds back the
/// later messages of its key.
///
/// [`Call`] has one; an adapter needs its own only where its messages have no [`Outgoing`] form.
#[derive(Debug)]
pub struct Outcomes<'a> {
    messages: &'a [Arc<Delivery>],
    outcomes: Vec<Option<Outcome>>,
    /// Keys of which a message failed, with the place of the first that did.
    failed: HashMap<&'a str, usize>,
}

impl<'a> Outcomes<'a> {
    /// No outcome yet for any of these messages.
    #[must_use]
    pub fn new(messages: &'a [Arc<Delivery>]) -> Self {
        Self { messages, outcomes: vec![None; messages.len()], failed: HashMap::new() }
    }

    /// Whether a message is still to be sent: it has no outcome, and none of its key before it failed.
    #[must_use]
    pub fn is_open(&self, index: usize) -> bool {
        self.outcomes[index].is_none()
            && (self.failed.is_empty()
                || self
                    .key(index)
                    .and_then(|key| self.failed.get(key))
                    .is_none_or(|&at| at > index))
    }

    /// Takes the outcome of a message in.
    pub fn settle(&mut self, index: usize, outcome: Outcome) {
        if outcome != Outcome::Acked
            && let Some(key) = self.key(index)
        {
            self.failed.entry(key).and_modify(|at| *at = index.min(*at)).or_insert(index);
        }
        self.outcomes[index] = Some(outcome);
    }

    /// Gives all messages that are still to be sent this outcome.
    pub fn settle_rest(&mut self, outcome: &Outcome) {
        // All of them first: the outcome of one must not hold back the next.
        let open: Vec<usize> = (0..self.outcomes.len()).filter(|&at| self.is_open(at)).collect();
        for index in open {
            self.settle(index, outcome.clone());
        }
    }

    /// One outcome for each message, in order. Those without one were held back.
    #[must_use]
    pub fn finish(self) -> Vec<Outcome> {
        let held =
            || Outcome::Unreachable(Failure::new("held", "an earlier message of the key failed"));
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(held)).collect()
    }

    fn key(&self, index: usize) -> Option<&'a str> {
        self.messages[index].message.key.as_deref()
    }
}
