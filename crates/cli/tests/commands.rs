//! The commands on an SQLite file: output, notes and exit codes.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::{io::Write, process::Stdio};

use serde_json::Value;
use support::{Bundle, EVERYTHING, end};

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn migrating_twice_changes_nothing_the_second_time() {
    let t = Bundle::new(EVERYTHING);
    let missing = t.run(&["status"]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.contains("posthaste migrate"), "{missing:#?}");
    assert!(!t.path("outbox.db").exists(), "looking creates no file");
    let first = t.run(&["migrate"]).expect(0);
    assert!(first.starts_with("applied "), "{first}");
    let second = t.run(&["migrate"]);
    assert!(second.err.contains("up to date"), "{second:#?}");
    assert_eq!(second.expect(0), "");
}

#[test]
fn the_page_of_commands_shows_what_migrate_prints() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    let page = std::fs::read_to_string(page).unwrap();
    let applied = Bundle::new(EVERYTHING).run(&["migrate"]).expect(0);
    assert!(page.contains(&format!("/shop\n{applied}$ posthaste migrate")), "{applied}");
}

#[test]
fn migrations_can_be_printed_without_a_store() {
    let t = Bundle::new("");
    for dialect in ["postgres", "sqlite"] {
        let sql = t.run(&["migrate", "--print", dialect]).expect(0);
        assert!(sql.to_uppercase().contains("CREATE TABLE"), "{dialect}: {sql}");
    }
    t.run(&["migrate", "--print", "oracle"]).expect(2);
}

#[test]
fn what_is_sent_is_relayed_as_one_line_of_json_each() {
    let t = Bundle::migrated();
    let send = [
        "send",
        "--topic",
        "orders",
        "--key",
        "42",
        "--type",
        "Placed",
        "--header",
        "a=b=c",
        "--payload",
        "{\"n\":1}",
    ];
    let id = t.run(&send).expect(0);
    let mut child = t
        .command(&["send", "--topic", "raw", "--content-type", "application/octet-stream"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&[0xff, 0x00]).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    let lines = json_lines(&t.run(&["relay", "--once"]).expect(0));
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["id"], id.trim());
    assert_eq!(lines[0]["key"], "42");
    assert_eq!(lines[0]["type"], "Placed");
    assert_eq!(lines[0]["headers"]["a"], "b=c");
    assert_eq!(lines[0]["payload"], "{\"n\":1}");
    assert_eq!(lines[1]["payload_base64"], "/wA=");
    assert_eq!(t.run(&["relay", "--once"]).expect(0), "", "nothing is sent twice");
}

#[test]
fn status_tells_what_waits_and_what_has_passed() {
    let t = Bundle::migrated();
    let empty = t.run(&["status"]).expect(0);
    assert!(empty.contains("no route is registered yet"), "{empty}");
    t.run(&["relay", "--once"]).expect(0);
    t.run(&["send", "--topic", "x", "--payload", "{}", "--count", "3"]).expect(0);
    let status = &json_lines(&t.run(&["status", "--json"]).expect(0))[0];
    assert_eq!(status["routes"][0]["name"], "all");
    assert_eq!(status["routes"][0]["pending"], 3);
    t.run(&["relay", "--once"]).expect(0);
    let status = &json_lines(&t.run(&["status", "--json"]).expect(0))[0];
    assert_eq!(status["routes"][0]["pending"], 0);
    let text = t.run(&["status"]).expect(0);
    let heading =
        "ROUTE  STATE     TOPICS  PENDING  OLDEST  RETRYING  OLDEST  DEAD  SHARDS  SERVED BY";
    assert!(text.starts_with(heading), "{text}");
}

#[test]
fn a_topic_without_a_route_is_kept_and_told() {
    let t = Bundle::new(&EVERYTHING.replace("[\"*\"]", "[\"orders.*\"]"));
    t.run(&["migrate"]).expect(0);
    let sent = t.run(&["send", "--topic", "ordrs", "--payload", "{}"]);
    assert!(sent.err.contains("no route matches the topic `ordrs`"), "{sent:#?}");
    sent.expect(0);
    let routed = t.run(&["send", "--topic", "orders.eu", "--payload", "{}"]);
    assert_eq!(routed.err, "");
    assert_eq!(json_lines(&t.run(&["relay", "--once"]).expect(0)).len(), 1);
    let status = t.run(&["status"]).expect(0);
    assert!(status.contains("ordrs  1 message"), "{status}");
    let doctor = t.run(&["doctor"]).expect(1);
    assert!(doctor.contains("no route matches topic \"ordrs\""), "{doctor}");
}

