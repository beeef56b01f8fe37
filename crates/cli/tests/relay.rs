//! A relay that runs: delivery, HTTP, signals, and stores that are not there.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use support::{Bundle, EVERYTHING, get, poll};

#[test]
fn a_relay_delivers_reports_and_stops_when_told() {
    let t = Bundle::migrated();
    let relay = t.start(&["relay"]);
    let address = relay.address();
    poll(&address, "/readyz", |code, _| code == 200);
    let id = t.run(&["send", "--topic", "orders", "--payload", "{}"]).expect(0);
    let line = relay.wait_out(id.trim());
    assert!(line.contains("\"topic\":\"orders\""), "{line}");
    assert_eq!(get(&address, "/livez").0, 200);
    for name in [
        "posthaste_published_messages_total{route=\"all\"} 1",
        "posthaste_delivery_latency_seconds_bucket{route=\"all\",le=\"3600\"} 1",
        "posthaste_outbox_pending_messages{route=\"all\"} 0",
        "posthaste_outbox_oldest_pending_age_seconds{route=\"all\"} 0",
        "posthaste_outbox_dead_messages{route=\"all\"} 0",
        "posthaste_lease_held{route=\"all\",shard=\"0\"} 1",
        "posthaste_store_up 1",
    ] {
        poll(&address, "/metrics", |_, body| body.contains(name));
    }
    let (_, body) = get(&address, "/readyz?verbose");
    let ready: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(ready["ready"], true);
    assert_eq!(ready["routes"][0]["state"], "running");
    let (_, body) = get(&address, "/version");
    let version: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(version["commit"].is_string() && version["features"].is_array(), "{version}");
    assert_eq!(get(&address, "/nothing").0, 404);
    let status = t.run(&["status"]).expect(0);
    assert!(status.contains("tester"), "the relay is there: {status}");
    relay.signal("TERM");
    assert_eq!(relay.end(), 0);
    let status = t.run(&["status"]).expect(0);
    assert!(status.contains("no relay is running"), "{status}");
}

#[test]
fn an_interrupt_stops_it_too() {
    let t = Bundle::migrated();
    let relay = t.start(&["relay"]);
    relay.wait_err("serving shard");
    relay.signal("INT");
    relay.wait_err("stopping");
    assert_eq!(relay.end(), 0);
}

#[test]
fn logs_are_json_when_asked() {
    let t = Bundle::new(&format!("{EVERYTHING}\n[log]\nformat = \"json\"\n"));
    t.run(&["migrate"]).expect(0);
    let ended = t.run(&["relay", "--once"]);
    for line in ended.err.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
    }
    ended.expect(0);
}

/// Durations are numbers, with the unit in their names: `"retry_in_seconds":0.5`.
#[test]
fn durations_in_json_logs_are_numbers() {
    let url = "postgres://app:hunter2@127.0.0.1:1/shop";
    let config = EVERYTHING.replace("sqlite:outbox.db", url);
    let t = Bundle::new(&format!("{config}\n[log]\nformat = \"json\"\n"));
    let relay = t.start(&["relay"]);
    let line: serde_json::Value =
        serde_json::from_str(&relay.wait_err("the store cannot be used")).unwrap();
    assert!(line["retry_in_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.5), "{line}");
    relay.signal("TERM");
    assert_eq!(relay.end(), 0);
}

/// What cannot be logged is lost, and nothing else: from the first note about the configuration to the
/// last line, with every line that there is.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_the_log_stops_no_relay() {
    for format in ["text", "json"] {
        let unused = "[[broker]]\nname = \"unused\"\nurl = \"null:\"\n";
        let log = format!("[log]\nformat = \"{format}\"\nlevel = \"trace\"\n");
        let routed = "topics = [\"*\"]\nbroker = \"out\"";
        let config = EVERYTHING.replace("topics = [\"*\"]", routed);
        let t = Bundle::new(&format!("{config}\n{unused}\n{log}"));
        t.run(&["migrate"]).expect(0);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let relay = t.start_logging_to(full.into(), &["relay"]);
        for _ in 0..3 {
            let id = t.run(&["send", "--topic", "orders", "--payload", "{}"]).expect(0);
            relay.wait_out(id.trim());
        }
        relay.signal("TERM");
        assert_eq!(relay.end(), 0, "{format}");
        let status = t.run(&["status"]).expect(0);
        assert!(status.contains("no relay is running"), "it said goodbye: {status}");
    }
}

#[test]
fn a_store_that_is_not_there_is_waited_for_with_the_lights_on() {
    let url = "postgres://app:hunter2@127.0.0.1:1/shop";
    let t = Bundle::new(&EVERYTHING.replace("sqlite:outbox.db", url));
    let relay = t.start(&["relay"]);
    let address = relay.address();
    let line = relay.wait_err("attempt=2");
    assert!(line.contains("PH-1001") && !line.contains("hunter2"), "{line}");
    assert_eq!(get(&address, "/livez").0, 200);
    let body = poll(&address, "/readyz", |code, body| code == 503 && body.contains("PH-1001"));
    assert!(!body.contains("hunter2"), "{body}");
    relay.signal("TERM");
    assert_eq!(relay.end(), 0);
}

#[test]
fn tables_that_are_not_there_end_it_with_the_command_to_run() {
    let t = Bundle::new(EVERYTHING);
    let ended = t.run(&["relay"]);
    assert!(ended.err.contains("posthaste migrate"), "{ended:#?}");
    ended.expect(1);
}

/// An address that someone chose is one that someone scrapes.
#[test]
fn a_port_that_is_taken_names_the_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let t = Bundle::new(&EVERYTHING.replace("127.0.0.1:0", &address));
    let ended = t.run(&["relay"]);
    assert!(ended.err.contains("`http.listen`"), "{ended:#?}");
    ended.expect(1);
}

