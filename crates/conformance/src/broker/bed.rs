//! What an adapter's tests must supply: a server, adapters and topics on it, and faults.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_core::{Broker, Subscriber, Subscription};
use posthaste_wire::Wire;

/// Makes beds. One per test binary.
#[async_trait]
pub trait Fixture: Send + Sync + 'static {
    /// The bed of all cases that leave the server alone: they run at once, on topics of their own.
    /// Asked for once. Panics, saying why, if there is none to be had.
    async fn shared(&self) -> Arc<dyn Bed>;

    /// The bed of the cases that stop, kill or freeze the server: nobody else uses it, and its
    /// [`Bed::faults`] are there. Asked for once, the cases run on it one after the other.
    async fn private(&self) -> Arc<dyn Bed>;
}

/// A server, and the ways to it that the ports do not offer.
#[async_trait]
pub trait Bed: Send + Sync + 'static {
    /// An adapter as an application opens it, on this bed's server. Works while it is stopped.
    async fn broker(&self, wire: Wire) -> Arc<dyn Broker>;

    /// A subscriber that is in place: what is published from here on arrives. Panics, saying why,
    /// if it cannot be made.
    async fn subscriber(&self, wire: Wire, subscription: Subscription) -> Box<dyn Subscriber>;

    /// Topics that nobody else uses and that can be published to (exchange, stream or topic exist):
    /// a name made up for this call, followed by each of the endings, which are lower-case letters,
    /// digits and dots, or nothing. Cases subscribe before they publish, in case only that makes a
    /// message routable.
    async fn topics(&self, endings: &[&str]) -> Vec<String>;

    /// What the broker and its adapter are like. Constant.
    fn traits(&self) -> Traits;

    /// Faults of this bed's server, if it has it to itself.
    fn faults(&self) -> Option<&dyn Faults>;
}

/// Does harm to a server. Each call returns when it is done, and does nothing if it was done already;
/// data of an orderly stop are kept, those that were acknowledged survive a kill where
/// [`Traits::survives_kill`].
#[async_trait]
pub trait Faults: Send + Sync {
    /// Stops it in order: returns when nothing listens any more.
    async fn stop(&self);

    /// Kills it (`SIGKILL`).
    async fn kill(&self);

    /// Starts it again at the same address with the same data: returns when it serves.
    async fn start(&self);

    /// Makes it silent with all connections open (`SIGSTOP`).
    async fn freeze(&self);

    /// Undoes [`freeze`](Self::freeze) (`SIGCONT`).
    async fn thaw(&self);
}

/// What a broker and its adapter are like, where brokers differ. The default is the most that any
/// can do; whatever is taken away is a case that is skipped, with its reason.
#[derive(Clone, Debug)]
pub struct Traits {
    /// Largest payload the server takes, as its own setting says; up to 2 KiB of it may go to the
    /// other parts of a message. `None` if it takes whatever fits an outbox (8 MiB).
    pub payload_max: Option<usize>,
    /// Topics the adapter must refuse, each illegal in its own way.
    pub illegal_topics: Vec<String>,
    /// Headers (name, value) the adapter must refuse, each illegal in its own way.
    pub illegal_headers: Vec<(String, String)>,
    /// Which of the suite's odd headers the adapter must refuse, by their label
    /// ([`ODD_HEADERS`](super::ODD_HEADERS)); all others must arrive unchanged.
    pub refused_odd_headers: Vec<&'static str>,
    /// Whether the broker does not tell upper from lower case in header names.
    pub folds_header_names: bool,
    /// Whether a message's form on the wire is that of `posthaste-wire`. Only a broker in memory,
    /// which has none, may say no.
    pub has_wire_form: bool,
    /// Whether the destination template decides where a message goes.
    pub has_destinations: bool,
    /// Whether several subscriptions each get their own copy of everything.
    pub fans_out: bool,
    /// Whether a name that comes back goes on where it stopped, with all that came meanwhile.
    pub has_names: bool,
    /// Whether subscribers of one name share its messages.
    pub shares_names: bool,
    /// Whether what was received and not acknowledged comes again to the next subscriber of the
    /// name.
    pub redelivers: bool,
    /// Whether a name may be subscribed to in order
    /// ([`Sharing::Ordered`](posthaste_core::Sharing::Ordered)); an adapter that cannot refuses, and
    /// tests that itself.
    pub has_lanes: bool,
    /// Whether the broker names a copy of a message, the same name when it comes again: what the id
    /// of a message that brings none is derived from.
    pub names_copies: bool,
    /// Whether [`Start::Beginning`](posthaste_core::Start::Beginning) brings what was there before.
    pub keeps_history: bool,
    /// Whether what was acknowledged survives a kill of the server as the bed has set it up.
    pub survives_kill: bool,
}

impl Default for Traits {
    fn default() -> Self {
        Self {
            payload_max: None,
            illegal_topics: Vec::new(),
            illegal_headers: Vec::new(),
            refused_odd_headers: Vec::new(),
            folds_header_names: false,
            has_wire_form: true,
            has_destinations: true,
            fans_out: true,
            has_names: true,
            shares_names: true,
            redelivers: true,
            has_lanes: true,
            names_copies: true,
            keeps_history: true,
            survives_kill: true,
        }
    }
}
