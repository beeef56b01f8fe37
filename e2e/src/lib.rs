//! The whole as a black box: the built `posthaste` program against real servers, under writers that
//! do what applications do to an outbox, judged by what arrived.
//!
//! The program delivers to standard output, and here that is a file which all relays of a test
//! append to: its order is the order of arrival, decided by the kernel and by nobody's scheduling.
//!
//! | file | what it holds |
//! |---|---|
//! | `program.rs` | building the program, running it, signalling it |
//! | `stage.rs` | a database and a configuration for one test |
//! | `arrivals.rs` | reading what arrived |
//! | `ledger.rs` | what writers did, and the verdict |
//! | `load.rs` | hostile writers |

mod arrivals;
mod ledger;
mod load;
mod program;
mod stage;

use std::time::{Duration, Instant};

pub use arrivals::{Arrival, Arrivals};
pub use ledger::{Fate, Ledger};
pub use load::Load;
pub use program::{Ended, Running};
pub use stage::{Stage, execute};

/// Longest wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks until something is there.
///
/// # Panics
/// When it is not there in time; `what` says what was waited for.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "within {PATIENCE:?} there was no {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
