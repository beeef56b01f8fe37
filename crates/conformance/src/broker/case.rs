//! One case, and the program that runs all of them as named tests.

use std::{panic::AssertUnwindSafe, process::ExitCode, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use libtest_mimic::{Arguments, Trial};
use posthaste_core::{BrokerCapabilities, BrokerError, CallOrder};
use posthaste_wire::Wire;
use tokio::sync::{Mutex, OnceCell};

use super::{Bed, Fixture, Traits, kit::Kit};
use crate::verdict::{Verdict, completion, text_of};

/// Longest a case may take: it is stuck then. Generous, because machines that test are busy.
const CASE_TIME_MAX: Duration = Duration::from_secs(180);

/// A fact about brokers, and how to find out whether it holds for one.
#[derive(Clone, Copy)]
pub struct Case {
    /// `subject::fact`.
    pub name: &'static str,
    /// What a broker must be able to do for the case to mean anything.
    pub needs: &'static [Needs],
    pub(super) run: fn(Kit) -> BoxFuture<'static, Result<(), BrokerError>>,
}

/// What a case asks of a broker, or of its bed, beyond the ports' minimum. All but the first are
/// fields of [`Traits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// A server to stop, kill or freeze: the case runs on the private bed.
    Faults,
    /// Calls may overlap ([`CallOrder`] is not `Total`).
    Overlap,
    /// Several of a key in a call ([`CallOrder`] is not `OnePerKey`).
    SeveralOfAKey,
    /// A limit below what fits an outbox.
    PayloadLimit,
    /// No limit below what fits an outbox.
    NoPayloadLimit,
    /// [`Traits::has_wire_form`].
    WireForm,
    /// [`Traits::has_destinations`].
    Destinations,
    /// [`Traits::fans_out`].
    FanOut,
    /// [`Traits::has_names`].
    Names,
    /// [`Traits::shares_names`].
    SharedNames,
    /// [`Traits::redelivers`].
    Redelivery,
    /// [`Traits::names_copies`].
    NamedCopies,
    /// [`Traits::keeps_history`].
    History,
    /// [`Traits::has_lanes`].
    Lanes,
    /// [`Traits::survives_kill`].
    SurvivesKill,
}

impl Needs {
    fn missing(self, traits: &Traits, order: CallOrder) -> Option<&'static str> {
        let (is_met, reason) = match self {
            Self::Faults => (true, "runs on the private bed"),
            Self::Overlap => {
                (order != CallOrder::Total, "the adapter takes one call at a time (Total)")
            }
            Self::SeveralOfAKey => {
                (order != CallOrder::OnePerKey, "a call holds one message of a key (OnePerKey)")
            }
            Self::PayloadLimit => {
                (traits.payload_max.is_some(), "every payload of an outbox fits (payload_max)")
            }
            Self::NoPayloadLimit => {
                (traits.payload_max.is_none(), "the broker has a limit (payload_max)")
            }
            Self::WireForm => (traits.has_wire_form, "messages have no wire form (has_wire_form)"),
            Self::Destinations => {
                (traits.has_destinations, "there are no destinations (has_destinations)")
            }
            Self::FanOut => (traits.fans_out, "a message goes to one subscriber (fans_out)"),
            Self::Names => (traits.has_names, "subscriptions have no names (has_names)"),
            Self::SharedNames => (traits.shares_names, "nobody shares a name (shares_names)"),
            Self::Redelivery => (traits.redelivers, "nothing is delivered again (redelivers)"),
            Self::NamedCopies => (traits.names_copies, "copies have no names (names_copies)"),
            Self::History => (traits.keeps_history, "the broker keeps no history (keeps_history)"),
            Self::Lanes => (traits.has_lanes, "nothing keeps order over a name (has_lanes)"),
            Self::SurvivesKill => {
                (traits.survives_kill, "acknowledged is not safe from a kill (survives_kill)")
            }
        };
        (!is_met).then_some(reason)
    }
}

