//! Test programs, side by side. Most of them wait most of the time: for a server to come back, for a
//! lease to end, for a deadline. One after the other they would leave the processors idle.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::{cargo, root};

/// Programs that run at a time.
const SIDE_BY_SIDE: usize = 3;

/// A built test program.
struct Program {
    name: String,
    path: PathBuf,
    /// Where it runs, as under `cargo test`.
    folder: PathBuf,
}

/// How a program ended.
struct Run {
    name: String,
    is_fine: bool,
    time: Duration,
}

/// Builds all tests of the workspace and runs them; whether all passed. What each prints is shown
/// whole, when it has ended.
pub(crate) fn run(environment: &[(&str, &str)]) -> anyhow::Result<bool> {
    let waiting = Mutex::new(build()?.into_iter());
    let runs = Mutex::new(Vec::new());
    let next = || waiting.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let run = program.run(environment);
                    runs.lock().map(|mut runs| runs.push(run)).ok();
                }
            });
        }
    });
    let mut runs = runs.into_inner().context("a program could not be run")?;
    ensure!(waiting.lock().is_ok_and(|mut waiting| waiting.next().is_none()), "programs left over");
    runs.sort_by_key(|run| std::cmp::Reverse(run.time));
    println!("\nThe slowest:");
    for run in runs.iter().take(10) {
        println!("{:>7.1} s  {}", run.time.as_secs_f64(), run.name);
    }
    for run in runs.iter().filter(|run| !run.is_fine) {
        println!("FAILED    {}", run.name);
    }
    Ok(runs.iter().all(|run| run.is_fine))
}

impl Program {
    fn run(self, environment: &[(&str, &str)]) -> Run {
        let start = Instant::now();
        // It is in `target/<profile>/deps`, and what it may want to run two folders up: built already.
        let built = self.path.ancestors().nth(2).unwrap_or(Path::new("."));
        let output = Command::new(&self.path)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env(posthaste_fixtures::PROGRAMS, built)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output();
        let time = start.elapsed();
        let is_fine = output.as_ref().is_ok_and(|output| output.status.success());
        let mut out = std::io::stdout().lock();
        _ = writeln!(out, "\n     Running {} ({:.1} s)", self.name, time.as_secs_f64());
        match output {
            Ok(output) => {
                _ = out.write_all(&output.stdout);
                _ = out.write_all(&output.stderr);
                if !is_fine {
                    _ = writeln!(out, "{} ended with {}", self.name, output.status);
                }
            }
            Err(error) => _ = writeln!(out, "cannot run {}: {error}", self.path.display()),
        }
        Run { name: self.name, is_fine, time }
    }
}

/// One line of what cargo prints about a build.
#[derive(Deserialize)]
struct Line {
    manifest_path: Option<PathBuf>,
    executable: Option<PathBuf>,
    profile: Option<Profile>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

fn build() -> anyhow::Result<Vec<Program>> {
    let output = cargo()
        .args(["test", "--workspace", "--all-features", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo test")?;
    ensure!(output.status.success(), "the tests do not compile");
    let text = String::from_utf8(output.stdout).context("cargo printed what is not text")?;
    text.lines().filter_map(|line| program(line).transpose()).collect()
}

fn program(line: &str) -> anyhow::Result<Option<Program>> {
    let line: Line = serde_json::from_str(line).context("cargo printed what is not JSON")?;
    let Line { manifest_path: Some(manifest), executable: Some(path), profile, target } = line
    else {
        return Ok(None);
    };
    if !profile.is_some_and(|profile| profile.test) {
        return Ok(None);
    }
    let source = target.map_or_else(|| path.clone(), |target| target.src_path);
    let name = source.strip_prefix(root()).unwrap_or(&source).display().to_string();
    let folder = manifest.parent().unwrap_or(Path::new(".")).to_owned();
    Ok(Some(Program { name, path, folder }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_run() {
        let test = r#"{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","executable":"/t/a",
            "profile":{"test":true},"target":{"src_path":"/p/tests/a.rs"}}"#;
        let found = program(test).unwrap().unwrap();
        assert_eq!(
            (found.name.as_str(), found.folder.as_path()),
            ("/p/tests/a.rs", Path::new("/p"))
        );
        for other in [
            r#"{"reason":"build-finished","success":true}"#,
            r#"{"manifest_path":"/p/Cargo.toml","executable":null,"profile":{"test":true}}"#,
            r#"{"manifest_path":"/p/Cargo.toml","executable":"/t/b","profile":{"test":false}}"#,
        ] {
            assert!(program(other).unwrap().is_none(), "{other}");
        }
    }
}
