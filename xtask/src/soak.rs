//! `cargo xtask soak`: the simulator and runs of everything going wrong on real servers, in turns, for
//! as long as asked, with fresh seeds; and the public record of it.
//!
//! The program under test is built as its tests are, with all checks on. The simulator is built for
//! release: what it looks for are promises broken, and it meets many times the schedules.

mod record;
mod report;

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use self::record::{Failure, Record};
use crate::{cargo, exit_code, succeeds};

/// One line of JSON for every soak.
const RECORDS: &str = "docs/reliability/soak.jsonl";

/// What runs may be between; as `posthaste-chaos` names them.
const STORES: [&str; 4] = ["postgres", "mariadb", "sqlite", "pgbouncer"];
const BROKERS: [&str; 3] = ["nats", "rabbitmq", "kafka"];

/// Number of faults in one run.
const FAULTS: &str = "20";

/// Turns that each of the two has, and the longest of them: the simulator ends its turn by looking for
/// all planted bugs, which takes a while.
const TURNS: u64 = 3;
const TURN_MINUTES_MAX: u64 = 10;

/// Failed runs on servers after which nothing new is to be learned.
const FAILURES_MAX: usize = 5;

/// Lines of a failed run that go into the record.
const LINES_KEPT: usize = 12;

/// Runs `soak --minutes N` or `soak --report`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    match arguments {
        [flag] if flag == "--report" => {
            report::write(&last_record()?)?;
            Ok(ExitCode::SUCCESS)
        }
        [flag, minutes] if flag == "--minutes" => {
            let minutes: u64 = minutes.parse().context("--minutes takes a whole number")?;
            soak(Duration::from_secs(minutes * 60))
        }
        _ => bail!("usage: cargo xtask soak --minutes N | --report"),
    }
}

fn soak(time: Duration) -> anyhow::Result<ExitCode> {
    let chaos = build("posthaste-e2e", "posthaste-chaos", "dev")?;
    let simulator = build("posthaste-sim", "posthaste-sim", "release")?;
    let mut record = Record::begin(said("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"])?, commit()?);
    let began = Instant::now();
    let turn_minutes = (time.as_secs() / 60 / TURNS / 2).clamp(1, TURN_MINUTES_MAX);
    let mut round = first_round();
    let mut failed = 0;
    while began.elapsed() < time && failed < FAILURES_MAX {
        simulate(&simulator, turn_minutes, &mut record)?;
        let turn_ends = Instant::now() + Duration::from_secs(turn_minutes * 60);
        while Instant::now() < turn_ends && failed < FAILURES_MAX {
            let is_fine = break_everything(&chaos, round, &mut record)?;
            failed += usize::from(!is_fine);
            round += 1;
            println!("{}", record.summary());
        }
    }
    record.minutes = began.elapsed().as_secs() / 60;
    append(&record)?;
    for failure in &record.failures {
        println!("FAILED: {}\nrun again: {}", failure.what, failure.replay);
    }
    println!(
        "recorded in {RECORDS}; `cargo xtask soak --report` writes it into docs/reliability.md"
    );
    Ok(exit_code(record.failures.is_empty()))
}

/// Where in the table of pairs a soak begins: a short one does not always meet the same.
fn first_round() -> usize {
    usize::try_from(fresh_seed() % 12).unwrap_or_default()
}

fn fresh_seed() -> u64 {
    // As large as JSON readers agree on.
    RandomState::new().hash_one(()) >> 11
}

/// Builds a program; returns where it is.
fn build(package: &str, name: &str, profile: &str) -> anyhow::Result<PathBuf> {
    let arguments = ["build", "--package", package, "--bin", name, "--profile", profile];
    ensure!(succeeds(cargo().args(arguments))?, "{name} does not build");
    // This program is in `target/<profile>`, too.
    let this = std::env::current_exe()?;
    let target = this.ancestors().nth(2).context("programs are two folders below target")?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target.join(folder).join(name))
}

/// One turn of the simulator. It writes its own record, one line.
fn simulate(program: &Path, minutes: u64, record: &mut Record) -> anyhow::Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    let minutes = minutes.to_string();
    println!("posthaste-sim soak --minutes {minutes}");
    let mut command = Command::new(program);
    command.args(["soak", "--minutes", &minutes, "--json"]).arg(file.path());
    let output = command.output().context("cannot run the simulator")?;
    let text = fs::read_to_string(file.path())?;
    let line = text.lines().last().map(serde_json::from_str::<Value>).transpose()?;
    match line {
        Some(line) => record.add_simulation(line),
        None => record.failures.push(failure("the simulator", "see what it said", &output)),
    }
    Ok(())
}

/// One run between the next two; whether all promises were kept.
fn break_everything(program: &Path, round: usize, record: &mut Record) -> anyhow::Result<bool> {
    let (store, broker) = pair(round);
    let seed = fresh_seed().to_string();
    let arguments = ["--store", store, "--broker", broker, "--seed", &seed, "--faults", FAULTS];
    println!("posthaste-chaos {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).output().context("cannot run it")?;
    let out = String::from_utf8_lossy(&output.stdout);
    let line = out.lines().last().unwrap_or_default();
    if output.status.success() {
        record.add_run(serde_json::from_str(line).context("a run prints its record last")?);
    } else {
        let arguments = arguments.join(" ");
        let replay =
            format!("cargo run --package posthaste-e2e --bin posthaste-chaos -- {arguments}");
        record.failures.push(failure(&format!("{store} to {broker}"), &replay, &output));
    }
    Ok(output.status.success())
}

/// All pairs come before any comes again.
fn pair(round: usize) -> (&'static str, &'static str) {
    // 4 and 3 share no factor, so that counting both at once meets every pair.
    (STORES[round % STORES.len()], BROKERS[round % BROKERS.len()])
}

fn failure(what: &str, replay: &str, output: &Output) -> Failure {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = out.lines().chain(err.lines()).collect();
    let kept = &lines[lines.len().saturating_sub(LINES_KEPT)..];
    println!("{}", lines.join("\n"));
    Failure { what: what.to_owned(), replay: replay.to_owned(), said: kept.join("\n") }
}

/// The commit this is, and whether something was changed since.
fn commit() -> anyhow::Result<String> {
    let commit = said("git", &["rev-parse", "--short=12", "HEAD"])?;
    let changes = said("git", &["status", "--porcelain", "--untracked-files=no"])?;
    Ok(if changes.is_empty() { commit } else { format!("{commit}+changes") })
}

fn said(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} failed");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn append(record: &Record) -> anyhow::Result<()> {
    let path = Path::new(RECORDS);
    path.parent().map(fs::create_dir_all).transpose()?;
    let mut file = fs::File::options().create(true).append(true).open(path)?;
    writeln!(file, "{}", serde_json::to_string(record)?)?;
    Ok(())
}

fn last_record() -> anyhow::Result<Record> {
    let text = fs::read_to_string(RECORDS).with_context(|| format!("no soak yet: {RECORDS}"))?;
    let line = text.lines().last().with_context(|| format!("{RECORDS} is empty"))?;
    serde_json::from_str(line).with_context(|| format!("the last line of {RECORDS}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_pairs_come_before_any_comes_again() {
        let all = STORES.len() * BROKERS.len();
        let pairs: BTreeSet<_> = (5..5 + all).map(pair).collect();
        assert_eq!(pairs.len(), all);
    }
}
