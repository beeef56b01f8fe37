//! The programs of this workspace, built the way this one was.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

/// Where they are.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) posthaste: PathBuf,
    pub(crate) transactions: PathBuf,
    pub(crate) users: PathBuf,
}

impl Programs {
    /// Builds them, which takes a moment where nothing has changed. Blocks.
    ///
    /// This executable is `target/<profile>/<name>`, or `target/<profile>/deps/<name>` for a test: they
    /// belong into the profile's folder.
    pub(crate) fn build() -> anyhow::Result<Self> {
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
        build(profile, target)?;
        let [posthaste, transactions, users] =
            ["posthaste", "transactions", "users"].map(|name| folder.join(name));
        Ok(Self { posthaste, transactions, users })
    }
}

fn build(profile: &str, target: &Path) -> anyhow::Result<()> {
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
    Ok(())
}
