//! All telemetry of a consumer: one method per event writes its log line and its metrics together.

use std::{sync::Arc, time::Duration};

use metrics::{counter, gauge};
use posthaste_core::{
    BrokerError, Failure, InboxError, InboxPurged, InboxStatus, MessageId, Tally, log_seconds,
};
use tracing::{debug, error, info, warn};

/// Events of one consumer.
#[derive(Clone)]
pub(super) struct Events {
    consumer: Arc<str>,
}

impl Events {
    pub(super) fn new(consumer: &str) -> Self {
        Self { consumer: consumer.into() }
    }

    fn count(&self, name: &'static str, by: u64) {
        if by > 0 {
            counter!(name, "consumer" => self.consumer.to_string()).increment(by);
        }
    }

    pub(super) fn started(&self, concurrency: usize, batch: usize) {
        info!(consumer = %self.consumer, concurrency, batch, "consuming");
    }

    pub(super) fn stopped(&self, left: usize) {
        info!(consumer = %self.consumer, unfinished = left, "stopped consuming");
    }

    pub(super) fn in_flight(&self, messages: usize) {
        // A count of messages in memory is far below 2^52.
        gauge!("posthaste_inbox_in_flight_messages", "consumer" => self.consumer.to_string())
            .set(messages as f64);
    }

    pub(super) fn committed(&self, handled: usize, duplicates: usize, tally: Tally) {
        self.count("posthaste_inbox_handled_messages_total", handled as u64);
        self.count("posthaste_inbox_duplicates_total", duplicates as u64);
        self.count("posthaste_inbox_reordered_total", tally.reordered);
        self.count("posthaste_inbox_impossible_total", tally.impossible);
        if tally.impossible > 0 {
            error!(consumer = %self.consumer, messages = tally.impossible,
                "handled messages that their sender had reported as delivered before: please report \
                 this bug");
        }
        if tally.reordered > 0 {
            debug!(consumer = %self.consumer, messages = tally.reordered,
                "handled messages after later ones of their lane");
        }
    }

    pub(super) fn failed(&self, id: MessageId, failure: &Failure, attempts: u32, pause: Duration) {
        counter!("posthaste_inbox_failures_total",
            "consumer" => self.consumer.to_string(), "class" => failure.class)
        .increment(1);
        warn!(consumer = %self.consumer, message = %id, attempts, error = %failure,
            retry_in_seconds = log_seconds(pause), "the handler failed, trying the message again");
    }

    pub(super) fn dead_lettered(&self, id: MessageId, failure: &Failure, attempts: u32) {
        self.count("posthaste_inbox_dead_lettered_total", 1);
        error!(consumer = %self.consumer, message = %id, attempts, error = %failure,
            "message is a dead letter: see `posthaste dead list`");
    }

    pub(super) fn waiting(&self, error: &InboxError, pause: Duration) {
        counter!("posthaste_store_failures_total", "operation" => "inbox", "code" => error.code())
            .increment(1);
        warn!(consumer = %self.consumer, %error,
            retry_in_seconds = log_seconds(pause), "the database cannot be used, trying again");
    }

    pub(super) fn broker_failed(&self, error: &BrokerError, pause: Duration) {
        self.count("posthaste_inbox_receive_failures_total", 1);
        warn!(consumer = %self.consumer, %error,
            retry_in_seconds = log_seconds(pause), "the broker cannot be used, trying again");
    }

    pub(super) fn not_acknowledged(&self, error: &BrokerError) {
        debug!(consumer = %self.consumer, %error,
            "acknowledging failed, the message comes again as a duplicate");
    }

    pub(super) fn purged(&self, purged: InboxPurged) {
        self.count("posthaste_inbox_purged_ids_total", purged.ids);
    }

    pub(super) fn status(&self, status: &InboxStatus) {
        let age = status.oldest_id_age.unwrap_or_default().as_secs_f64();
        gauge!("posthaste_inbox_oldest_id_age_seconds", "consumer" => self.consumer.to_string())
            .set(age);
        gauge!("posthaste_inbox_dead_letters", "consumer" => self.consumer.to_string())
            .set(status.dead as f64);
    }
}
