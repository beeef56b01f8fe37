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
//! | `load.rs` | hostile writers on PostgreSQL |
//! | `marked.rs` | messages that tell when they were committed, on any database |
//!
//! Other tests break everything around the program, on any database and any broker:
//!
//! | file | what it holds |
//! |---|---|
//! | `database.rs`, `bus.rs` | a database or a broker that can be killed and frozen, behind a network that can be broken |
//! | `shop.rs` | writers on any database |
//! | `fault.rs` | the faults, and a plan of faults from a seed |
//! | `chaos.rs` | one run: faults are injected, then the result is checked |

mod arrivals;
mod bus;
pub mod chaos;
mod database;
mod fault;
mod ledger;
mod load;
mod marked;
mod program;
mod shop;
mod stage;

use std::time::Duration;

use anyhow::Context;
use posthaste_fixtures::Proxy;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

pub use arrivals::{Arrival, Arrivals};
pub use bus::{Broker, Bus};
pub use database::{Database, Store};
pub use fault::{Act, Fault, Link, Plan, Point, Step};
pub use ledger::{Disturbance, Fate, Ledger};
pub use load::Load;
pub use marked::{assert_marked_order, count_marked, enqueue_marked};
pub use program::{Ended, Running};
pub use shop::Shop;
pub use stage::{Stage, execute};

pub use posthaste_fixtures::{PATIENCE, eventually};

/// What applications send.
pub const TOPIC: &str = "orders";

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Does what blocks, without keeping other tasks, proxies among them, from running.
///
/// # Panics
/// Outside a runtime with several threads.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// The `host:port` of a URL.
#[must_use]
pub fn address(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

/// The URL of what is behind a proxy.
#[must_use]
pub fn behind(url: &str, proxy: &Proxy) -> String {
    url.replacen(address(url), &proxy.address().to_string(), 1)
}

/// Runs statements on a MariaDB.
///
/// # Errors
/// When there is none, or it refuses.
pub async fn mysql(url: &str, sql: &str) -> anyhow::Result<()> {
    let mut connection = MySqlConnection::connect(url).await.context("no MariaDB")?;
    // Not user input: tests write it.
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
    Ok(connection.close().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_urls() {
        for (url, expected) in [
            ("postgres://postgres@127.0.0.1:5/db", "127.0.0.1:5"),
            ("mysql://root@127.0.0.1:6/", "127.0.0.1:6"),
            ("nats://127.0.0.1:7", "127.0.0.1:7"),
            ("amqp://guest:guest@127.0.0.1:8", "127.0.0.1:8"),
        ] {
            assert_eq!(address(url), expected);
        }
    }
}
