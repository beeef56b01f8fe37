//! The kinds of faults, by name.

use serde::Serialize;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// One kind of fault. A schedule has some of them, each with its own rate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name of the fault in traces and summaries.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

faults! {
    /// A relay dies at some await.
    RelayCrash = "relay-crash",
    /// A relay stands still, perhaps for longer than its lease.
    RelayPause = "relay-pause",
    /// A relay is told to stop, and started again.
    RelayStop = "relay-stop",
    /// A task of a relay panics.
    ShardPanic = "shard-panic",
    /// The broker accepted the message, and its answer was lost.
    AckLost = "ack-lost",
    /// The message was lost on its way to the broker, and so no answer came.
    SendLost = "send-lost",
    /// The message reached the broker long after its sender had given up waiting.
    SendLate = "send-late",
    /// The broker got the message twice.
    SendTwice = "send-twice",
    /// The broker answered slowly.
    BrokerSlow = "broker-slow",
    /// The broker refused a message this once.
    Refusal = "refusal",
    /// A message that the broker always refuses.
    Poison = "poison",
    /// The broker could not be used for a while.
    Outage = "outage",
    /// A store call failed and had no effect.
    StoreFailsBefore = "store-fails-before",
    /// A store call failed and had its effect.
    StoreFailsAfter = "store-fails-after",
    /// A store call took seconds.
    StoreSlow = "store-slow",
    /// A store call was given up, and had its effect later.
    StoreLate = "store-late",
    /// The store could not be used for a while.
    StoreOutage = "store-outage",
    /// The database went back to what it had been earlier: a backup, or a standby that lagged.
    Rewind = "rewind",
    /// The database's clock jumped ahead.
    ClockAhead = "clock-ahead",
    /// The database's clock went back.
    ClockBack = "clock-back",
    /// The number of a route's shards was changed.
    Reshard = "reshard",
    /// A person redrove dead letters.
    Redrive = "redrive",
    /// A person discarded a dead letter.
    Discard = "discard",
    /// A transaction stayed open for seconds.
    LongTransaction = "long-transaction",
    /// A transaction was rolled back.
    Rollback = "rollback",
    /// An application was not told whether its transaction committed.
    CommitUnknown = "commit-unknown",
    /// The application did not wake the relay after a commit.
    WakeLost = "wake-lost",
    /// A consumer died at some await.
    ConsumerCrash = "consumer-crash",
    /// A consumer stood still.
    ConsumerPause = "consumer-pause",
    /// A consumer's acknowledgement was lost.
    ConsumerAckLost = "consumer-ack-lost",
    /// A handler failed.
    HandlerFails = "handler-fails",
    /// A route was registered for messages that waited for one, while a purge ran.
    Register = "register",
    /// A topic whose messages waited for a route was added to a route, while a purge ran.
    Widen = "widen",
    /// A session kept rows of a route locked: calls that need them hung.
    RouteLocked = "route-locked",
    /// A call to the consumer's database failed and had no effect.
    InboxFailsBefore = "inbox-fails-before",
    /// A commit in the consumer's database was not answered, and took place.
    InboxFailsAfter = "inbox-fails-after",
}
