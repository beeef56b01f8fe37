//! Help texts and units of all metrics of the library. A test compares the consumer's list with the
//! metrics that its events write.

use metrics::{Unit, describe_counter, describe_gauge};

/// Registers help text and unit of every metric of relays, consumers and broker adapters with the
/// installed recorder. Call it once, after installing an exporter.
pub fn describe_metrics() {
    posthaste_relay::describe_metrics();
    posthaste_wire::describe_metrics();
    for (name, help) in CONSUMER_COUNTERS {
        describe_counter!(*name, Unit::Count, *help);
    }
    for (name, unit, help) in CONSUMER_GAUGES {
        describe_gauge!(*name, *unit, *help);
    }
}

const CONSUMER_COUNTERS: &[(&str, &str)] = &[
    ("posthaste_inbox_handled_messages_total", "Messages that took effect."),
    ("posthaste_inbox_duplicates_total", "Duplicates that were dropped."),
    ("posthaste_inbox_reordered_total", "Messages handled after a later one, in watermark mode."),
    ("posthaste_inbox_impossible_total", "Messages whose sender contradicts itself: a bug."),
    (
        "posthaste_inbox_failures_total",
        "Handler failures after which the message is tried again, by class.",
    ),
    ("posthaste_inbox_dead_lettered_total", "Messages that became dead letters of the consumer."),
    ("posthaste_inbox_receive_failures_total", "Times the broker could not be used."),
    ("posthaste_inbox_purged_ids_total", "Message ids removed after their window."),
];

const CONSUMER_GAUGES: &[(&str, Unit, &str)] = &[
    ("posthaste_inbox_in_flight_messages", Unit::Count, "Messages received and not finished."),
    (
        "posthaste_inbox_oldest_id_age_seconds",
        Unit::Seconds,
        "Age of the oldest id kept; 0 if there is none.",
    ),
    (
        "posthaste_inbox_dead_letters",
        Unit::Count,
        "Dead letters of the consumer that wait for a person.",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_metric_that_a_consumer_writes_is_described_and_no_other() {
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
        let texts = include_str!("consumer/events.rs").split('"').skip(1).step_by(2);
        let written: BTreeSet<&str> = texts
            .filter(|text| text.starts_with("posthaste_inbox_") && text.chars().all(is_part))
            .collect();
        let counters = CONSUMER_COUNTERS.iter().map(|(name, _)| *name);
        let gauges = CONSUMER_GAUGES.iter().map(|(name, ..)| *name);
        assert_eq!(counters.chain(gauges).collect::<BTreeSet<_>>(), written);
    }
}
