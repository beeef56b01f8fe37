//! The failure table, each line provoked on a real server, and that the adapter recovers.

mod common;

use std::{fs, time::Duration};

use common::{
    DEADLINE, SHORT, address, as_user, assert_rejected, assert_unknown, assert_unreachable, broker,
    cli, failure, fresh, message, order, payloads, private, publish_one, until,
};
use posthaste_broker_redis::{Config, RedisBroker};
use posthaste_core::{Broker, Outcome};
use posthaste_fixtures::{Kind, Options, Proxy, Server, server};

#[tokio::test]
async fn wrong_password_is_unreachable() {
    let options = Options { password: Some("s3cret/?".into()), ..Options::default() };
    let server = Server::private(Kind::Redis, &options).unwrap();
    let wrong = broker(&as_user(server.url(), "posthaste", "canary"));
    let outcome = publish_one(&wrong, "orders").await;
    assert_unreachable(&outcome, "auth");
    assert!(!failure(&outcome).detail.contains("canary"));
    let without = broker(&format!("redis://{}", address(server.url())));
    assert_unreachable(&publish_one(&without, "orders").await, "auth");
    let error = wrong.examine(&[]).await.unwrap_err();
    assert!(error.message.contains("auth: WRONGPASS"), "{error}");
    assert_eq!(publish_one(&broker(server.url()), "orders").await, Outcome::Acked);
}

#[tokio::test]
async fn forbidden_stream_is_rejected_and_forbidden_command_is_not() {
    let server = private(&[]);
    let url = server.url();
    order(url, &["ACL", "SETUSER", "some", "on", ">pw", "~allowed*", "+@all"]);
    let some = broker(&as_user(url, "some", "pw"));
    let calls = ["allowed", "forbidden", "allowed", "forbidden"];
    let calls: Vec<_> = calls.iter().map(|topic| message(topic, None, 1)).collect();
    let outcomes = some.publish(&calls, DEADLINE).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Acked, &Outcome::Acked));
    assert_rejected(&outcomes[1], "denied");
    assert_rejected(&outcomes[3], "denied");
    for (user, right) in [("monkey", "-xadd"), ("atomless", "-multi")] {
        order(url, &["ACL", "SETUSER", user, "on", ">pw", "~*", "+@all", right]);
        let limited = broker(&as_user(url, user, "pw"));
        assert_unreachable(&publish_one(&limited, "allowed").await, "denied");
        order(url, &["ACL", "SETUSER", user, "+@all"]);
        assert_eq!(publish_one(&limited, "allowed").await, Outcome::Acked);
    }
}

#[tokio::test]
async fn key_that_is_not_a_stream_fails_alone() {
    let url = server(Kind::Redis).url();
    let (good, bad) = (fresh("stream"), fresh("string"));
    order(url, &["SET", &bad, "x"]);
    let broker = broker(url);
    let calls = [
        message(&good, Some("a"), 1),
        message(&bad, Some("b"), 2),
        message(&good, Some("c"), 3),
        message(&bad, Some("b"), 4),
        message(&good, Some("b"), 5),
    ];
    let outcomes = broker.publish(&calls, DEADLINE).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Acked, &Outcome::Acked));
    assert_rejected(&outcomes[1], "wrong-type");
    assert_ne!(outcomes[3], Outcome::Acked);
    assert_unreachable(&outcomes[4], "held");
    assert_eq!(payloads(url, &good), [1, 3]);
    cli(url, &["DEL", &bad]);
    assert_eq!(publish_one(&broker, &bad).await, Outcome::Acked);
}

