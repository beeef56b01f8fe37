//! One case, and the program that runs all of them as named tests.

use std::{panic::AssertUnwindSafe, process::ExitCode, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use libtest_mimic::{Arguments, Trial};
use posthaste_core::InboxError;

use super::{Bed, Fixture};
use crate::verdict::{Verdict, completion, text_of};

/// Longest a case may take: it is stuck then. Generous, because machines that test are busy.
const CASE_TIME_MAX: Duration = Duration::from_secs(120);

/// What a case is while it runs.
pub(super) type Finding = BoxFuture<'static, Result<(), InboxError>>;

/// A fact about inboxes, and how to find out whether it holds for one.
#[derive(Clone, Copy)]
pub struct Case {
    /// `what::fact`.
    pub name: &'static str,
    /// It means something only where several transactions may be open at once.
    pub needs_concurrent_writers: bool,
    pub(super) run: fn(Arc<dyn Bed>) -> Finding,
}

impl Case {
    /// Finds out about one store, in a fresh bed.
    pub async fn check(&self, fixture: &dyn Fixture) -> Verdict {
        let bed = fixture.fresh().await;
        if self.needs_concurrent_writers && !bed.has_concurrent_writers() {
            bed.remove().await;
            return Verdict::Skipped("the store has one writer at a time");
        }
        let case = AssertUnwindSafe((self.run)(Arc::clone(&bed))).catch_unwind();
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

/// Runs every case against the fixture's store, with the arguments of this process.
pub fn run(store: &str, fixture: impl Fixture) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let fixture: Arc<dyn Fixture> = Arc::new(fixture);
    let trials = super::cases().into_iter().map(|case| {
        let (handle, fixture) = (runtime.handle().clone(), Arc::clone(&fixture));
        Trial::ignorable_test(case.name, move || {
            let checked = handle.spawn(async move { case.check(fixture.as_ref()).await });
            completion(handle.block_on(checked))
        })
        .with_kind(store)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Lists the named functions of a module as its cases.
macro_rules! cases {
    ($group:literal: [$($name:ident),* $(,)?] $(, concurrent: [$($race:ident),* $(,)?])?) => {
        /// The cases of this module.
        pub(super) fn cases() -> Vec<crate::inbox::Case> {
            vec![
                $(crate::inbox::Case {
                    name: concat!($group, "::", stringify!($name)),
                    needs_concurrent_writers: false,
                    run: |bed| Box::pin($name(bed)),
                },)*
                $($(crate::inbox::Case {
                    name: concat!($group, "::", stringify!($race)),
                    needs_concurrent_writers: true,
                    run: |bed| Box::pin($race(bed)),
                },)*)?
            ]
        }
    };
}
pub(super) use cases;
