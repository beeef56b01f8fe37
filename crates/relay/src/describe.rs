//! Help texts and units of the relay's metrics. `events` writes the metrics; a test compares the
//! two lists.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Registers help text and unit of every metric of relays with the installed recorder. Call it
/// once, after installing the recorder.
pub fn describe_metrics() {
    counters();
    gauges_and_histograms();
}

fn counters() {
    describe_counter!(
        "posthaste_published_messages_total",
        Unit::Count,
        "Messages that the broker acknowledged, duplicates included."
    );
    describe_counter!(
        "posthaste_publish_failures_total",
        Unit::Count,
        "Answers of the broker that were not an acknowledgement, by outcome and class."
    );
    describe_counter!(
        "posthaste_retries_total",
        Unit::Count,
        "Refused or unanswered messages that were parked to be tried again."
    );
    describe_counter!(
        "posthaste_dead_lettered_total",
        Unit::Count,
        "Messages that became dead letters."
    );
    describe_counter!(
        "posthaste_leases_acquired_total",
        Unit::Count,
        "Leases acquired: at start, by take-over, by sharing, by a change of shards."
    );
    describe_counter!(
        "posthaste_fenced_total",
        Unit::Count,
        "Leases lost to another relay while serving."
    );
    describe_counter!(
        "posthaste_rewinds_total",
        Unit::Count,
        "Times a shard found that the log had gone back in time."
    );
    describe_counter!(
        "posthaste_store_failures_total",
        Unit::Count,
        "Failed store calls, by operation and error code."
    );
    describe_counter!("posthaste_shard_panics_total", Unit::Count, "Panics of shard tasks: a bug.");
    describe_counter!(
        "posthaste_purged_messages_total",
        Unit::Count,
        "Messages removed from the log by retention."
    );
}

fn gauges_and_histograms() {
    describe_gauge!(
        "posthaste_in_flight_messages",
        Unit::Count,
        "Unanswered messages at the broker."
    );
    describe_gauge!(
        "posthaste_route_paused",
        "1 while the broker cannot be used and the route is paused, else 0."
    );
    describe_gauge!(
        "posthaste_route_stuck",
        "1 while a store call that registers, reshards or acquires the route fails, else 0."
    );
    describe_gauge!("posthaste_relay_leases", Unit::Count, "Shards that this relay serves.");
    describe_histogram!(
        "posthaste_delivery_latency_seconds",
        Unit::Seconds,
        "Age of a message when the broker acknowledged it, by the clock of the database."
    );
    describe_histogram!(
        "posthaste_publish_duration_seconds",
        Unit::Seconds,
        "Time of one call to the broker."
    );
    describe_histogram!(
        "posthaste_fetch_duration_seconds",
        Unit::Seconds,
        "Time of one fetch from the store."
    );
    describe_histogram!(
        "posthaste_fetch_messages",
        Unit::Count,
        "Messages that one fetch from the store returned."
    );
    describe_histogram!(
        "posthaste_settle_duration_seconds",
        Unit::Seconds,
        "Time of one settlement that was written."
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The metric names that stand in a file.
    fn names(source: &str) -> BTreeSet<&str> {
        let texts = source.split('"').skip(1).step_by(2);
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
        texts.filter(|text| text.starts_with("posthaste_") && text.chars().all(is_part)).collect()
    }

    #[test]
    fn every_metric_that_events_write_is_described_and_no_other() {
        let (described, _) = include_str!("describe.rs").split_once("#[cfg(test)]").unwrap();
        let described = names(described);
        assert_eq!(described, names(include_str!("events.rs")));
        assert!(described.len() >= 17, "{described:?}");
    }
}
