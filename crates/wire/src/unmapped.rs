//! Driver errors that an adapter does not map to an outcome.

use posthaste_core::{Failure, Outcome};

/// The outcome of an unmapped driver error: `Unknown`, counted in
/// `posthaste_unmapped_errors_total`, so that the missing mapping is noticed.
pub fn unmapped(adapter: &'static str, error: impl std::fmt::Display) -> Outcome {
    metrics::counter!("posthaste_unmapped_errors_total", "adapter" => adapter).increment(1);
    Outcome::Unknown(Failure::new("unmapped", error.to_string()))
}

/// Registers help text and unit of the metrics of adapters with the installed recorder. Call it
/// once, after installing the recorder.
pub fn describe_metrics() {
    metrics::describe_counter!(
        "posthaste_unmapped_errors_total",
        metrics::Unit::Count,
        "Errors of a broker's driver that the adapter does not map to an outcome: please report them."
    );
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };

    use super::*;

    /// A recorder that sums the counter of one adapter.
    #[derive(Default)]
    struct Counting(Arc<AtomicU64>);

    impl Recorder for Counting {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            let labels: Vec<_> = key.labels().map(|label| (label.key(), label.value())).collect();
            assert_eq!((key.name(), &labels[..]), (NAME, &[("adapter", "carrier-pigeon")][..]));
            Counter::from_arc(Arc::clone(&self.0))
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    const NAME: &str = "posthaste_unmapped_errors_total";

    #[test]
    fn what_nobody_mapped_is_unknown_and_counted() {
        let counting = Counting::default();
        metrics::with_local_recorder(&counting, || {
            for _ in 0..3 {
                let outcome = unmapped("carrier-pigeon", "lost over the sea");
                let failure = Failure::new("unmapped", "lost over the sea");
                assert_eq!(outcome, Outcome::Unknown(failure));
            }
        });
        assert_eq!(counting.0.load(Ordering::Relaxed), 3);
    }
}
