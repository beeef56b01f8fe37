//! A folder that is gone when the process is.

use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use anyhow::Context;

/// A folder of one's own. A small shell script removes it when this is dropped, and when this process ends
/// in whatever way.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    cleaner: Child,
    /// The script's standard input. Its end is the folder's.
    lifeline: Option<ChildStdin>,
}

impl Folder {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("posthaste-system-").tempdir()?;
        let mut cleaner = Command::new("sh")
            .args(["-c", include_str!("clean.sh"), "clean"])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C at a terminal goes to a whole group.
            .process_group(0)
            .spawn()
            .context("cannot run sh")?;
        let lifeline = cleaner.stdin.take();
        Ok(Self { path: folder.keep(), cleaner, lifeline })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Waits until it is gone.
impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // A failed wait means that the script is gone already.
        let _ = self.cleaner.wait();
    }
}
