//! A program that runs, with its log in a file.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::eventually;

/// Lines of a log that go into an error.
const LOG_LINES_SHOWN: usize = 15;

/// A program that runs. It is killed when this is dropped, and when this process ends in whatever way: a
/// small shell script keeps it, and notices.
#[derive(Debug)]
pub struct Process {
    name: String,
    id: u32,
    log: PathBuf,
    keeper: Child,
    /// The keeper's standard input. Its end is the program's.
    lifeline: Option<ChildStdin>,
    /// Where the keeper tells the exit code.
    says: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a program with this environment and no other. Its name, which is its log's, must be new.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        arguments: &[&str],
        environment: &[(String, String)],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let mut keeper = Command::new("sh")
            .args(["-c", include_str!("keep.sh"), "keep"])
            .arg(&log)
            .arg(program)
            .args(arguments)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .stdout(Stdio::piped())
            // Ctrl-C at a terminal goes to a whole group: what happens then is decided here.
            .process_group(0)
            .spawn()
            .context("cannot run sh")?;
        let lifeline = keeper.stdin.take();
        let mut says = BufReader::new(keeper.stdout.take().context("standard output is piped")?);
        let id = line(&mut says).with_context(|| format!("cannot run {}", program.display()))?;
        let name = name.to_owned();
        Ok(Self { name, id, log, keeper, lifeline, says: Some(says) })
    }

    /// What it is called here.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Everything it has written so far.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The end of its log.
    #[must_use]
    pub fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    /// Lines of its log that hold the text.
    #[must_use]
    pub fn count(&self, text: &str) -> usize {
        self.log().lines().filter(|line| line.contains(text)).count()
    }

    /// Waits for more lines of its log that hold the text than there were.
    ///
    /// # Errors
    /// When there are none in time, with the end of the log.
    pub async fn wait_log(&self, text: &str, before: usize) -> anyhow::Result<()> {
        let more = async || Ok((self.count(text) > before).then_some(()));
        let waited = eventually(&format!("{text:?} of {}", self.name), more).await;
        waited.with_context(|| format!("its log ends so:\n{}", self.log_end()))
    }

    /// Waits until it listens; its URL.
    pub(crate) async fn url(&self) -> anyhow::Result<String> {
        let listening = async || {
            let log = self.log();
            let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let line = lines.find(|line| line["msg"] == "listening");
            Ok(line.and_then(|line| line["address"].as_str().map(|it| format!("http://{it}"))))
        };
        let url = eventually(&format!("{} to listen", self.name), listening).await;
        url.with_context(|| format!("its log ends so:\n{}", self.log_end()))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is gone.
    pub fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let id = self.id.to_string();
        let status = Command::new("kill").args(["-s", signal, &id]).status()?;
        ensure!(status.success(), "{} has ended already:\n{}", self.name, self.log_end());
        Ok(())
    }

    /// Sends it a signal and waits for its end. The exit code: 128 and the signal's number for a signal.
    ///
    /// # Errors
    /// When it is gone already, or nobody can tell.
    pub async fn end(mut self, signal: &str) -> anyhow::Result<i32> {
        self.signal(signal)?;
        let mut says = self.says.take().context("taken once")?;
        tokio::task::spawn_blocking(move || line(&mut says)).await?
    }
}

fn line<T: std::str::FromStr>(says: &mut BufReader<ChildStdout>) -> anyhow::Result<T> {
    let mut line = String::new();
    says.read_line(&mut line)?;
    line.trim().parse().ok().with_context(|| format!("its keeper says {line:?}"))
}

/// Waits until it is gone.
impl Drop for Process {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // A failed wait means that the keeper is gone already, which is what is wanted.
        let _ = self.keeper.wait();
    }
}
