//! The broker suite on a real Mosquitto.

#[path = "support/bed.rs"]
mod bed;

use std::process::ExitCode;

use posthaste_broker_mqtt::Ordering;
use posthaste_conformance::broker;

fn main() -> ExitCode {
    broker::run("mqtt", bed::Setup { ordering: Ordering::Strict, packet_bytes_max: None })
}
