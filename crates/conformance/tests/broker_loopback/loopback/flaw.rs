//! Ways to be broken.

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Nothing.
    None,

    // What is sent.
    /// Leaves out a message's last header.
    DropsAHeader,
    /// Takes every payload for text.
    PayloadIsText,
    /// Gives a message without a key an empty one.
    EmptyKeyForNone,
    /// Sends times to the second.
    TimeToTheSecond,
    /// Ignores the destination's template.
    IgnoresTheTemplate,
    /// Lets a line break end a header, and another begin.
    LineBreakEndsAHeader,
    /// Trims header values.
    TrimsHeaders,
    /// Makes up an id when a message is sent again.
    NewIdOnResend,
    /// Checks neither names nor sizes.
    ChecksNothing,
    /// Stores every hundredth message twice.
    StoresTwice,

    // What is answered.
    /// Acknowledges every hundredth message without storing it.
    AcksUnstored,
    /// Gives the outcomes in the wrong order.
    SwapsOutcomes,
    /// Gives one outcome too few for a full call.
    ForgetsAnOutcome,
    /// Fails the whole call for one bad message.
    FailsTogether,
    /// Says that a message is too large by breaking the connection.
    TooLargeIsUnknown,
    /// Says of no message that further attempts are in vain.
    NothingIsHopeless,
    /// Shows payloads in failures.
    ShowsPayloads,
    /// Takes a timeout for success.
    TimeoutIsSuccess,
    /// Takes a stopped server for a refusal.
    StoppedIsRejected,
    /// Does not know what was never sent.
    StoppedIsUnknown,

    // Order.
    /// Sends what a call holds in any order.
    AnyOrderInACall,
    /// Goes on with a key after a failure.
    GoesOnAfterAFailure,

    // Time and connections.
    /// Waits for an answer as long as it takes.
    IgnoresTheDeadline,
    /// One call waits for the other before its own time begins.
    CallsQueue,
    /// Uses a broken connection for ever.
    NeverRedials,
    /// Cannot be opened without a server.
    OpenDials,
    /// Acknowledges what it has in a buffer, and forgets that when it is closed.
    AcksWhatItBuffers,
    /// Panics when it is used after it was closed.
    PanicsAfterClose,
    /// Does not return from closing while the server is silent.
    CloseWaitsForTheServer,

    // Examining.
    /// Finds nothing wrong with a stopped server.
    ExaminesNothing,
    /// Shows the password.
    ShowsThePassword,

    // Receiving.
    /// Takes a message, then waits, then gives it out.
    TakesThenWaits,
    /// Does not tell the server what was acknowledged.
    ForgetsAcknowledgements,
    /// Acknowledges all that came before as well.
    AcknowledgesTooMuch,
    /// Takes what it gave out for handled.
    NeverRedelivers,
    /// Gives each subscriber of a name everything.
    NamesAreNotShared,
    /// Lets listeners take each other's messages.
    ListenersShare,
    /// Forgets a name when its last subscriber goes.
    NamesAreForgotten,
    /// Gives everything to everybody.
    IgnoresPatterns,
    /// Starts with what is new though asked for the beginning.
    BeginningIsNew,
    /// Starts with the beginning though asked for what is new.
    NewIsBeginning,
    /// Derives ids from the moment.
    DerivedIdsChange,
    /// Never works again after its connection broke.
    SubscriberStaysBroken,

    // The server itself, which is what an adapter with weak settings looks like.
    /// Loses what it took last when it is killed.
    KillLoses,
    /// Loses what it took last when it is stopped.
    StopLoses,
}
