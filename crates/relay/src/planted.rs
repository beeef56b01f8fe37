//! Deliberate bugs that the simulator must find. A build without the feature `planted` has none of
//! them; with it, a bug is active only on a thread that asked for it.

/// A bug in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Counts a message as done when it is sent, not when it is acknowledged.
    MarkFirst,
    /// Sends later messages of a key while an earlier one is unanswered.
    Pipelined,
    /// Goes on with a key whose message was refused.
    ContinueAfterFail,
    /// Goes on with a key behind a dead letter that is not settled.
    GoesOnUnwritten,
    /// Lets a key go on while a message of it is parked.
    UnblocksTooEarly,
    /// Settles all messages that have been read as passed.
    SettlesWhatIsRead,
    /// Settles parked messages before the position passes them.
    ParksAhead,
    /// Drops a settlement that could not be written.
    DropsUnwritten,
    /// Does not serve a shard again after its task panicked.
    NoSupervisor,
    /// Fetches only when woken.
    NotifyOnly,
    /// Counts an outage as a refusal.
    OutageIsAttempt,
    /// Sends floors that cover parked messages as delivered.
    FloorForgetsParked,
    /// Ends a shard before a reshard although it has not reached the barrier.
    BarrierUnfinished,
    /// Keeps its cursor when the log goes back in time.
    KeepsCursor,
    /// Settles without the check whether the log went back in time.
    SettlesUnchecked,
    /// Goes on under the log's old name after the log went back in time.
    KeepsIdentity,
    /// Makes the store calls of one route after another instead of in parallel.
    RoutesInLine,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Activates the bug for every relay of this thread, or deactivates all bugs.
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
