//! `posthaste-chaos`: one run with random faults between a database and a broker, from a seed.
//! Prints its record as the last line of standard output.

use std::process::ExitCode;

use clap::Parser;
use posthaste_e2e::{
    Broker, Store,
    chaos::{Faults, Run},
};

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
    /// Number of faults.
    #[arg(long, default_value_t = 20)]
    faults: usize,
    /// Instead of drawing faults: these, by their names in the record.
    #[arg(long, value_delimiter = ',', conflicts_with = "faults")]
    list: Vec<String>,
    /// Instead of drawing faults: relays die once at every point of every step.
    #[arg(long, conflicts_with_all = ["faults", "list"])]
    steps: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { store, broker, seed, faults, list, steps } = Arguments::parse();
    let faults = match (steps, list.is_empty()) {
        (true, _) => Faults::Steps,
        (false, false) => Faults::Listed(list),
        (false, true) => Faults::Drawn(faults),
    };
    let record = Box::pin(Run { store, broker, seed, faults }.run()).await;
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
