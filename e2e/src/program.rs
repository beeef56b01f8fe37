//! The built program: run to its end, or running.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
};

use crate::eventually;

/// The program of this workspace, built as this test was.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(build)
}

fn build() -> PathBuf {
    let folder = posthaste_fixtures::programs(&["posthaste-cli"], &["kafka"]);
    folder.expect("the program builds").join("posthaste")
}

/// What a run ended with.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; -1 for a signal.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ended {
    pub(crate) fn from_output(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Asserts that it ended well; returns standard output.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.out
    }

    /// Asserts that it failed with the code, and that its standard error has all the words.
    ///
    /// # Panics
    /// When it did not, or has not.
    #[track_caller]
    pub fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:#?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {self:#?}");
        }
    }
}

/// A program that runs; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it with standard error going to a file.
    pub(crate) fn start(command: &mut Command, log: PathBuf) -> Self {
        let file = File::create(&log).expect("the test's folder can be written to");
        let child = command.stderr(Stdio::from(file)).spawn().expect("the program can be run");
        Self { child, log }
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit code if it has ended, -1 for a signal.
    ///
    /// # Panics
    /// When the system does not say.
    pub fn ended(&mut self) -> Option<i32> {
        let status = self.child.try_wait().expect("a child can be waited for");
        status.map(|status| status.code().unwrap_or(-1))
    }

    /// Where its log is.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.log.clone()
    }

    /// Everything it logged so far.
    ///
    /// # Panics
    /// When the file cannot be read.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log can be read")
    }

    /// Waits for a line of its log that holds the text.
    ///
    /// # Panics
    /// When there is none in time.
    pub async fn wait_log(&self, text: &str) -> String {
        let line = async || {
            let log = self.log();
            log.lines().find(|line| line.contains(text)).map(str::to_owned)
        };
        eventually(&format!("{text:?} in {}", self.log.display()), line).await
    }

    /// Whether it serves a shard, by its own account.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        let log = self.log();
        let last = log.lines().rfind(|line| line.contains("serving shard"));
        last.is_some_and(|line| !line.contains("stopped serving shard"))
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot send {name}: {}", self.log());
    }

    /// Ends it at once, as a crash would.
    pub fn kill(self) {
        drop(self);
    }

    /// Tells it to stop and waits for its end; returns its exit code.
    ///
    /// # Panics
    /// When it does not end in time.
    pub async fn stop(self) -> i32 {
        self.signal("TERM");
        self.end().await
    }

    /// Waits for its end; returns its exit code, -1 for a signal.
    ///
    /// # Panics
    /// When it does not end in time.
    pub async fn end(mut self) -> i32 {
        let child = &mut self.child;
        let status = eventually("end of the program", async || {
            child.try_wait().expect("a child can be waited for")
        });
        status.await.code().unwrap_or(-1)
    }

    /// The most memory it ever had, in KiB.
    ///
    /// # Panics
    /// When it is gone already.
    #[must_use]
    pub fn peak_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(path).expect("the process is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).expect("Linux says `VmHWM: <number> kB`")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
