//! The load test of the transfers and users services: [`scenarios`] of virtual users who [`drive`]
//! a server with a [`Script`], and the [`Report`] that says whether its thresholds were held.
//!
//! The users form a closed loop: each waits for its answer and 10 ms more before it asks
//! again, so a server that is slow is asked less. What is timed is a whole call, from making the request
//! to the end of the answer's body, the connection included where there is none yet.
//!
//! What is not here: starting a server. `posthaste-bench` does that.

mod drive;
mod report;
mod scenario;
mod script;
mod settled;

pub use drive::{client, drive};
pub use report::{Percentiles, Report, Sample, Threshold};
pub use scenario::{Form, Scenario, scenarios};
pub use script::{Call, Script, is_right};
