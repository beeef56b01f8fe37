//! A folder with a configuration and an SQLite file, and the real program run in it.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A configuration that delivers everything to standard output.
pub(crate) const EVERYTHING: &str = r#"
[store]
url = "sqlite:outbox.db"

[relay]
name = "tester"
poll = "20ms"

[http]
listen = "127.0.0.1:0"

[[broker]]
name = "out"
url = "stdout:"

[[route]]
name = "all"
topics = ["*"]
"#;

/// What a run ended with.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl Ended {
    /// Asserts the exit code; returns standard output.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:#?}");
        self.out
    }
}

/// A folder of its own for each test.
pub(crate) struct Bundle {
    folder: TempDir,
}

impl Bundle {
    /// A folder with this `posthaste.toml`.
    pub(crate) fn new(config: &str) -> Self {
        let bundle = Self { folder: tempfile::tempdir().unwrap() };
        bundle.write("posthaste.toml", config);
        bundle
    }

    /// A folder with [`EVERYTHING`] and the tables.
    pub(crate) fn migrated() -> Self {
        let bundle = Self::new(EVERYTHING);
        bundle.run(&["migrate"]).expect(0);
        bundle
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The program, about to run in the folder with nothing of ours in its environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("USER", "tester")
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        end(&mut self.command(arguments))
    }

    /// Starts it and waits for the line of its log that holds `text`.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        self.start_logging_to(Stdio::piped(), arguments)
    }

    /// Starts it with standard error going there.
    pub(crate) fn start_logging_to(&self, log: Stdio, arguments: &[&str]) -> Running {
        let mut child = self.command(arguments).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        Running {
            out: lines(child.stdout.take().unwrap()),
            err: match child.stderr.take() {
                Some(log) => lines(log),
                None => lines(std::io::empty()),
            },
            child,
        }
    }
}

/// Runs a command to its end.
pub(crate) fn end(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A program that runs; killed when dropped.
pub(crate) struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    /// Waits for a line of standard output that holds the text.
    pub(crate) fn wait_out(&self, text: &str) -> String {
        wait_line(&self.out, text)
    }

    /// Waits for a line of standard error that holds the text.
    pub(crate) fn wait_err(&self, text: &str) -> String {
        wait_line(&self.err, text)
    }

    /// The address it says it listens on.
    pub(crate) fn address(&self) -> String {
        let line = self.wait_err("address=");
        let (_, address) = line.split_once("address=").unwrap();
        address.trim().to_owned()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for its end: it closes its output when it ends.
    pub(crate) fn end(mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.err.recv_timeout(deadline - Instant::now()) {
            println!("{line}");
        }
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(source: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn wait_line(lines: &Receiver<String>, text: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if line.contains(text) {
            return line;
        }
        seen.push(line);
    }
    panic!("no line with {text:?} within {PATIENCE:?}: {seen:#?}");
}

/// One request; the status line's code and the body.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (code, body.to_owned())
}

/// Asks until the answer is right: the pause between two questions is a wait for nothing else.
pub(crate) fn poll(address: &str, path: &str, is_right: impl Fn(u16, &str) -> bool) -> String {
    let deadline = Instant::now() + PATIENCE;
    let (_open, pause) = mpsc::channel::<()>();
    loop {
        let (code, body) = get(address, path);
        if is_right(code, &body) {
            return body;
        }
        assert!(Instant::now() < deadline, "{path} still says {code}: {body}");
        let _ = pause.recv_timeout(Duration::from_millis(20));
    }
}