#[test]
fn messages_that_break_a_limit_are_refused() {
    let t = Bundle::migrated();
    for (arguments, said) in [
        (["send", "--topic", "", "--payload", "x"], "topic `` must not be empty"),
        (["send", "--topic", "a\nb", "--payload", "x"], "control characters"),
    ] {
        let refused = t.run(&arguments);
        assert!(refused.err.contains(said), "{refused:#?}");
        refused.expect(2);
    }
    t.run(&["send", "--topic", "x", "--header", "novalue", "--payload", "x"]).expect(2);
    let file = t.run(&["send", "--topic", "x", "--file", "nope"]);
    assert!(file.err.contains("cannot read nope"), "{file:#?}");
    let text = t.run(&["send", "--topic", "x", "--payload", "hello"]);
    assert!(text.err.contains("not JSON"), "{text:#?}");
}

#[test]
fn doctor_is_content_with_a_healthy_store() {
    let t = Bundle::migrated();
    let report = t.run(&["doctor"]).expect(0);
    assert!(report.lines().all(|line| line.starts_with("ok ")), "{report}");
    for finding in json_lines(&t.run(&["doctor", "--json"]).expect(0)) {
        assert_eq!(finding["ok"], true, "{finding}");
    }
}

#[test]
fn a_store_that_is_not_there_has_its_own_exit_code() {
    let t = Bundle::migrated();
    let url = "postgres://app:hunter2@127.0.0.1:1/shop";
    for command in [&["status"][..], &["migrate"], &["relay", "--once"], &["dead", "list"]] {
        let ended = t.run(&[command, &["--store", url]].concat());
        assert!(ended.err.contains("PH-1001"), "{ended:#?}");
        ended.expect(69);
    }
    t.run(&["doctor", "--store", url]).expect(1);
}

#[test]
fn codes_are_explained_offline() {
    let t = Bundle::new("");
    assert!(t.run(&["explain", "PH-1003"]).expect(0).contains("posthaste migrate"));
    assert!(t.run(&["explain"]).expect(0).lines().count() > 20);
    t.run(&["explain", "PH-9999"]).expect(3);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let t = Bundle::migrated();
    let mut child = t
        .command(&["send", "--topic", "x", "--payload", "{}", "--count", "5000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn wrong_usage_is_2_and_help_is_0() {
    let t = Bundle::new("");
    t.run(&[]).expect(2);
    t.run(&["relai"]).expect(2);
    let help = t.run(&["--help"]).expect(0);
    assert!(help.contains("Exit codes"), "{help}");
    for command in ["demo", "relay", "migrate", "status", "dead", "send", "config", "doctor"] {
        t.run(&[command, "--help"]).expect(0);
    }
}

#[test]
fn the_version_tells_commit_and_features() {
    let t = Bundle::new("");
    let short = t.run(&["-V"]).expect(0);
    let version = env!("CARGO_PKG_VERSION");
    assert!(short.starts_with(&format!("posthaste {version} (")), "{short}");
    assert_eq!(short.lines().count(), 1, "{short}");
    let long = t.run(&["--version"]).expect(0);
    let lines: Vec<&str> = long.lines().collect();
    assert_eq!(lines[0], format!("posthaste {version}"));
    let commit = lines[1].strip_prefix("commit: ").unwrap();
    // The commit of the build: a commit made while the tests run changes HEAD, not the program.
    assert_eq!(commit, env!("POSTHASTE_COMMIT"));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    if std::path::Path::new(root).join(".git").exists() {
        let exists = ["-C", root, "cat-file", "-e", &format!("{commit}^{{commit}}")];
        let git = std::process::Command::new("git").args(exists).status();
        assert!(git.is_ok_and(|git| git.success()), "{commit} is no commit of this repository");
    }
    let features = if cfg!(feature = "kafka") { "kafka" } else { "none" };
    assert_eq!(lines[2..], [format!("features: {features}")]);
}

#[test]
fn an_underscore_too_few_is_noticed() {
    let t = Bundle::migrated();
    let ended = end(t.command(&["status"]).env("POSTHASTE_STORE_URL", "sqlite:other.db"));
    assert!(ended.err.contains("POSTHASTE_STORE__URL"), "{ended:#?}");
    ended.expect(0);
}
