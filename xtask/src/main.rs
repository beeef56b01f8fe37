//! Daily work, the same for people and for CI: `cargo xtask test | tidy | ci | soak`.

mod dialects;
mod programs;
mod soak;
mod steps;
mod test;
mod tidy;

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::bail;

use crate::steps::Steps;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [arguments]   start the servers tests need, then run all tests, several programs side by side;
                     with arguments: `cargo test --workspace --all-features` with these
  tidy               rules no other tool checks: dependencies, file headers and lengths, error codes
  ci                 formatting, lints, documentation, tidy, test: what must pass before a merge
  soak --minutes N   the simulator, and everything going wrong on real servers, in turns, with fresh
                     seeds; adds a line to docs/reliability/soak.jsonl
  soak --report      writes the figures of the last soak into docs/reliability.md";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let mut arguments = env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    env::set_current_dir(root())?;
    match (command.as_str(), rest.as_slice()) {
        ("test", extra) => test::run(extra),
        ("tidy", []) => Ok(exit_code(tidy::run()?)),
        ("ci", []) => ci(),
        ("soak", arguments) => soak::run(arguments),
        ("help" | "--help" | "-h", _) => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("{USAGE}"),
    }
}

/// Every step, even after one has failed: the reader wants to know all of it.
fn ci() -> anyhow::Result<ExitCode> {
    let mut steps = Steps::default();
    steps.run("format", || succeeds(cargo().args(["fmt", "--all", "--check"])));
    steps.run("lint", || {
        let targets = ["clippy", "--workspace", "--all-targets", "--all-features"];
        succeeds(cargo().args(targets).args(["--", "-D", "warnings"]))
    });
    steps.run("document", || {
        let targets = ["doc", "--workspace", "--all-features", "--no-deps"];
        succeeds(cargo().args(targets).env("RUSTDOCFLAGS", "-D warnings"))
    });
    steps.run("tidy", tidy::run);
    steps.run("test", || Ok(test::run(&[])? == ExitCode::SUCCESS));
    Ok(exit_code(steps.finish()))
}

/// The cargo that runs this, as if called by hand: some build scripts look at what cargo tells the
/// program that it runs, and would build half of the dependencies anew.
fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let is_about_this =
        |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_about_this)) {
        cargo.env_remove(name);
    }
    cargo
}

fn succeeds(command: &mut Command) -> anyhow::Result<bool> {
    Ok(command.status()?.success())
}

fn exit_code(is_fine: bool) -> ExitCode {
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
