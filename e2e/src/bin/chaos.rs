//! `posthaste-chaos`: one run of everything going wrong between a database and a broker, from a seed.
//! Prints its record as the last line of standard output.

use std::process::ExitCode;

use clap::Parser;
use posthaste_e2e::{Broker, Store, chaos::Run};

/// Runs two relays between a database and a broker, breaks everything around them, and checks what
/// arrived.
#[derive(Debug, Parser)]
struct Arguments {
    /// Which database.
    #[arg(long)]
    store: Store,
    /// Which broker.
    #[arg(long)]
    broker: Broker,
    /// What goes wrong, and when.
    #[arg(long)]
    seed: u64,
    /// How often something goes wrong.
    #[arg(long, default_value_t = 20)]
    faults: usize,
    /// Instead, relays die once at every point of every step.
    #[arg(long, conflicts_with = "faults")]
    steps: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { store, broker, seed, faults, steps } = Arguments::parse();
    let faults = (!steps).then_some(faults);
    let record = Run { store, broker, seed, faults }.run().await;
    let line = record.and_then(|record| Ok(serde_json::to_string(&record)?));
    match line {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
