//! A receiver in Python, in a process of its own: it can be killed and frozen.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, UNIX_EPOCH},
};

use posthaste_broker_http::{Config, Secret};
use posthaste_core::{Delivery, Message, Outcome};
use posthaste_fixtures::Port;
use serde_json::Value;
use tempfile::TempDir;

/// The key of every test.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A running receiver. Gone when dropped.
pub(crate) struct Receiver {
    folder: TempDir,
    port: Port,
    process: Mutex<Child>,
    certificate: Option<(String, String)>,
}

impl Receiver {
    /// Starts one.
    pub(crate) fn start() -> Self {
        Self::with(None)
    }

    /// Starts one that speaks TLS with this certificate and key, in PEM.
    pub(crate) fn with(certificate: Option<(&str, &str)>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let certificate = certificate.map(|(certificate, key)| {
            let write = |name: &str, text: &str| {
                let path = folder.path().join(name);
                fs::write(&path, text).expect("a file");
                path.display().to_string()
            };
            (write("certificate.pem", certificate), write("key.pem", key))
        });
        let port = Port::hold();
        let process = Mutex::new(spawn(&folder, &port, certificate.as_ref()));
        Self { folder, port, process, certificate }
    }

    /// A URL of this receiver.
    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        let host = if self.certificate.is_some() { "localhost" } else { "127.0.0.1" };
        format!("{scheme}://{host}:{}{path}", self.port())
    }

    /// Webhooks to this receiver.
    pub(crate) fn config(&self, path: &str) -> Config {
        Config { allow_private: true, ..Config::new(self.url(path), vec![secret()]) }
    }

    /// Kills it.
    pub(crate) fn kill(&self) {
        let mut process = self.process.lock().expect("no test panics here");
        process.kill().expect("it can be killed");
        process.wait().expect("it ends");
    }

    /// Starts it again at the same port.
    pub(crate) fn start_again(&self) {
        let mut process = self.process.lock().expect("no test panics here");
        if process.try_wait().expect("its state").is_some() {
            *process = spawn(&self.folder, &self.port, self.certificate.as_ref());
        }
    }

    /// Sends it a signal, if it runs.
    pub(crate) fn signal(&self, signal: &str) {
        let mut process = self.process.lock().expect("no test panics here");
        if process.try_wait().expect("its state").is_none() {
            let id = process.id().to_string();
            let status = Command::new("kill").args([signal, &id]).status().expect("kill");
            assert!(status.success(), "{signal} reaches the receiver");
            if signal == "-STOP" {
                posthaste_fixtures::until_stopped(process.id());
            }
        }
    }

    /// The requests that came, whatever they were answered.
    pub(crate) fn requests(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("requests")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port.address().port()
    }

    /// The log's lines that are complete, from a byte on; and where they end.
    pub(crate) fn read(&self, from: usize) -> (Vec<Value>, usize) {
        let mut text = Vec::new();
        let mut log = File::open(self.folder.path().join("log")).expect("the receiver's log");
        log.seek(SeekFrom::Start(from as u64)).expect("a place in the log");
        log.read_to_end(&mut text).expect("the log");
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = text[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        (lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect(), from + end)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.signal("-CONT");
        self.kill();
    }
}

fn spawn(folder: &TempDir, port: &Port, tls: Option<&(String, String)>) -> Child {
    let mut child = Command::new("python3")
        .arg("-c")
        .arg(include_str!("receiver.py"))
        .arg(folder.path())
        .arg(port.address().port().to_string())
        .arg(SECRET)
        .args(tls.into_iter().flat_map(|(certificate, key)| [certificate, key]))
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed for this test: apt-get install python3");
    let output = child.stdout.take().expect("its output");
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n", "the receiver starts");
    child
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    posthaste_fixtures::eventually(what, async || is_so().then_some(())).await;
}

/// An outcome in two words.
pub(crate) fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Acked => "acked".to_owned(),
        Outcome::Rejected(failure) => format!("rejected {}", failure.class),
        Outcome::Unreachable(failure) => format!("unreachable {}", failure.class),
        Outcome::Unknown(failure) => format!("unknown {}", failure.class),
    }
}

/// The secret of every test.
pub(crate) fn secret() -> Secret {
    Secret::parse(SECRET).expect("a good secret")
}

/// A message on its way.
pub(crate) fn delivery(message: Message) -> Arc<Delivery> {
    let enqueued_at = UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
    Arc::new(Delivery { seq: 42, message, enqueued_at, attempt: 1, redriven: 0, floor: None })
}
