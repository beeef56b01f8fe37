//! Benchmarks of the outbox on PostgreSQL. Every figure is a ratio of two things measured in the same
//! run on the same server, in interleaved rounds; `bench/README.md` has the method and the results.
//!
//! `cargo run --release -p posthaste-bench -- all`

mod baseline;
mod brokers;
mod drain;
mod enqueue;
mod fill;
mod idle;
mod inbox;
mod latency;
mod mysql;
mod outage;
mod process;
mod report;
mod services;
mod stuck;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use posthaste_fixtures::{Durability, Postgres};
use services_load::Form;

use crate::services::Target;

/// As in the `posthaste` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the slowest broker takes in some ten seconds.
const BROKER_MESSAGES_DEFAULT: i64 = 200_000;
const MESSAGES_DEFAULT: i64 = 1_000_000;

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
    /// Messages in the outbox [default: 1000000, and 200000 for brokers]
    #[arg(long, global = true)]
    messages: Option<i64>,
    /// Interleaved rounds; medians are reported
    #[arg(long, global = true, default_value_t = 3)]
    rounds: usize,
    /// Of the brokers, only this one
    #[arg(long, global = true)]
    only: Option<String>,
    /// Seconds for each timed part that has no natural end
    #[arg(long, global = true, default_value_t = 10)]
    seconds: u64,
    /// Of the services' load tests, the short form: every duration a tenth
    #[arg(long, global = true)]
    quick: bool,
    /// The service to load, instead of one started here; also `BASE_URL`
    #[arg(long, global = true)]
    base_url: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Subcommand)]
enum What {
    /// Everything below
    All,
    /// Draining a backlog: bare SELECT, relay, row-state relay
    Drain,
    /// Draining while another session holds an old snapshot
    Held,
    /// Draining 100 thousand and 10 million rows
    Size,
    /// The first fetch after an outage, with up to 10 million messages waiting, or `--messages`
    Outage,
    /// What enqueueing adds to a business transaction
    Enqueue,
    /// What an inbox costs a handler
    Inbox,
    /// What handling costs above a floor that stands still, from 1,000 to 10 million messages
    Stuck,
    /// What an idle relay costs
    Idle,
    /// From commit to broker at 200 messages a second
    Latency,
    /// From a filled outbox to each real broker, against a plain loop with its client library
    Brokers,
    /// Draining and inserting on MariaDB (not part of `all`)
    Mysql,
    /// Load on the transfers: three scenarios, and thresholds that fail the run (not part of `all`)
    Transfers,
    /// The same on the registration of users (not part of `all`)
    Users,
    /// Drains the server named by the environment once and prints its peak memory (used by `size`)
    #[command(hide = true)]
    Child,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    if args.what == What::Child {
        return process::child().await;
    }
    let messages = args.messages.unwrap_or(MESSAGES_DEFAULT);
    if args.what == What::Mysql {
        return mysql::run(messages, args.rounds, args.seconds).await;
    }
    let form = if args.quick { Form::Quick } else { Form::Full };
    let target = match args.what {
        What::Transfers => Some(Target::Transfers),
        What::Users => Some(Target::Users),
        _ => None,
    };
    if let Some(target) = target {
        return services::run(target, form, args.base_url).await;
    }
    let server = Postgres::start(Durability::Durable).context("no PostgreSQL to measure on")?;
    let is = |what: What| args.what == what || args.what == What::All;
    report::head(&server)?;
    if is(What::Drain) {
        drain::drain(server.url(), messages, args.rounds).await?;
    }
    if is(What::Held) {
        drain::held(server.url(), messages, args.rounds).await?;
    }
    if is(What::Size) {
        drain::size(server.url(), args.rounds).await?;
    }
    if is(What::Outage) {
        outage::run(server.url(), args.messages, args.rounds).await?;
    }
    if is(What::Enqueue) {
        enqueue::run(server.url(), args.seconds, args.rounds).await?;
    }
    if is(What::Inbox) {
        inbox::run(server.url(), args.seconds, args.rounds).await?;
    }
    if is(What::Stuck) {
        stuck::run(server.url()).await?;
    }
    if is(What::Idle) {
        idle::run(server.url(), args.seconds).await?;
    }
    if is(What::Latency) {
        latency::run(server.url(), args.seconds).await?;
    }
    if is(What::Brokers) {
        let messages = args.messages.unwrap_or(BROKER_MESSAGES_DEFAULT);
        brokers::run(server.url(), messages, args.rounds, args.only.as_deref()).await?;
    }
    Ok(())
}
