//! The broker suite with several messages of a key on their way, on a Mosquitto with a limit.

#[path = "support/bed.rs"]
mod bed;

use std::process::ExitCode;

use posthaste_broker_mqtt::Ordering;
use posthaste_conformance::broker;

fn main() -> ExitCode {
    let packet_bytes_max = Some(5 * 256 * 1024);
    broker::run("mqtt pipelined", bed::Setup { ordering: Ordering::Pipelined, packet_bytes_max })
}
