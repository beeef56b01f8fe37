//! `posthaste-sim`: one schedule, many, or as many as fit into some minutes.

use std::{
    fs::OpenOptions,
    io::Write as _,
    ops::Range,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use posthaste_sim::{Campaign, Planted, Schedule, Summary, catch};

/// Seeds within which a planted bug must be found.
const PLANTED_SEEDS_MAX: u64 = 500;

/// Runs the relay and the inbox under seeded faults and virtual time.
#[derive(Parser)]
#[command(name = "posthaste-sim")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one schedule, or a range of them.
    Run {
        /// The seed of one schedule.
        #[arg(long, conflicts_with = "seeds")]
        seed: Option<u64>,
        /// Seeds of many: FROM..TO, the last one left out.
        #[arg(long, value_parser = range, default_value = "0..2000")]
        seeds: Range<u64>,
        /// Prints the trace; with --seed.
        #[arg(long, requires = "seed")]
        trace: bool,
        /// Plants a bug; with --seed.
        #[arg(long, value_parser = planted, requires = "seed")]
        planted: Option<Planted>,
    },
    /// Looks for every planted bug, and prints in how many seeds it was found.
    Planted,
    /// Runs schedules with fresh seeds for some minutes, then looks for every planted bug.
    Soak {
        /// Duration in minutes.
        #[arg(long)]
        minutes: u64,
        /// Appends the summary to this file, as one line of JSON.
        #[arg(long)]
        json: Option<PathBuf>,
        /// The first seed; drawn at random unless given.
        #[arg(long)]
        from: Option<u64>,
    },
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let parse = || {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    };
    parse().ok_or_else(|| "must be FROM..TO".to_owned())
}

fn planted(text: &str) -> Result<Planted, String> {
    let found = Planted::ALL.iter().copied().find(|bug| bug.as_str() == text);
    found.ok_or_else(|| {
        let names: Vec<&str> = Planted::ALL.iter().map(|bug| bug.as_str()).collect();
        format!("must be one of {}", names.join(", "))
    })
}

fn main() -> anyhow::Result<ExitCode> {
    let is_fine = match Args::parse().command {
        Command::Run { seed: Some(seed), trace, planted, .. } => one(seed, trace, planted),
        Command::Run { seeds, .. } => {
            let summary = Campaign { seeds, time_max: None }.run();
            println!("{}", serde_json::to_string_pretty(&summary)?);
            summary.is_fine()
        }
        Command::Planted => {
            let summary = Summary { planted: all_planted(), ..Summary::default() };
            summary.is_fine()
        }
        Command::Soak { minutes, json, from } => soak(minutes, json.as_deref(), from)?,
    };
    Ok(ExitCode::from(u8::from(!is_fine)))
}

fn one(seed: u64, is_traced: bool, planted: Option<Planted>) -> bool {
    let ended = Schedule { planted, is_traced, ..Schedule::new(seed) }.run();
    println!("seed {seed}: trace {:016x}", ended.trace_hash);
    for problem in &ended.problems {
        println!("  {problem}");
    }
    ended.problems.is_empty()
}

fn all_planted() -> Vec<posthaste_sim::Caught> {
    let caught = Planted::ALL.iter().map(|&bug| {
        let caught = catch(bug, 0..PLANTED_SEEDS_MAX);
        let problem = caught.problem.as_deref().unwrap_or("NOT FOUND");
        let seeds = caught.seeds.map_or_else(|| "-".to_owned(), |seeds| seeds.to_string());
        println!("{:<26} {seeds:>4} seeds  {problem}", caught.planted);
        caught
    });
    caught.collect()
}

fn soak(minutes: u64, json: Option<&Path>, from: Option<u64>) -> anyhow::Result<bool> {
    let from = from.unwrap_or_else(|| fastrand::u64(..1 << 48));
    let time_max = Some(Duration::from_secs(minutes * 60));
    let mut summary = Campaign { seeds: from..u64::MAX, time_max }.run();
    for failure in &summary.failures {
        println!("seed {} broke promises: {}", failure.seed, failure.problems.join("; "));
        println!("  {}", failure.replay);
    }
    summary.planted = all_planted();
    let line = serde_json::to_string(&summary)?;
    match json {
        None => println!("{line}"),
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let mut file = file.with_context(|| path.display().to_string())?;
            writeln!(file, "{line}")?;
        }
    }
    println!(
        "{} schedules in {:.0} s, {} failures",
        summary.schedules,
        summary.seconds,
        summary.failures.len()
    );
    Ok(summary.is_fine())
}
