//! Messages put aside: waiting for another attempt, or given up.

use std::time::{Duration, SystemTime};

use crate::{Failure, Message, MessageId, Seq};

/// What a parked message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParkState {
    /// Another attempt, or for the parked messages of its key before it.
    Retrying,
    /// A person: it will not be retried by itself. It may or may not hold back its key.
    Dead,
    /// Nothing: a person gave it up, by name and with a reason.
    Discarded,
}

impl ParkState {
    /// The word for it in SQL, JSON and on screen.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retrying => "retrying",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
        }
    }
}

/// Puts a message aside for the first time. Settling it again for the same seq changes nothing.
#[derive(Clone, Debug)]
pub struct Park {
    /// The whole message: the log may forget it.
    pub message: Message,
    /// How old the message was when it was read.
    pub age: Duration,
    /// Its place in the log, and what was learned about it.
    pub report: Repark,
}

/// What was learned about a parked message by trying it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repark {
    /// Which one.
    pub seq: Seq,
    /// Definite refusals so far.
    pub attempts: u32,
    /// Sends so far whose outcome never became known while other messages passed.
    pub unknowns: u32,
    /// The latest error; `None` while it only waits behind others of its key.
    pub failure: Option<Failure>,
    /// What happens next.
    pub next: Next,
}

/// What happens next to a parked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Try again after the delay, by the database's clock, once it is the first of its key.
    Retry(Duration),
    /// Give it up; the key goes on.
    Dead,
    /// Give it up; the key waits for a person.
    DeadAndBlock,
}

/// A parked message that is due.
#[derive(Clone, Debug)]
pub struct Parked {
    /// Its place in the log.
    pub seq: Seq,
    /// The message.
    pub message: Message,
    /// Definite refusals so far; a redrive starts again at 0.
    pub attempts: u32,
    /// Unknown outcomes so far.
    pub unknowns: u32,
    /// Times a person sent it again.
    pub redriven: u32,
    /// When it was enqueued, by the database's clock.
    pub enqueued_at: SystemTime,
    /// Time since then, by the same clock.
    pub age: Duration,
}

/// Which parked messages a person means.
#[derive(Clone, Debug, Default)]
pub struct ParkedFilter {
    /// Of this route only.
    pub route: Option<String>,
    /// These messages only; empty is any.
    pub ids: Vec<MessageId>,
    /// Of this topic only.
    pub topic: Option<String>,
    /// Whose latest error is of this class only.
    pub class: Option<String>,
    /// Messages that are retrying, instead of dead letters.
    pub is_retrying: bool,
}

/// A parked message as people see it.
#[derive(Clone, Debug)]
pub struct ParkedView {
    /// The route it failed on.
    pub route: String,
    /// Its place in the log.
    pub seq: Seq,
    /// The message.
    pub message: Message,
    /// Its state.
    pub state: ParkState,
    /// Definite refusals since it was parked or last redriven.
    pub attempts: u32,
    /// Unknown outcomes.
    pub unknowns: u32,
    /// Times a person sent it again.
    pub redriven: u32,
    /// First error: class and detail.
    pub first_error: Option<(String, String)>,
    /// Latest error: class and detail.
    pub last_error: Option<(String, String)>,
    /// When the message was enqueued, as RFC 3339 in UTC.
    pub created_at: String,
    /// When it was parked, as RFC 3339 in UTC.
    pub parked_at: String,
    /// When it got its present state, as RFC 3339 in UTC.
    pub state_at: String,
    /// Time to the next attempt; `None` where there is none planned.
    pub next_attempt_in: Option<Duration>,
    /// Who last acted on it, and why.
    pub acted: Option<(String, String)>,
}
