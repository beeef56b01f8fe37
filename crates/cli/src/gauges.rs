//! Gauges whose values come from the store, not from the relay's own events.

use metrics::{Unit, describe_gauge, gauge};
use posthaste_core::Status;

const PENDING: &str = "posthaste_outbox_pending_messages";
const OLDEST: &str = "posthaste_outbox_oldest_pending_age_seconds";
const RETRYING: &str = "posthaste_outbox_retrying_messages";
const OLDEST_RETRYING: &str = "posthaste_outbox_oldest_retrying_age_seconds";
const DEAD: &str = "posthaste_outbox_dead_messages";
const UNROUTED: &str = "posthaste_outbox_unrouted_messages";
const LEASE_HELD: &str = "posthaste_lease_held";
const STORE_UP: &str = "posthaste_store_up";

/// Help texts and units of every metric that `posthaste relay` serves.
pub(crate) fn describe() {
    posthaste_relay::describe_metrics();
    posthaste_wire::describe_metrics();
    describe_gauge!(
        PENDING,
        Unit::Count,
        "Upper bound of the messages that the route has not passed yet."
    );
    describe_gauge!(
        OLDEST,
        Unit::Seconds,
        "Age of the oldest message that the route has not passed yet; 0 if there is none."
    );
    describe_gauge!(
        RETRYING,
        Unit::Count,
        "Parked messages that wait for another attempt or behind a parked message of their key, up to 10000."
    );
    describe_gauge!(
        OLDEST_RETRYING,
        Unit::Seconds,
        "Time since the oldest retrying message was parked or redriven; 0 if there is none."
    );
    describe_gauge!(DEAD, Unit::Count, "Dead letters, up to 10000.");
    describe_gauge!(
        UNROUTED,
        Unit::Count,
        "Messages among the newest 10000 whose topic no route matches."
    );
    describe_gauge!(LEASE_HELD, "1 if a relay serves the shard, else 0.");
    describe_gauge!(STORE_UP, "1 if the last read of the store succeeded, else 0.");
}

/// Sets whether the store answered.
pub(crate) fn store_up(is_up: bool) {
    gauge!(STORE_UP).set(f64::from(u8::from(is_up)));
}

/// Sets the gauges from a status of the store.
pub(crate) fn set(status: &Status) {
    for route in &status.routes {
        let name = || route.name.clone();
        gauge!(PENDING, "route" => name()).set(route.pending as f64);
        gauge!(OLDEST, "route" => name()).set(route.oldest_pending_age_seconds);
        gauge!(RETRYING, "route" => name()).set(route.retrying as f64);
        gauge!(OLDEST_RETRYING, "route" => name()).set(route.oldest_retrying_age_seconds);
        gauge!(DEAD, "route" => name()).set(route.dead as f64);
        for lease in &route.leases {
            let shard = lease.shard.to_string();
            let is_held = f64::from(u8::from(lease.relay.is_some()));
            gauge!(LEASE_HELD, "route" => name(), "shard" => shard).set(is_held);
        }
    }
    let unrouted: u64 = status.unrouted.iter().map(|topic| topic.messages).sum();
    gauge!(UNROUTED).set(unrouted as f64);
}
