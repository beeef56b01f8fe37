//! All telemetry of the relay: one method per event writes its log line and its metrics together.
//! Labels come from configuration and fixed sets only.

use std::{sync::Arc, time::Duration};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use posthaste_core::{
    Delivery, Failure, Grant, Next, Purged, Shard, StoreError, UnroutedTopic, log_seconds,
};
use tracing::{debug, error, info, warn};

use crate::outage::Line;

/// Events of one shard of a route. Metric handles are looked up once, so that the hot path only
/// adds.
pub(crate) struct Events {
    route: Arc<str>,
    shard: Shard,
    published: Counter,
    delivery_latency: Histogram,
    publish_duration: Histogram,
    fetch_duration: Histogram,
    fetch_messages: Histogram,
    settle_duration: Histogram,
    in_flight: Gauge,
    paused: Gauge,
}

impl Events {
    pub(crate) fn new(route: &str, shard: Shard) -> Self {
        let route: Arc<str> = route.into();
        let label = || route.to_string();
        Self {
            published: counter!("posthaste_published_messages_total", "route" => label()),
            delivery_latency: histogram!("posthaste_delivery_latency_seconds", "route" => label()),
            publish_duration: histogram!("posthaste_publish_duration_seconds", "route" => label()),
            fetch_duration: histogram!("posthaste_fetch_duration_seconds", "route" => label()),
            fetch_messages: histogram!("posthaste_fetch_messages", "route" => label()),
            settle_duration: histogram!("posthaste_settle_duration_seconds", "route" => label()),
            in_flight: gauge!("posthaste_in_flight_messages", "route" => label(), "shard" => shard.index.to_string()),
            paused: gauge!("posthaste_route_paused", "route" => label(), "shard" => shard.index.to_string()),
            shard,
            route,
        }
    }

    fn count(&self, name: &'static str) {
        counter!(name, "route" => self.route.to_string()).increment(1);
    }

    pub(crate) fn acquired(&self, grant: &Grant) {
        self.count("posthaste_leases_acquired_total");
        self.paused.set(0.0);
        info!(route = %self.route, shard = %self.shard, epoch = grant.lease.epoch,
            seq = grant.position.seq(), blocked_keys = grant.blocked.len(), "serving shard");
    }

    pub(crate) fn ended(&self, why: &str) {
        self.in_flight.set(0.0);
        self.paused.set(0.0);
        info!(route = %self.route, shard = %self.shard, why, "stopped serving shard");
    }

    pub(crate) fn fetched(&self, messages: usize, took: Duration) {
        self.fetch_duration.record(took.as_secs_f64());
        self.fetch_messages.record(count_f64(messages));
    }

    pub(crate) fn sent(&self, in_flight: usize) {
        self.in_flight.set(count_f64(in_flight));
    }

    pub(crate) fn answered(&self, took: Duration, in_flight: usize) {
        self.publish_duration.record(took.as_secs_f64());
        self.in_flight.set(count_f64(in_flight));
    }

    pub(crate) fn delivered(&self, age: Duration) {
        self.delivery_latency.record(age.as_secs_f64());
    }

    pub(crate) fn published(&self, messages: u64) {
        if messages > 0 {
            self.published.increment(messages);
        }
    }

    pub(crate) fn failed(&self, outcome: &'static str, class: &'static str) {
        counter!("posthaste_publish_failures_total",
            "route" => self.route.to_string(), "outcome" => outcome, "class" => class)
        .increment(1);
    }

    pub(crate) fn rejected(
        &self,
        delivery: &Delivery,
        attempts: u32,
        failure: &Failure,
        next: Next,
    ) {
        self.failed("rejected", failure.class);
        let (route, shard, id, seq) = (&*self.route, self.shard, delivery.message.id, delivery.seq);
        match next {
            Next::Retry(delay) => {
                self.count("posthaste_retries_total");
                warn!(route, %shard, %id, seq, attempts, %failure,
                    retry_in_seconds = log_seconds(delay), "message refused, parked");
            }
            Next::Dead | Next::DeadAndBlock => {
                self.count("posthaste_dead_lettered_total");
                let blocks = next == Next::DeadAndBlock;
                error!(route, %shard, %id, seq, attempts, %failure, blocks, "message is a dead letter");
            }
        }
    }

    /// A message was parked because its outcome stayed unknown while other messages were answered.
    pub(crate) fn suspected(&self, unknowns: u32, next: Next) {
        let (route, shard) = (&*self.route, self.shard);
        match next {
            Next::Retry(delay) => {
                self.count("posthaste_retries_total");
                warn!(route, %shard, unknowns, retry_in_seconds = log_seconds(delay),
                    "message without an answer, parked");
            }
            Next::Dead | Next::DeadAndBlock => {
                self.count("posthaste_dead_lettered_total");
                error!(route, %shard, unknowns, "message without an answer is a dead letter");
            }
        }
    }

