//! The order of a call: which of its messages may be on their way together.

use std::sync::Arc;

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

/// A call taken apart: parts to be sent one after the other, each with its answers. What follows a
/// message of its key that failed is never handed out.
#[derive(Debug)]
pub struct Call<'a, T = ()> {
    per_key: PerKey,
    waiting: Vec<Part<'a, T>>,
    outcomes: Vec<Option<Outcome>>,
}

/// One message of a call.
#[derive(Debug)]
pub struct Part<'a, T = ()> {
    index: usize,
    /// The message.
    pub delivery: &'a Delivery,
    /// Its wire form.
    pub outgoing: Outgoing<'a>,
    /// What the check of the call made of it.
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
    /// As [`new`](Call::new), and what `check` refuses is rejected, too, as hopeless: names and sizes
    /// that the broker would not take. What it returns is kept with the message.
    #[must_use]
    pub fn checked(
        wire: &'a Wire,
        names: &Names,
        per_key: PerKey,
        messages: &'a [Arc<Delivery>],
        check: impl Fn(&Delivery, &Outgoing<'_>) -> Result<T, Failure>,
    ) -> Self {
        let mut call = Self {
            per_key,
            waiting: Vec::with_capacity(messages.len()),
            outcomes: vec![None; messages.len()],
        };
        let mut refused = Vec::new();
        for (index, delivery) in messages.iter().enumerate() {
            let encoded = wire.encode(delivery, names).and_then(|outgoing| {
                let prepared = check(delivery, &outgoing)?;
                Ok(Part { index, delivery, outgoing, prepared })
            });
            match encoded {
                Ok(part) => call.waiting.push(part),
                Err(failure) => refused.push((index, failure)),
            }
        }
        for (index, failure) in refused {
            call.outcomes[index] = Some(Outcome::Rejected(failure.hopeless()));
            call.hold_back(index, messages[index].message.key.as_deref());
        }
        call
    }

    /// The next messages to send together, in order; none once everything is answered.
    #[must_use]
    pub fn next_part(&mut self) -> Vec<Part<'a, T>> {
        if self.waiting.len() <= 1 {
            return std::mem::take(&mut self.waiting);
        }
        let mut lanes: HashMap<&str, Lane<'a>> = HashMap::with_capacity(self.waiting.len());
        let (mut part, mut later) = (Vec::with_capacity(self.waiting.len()), Vec::new());
        for message in self.waiting.drain(..) {
            let delivery: &'a Delivery = message.delivery;
            let fits = delivery.message.key.as_deref().is_none_or(|key| {
                let destination = &message.outgoing.destination;
                match lanes.get_mut(key) {
                    None => {
                        lanes.insert(
                            key,
                            Lane { destination: destination.clone(), is_closed: false },
                        );
                        true
                    }
                    Some(lane) => lane.fits(self.per_key, destination),
                }
            });
            if fits { part.push(message) } else { later.push(message) }
        }
        self.waiting = later;
        part
    }

    /// Takes in the answers to a part, one for each message. A missing one is unknown.
    pub fn report(&mut self, part: Vec<Part<'a, T>>, outcomes: Vec<Outcome>) {
        let mut outcomes = outcomes.into_iter();
        for message in part {
            let outcome = outcomes.next().unwrap_or_else(|| {
                Outcome::Unknown(Failure::new("adapter", "the adapter gave no outcome"))
            });
            let is_acked = outcome == Outcome::Acked;
            self.outcomes[message.index] = Some(outcome);
            if !is_acked {
                self.hold_back(message.index, message.delivery.message.key.as_deref());
            }
        }
    }

    /// One outcome for each message of the call, in order.
    #[must_use]
    pub fn finish(self) -> Vec<Outcome> {
        let held =
            || Outcome::Unreachable(Failure::new("held", "an earlier message of the key failed"));
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(held)).collect()
    }

    fn hold_back(&mut self, index: usize, key: Option<&str>) {
        if key.is_some() {
            self.waiting.retain(|other| {
                other.index < index || other.delivery.message.key.as_deref() != key
            });
        }
    }
}

struct Lane<'a> {
    destination: std::borrow::Cow<'a, str>,
    /// Something of the key had to wait, so all after it has to.
    is_closed: bool,
}

impl Lane<'_> {
    fn fits(&mut self, per_key: PerKey, destination: &str) -> bool {
        self.is_closed |= per_key == PerKey::One || self.destination != destination;
        !self.is_closed
    }
}
