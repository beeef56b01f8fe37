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
    assert!(body.contains(env!("CARGO_PKG_VERSION")), "{body}");
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

#[test]
fn a_port_that_is_taken_names_the_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let t = Bundle::new(&EVERYTHING.replace("127.0.0.1:0", &address));
    let ended = t.run(&["relay"]);
    assert!(ended.err.contains("`http.listen`"), "{ended:#?}");
    ended.expect(1);
}
