//! The programs of this workspace, built the way this one was, or where they are said to be.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, ensure};

/// Names the folder of programs that are built already, as those of a whole test run are.
const VARIABLE: &str = "POSTHASTE_PROGRAMS";

/// Tries to take a program that somebody else may be replacing at this moment.
const TRIES: u32 = 50;

/// Where they are: in a folder of the system's own, so that nobody replaces them while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) posthaste: PathBuf,
    pub(crate) transactions: PathBuf,
    pub(crate) users: PathBuf,
}

impl Programs {
    /// Takes them from where the environment says, or builds them, which takes a moment where nothing
    /// has changed. Blocks.
    pub(crate) fn take(folder: &Path) -> anyhow::Result<Self> {
        let built = match env::var_os(VARIABLE) {
            Some(folder) => folder.into(),
            None => build()?,
        };
        let take = |name: &str| {
            let (from, to) = (built.join(name), folder.join(name));
            let mut taken = fs::copy(&from, &to);
            for _ in 1..TRIES {
                if taken.is_ok() {
                    break;
                }
                thread::yield_now();
                taken = fs::copy(&from, &to);
            }
            taken.with_context(|| format!("there is no {}", from.display())).map(|_| to)
        };
        Ok(Self {
            posthaste: take("posthaste")?,
            transactions: take("transactions")?,
            users: take("users")?,
        })
    }
}

/// This executable is `target/<profile>/<name>`, or `target/<profile>/deps/<name>` for a test: they belong
/// into the profile's folder.
fn build() -> anyhow::Result<PathBuf> {
    let here = env::current_exe().context("a running executable has a path")?;
    let mut folder = here.parent().context("it is in a folder")?;
    if folder.ends_with("deps") {
        folder = folder.parent().context("deps is in the profile's folder")?;
    }
    let target = folder.parent().context("the profile's folder is in the target folder")?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Cargo tells what it runs which package it is of. Some build scripts run again when that changes.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    let status = command
        .args(["build", "--profile", profile, "--target-dir"])
        .arg(target)
        .args(["posthaste-cli", "transactions", "users"].map(|name| format!("--package={name}")))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("cannot run cargo, which builds the programs")?;
    ensure!(status.success(), "the programs do not build");
    Ok(folder.to_owned())
}
