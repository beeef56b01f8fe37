//! Records every attempt to deliver a message, and derives the causes of duplicates.

use std::collections::HashMap;

use posthaste_core::{MessageId, Outcome, Shard};
use posthaste_history::Cause;

/// The attempts of one route.
#[derive(Default)]
pub(crate) struct Attempts {
    by_id: HashMap<MessageId, Vec<Attempt>>,
}

/// Under which lease an attempt was made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) process: u32,
    pub(crate) shard: Option<Shard>,
    /// Counts the times the process was granted the shard.
    pub(crate) number: u32,
}

struct Attempt {
    term: Term,
    redriven: u32,
    /// The outcome that the relay was told.
    told: Told,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Nothing yet.
    Nothing,
    /// It arrived.
    Acked,
    /// It did not arrive.
    No,
    /// It may have arrived.
    Unknown,
}

impl Attempts {
    /// Records that an attempt begins. Returns the cause why it may bring a duplicate, if there is
    /// one.
    pub(crate) fn started(
        &mut self,
        id: MessageId,
        term: Term,
        redriven: u32,
        is_dead: impl Fn(u32) -> bool,
    ) -> Option<Cause> {
        let attempts = self.by_id.entry(id).or_default();
        let before = attempts.iter().rev().find(|attempt| attempt.told != Told::No);
        let cause = before.and_then(|before| match before.told {
            _ if redriven > before.redriven => Some(Cause::Redrive),
            _ if before.term.process != term.process => match is_dead(before.term.process) {
                true => Some(Cause::Crash),
                false => Some(Cause::TakeOver),
            },
            Told::Unknown => Some(Cause::UnknownOutcome),
            _ if before.term != term => Some(Cause::TakeOver),
            _ => None,
        });
        attempts.push(Attempt { term, redriven, told: Told::Nothing });
        cause
    }

    /// Records the outcome that the relay was told about its latest attempt.
    pub(crate) fn told(&mut self, id: MessageId, term: Term, outcome: &Outcome) {
        let attempts = self.by_id.entry(id).or_default().iter_mut().rev();
        let mut own = attempts.filter(|it| it.term == term && it.told == Told::Nothing);
        if let Some(attempt) = own.next() {
            attempt.told = match outcome {
                Outcome::Acked => Told::Acked,
                Outcome::Rejected(_) | Outcome::Unreachable(_) => Told::No,
                Outcome::Unknown(_) => Told::Unknown,
            };
        }
    }
}
