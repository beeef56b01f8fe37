//! What `doctor` looks at.

use std::{collections::HashMap, time::Duration};

use posthaste_core::{BrokerError, Finding, TopicPattern};
use redis::{Value, cmd};
use tokio::time::timeout;

use crate::{
    Config,
    config::Target,
    connect::{Session, nonsense},
    entry,
    outcome::{Fault, broker_error},
};

/// How long the server may take for all of it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The oldest version that has everything a subscriber uses.
const VERSION_MIN: (u32, u32) = (6, 2);
/// How full a server with a memory limit may be.
const FULL_PERCENT: u64 = 90;
/// Nothing we send in one piece is larger: the largest payload as base64, and its attributes.
const PIECE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Looks at the server on a connection of its own.
pub(crate) async fn examine(
    config: &Config,
    target: &Target,
    topics: &[TopicPattern],
) -> Result<Vec<Finding>, BrokerError> {
    let place = target.to_string();
    let looking = look(config, target, topics);
    let result = timeout(PATIENCE, looking).await.unwrap_or(Err(Fault::Late(PATIENCE)));
    result.map_err(|fault| broker_error(&place, fault))
}

async fn look(
    config: &Config,
    target: &Target,
    topics: &[TopicPattern],
) -> Result<Vec<Finding>, Fault> {
    let session = Session::dial(target).await?;
    let mut findings =
        vec![Finding::ok(format!("Redis at {target} can be reached and logged into"))];
    match session.ask(&cmd("INFO")).await {
        Ok(answer) => {
            let text = entry::text(answer).ok_or_else(|| nonsense("INFO is not a text"))?;
            findings.extend(of_info(&info(&text), config));
        }
        Err(Fault::Refused(_)) => findings.push(Finding::problem(
            "version, role, memory and persistence of the server could not be checked: the user \
             may not run INFO",
            "ACL SETUSER <user> +info, or check appendonly and maxmemory-policy by hand",
        )),
        Err(fault) => return Err(fault),
    }
    findings.extend(of_settings(&session).await?);
    for topic in topics {
        let stream = config.wire.destination.pattern(topic);
        if !stream.as_str().contains('*') {
            findings.push(of_stream(&session, stream.as_str()).await?);
        }
    }
    Ok(findings)
}

/// `name:value` lines.
fn info(text: &str) -> HashMap<&str, &str> {
    text.lines().filter_map(|line| line.trim_end().split_once(':')).collect()
}

fn of_info(info: &HashMap<&str, &str>, config: &Config) -> Vec<Finding> {
    let get = |name: &str| info.get(name).copied().unwrap_or("unknown");
    let number = |name: &str| get(name).parse::<u64>().unwrap_or(0);
    let mut findings = vec![of_version(get("redis_version"))];
    if get("cluster_enabled") == "1" {
        findings.push(Finding::problem(
            "the server is a node of a Redis Cluster, which is not supported",
            "use a server with cluster-enabled no, with replicas for availability",
        ));
    }
    findings.push(match get("role") {
        "master" => Finding::ok("the server is a primary"),
        role => Finding::problem(
            format!("the server's role is {role}: it takes no messages"),
            "put the address of the primary into the url",
        ),
    });
    findings.push(match get("maxmemory_policy") {
        "noeviction" => Finding::ok("maxmemory-policy is noeviction"),
        policy => Finding::problem(
            format!("maxmemory-policy is {policy}: a full server may delete streams"),
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
        ),
    });
    let (used, limit) = (number("used_memory"), number("maxmemory"));
    if limit > 0 && used.saturating_mul(100) / limit >= FULL_PERCENT {
        findings.push(Finding::problem(
            format!("{used} of {limit} bytes of maxmemory are in use: soon it takes no messages"),
            "raise maxmemory, trim streams, or set max_length",
        ));
    }
    findings.push(match get("aof_enabled") {
        "1" => Finding::ok("appendonly is yes"),
        _ => Finding::problem(
            "appendonly is not yes: a restart loses what was delivered since the last snapshot",
            "CONFIG SET appendonly yes, and the same in redis.conf",
        ),
    });
    for name in ["aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"] {
        if !matches!(get(name), "ok" | "unknown") {
            findings.push(Finding::problem(
                format!("{name} is {}: the server cannot write to its disk", get(name)),
                "make room on the disk, or look at the server's log",
            ));
        }
    }
    let replicas = number("connected_slaves");
    if u64::from(config.wait_replicas) > replicas {
        findings.push(Finding::problem(
            format!("wait_replicas is {}, and {replicas} are connected", config.wait_replicas),
            "connect more replicas, or lower wait_replicas",
        ));
    }
    findings
}

fn of_version(version: &str) -> Finding {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found >= VERSION_MIN {
        return Finding::ok(format!("the version is {version}"));
    }
    Finding::problem(
        format!("the version is {version}: subscribers need 6.2"),
        "upgrade to Redis 6.2 or later, or to Valkey",
    )
}

