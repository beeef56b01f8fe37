//! Runs both services on this machine: the APIs, their relays, the consumer that settles transfers,
//! and a private PostgreSQL and RabbitMQ on free ports. All processes end with the [`System`],
//! however this process ends.
//!
//! | file | what it holds |
//! |---|---|
//! | `programs.rs` | building what is run |
//! | `folder.rs` | where all of it is, and its end |
//! | `process.rs` | running it, signalling it, and its end |
//! | `system.rs` | who is started with what, and where it is then |
//! | `client.rs` | asking the APIs |
//! | `report.rs` | what is said, and the verdict |
//! | `check.rs` | the proof that it works |
//! | `chaos.rs` | faults, and what must hold after them |

pub mod chaos;
pub mod check;
mod client;
mod folder;
mod process;
mod programs;
mod report;
mod system;

pub use client::{Asked, Client};
pub use process::Process;
pub use report::Report;
pub use system::{Options, System};

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep};

/// Longest wait for an expected event. It is generous, because the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Repeats a check until it returns a value.
///
/// # Errors
/// When there is no value within [`PATIENCE`], naming `what`; or when the check fails.
pub async fn eventually<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("waited {PATIENCE:?} for {what}, in vain");
        }
        sleep(LOOK_EVERY).await;
    }
}
