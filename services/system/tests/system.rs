//! The commands, as they are run. Servers are private ones: they are stopped and crashed here.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::{
    net::TcpStream,
    process::{Command, Stdio},
    sync::Mutex,
};

use system::{
    Report,
    chaos::{self, Plan},
    eventually,
};

/// One system at a time: each has two servers and ten processes.
static ONE: Mutex<()> = Mutex::new(());

const PROGRAM: &str = env!("CARGO_BIN_EXE_system");

/// Kill -9 of a relay at three points, SIGTERM in a batch, broker and database away, an exchange that leads
/// nowhere: every transfer is settled exactly once. D3-17 to D3-21, D3-39.
#[test]
fn r2_06_whatever_goes_wrong_every_transfer_is_settled_once() {
    let _one = ONE.lock();
    let mut out = Vec::new();
    let mut report = Report::new(&mut out);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let done = runtime.block_on(chaos::run(Plan::QUICK, &mut report));
    let is_right = report.is_right();
    let text = String::from_utf8(out).unwrap();
    println!("{text}");
    done.unwrap_or_else(|error| panic!("{error:#}\n{text}"));
    assert!(is_right && text.ends_with("\nit works\n"), "{text}");
    let faults = text.lines().filter(|line| line.contains("all settled")).count();
    assert_eq!(faults, 9, "{text}");
}

/// D3-32, D3-34: nothing is missing and nothing has to be made by hand.
#[test]
fn r4_06_one_command_shows_that_it_works() {
    let _one = ONE.lock();
    let output = Command::new(PROGRAM).arg("check").stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}{error}");
    assert!(text.ends_with("\nit works\n"), "{text}");
    assert_eq!(text.matches("  ok    ").count(), 10, "{text}");
}

/// Killed in the worst way, the program leaves no process behind: not even a server.
#[test]
fn whatever_ends_it_nothing_is_left() {
    let _one = ONE.lock();
    tokio::runtime::Runtime::new().unwrap().block_on(killed());
}

async fn killed() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut program = Command::new(PROGRAM)
        .arg("up")
        .stdin(Stdio::null())
        .stdout(log.reopen().unwrap())
        .spawn()
        .unwrap();
    let text = eventually("everything to be up", async || {
        let text = std::fs::read_to_string(log.path())?;
        anyhow::ensure!(program.try_wait()?.is_none(), "it has ended: {text}");
        Ok(text.contains("Ctrl-C ends it").then_some(text))
    })
    .await
    .unwrap();
    let ports: Vec<u16> = text
        .lines()
        .filter(|line| line.contains("://"))
        .filter_map(|line| line.split("127.0.0.1:").nth(1))
        .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>())
        .map(|port| port.parse().unwrap())
        .collect();
    // Two servers, two APIs, the consumer; and the lines to try.
    assert!(ports.len() >= 5, "{text}");
    let is_open = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
    assert!(ports.iter().all(is_open), "{text}");
    program.kill().unwrap();
    program.wait().unwrap();
    eventually("all ports to be closed", async || Ok((!ports.iter().any(is_open)).then_some(())))
        .await
        .unwrap();
}