/// What only the configuration says.
async fn of_settings(session: &Session) -> Result<Vec<Finding>, Fault> {
    let mut findings = Vec::new();
    for name in ["appendfsync", "proto-max-bulk-len", "client-query-buffer-limit"] {
        match session.ask(cmd("CONFIG").arg("GET").arg(name)).await {
            Ok(answer) => findings.extend(of_setting(name, &value_of(answer))),
            Err(Fault::Refused(_)) => {
                findings.push(Finding::problem(
                    "appendfsync could not be checked: the server does not let this user run \
                     CONFIG GET",
                    "ACL SETUSER <user> +config|get, or look in the provider's settings whether \
                     what is acknowledged is on disk",
                ));
                break;
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(findings)
}

fn of_setting(name: &str, value: &str) -> Option<Finding> {
    match (name, value) {
        ("appendfsync", "always") => {
            Some(Finding::ok("appendfsync is always: what is delivered is on disk"))
        }
        ("appendfsync", "everysec") => Some(Finding::ok(
            "appendfsync is everysec: a crash of the machine may lose about the last second",
        )),
        ("appendfsync", other) => Some(Finding::problem(
            format!("appendfsync is {other}: a crash of the machine loses what it likes"),
            "CONFIG SET appendfsync everysec (or always), and the same in redis.conf",
        )),
        (name, value) => {
            value.parse::<u64>().is_ok_and(|bytes| bytes < PIECE_BYTES_MAX).then(|| {
                Finding::problem(
                    format!("{name} is {value}: a larger message makes it close the connection"),
                    format!("CONFIG SET {name} {}", 64 * 1024 * 1024),
                )
            })
        }
    }
}

/// The value in the answer to `CONFIG GET`.
fn value_of(answer: Value) -> String {
    let mut items = entry::array(answer).unwrap_or_default();
    items.pop().and_then(entry::text).unwrap_or_else(|| "unknown".to_owned())
}

async fn of_stream(session: &Session, stream: &str) -> Result<Finding, Fault> {
    match session.ask(cmd("TYPE").arg(stream)).await {
        Ok(answer) => Ok(match entry::text(answer).as_deref() {
            Some("stream") => Finding::ok(format!("stream {stream} is there")),
            Some("none") => Finding::ok(format!("stream {stream} comes with its first message")),
            other => Finding::problem(
                format!("key {stream} is not a stream but a {}", other.unwrap_or("mystery")),
                format!("RENAME {stream} <another name>, or change the broker's destination"),
            ),
        }),
        Err(Fault::Refused(error)) => Ok(Finding::problem(
            format!("stream {stream} could not be looked at: {error}"),
            format!("ACL SETUSER <user> ~{stream} +type +xadd"),
        )),
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\ncluster_enabled:0\r\n\
        maxmemory:0\r\nused_memory:1\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n\
        aof_last_write_status:ok\r\nrdb_last_bgsave_status:ok\r\nconnected_slaves:1\r\n";

    fn problems(text: &str) -> Vec<String> {
        let config = Config { wait_replicas: 1, ..Config::new("redis://host") };
        let findings = of_info(&info(text), &config).into_iter();
        findings.filter(|finding| !finding.ok).map(|finding| finding.what).collect()
    }

    #[test]
    fn each_setting_that_loses_messages_is_a_problem() {
        assert_eq!(problems(GOOD), Vec::<String>::new());
        for (good, bad, says) in [
            ("redis_version:7.0.15", "redis_version:6.0.9", "6.0.9"),
            ("role:master", "role:slave", "slave"),
            ("cluster_enabled:0", "cluster_enabled:1", "Cluster"),
            ("maxmemory:0\r\nused_memory:1", "maxmemory:100\r\nused_memory:95", "95 of 100"),
            ("policy:noeviction", "policy:allkeys-lru", "allkeys-lru"),
            ("aof_enabled:1", "aof_enabled:0", "appendonly"),
            ("aof_last_write_status:ok", "aof_last_write_status:err", "aof_last_write_status"),
            ("connected_slaves:1", "connected_slaves:0", "wait_replicas"),
        ] {
            let found = problems(&GOOD.replace(good, bad));
            assert_eq!(found.len(), 1, "{bad}: {found:?}");
            assert!(found[0].contains(says), "{bad}: {found:?}");
        }
    }

    #[test]
    fn small_limits_and_lazy_disks_are_problems() {
        assert!(of_setting("appendfsync", "always").unwrap().ok);
        assert!(of_setting("appendfsync", "everysec").unwrap().ok);
        assert!(!of_setting("appendfsync", "no").unwrap().ok);
        assert_eq!(of_setting("proto-max-bulk-len", "536870912"), None);
        assert!(!of_setting("proto-max-bulk-len", "1048576").unwrap().ok);
    }
}
