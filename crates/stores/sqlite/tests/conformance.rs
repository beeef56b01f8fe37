//! The shared suite, on SQLite.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod bed;
mod fixture;

fn main() -> std::process::ExitCode {
    posthaste_conformance::store::run("sqlite", fixture::Fixture)
}
