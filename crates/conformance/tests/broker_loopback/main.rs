//! The broker suite on a broker in this process that speaks `posthaste-wire`.

#[expect(dead_code, reason = "only the mutants of the other test have flaws")]
mod loopback;

use std::process::ExitCode;

use posthaste_conformance::broker;
use posthaste_core::CallOrder;
use posthaste_wire::Style;

use crate::loopback::{Flaw, Loopback};

fn main() -> ExitCode {
    let like = Loopback { order: CallOrder::PerKey, style: Style::Underscore, flaw: Flaw::None };
    broker::run("loopback", like)
}
