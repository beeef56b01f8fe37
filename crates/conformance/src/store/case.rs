//! One case, and the program that runs all of them as named tests.

use std::{panic::AssertUnwindSafe, process::ExitCode, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use libtest_mimic::{Arguments, Trial};
use posthaste_core::{StoreCapabilities, StoreError};

use super::{StoreFixture, kit::Kit};
use crate::verdict::{Verdict, completion, text_of};

/// Longest a case may take: it is stuck then. Generous, because machines that test are busy.
const CASE_TIME_MAX: Duration = Duration::from_secs(120);

/// A fact about stores, and how to find out whether it holds for one.
#[derive(Clone, Copy)]
pub struct Case {
    /// `operation::fact`.
    pub name: &'static str,
    /// What a store must be able to do for the case to mean anything.
    pub needs: Needs,
    pub(super) run: fn(Kit) -> BoxFuture<'static, Result<(), StoreError>>,
}

/// What a case asks of a store beyond the port's minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: the case is for every store.
    Nothing,
    /// Several open transactions at once.
    ConcurrentWriters,
}

impl Needs {
    fn missing(self, capabilities: StoreCapabilities) -> Option<&'static str> {
        match self {
            Self::ConcurrentWriters if !capabilities.concurrent_writers => {
                Some("the store has one writer at a time (concurrent_writers: false)")
            }
            Self::ConcurrentWriters | Self::Nothing => None,
        }
    }
}

impl Case {
    /// Finds out about one store, in a fresh bed.
    pub async fn check(&self, fixture: &dyn StoreFixture) -> Verdict {
        let bed = fixture.fresh().await;
        if let Some(reason) = self.needs.missing(bed.store().capabilities()) {
            bed.remove().await;
            return Verdict::Skipped(reason);
        }
        let case = AssertUnwindSafe((self.run)(Kit::new(Arc::clone(&bed)))).catch_unwind();
        let verdict = match tokio::time::timeout(CASE_TIME_MAX, case).await {
            Ok(Ok(Ok(()))) => Verdict::Holds,
            Ok(Ok(Err(error))) => Verdict::Broken(format!("the store failed: {error:?}")),
            Ok(Err(panic)) => Verdict::Broken(text_of(panic.as_ref())),
            Err(_) => Verdict::Broken(format!("not done within {CASE_TIME_MAX:?}")),
        };
        bed.remove().await;
        verdict
    }
}

/// Runs every case against the fixture's store, in parallel, with the arguments of this process
/// (those of `cargo test`: a filter, `--list`, `--test-threads`).
pub fn run(store: &str, fixture: impl StoreFixture) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let fixture: Arc<dyn StoreFixture> = Arc::new(fixture);
    let trials = super::cases().into_iter().map(|case| {
        let (handle, fixture) = (runtime.handle().clone(), Arc::clone(&fixture));
        Trial::ignorable_test(case.name, move || {
            // Spawned, so that the case runs on the runtime's workers and not on this thread.
            let checked = handle.spawn(async move { case.check(fixture.as_ref()).await });
            completion(handle.block_on(checked))
        })
        .with_kind(store)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Lists the named functions of a module as its cases.
macro_rules! cases {
    ($operation:literal; $($needs:ident: [$($name:ident),* $(,)?]),* $(,)?) => {
        /// The cases of this module.
        pub(super) fn cases() -> Vec<crate::store::Case> {
            vec![$($(crate::store::Case {
                name: concat!($operation, "::", stringify!($name)),
                needs: crate::store::Needs::$needs,
                run: |kit| Box::pin($name(kit)),
            }),*),*]
        }
    };
}
pub(super) use cases;
