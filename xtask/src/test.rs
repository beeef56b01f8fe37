//! All tests, on real servers.

use std::process::ExitCode;

use anyhow::Context;
use posthaste_fixtures::{Durability, POSTGRES_URL, Postgres};

use crate::cargo;

/// Starts one server of each kind for the whole run, runs `cargo test`, and stops them.
pub(crate) fn run(extra: &[String]) -> anyhow::Result<ExitCode> {
    let postgres = Postgres::start(Durability::Fast)?;
    println!("PostgreSQL for tests: {} ({})", postgres.url(), postgres.origin());
    let status = cargo()
        .args(["test", "--workspace", "--all-features"])
        .args(extra)
        .env(POSTGRES_URL, postgres.url())
        .status()
        .context("cannot run cargo test")?;
    drop(postgres);
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
