//! The programs of this workspace, built the way this one was, or where they are said to be.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

use anyhow::Context;
use posthaste_fixtures::programs;

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
        let built = programs(&["posthaste-cli", "transactions", "users"], &[])?;
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