/// Two relays of one machine with one configuration, which names no address.
#[test]
fn a_second_relay_on_a_machine_takes_another_port() {
    let config = EVERYTHING.replace("[http]\nlisten = \"127.0.0.1:0\"\n", "");
    let t = Bundle::new(&config);
    t.run(&["migrate"]).expect(0);
    let shown = t.run(&["config", "show"]).expect(0);
    assert!(shown.contains("listen = \"127.0.0.1:9464\""), "{shown}");
    let relays = [t.start(&["relay"]), t.start(&["relay"])];
    let addresses = relays.each_ref().map(support::Running::address);
    assert_ne!(addresses[0], addresses[1]);
    for address in &addresses {
        assert!(address.starts_with("127.0.0.1:"), "loopback as by default: {address}");
        poll(address, "/readyz", |code, _| code == 200);
        assert_eq!(get(address, "/livez").0, 200);
    }
    let id = t.run(&["send", "--topic", "orders", "--payload", "{}"]).expect(0);
    // SQLite's single shard is served by one of the two.
    let count = |address: &str| {
        let (_, body) = get(address, "/metrics");
        body.contains("posthaste_published_messages_total{route=\"all\"} 1")
    };
    let deadline = std::time::Instant::now() + support::PATIENCE;
    while !addresses.iter().any(|address| count(address)) {
        assert!(std::time::Instant::now() < deadline, "{id} was not delivered");
    }
    for relay in relays {
        relay.signal("TERM");
        assert_eq!(relay.end(), 0);
    }
}

/// The words that follow `# HELP name` or `# TYPE name`.
fn said_of(metrics: &str, what: &str, name: &str) -> Option<String> {
    let start = format!("# {what} {name} ");
    metrics.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
}

#[test]
fn every_metric_has_a_help_text_and_a_type() {
    let t = Bundle::migrated();
    let relay = t.start(&["relay"]);
    let address = relay.address();
    let id = t.run(&["send", "--topic", "orders", "--payload", "{}"]).expect(0);
    relay.wait_out(id.trim());
    let is_whole = |_, body: &str| {
        ["posthaste_settle_duration_seconds_bucket", "posthaste_outbox_pending_messages"]
            .iter()
            .all(|name| body.contains(name))
    };
    let metrics = poll(&address, "/metrics", is_whole);
    let mut families = std::collections::BTreeSet::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let name = line.split(['{', ' ']).next().unwrap();
        let parts = ["_bucket", "_sum", "_count"];
        let family = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        families.insert(if said_of(&metrics, "TYPE", family).is_some() { family } else { name });
    }
    assert!(families.len() >= 15, "{families:?}");
    for family in families {
        assert!(said_of(&metrics, "TYPE", family).is_some(), "{family} has no type:\n{metrics}");
        let help = said_of(&metrics, "HELP", family);
        assert!(help.is_some_and(|help| !help.trim().is_empty()), "{family} has no help text");
    }
    check_with_promtool(&metrics);
}

/// Where Prometheus' own tool is installed, it has nothing to say.
fn check_with_promtool(metrics: &str) {
    use std::{
        io::Write,
        process::{Command, Stdio},
    };
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let Ok(mut child) = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
        println!("promtool is not installed: not asked");
        return;
    };
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn status_and_doctor_tell_that_a_route_is_paused_and_why() {
    let down = EVERYTHING.replace("stdout:", "tcp://127.0.0.1:1");
    let t = Bundle::new(&down);
    t.run(&["migrate"]).expect(0);
    t.run(&["send", "--topic", "orders", "--payload", "{}"]).expect(0);
    let relay = t.start(&["relay"]);
    relay.wait_err("route paused");
    let deadline = std::time::Instant::now() + support::PATIENCE;
    let status = loop {
        let status = t.run(&["status"]).expect(0);
        if status.contains("has been paused for") {
            break status;
        }
        assert!(std::time::Instant::now() < deadline, "{status}");
    };
    let line = status.lines().find(|line| line.starts_with("all ")).unwrap();
    assert!(line.contains("paused"), "{status}");
    assert!(status.contains("its broker cannot be used: connection: cannot connect"), "{status}");
    let json: serde_json::Value =
        serde_json::from_str(&t.run(&["status", "--json"]).expect(0)).unwrap();
    let paused = &json["routes"][0]["paused"];
    assert!(paused["reason"].as_str().unwrap().starts_with("connection"), "{json}");
    let doctor = t.run(&["doctor"]).expect(1);
    assert!(doctor.contains("FAIL outbox  route all: paused for "), "{doctor}");
    relay.signal("TERM");
    assert_eq!(relay.end(), 0);
    let status = t.run(&["status"]).expect(0);
    assert!(!status.contains("paused"), "what a relay said ends with it: {status}");
}
