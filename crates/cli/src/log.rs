//! Logging to standard error, as text for people or JSON for machines.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{LogFormat, LogLevel};

/// Crates whose log lines `log.level` controls.
const OURS: [&str; 5] = [
    "posthaste",
    "posthaste_relay",
    "posthaste_store_mysql",
    "posthaste_store_postgres",
    "posthaste_store_sqlite",
];

/// Starts logging for the rest of the process. `RUST_LOG` overrides the level; other crates log
/// only from `warn` on.
pub(crate) fn start(format: LogFormat, level: LogLevel) {
    let level = level.as_str();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        let ours = OURS.map(|name| format!("{name}={level}")).join(",");
        // Notices of the server concern the author of a statement, not the operator of the relay.
        EnvFilter::new(format!("warn,sqlx::postgres::notice=error,{ours}"))
    });
    // A line that cannot be written (the disk is full) is lost. Reporting the failure would print
    // to the same place again, which panics.
    let builder = fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false)
        .log_internal_errors(false);
    // A second call, in a test, keeps the first subscriber.
    let _ = match format {
        LogFormat::Text => {
            let has_colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            builder.with_ansi(has_colour).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
