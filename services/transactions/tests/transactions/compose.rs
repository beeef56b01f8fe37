//! The files of `services/compose`, as far as they can be checked without an engine.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../compose")
}

fn read(path: &str) -> String {
    fs::read_to_string(folder().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of services: what stands two spaces in, below `services:`.
fn services() -> BTreeSet<String> {
    let text = read("docker-compose.yml");
    let (_, services) = text.split_once("\nservices:\n").unwrap();
    let (services, _) = services.split_once("\nnetworks:").unwrap();
    let name = |line: &str| {
        let line = line.strip_prefix("  ")?.strip_suffix(':')?;
        (!line.starts_with([' ', '#'])).then(|| line.to_owned())
    };
    services.lines().filter_map(name).collect()
}

/// D3-32: there are relays, and what settles. D3-35: the database can be reached from this machine, and only from it.
#[test]
fn r4_06_compose_has_every_part_and_every_file() {
    let services = services();
    for name in [
        "transactions",
        "users",
        "transactions-relay",
        "transactions-settle",
        "users-relay",
        "postgres",
        "rabbitmq",
        "prometheus",
        "grafana",
    ] {
        assert!(services.contains(name), "{name}: {services:?}");
    }
    let text = read("docker-compose.yml");
    let mounts: Vec<&str> = text.split("\"./").skip(1).collect();
    assert!(mounts.len() >= 7);
    for mount in mounts {
        let (path, _) = mount.split_once(':').unwrap();
        assert!(folder().join(path).exists(), "{path} is mounted, but not there");
    }
    for line in text.lines().filter(|line| line.trim_start().starts_with("ports:")) {
        for port in line.split('"').skip(1).step_by(2) {
            assert!(port.starts_with("127.0.0.1:"), "{port} is open to everybody");
        }
    }
    let scraped = read("prometheus/prometheus.yml");
    let names = scraped.split("names: [").skip(1).flat_map(|rest| {
        rest.split_once(']').unwrap().0.split(", ").map(str::to_owned).collect::<Vec<_>>()
    });
    for name in names {
        assert!(services.contains(&name), "{name} is scraped, but not a service");
    }
}

/// D3-44: exchanges are called the same everywhere.
#[test]
fn r4_06_relays_publish_what_the_services_enqueue() {
    for (file, exchange, topic) in [
        ("transactions.toml", "transaction.events", "transaction.created"),
        ("users.toml", "user.events", "user.created"),
    ] {
        let text = read(file);
        assert!(text.contains(&format!("exchange = \"{exchange}\"")), "{file}");
        let (_, topics) = text.split_once("topics = [\"").unwrap();
        let pattern = topics.split('"').next().unwrap();
        let pattern: posthaste::TopicPattern = pattern.parse().unwrap();
        assert!(pattern.matches(topic), "{file}: {topic}");
    }
    // What settles listens where the relays publish.
    let compose = read("docker-compose.yml");
    let (_, settle) = compose.split_once("\n  transactions-settle:\n").unwrap();
    let (settle, _) = settle.split_once("\n\n").unwrap();
    for words in ["[/usr/local/bin/transactions, settle]", "RABBIT_EXCHANGE: transaction.events"] {
        assert!(settle.contains(words), "{settle}");
    }
}

#[test]
fn r4_07_the_dashboard_shows_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&read("grafana/dashboards/services.json")).unwrap();
    let relay = read("../../docs/reference/metrics.md");
    let mut seen = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let words = query.split(|c| !is_word(c)).filter(|word| word.starts_with("posthaste_"));
            for word in words {
                let name = word.trim_end_matches("_bucket");
                assert!(relay.contains(&format!("`{name}`")), "{query}: no metric {name}");
                seen.insert(name.to_owned());
            }
            seen.extend(
                query.contains("_service_http_requests_total").then(|| "requests".to_owned()),
            );
        }
    }
    for name in [
        "requests",
        "posthaste_outbox_pending_messages",
        "posthaste_outbox_oldest_pending_age_seconds",
        "posthaste_outbox_dead_messages",
        "posthaste_outbox_retrying_messages",
    ] {
        assert!(seen.contains(name), "{name}: {seen:?}");
    }
}
