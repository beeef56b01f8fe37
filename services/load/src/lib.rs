//! The load test of the transfers and users services: [`scenarios`] of virtual users who [`drive`]
//! a server with a [`Script`], and the [`Report`] that says whether its thresholds were held. The
//! users form a closed loop: each waits for its answer and 10 ms more before its next request, so a
//! slow server gets fewer requests. A whole call is timed, from the request to the end of the
//! answer's body, including the time to connect.
//!
//! This crate does not start a server; `posthaste-bench` does.

mod drive;
mod report;
mod scenario;
mod script;
mod settled;

pub use drive::{client, drive};
pub use report::{Percentiles, Report, Sample, Threshold};
pub use scenario::{Form, Scenario, scenarios};
pub use script::{Call, Script, is_right};