#[tokio::test]
async fn full_memory_takes_nothing_of_a_call() {
    let server = private(&[]);
    let url = server.url();
    let broker = broker(url);
    order(url, &["CONFIG", "SET", "maxmemory", "1"]);
    let calls: Vec<_> = (0..20).map(|seq| message("orders", Some("k"), seq)).collect();
    for outcome in &broker.publish(&calls, DEADLINE).await[..1] {
        assert_unreachable(outcome, "full");
    }
    assert_unreachable(&publish_one(&broker, "orders").await, "full");
    assert_eq!(payloads(url, "orders"), Vec::<i64>::new());
    order(url, &["CONFIG", "SET", "maxmemory", "0"]);
    assert!(broker.publish(&calls, DEADLINE).await.iter().all(|o| *o == Outcome::Acked));
    assert_eq!(payloads(url, "orders"), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn disk_that_cannot_be_written_is_unreachable() {
    let server = private(&[("save", "3600 1"), ("dbfilename", "dump")]);
    let (url, folder) = (server.url(), server.folder().unwrap().join("dump"));
    let broker = broker(url);
    assert_eq!(publish_one(&broker, "orders").await, Outcome::Acked);
    // A snapshot cannot replace a folder.
    fs::create_dir(&folder).unwrap();
    let status = |wanted: &str| {
        let wanted = format!("rdb_last_bgsave_status:{wanted}");
        let info = cli(url, &["INFO", "persistence"]);
        info.contains(&wanted) && info.contains("rdb_bgsave_in_progress:0")
    };
    cli(url, &["BGSAVE"]);
    until("a failed snapshot", || status("err")).await;
    assert_unreachable(&publish_one(&broker, "orders").await, "disk");
    let findings = broker.examine(&[]).await.unwrap();
    let is_seen = |text: &str| findings.iter().any(|f| !f.ok && f.what.contains(text));
    assert!(is_seen("rdb_last_bgsave_status"), "{findings:?}");
    fs::remove_dir(&folder).unwrap();
    cli(url, &["BGSAVE"]);
    until("a good snapshot", || status("ok")).await;
    assert_eq!(publish_one(&broker, "orders").await, Outcome::Acked);
}

fn replica_of(primary: &Server) -> Server {
    let (host, port) = address(primary.url()).split_once(':').expect("an address has a port");
    private(&[("replicaof", &format!("{host} {port}")), ("repl-diskless-sync-delay", "0")])
}

fn is_linked(replica: &Server) -> bool {
    cli(replica.url(), &["INFO", "replication"]).contains("master_link_status:up")
}

#[tokio::test]
async fn replica_takes_nothing_until_it_is_a_primary() {
    let primary = private(&[]);
    let replica = replica_of(&primary);
    until("the replica's link", || is_linked(&replica)).await;
    let broker = broker(replica.url());
    let calls: Vec<_> = (0..3).map(|seq| message("orders", None, seq)).collect();
    for outcome in broker.publish(&calls, DEADLINE).await {
        assert_unreachable(&outcome, "read-only");
    }
    let findings = broker.examine(&[]).await.unwrap();
    assert!(findings.iter().any(|f| !f.ok && f.what.contains("slave")), "{findings:?}");
    order(replica.url(), &["REPLICAOF", "NO", "ONE"]);
    assert_eq!(publish_one(&broker, "orders").await, Outcome::Acked);
}

#[tokio::test]
async fn too_few_replicas_leave_it_unknown() {
    let primary = private(&[]);
    let replica = replica_of(&primary);
    until("the replica's link", || is_linked(&replica)).await;
    let config = Config { wait_replicas: 1, ..Config::new(primary.url()) };
    let broker = RedisBroker::open(config).unwrap();
    assert_eq!(publish_one(&broker, "orders").await, Outcome::Acked);
    assert_eq!(payloads(replica.url(), "orders"), [1], "what is acknowledged is on the replica");
    replica.freeze().unwrap();
    let calls = [message("orders", Some("k"), 2)];
    // On a busy machine the server's answer can miss the deadline that it was given.
    let is_late =
        |outcome: &Outcome| matches!(outcome, Outcome::Unknown(f) if f.class == "timeout");
    let mut outcomes = broker.publish(&calls, Duration::from_secs(1)).await;
    for _ in 0..20 {
        if !is_late(&outcomes[0]) {
            break;
        }
        outcomes = broker.publish(&calls, Duration::from_secs(1)).await;
    }
    assert_unknown(&outcomes[0], "replication");
    replica.thaw().unwrap();
    assert_eq!(broker.publish(&calls, DEADLINE).await, [Outcome::Acked]);
    order(primary.url(), &["CONFIG", "SET", "min-replicas-to-write", "2"]);
    assert_unreachable(&publish_one(&broker, "orders").await, "replication");
}

#[tokio::test]
async fn stopped_server_is_unreachable_and_keeps_what_it_acknowledged() {
    // Everything is on disk before the answer.
    let server = private(&[("appendfsync", "always")]);
    let broker = broker(server.url());
    let calls: Vec<_> = (0..300).map(|seq| message("orders", Some("k"), seq)).collect();
    assert!(broker.publish(&calls, DEADLINE).await.iter().all(|o| *o == Outcome::Acked));
    for stop in [Server::stop, Server::kill] {
        stop(&server).unwrap();
        assert_unreachable(&publish_one(&broker, "others").await, "connection");
        let error = broker.examine(&[]).await.unwrap_err();
        assert!(error.message.contains("connection"), "{error}");
        server.start_again().unwrap();
        assert_eq!(publish_one(&broker, "others").await, Outcome::Acked);
        assert_eq!(payloads(server.url(), "orders"), (0..300).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn connection_cut_in_the_middle_is_unknown_and_nothing_is_there_in_part() {
    let url = server(Kind::Redis).url();
    let proxy = Proxy::start(address(url)).await.unwrap();
    let broker = broker(&format!("redis://{}", proxy.address()));
    let topic = fresh("cut");
    assert_eq!(publish_one(&broker, &topic).await, Outcome::Acked);
    let calls: Vec<_> = (2..100).map(|seq| message(&topic, Some("k"), seq)).collect();
    proxy.cut_after_bytes(5000);
    let outcomes = broker.publish(&calls, DEADLINE).await;
    assert_unknown(&outcomes[0], "connection");
    assert!(outcomes.iter().all(|outcome| *outcome != Outcome::Acked));
    assert_eq!(payloads(url, &topic), [1], "a transaction without its end is none");
    assert!(broker.publish(&calls, DEADLINE).await.iter().all(|o| *o == Outcome::Acked));
    assert_eq!(payloads(url, &topic), (1..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn connection_that_died_idle_is_replaced_without_a_failure() {
    let server = private(&[]);
    let url = server.url();
    let broker = broker(url);
    assert_eq!(publish_one(&broker, "orders").await, Outcome::Acked);
    cli(url, &["CLIENT", "KILL", "TYPE", "normal"]);
    until("the end of the connection", || connections(url) == 1).await;
    assert_eq!(publish_one(&broker, "orders").await, Outcome::Acked);
}

/// Those of clients, the one that asks included.
fn connections(url: &str) -> usize {
    cli(url, &["CLIENT", "LIST"]).matches(" addr=").count()
}

#[tokio::test]
async fn answer_that_never_comes_is_unknown() {
    let url = server(Kind::Redis).url();
    let proxy = Proxy::start(address(url)).await.unwrap();
    let broker = broker(&format!("redis://{}", proxy.address()));
    let topic = fresh("silent");
    assert_eq!(publish_one(&broker, &topic).await, Outcome::Acked);
    proxy.black_hole_answers();
    let outcomes = broker.publish(&[message(&topic, None, 2)], SHORT).await;
    assert_unknown(&outcomes[0], "timeout");
    until("the message that arrived all the same", || payloads(url, &topic) == [1, 2]).await;
    // Nor can anybody log in.
    let outcomes = broker.publish(&[message(&topic, None, 3)], SHORT).await;
    assert_unreachable(&outcomes[0], "timeout");
    proxy.heal();
    assert_eq!(publish_one(&broker, &topic).await, Outcome::Acked);
}

#[tokio::test]
async fn frozen_server_is_unknown_and_its_connection_given_up() {
    let server = private(&[]);
    let url = server.url();
    let broker = broker(url);
    assert_eq!(publish_one(&broker, "orders").await, Outcome::Acked);
    assert_eq!(connections(url), 2, "ours and the one that asks");
    server.freeze().unwrap();
    let calls: Vec<_> = (2..10).map(|seq| message("orders", Some("k"), seq)).collect();
    let outcomes = broker.publish(&calls, SHORT).await;
    assert_unknown(&outcomes[0], "timeout");
    server.thaw().unwrap();
    until("the end of the old connection", || connections(url) == 1).await;
    assert!(broker.publish(&calls, DEADLINE).await.iter().all(|o| *o == Outcome::Acked));
    // What the old one had sent may have arrived as well: never in another order.
    let mut found = payloads(url, "orders");
    let tail = found.split_off(found.len() - calls.len());
    assert_eq!(tail, (2..10).collect::<Vec<_>>());
    assert!(found == [1] || found == (1..10).collect::<Vec<_>>(), "{found:?}");
}

#[tokio::test]
async fn settings_that_lose_messages_are_found() {
    let server =
        private(&[("appendonly", "no"), ("maxmemory-policy", "allkeys-lru"), ("maxmemory", "1gb")]);
    let url = server.url();
    order(url, &["SET", "string", "x"]);
    let topics = ["string", "new", "any.*"].map(|topic| topic.parse().unwrap());
    let findings = broker(url).examine(&topics).await.unwrap();
    let problems: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
    assert_eq!(problems.len(), 3, "{problems:?}");
    for (problem, what) in problems.iter().zip(["allkeys-lru", "appendonly", "string"]) {
        assert!(problem.what.contains(what) && problem.fix.is_some(), "{problem:?}");
    }
    order(url, &["ACL", "SETUSER", "managed", "on", ">pw", "~*", "+@all", "-config", "-info"]);
    let findings = broker(&as_user(url, "managed", "pw")).examine(&[]).await.unwrap();
    assert_eq!(findings.iter().filter(|finding| !finding.ok).count(), 2, "{findings:?}");
}

#[tokio::test]
async fn cluster_is_refused_in_plain_words() {
    let server = private(&[("cluster-enabled", "yes")]);
    let broker = broker(server.url());
    assert_unreachable(&publish_one(&broker, "orders").await, "cluster");
    let findings = broker.examine(&[]).await.unwrap();
    assert!(findings.iter().any(|f| !f.ok && f.what.contains("Cluster")), "{findings:?}");
}