impl Case {
    /// Whether the case runs on the private bed.
    #[must_use]
    pub fn does_harm(&self) -> bool {
        self.needs.contains(&Needs::Faults)
    }

    /// Finds out about one broker. A case that does harm must have the bed to itself.
    pub async fn check(&self, bed: Arc<dyn Bed>) -> Verdict {
        let traits = bed.traits();
        let BrokerCapabilities { call_order, .. } =
            bed.broker(Wire::default()).await.capabilities();
        if let Some(reason) = self.needs.iter().find_map(|need| need.missing(&traits, call_order)) {
            return Verdict::Skipped(reason);
        }
        let case = AssertUnwindSafe((self.run)(Kit::new(Arc::clone(&bed)))).catch_unwind();
        let verdict = match tokio::time::timeout(CASE_TIME_MAX, case).await {
            Ok(Ok(Ok(()))) => Verdict::Holds,
            Ok(Ok(Err(error))) => Verdict::Broken(format!("the broker failed: {error:?}")),
            Ok(Err(panic)) => Verdict::Broken(text_of(panic.as_ref())),
            Err(_) => Verdict::Broken(format!("not done within {CASE_TIME_MAX:?}")),
        };
        if self.does_harm()
            && let Some(faults) = bed.faults()
        {
            // Whatever became of the case, the next one finds a server that works.
            faults.thaw().await;
            faults.start().await;
        }
        verdict
    }
}

/// The beds of a run, made when the first case needs them.
struct Beds {
    fixture: Box<dyn Fixture>,
    shared: OnceCell<Arc<dyn Bed>>,
    /// Locked by the case that runs on it.
    private: Mutex<Option<Arc<dyn Bed>>>,
}

impl Beds {
    async fn check(&self, case: Case) -> Verdict {
        if case.does_harm() {
            let mut private = self.private.lock().await;
            let bed = match &*private {
                Some(bed) => Arc::clone(bed),
                None => Arc::clone(private.insert(self.fixture.private().await)),
            };
            return case.check(bed).await;
        }
        let bed = self.shared.get_or_init(|| self.fixture.shared()).await;
        case.check(Arc::clone(bed)).await
    }
}

/// Runs every case against the fixture's broker with the arguments of this process (those of
/// `cargo test`: a filter, `--list`, `--test-threads`). Neither bed is made unless a case runs on it.
pub fn run(broker: &str, fixture: impl Fixture) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let beds = Arc::new(Beds {
        fixture: Box::new(fixture),
        shared: OnceCell::new(),
        private: Mutex::new(None),
    });
    let trials = super::cases().into_iter().map(|case| {
        let (handle, beds) = (runtime.handle().clone(), Arc::clone(&beds));
        Trial::ignorable_test(case.name, move || {
            // Spawned, so that the case runs on the runtime's workers and not on this thread.
            completion(handle.block_on(handle.spawn(async move { beds.check(case).await })))
        })
        .with_kind(broker)
    });
    let code = libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code();
    // Beds may hold connections, which want a runtime around them when they go.
    let _inside = runtime.enter();
    drop(beds);
    code
}

/// Lists the named functions of a module as its cases.
macro_rules! cases {
    ($subject:literal; $([$($needs:ident),*]: [$($name:ident),* $(,)?]),* $(,)?) => {
        /// The cases of this module.
        pub(super) fn cases() -> Vec<crate::broker::Case> {
            let mut all = Vec::new();
            $({
                const NEEDS: &[crate::broker::Needs] = &[$(crate::broker::Needs::$needs),*];
                all.extend([$(crate::broker::Case {
                    name: concat!($subject, "::", stringify!($name)),
                    needs: NEEDS,
                    run: |kit| Box::pin($name(kit)),
                }),*]);
            })*
            all
        }
    };
}
pub(super) use cases;