    /// The route was paused; `line` decides whether and how this is logged.
    pub(crate) fn paused(&self, failure: &Failure, line: Option<Line>) {
        self.paused.set(1.0);
        let (route, shard) = (&*self.route, self.shard);
        match line {
            None => {}
            Some(Line::Begins) => {
                warn!(route, %shard, %failure, "broker cannot be used, route paused; probing until the broker answers");
            }
            Some(Line::GoesOn { lasted, pauses }) => {
                warn!(route, %shard, %failure, paused_seconds = log_seconds(lasted), probes_failed = pauses,
                    "broker still cannot be used, route stays paused");
            }
        }
    }

    /// The broker answered a probe.
    pub(crate) fn opened(&self) {
        self.paused.set(0.0);
    }

    /// The broker acknowledged the first message after an outage.
    pub(crate) fn resumed(&self, lasted: Duration, pauses: u64) {
        info!(route = %self.route, shard = %self.shard, paused_seconds = lasted.as_secs_f64(),
            probes_failed = pauses, "broker takes messages again, route resumed");
    }

    /// The log went back in time. The relay acquires the shard again and goes on from the position
    /// that the server has.
    pub(crate) fn rewound(&self, error: &StoreError) {
        self.count("posthaste_rewinds_total");
        error!(route = %self.route, shard = %self.shard, %error,
            "the log went back in time, or another server answers; dropping the messages in memory \
             and going on from the position that this server has");
    }

    pub(crate) fn settled(&self, took: Duration) {
        self.settle_duration.record(took.as_secs_f64());
    }

    pub(crate) fn store_failed(&self, error: &StoreError) {
        counter!("posthaste_store_failures_total", "operation" => error.operation, "code" => error.kind.code())
            .increment(1);
        warn!(route = %self.route, shard = %self.shard, %error, "store call failed, will be repeated");
    }

    pub(crate) fn fenced(&self) {
        self.count("posthaste_fenced_total");
        warn!(route = %self.route, shard = %self.shard, "another relay has the lease, stopping");
    }
}

/// A count as a sample; counts here stay far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "bounded by the window")]
fn count_f64(count: usize) -> f64 {
    count as f64
}

/// Sets the number of shards of the route that this relay serves.
pub(crate) fn leases(route: &str, held: usize) {
    gauge!("posthaste_relay_leases", "route" => route.to_owned()).set(count_f64(held));
}

/// The task of a shard panicked; the shard is served again once its lease has expired.
pub(crate) fn shard_panicked(route: &str, shard: u16) {
    counter!("posthaste_shard_panics_total", "route" => route.to_owned()).increment(1);
    error!(
        route,
        shard, "shard task panicked; the shard is served again once its lease has expired"
    );
}

/// A store call for a route failed.
pub(crate) fn route_call_failed(error: &StoreError) {
    counter!("posthaste_store_failures_total", "operation" => error.operation, "code" => error.kind.code())
        .increment(1);
}

/// Store calls for a route began to fail, or fail for another reason than before; other routes go
/// on.
pub(crate) fn stuck(route: &str, error: &StoreError) {
    gauge!("posthaste_route_stuck", "route" => route.to_owned()).set(1.0);
    warn!(route, %error, "store call for the route failed, will be repeated; other routes go on");
}

/// A store call for a route succeeded after a failed one.
pub(crate) fn unstuck(route: &str) {
    gauge!("posthaste_route_stuck", "route" => route.to_owned()).set(0.0);
    info!(route, "the store answers for the route again");
}

/// A store call of the supervisor failed and will be repeated.
pub(crate) fn supervision_failed(error: &StoreError) {
    warn!(%error, "store call failed, will be repeated");
}

/// The number of shards of a route changed.
pub(crate) fn resharded(route: &str, shards: u16) {
    info!(route, shards, "route has a new number of shards");
}

/// Retention removed finished rows.
pub(crate) fn purged(purged: &Purged) {
    counter!("posthaste_purged_messages_total").increment(purged.messages);
    if *purged != Purged::default() {
        debug!(
            messages = purged.messages,
            discarded = purged.discarded,
            progress = purged.progress,
            "purged"
        );
    }
}

/// The store has messages of a topic that no route matches.
pub(crate) fn unrouted(topic: &UnroutedTopic) {
    warn!(
        topic = topic.topic,
        messages = topic.messages,
        "no route matches this topic: its messages are kept and not sent; add a route for it"
    );
}

/// A relay began or ended.
pub(crate) fn relay(name: &str, id: impl std::fmt::Display, what: &'static str) {
    info!(name, relay = %id, "{what}");
}
