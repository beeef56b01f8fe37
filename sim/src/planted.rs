//! Deliberate bugs. Each must be found within a bounded number of seeds, or the simulator is blind.

use posthaste_relay::Planted as InRelay;

use crate::Fault;

macro_rules! planted {
    ($($(#[$doc:meta])* $name:ident = $text:literal, [$($need:ident),*] $(, $relay:ident)?;)*) => {
        /// A deliberate bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Planted {
            $($(#[$doc])* $name,)*
        }

        impl Planted {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The trouble without which it does no harm.
            #[must_use]
            pub fn needs(self) -> &'static [Fault] {
                match self {
                    $(Self::$name => &[$(Fault::$need),*],)*
                }
            }

            /// The bug of the engine that it stands for, where it is one.
            pub(crate) fn in_relay(self) -> Option<InRelay> {
                match self {
                    $($(Self::$name => Some(InRelay::$relay),)?)*
                    _ => None,
                }
            }
        }
    };
}

planted! {
    /// Store: reads `seq > n`, so what commits late is never read.
    CursorBySeq = "cursor-by-seq", [LongTransaction];
    /// Store: orders by transaction id, then by seq.
    OrderByTransaction = "order-by-transaction", [LongTransaction];
    /// Store: leaves out the last row of a page.
    PageDropsItsLastRow = "page-drops-its-last-row", [];
    /// Store: splits rows, not keys, over shards.
    RowClaim = "row-claim", [Refusal];
    /// Store: writes progress whatever the epoch.
    UnfencedResult = "unfenced-result", [RelayPause];
    /// Store: the asking relay's clock decides whether a lease has expired.
    LocalClock = "local-clock", [];
    /// Store: lets a late release end another's lease.
    ReleaseByAnyTerm = "release-by-any-term", [RelayPause, RelayStop, StoreLate];
    /// Store: writes the position first and parked messages after it.
    SettleInTwoSteps = "settle-in-two-steps", [RelayCrash, Refusal];
    /// Store: counts a take-over as an attempt of parked messages.
    CrashIsAttempt = "crash-is-attempt", [RelayCrash, Refusal, Poison];
    /// Store: sends dead letters again under new ids.
    RedriveMakesANewId = "redrive-makes-a-new-id", [Refusal, Redrive];
    /// Store: returns discarded messages as due.
    DiscardRace = "discard-race", [Refusal, Discard];
    /// Store: removes old messages, delivered or not.
    CleanupByAge = "cleanup-by-age", [Outage];
    /// Store: removes all messages below the positions, late commits too.
    CleanupIgnoresLateRows = "cleanup-ignores-late-rows", [LongTransaction];
    /// Store: purges by an outdated list of routes.
    PurgeByOldRoutes = "purge-by-old-routes", [Register];
    /// Store: takes every transaction for ended, so floors claim too much.
    FloorPastAtOnce = "floor-past-at-once", [LongTransaction];
    /// Store: does not tell a new lease holder the parked messages, so floors claim too much.
    GrantForgetsParked = "grant-forgets-parked", [Refusal, RelayCrash];
    /// Store: writing progress panics at times; the relay hears that the store cannot be used.
    StorePanics = "store-panics", [ShardPanic];
    /// Broker: a timeout counts as an acknowledgement.
    TimeoutOk = "timeout-ok", [SendLost];
    /// Broker: a timeout counts as a refusal.
    TimeoutIsRefusal = "timeout-is-refusal", [SendLost, AckLost];
    /// Broker: a returned message counts as an acknowledgement.
    ReturnOk = "return-ok", [Refusal];
    /// Application: sends to the broker first, and commits then.
    PublishBeforeCommit = "publish-before-commit", [Rollback];
    /// Inbox: effect and record in two transactions.
    InboxNotAtomic = "inbox-not-atomic", [ConsumerCrash, InboxFailsBefore];
    /// Inbox: acknowledges before the commit.
    AckBeforeCommit = "ack-before-commit", [ConsumerCrash];
    /// Inbox: one record for all consumers.
    InboxWithoutConsumer = "inbox-without-consumer", [];
    /// Inbox: forgets ids while copies may come.
    InboxWindow = "inbox-window", [ConsumerCrash, ConsumerAckLost];
    /// Inbox: two may handle the same message at once.
    InboxUnlocked = "inbox-unlocked", [ConsumerCrash, ConsumerPause];
    /// Relay: done when sent, not when acknowledged.
    MarkFirst = "mark-first", [Refusal, SendLost], MarkFirst;
    /// Relay: several messages of a key in flight.
    Pipelined = "pipelined", [Refusal], Pipelined;
    /// Relay: goes on with a key after a failure in it.
    ContinueAfterFail = "continue-after-fail", [Refusal], ContinueAfterFail;
    /// Relay: a key goes on behind a dead letter that is not written down. It was so until the
    /// simulator found a take-over in between.
    GoesOnUnwritten = "goes-on-unwritten", [Refusal, RelayPause, RelayCrash, StoreSlow], GoesOnUnwritten;
    /// Relay: a key goes on while a message of it is parked.
    UnblocksTooEarly = "unblocks-too-early", [Refusal], UnblocksTooEarly;
    /// Relay: settles messages as passed that were only read.
    SettlesWhatIsRead = "settles-what-is-read", [RelayCrash], SettlesWhatIsRead;
    /// Relay: what is put aside is written before the position passes it. It was so until the simulator
    /// found out what that does to a discarded message.
    ParksAhead = "parks-ahead", [Refusal, SendLost, RelayCrash, Discard], ParksAhead;
    /// Relay: forgets a settlement that failed.
    DropsUnwritten = "drops-unwritten", [Refusal, StoreFailsBefore], DropsUnwritten;
    /// Relay: a shard whose task panicked stays where it is.
    NoSupervisor = "no-supervisor", [ShardPanic], NoSupervisor;
    /// Relay: a shard's task panics by itself, and is mended.
    ShardPanics = "shard-panics", [ShardPanic];
    /// Relay: looks into the outbox only when woken.
    NotifyOnly = "notify-only", [WakeLost], NotifyOnly;
    /// Relay: an outage spends attempts.
    OutageIsAttempt = "outage-is-attempt", [Outage], OutageIsAttempt;
    /// Relay: floors call parked messages delivered.
    FloorForgetsParked = "floor-forgets-parked", [Refusal], FloorForgetsParked;
    /// Relay: a shard that is to be split ends before it has finished.
    BarrierUnfinished = "barrier-unfinished", [Reshard], BarrierUnfinished;
    /// Relay: keeps its cursor when the database goes back in time. It was so until a standby that lagged
    /// was promoted under a running relay.
    KeepsCursor = "keeps-cursor", [Rewind], KeepsCursor;
    /// Relay: writes progress without asking whether the database went back in time.
    SettlesUnchecked = "settles-unchecked", [Rewind, RelayPause, BrokerSlow], SettlesUnchecked;
    /// Relay: goes on under the log's old name after the database went back in time.
    KeepsIdentity = "keeps-identity", [Rewind], KeepsIdentity;
    /// Relay: routes wait for each other's store calls. This was a real bug until a locked lease
    /// showed it.
    RoutesInLine = "routes-in-line", [RouteLocked, RelayCrash], RoutesInLine;
}
