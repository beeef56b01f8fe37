//! Parked messages: waiting for another attempt, or dead letters.

use std::time::{Duration, SystemTime};

use crate::{Failure, Message, MessageId, Seq};

/// The state of a parked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParkState {
    /// The message waits for another attempt, or behind an earlier parked message of its key.
    Retrying,
    /// The message is a dead letter and waits for a person. It may or may not block its key.
    Dead,
    /// A person discarded the message, with a reason.
    Discarded,
}

impl ParkState {
    /// The name of the state in SQL, JSON and on screen.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retrying => "retrying",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
        }
    }
}

/// Parks a message for the first time. Settling it again for the same seq changes nothing.
#[derive(Clone, Debug)]
pub struct Park {
    /// The whole message, because retention may remove it from the log.
    pub message: Message,
    /// Age of the message when it was read.
    pub age: Duration,
    /// The seq of the message, its attempts and its error.
    pub report: Repark,
}

/// The result of another attempt of a parked message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repark {
    /// The seq of the message.
    pub seq: Seq,
    /// Definite refusals so far.
    pub attempts: u32,
    /// Unknown outcomes so far, each while other messages were answered.
    pub unknowns: u32,
    /// The latest error; `None` while the message only waits behind others of its key.
    pub failure: Option<Failure>,
    /// What happens next.
    pub next: Next,
}

/// What happens next to a parked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The message is tried again after the delay, by the database's clock, once it is the first of
    /// its key.
    Retry(Duration),
    /// The message becomes a dead letter; its key goes on.
    Dead,
    /// The message becomes a dead letter; its key waits for a person.
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
    /// Time since it was enqueued, by the same clock.
    pub age: Duration,
}

/// A filter of parked messages, for people.
#[derive(Clone, Debug, Default)]
pub struct ParkedFilter {
    /// Only messages of this route.
    pub route: Option<String>,
    /// Only these messages; empty selects any.
    pub ids: Vec<MessageId>,
    /// Only messages of this topic.
    pub topic: Option<String>,
    /// Only messages whose latest error has this class.
    pub class: Option<String>,
    /// Selects retrying messages instead of dead letters.
    pub is_retrying: bool,
}

/// A parked message, for people.
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
    /// Time to the next attempt; `None` if none is planned.
    pub next_attempt_in: Option<Duration>,
    /// The person who last redrove or discarded it, and the reason.
    pub acted: Option<(String, String)>,
}
