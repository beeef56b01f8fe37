//! Deliberate bugs, for the simulator to find. Nothing of this is in a build without the feature
//! `planted`; with it, a bug is there only on a thread that asked for it.

/// A bug in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Counts a message as done when it is sent, not when it is acknowledged.
    MarkFirst,
    /// Sends later messages of a key while an earlier one is unanswered.
    Pipelined,
    /// Goes on with a key whose message was refused.
    ContinueAfterFail,
    /// Goes on with a key behind a dead letter that is not written down.
    GoesOnUnwritten,
    /// Lets a key go on while a message of it is parked.
    UnblocksTooEarly,
    /// Writes down as passed whatever has been read.
    SettlesWhatIsRead,
    /// Writes down what is put aside before the position passes it.
    ParksAhead,
    /// Drops a settlement that could not be written.
    DropsUnwritten,
    /// Leaves a shard alone whose task panicked.
    NoSupervisor,
    /// Looks into the outbox only when woken.
    NotifyOnly,
    /// Takes an outage for a refusal.
    OutageIsAttempt,
    /// Says that parked messages have been delivered.
    FloorForgetsParked,
    /// Ends a shard that is to be split before it has finished.
    BarrierUnfinished,
    /// Keeps its cursor when the log goes back in time.
    KeepsCursor,
    /// Writes progress without asking whether the log went back in time.
    SettlesUnchecked,
    /// Goes on under the log's old name after the log went back in time.
    KeepsIdentity,
    /// Asks for one route at a time, and waits for the answer before it asks for another.
    RoutesInLine,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Makes every relay of this thread have the bug, or none.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Planted>) {
    PLANTED.set(bug);
}

/// Whether relays of this thread have the bug.
#[cfg(feature = "planted")]
pub(crate) fn has(bug: Planted) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether relays of this thread have the bug: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn has(_: Planted) -> bool {
    false
}
