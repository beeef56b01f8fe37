//! The commands, as they are run. Servers are private ones: they are stopped and crashed here.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
    time::Duration,
};

use system::{
    Report,
    chaos::{self, Plan},
    eventually,
};

/// One system at a time: each has two servers and ten processes.
static ONE: Mutex<()> = Mutex::new(());

const PROGRAM: &str = env!("CARGO_BIN_EXE_system");

/// Longest wait for programs that may have to be built first.
const BUILD_PATIENCE: Duration = Duration::from_secs(1800);

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
    let up = async {
        loop {
            let text = fs::read_to_string(log.path()).unwrap();
            if text.contains("Ctrl-C ends it") {
                return text;
            }
            assert!(program.try_wait().unwrap().is_none(), "it has ended: {text}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let text = tokio::time::timeout(BUILD_PATIENCE, up).await.unwrap();
    let folder = text.lines().find_map(|line| line.strip_prefix("logs")).unwrap().trim();
    // Two APIs, the consumer, four relays, what prints users' events; each with its keeper.
    assert!(processes_of(folder) >= 8, "{text}");
    program.kill().unwrap();
    program.wait().unwrap();
    eventually("everything to be gone", async || {
        Ok((processes_of(folder) == 0 && !Path::new(folder).exists()).then_some(()))
    })
    .await
    .unwrap();
}

/// Processes whose command line names something in the folder.
fn processes_of(folder: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(folder)).count()
}
