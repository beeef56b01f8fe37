//! Dead letters: listed, shown, sent again, given up. No broker of the program refuses a message,
//! so the tests park them through the store's port, as a relay would.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::time::Duration;

use posthaste_core::{
    Claim, Failure, Fetch, InboxConnection, LaneKey, Letter, Message, MessageId, Next, Park,
    Provenance, RelayId, Repark, RouteSpec, Settlement, Shard, Store,
};
use posthaste_store_sqlite::SqliteStore;
use serde_json::Value;
use support::Bundle;
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(60);

/// Makes dead letters of these payloads, one key each, and gives the lease back.
async fn with_dead(payloads: &[&[u8]]) -> (Bundle, Vec<MessageId>) {
    with_parked(payloads, Next::Dead).await
}

/// Parks messages of these payloads, one key each, and gives the lease back.
async fn with_parked(payloads: &[&[u8]], next: Next) -> (Bundle, Vec<MessageId>) {
    let t = Bundle::migrated();
    let url = format!("sqlite:{}", t.path("outbox.db").display());
    let store = SqliteStore::connect(&url).await.unwrap();
    let messages = payloads.iter().enumerate().map(|(index, payload)| {
        Message::from_bytes("orders", Some(&format!("key-{index}")), payload.to_vec())
    });
    let messages: Vec<Message> = messages.collect();
    store.append(&messages).await.unwrap();
    let spec = RouteSpec { name: "all".to_owned(), topics: vec!["*".parse().unwrap()], shards: 1 };
    store.register(&spec).await.unwrap();
    let claim = Claim {
        route: "all".to_owned(),
        shard: Shard::WHOLE,
        relay: RelayId::fresh(),
        ttl: TTL,
        rewound: None,
    };
    let grant = store.acquire(&claim).await.unwrap().unwrap();
    let fetch = Fetch {
        route: "all".to_owned(),
        shard: Shard::WHOLE,
        after: grant.position.clone(),
        until: None,
        rows_max: 100,
        bytes_max: 1 << 20,
        epoch: None,
        evidence: None,
    };
    let batch = store.fetch(&fetch).await.unwrap();
    let park = batch.messages.into_iter().map(|fetched| Park {
        message: fetched.message,
        age: fetched.age,
        report: Repark {
            seq: fetched.seq,
            attempts: 3,
            unknowns: 0,
            failure: Some(Failure::new("unroutable", "no queue is bound")),
            next,
        },
    });
    let settlement = Settlement {
        position: Some(grant.position.passed(batch.end, &batch.snapshot)),
        park: park.collect(),
        ..Settlement::default()
    };
    store.settle(&grant.lease, &settlement).await.unwrap();
    store.release(&grant.lease).await.unwrap();
    store.pool().close().await;
    (t, messages.iter().map(|message| message.id).collect())
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn dead_letters_are_listed_with_their_reason() {
    let (t, ids) = with_dead(&[b"{}", &[0xff]]).await;
    let text = t.run(&["dead", "list"]).expect(0);
    assert!(text.contains(&ids[0].to_string()), "{text}");
    assert!(text.contains("unroutable: no queue is bound"), "{text}");
    let rows = json_lines(&t.run(&["dead", "list", "--json"]).expect(0));
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["payload"], "{}");
    assert_eq!(rows[0]["payload_is_base64"], false);
    assert_eq!(rows[1]["payload"], "/w==");
    assert_eq!(rows[1]["payload_is_base64"], true);
    assert_eq!(rows[0]["last_error"]["class"], "unroutable");
    for (filter, count) in [
        (["--class", "unroutable"], 2),
        (["--class", "other"], 0),
        (["--topic", "orders"], 2),
        (["--limit", "1"], 1),
    ] {
        let arguments = [&["dead", "list", "--json"][..], &filter].concat();
        assert_eq!(json_lines(&t.run(&arguments).expect(0)).len(), count, "{filter:?}");
    }
    let doctor = t.run(&["doctor"]).expect(1);
    assert!(doctor.contains("posthaste dead list --route all"), "{doctor}");
}

#[tokio::test]
async fn one_is_shown_in_full() {
    let (t, ids) = with_dead(&[b"{\"n\":1}"]).await;
    let id = ids[0].to_string();
    let text = t.run(&["dead", "show", &id]).expect(0);
    for part in [&id, "unroutable: no queue is bound", "key-0", "3 times", "{\"n\":1}"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(json_lines(&t.run(&["dead", "show", &id, "--json"]).expect(0)).len(), 1);
    t.run(&["dead", "show", &MessageId::fresh().to_string()]).expect(3);
    t.run(&["dead", "show", "nonsense"]).expect(2);
}

#[tokio::test]
async fn redriving_needs_a_yes_and_sends_again() {
    let (t, ids) = with_dead(&[b"1", b"2", b"3"]).await;
    let id = ids[0].to_string();
    t.run(&["dead", "redrive"]).expect(2);
    t.run(&["dead", "redrive", "--all", "--route", "all"]).expect(2);
    let unasked = t.run(&["dead", "redrive", "--all"]);
    assert!(unasked.err.contains("redrive 3 dead letters"), "{unasked:#?}");
    assert!(unasked.err.contains("--yes"), "{unasked:#?}");
    unasked.expect(4);
    t.run(&["dead", "redrive", "--all", "--dry-run"]).expect(0);
    assert_eq!(json_lines(&t.run(&["dead", "list", "--json"]).expect(0)).len(), 3);
    assert_eq!(t.run(&["dead", "redrive", &id, "--yes"]).expect(0), "redriven: 1\n");
    let sent = json_lines(&t.run(&["relay", "--once"]).expect(0));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["id"], id);
    assert_eq!(t.run(&["dead", "redrive", "--route", "all", "-y"]).expect(0), "redriven: 2\n");
    assert_eq!(json_lines(&t.run(&["relay", "--once"]).expect(0)).len(), 2);
    t.run(&["dead", "redrive", "--all", "--yes"]).expect(1);
}

#[tokio::test]
async fn discarding_needs_a_reason_and_keeps_it() {
    let (t, ids) = with_dead(&[b"1"]).await;
    let id = ids[0].to_string();
    t.run(&["dead", "discard", &id, "--yes"]).expect(2);
    let discard = ["dead", "discard", &id, "--why", "test data", "--by", "ann", "--yes"];
    assert_eq!(t.run(&discard).expect(0), "discarded: 1\n");
    assert_eq!(t.run(&["dead", "list"]).expect(0), "");
    assert_eq!(t.run(&["relay", "--once"]).expect(0), "", "it is not sent any more");
    let row = &json_lines(&t.run(&["dead", "show", &id, "--json"]).expect(0))[0];
    assert_eq!(row["state"], "discarded");
    assert_eq!(row["acted_by"], "ann");
    assert_eq!(row["acted_why"], "test data");
    t.run(&discard).expect(1);
}

/// A dead letter of a consumer, as its runner leaves it.
async fn with_consumers_letter() -> (Bundle, MessageId) {
    let (t, _) = with_dead(&[b"1"]).await;
    let url = format!("sqlite:{}", t.path("outbox.db").display());
    let store = SqliteStore::connect(&url).await.unwrap();
    let message = Message::from_bytes("payments", Some("k"), "2");
    let id = message.id;
    let letter = Letter {
        consumer: "billing".to_owned(),
        message,
        provenance: Provenance::default(),
        attempts: 10,
    };
    let mut tx = posthaste_store_sqlite::begin(store.pool()).await.unwrap();
    let mut inbox = posthaste_store_sqlite::Inbox::new(&mut tx).unwrap();
    inbox.bury(&letter, &Failure::new("handler", "no such account")).await.unwrap();
    let lane = LaneKey {
        consumer: "billing".to_owned(),
        log: Uuid::nil(),
        lane: "lane".to_owned(),
        topic: "orders".to_owned(),
    };
    assert!(inbox.accept_log(&lane, "/shop").await.unwrap());
    tx.commit().await.unwrap();
    store.pool().close().await;
    (t, id)
}

#[tokio::test]
async fn letters_of_consumers_are_listed_redriven_and_discarded_alike() {
    let (t, id) = with_consumers_letter().await;
    let rows = json_lines(&t.run(&["dead", "list", "--json"]).expect(0));
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0]["route"].as_str(), rows[0]["consumer"].as_str()), (Some("all"), None));
    assert_eq!((rows[1]["route"].as_str(), rows[1]["consumer"].as_str()), (None, Some("billing")));
    assert_eq!(rows[1]["last_error"]["detail"], "no such account");
    let listed = t.run(&["dead", "list", "--consumer", "billing"]).expect(0);
    assert!(listed.contains("consumer billing") && listed.contains(&id.to_string()), "{listed}");
    assert!(t.run(&["dead", "show", &id.to_string()]).expect(0).contains("consumer billing"));
    t.run(&["dead", "list", "--consumer", "billing", "--route", "all"]).expect(2);
    let redrive = ["dead", "redrive", "--consumer", "billing", "--yes"];
    assert_eq!(t.run(&redrive).expect(0), "redriven: 1\n");
    t.run(&redrive).expect(1);
    assert_eq!(json_lines(&t.run(&["dead", "list", "--json"]).expect(0)).len(), 1);
}

#[tokio::test]
async fn consumers_are_shown_and_a_restored_source_is_adopted_by_name() {
    let (t, _) = with_consumers_letter().await;
    let rows = json_lines(&t.run(&["inbox", "status", "--json"]).expect(0));
    assert_eq!(
        (rows[0]["consumer"].as_str(), rows[0]["dead"].as_u64()),
        (Some("billing"), Some(1))
    );
    assert!(t.run(&["inbox", "status"]).expect(0).contains("billing"));
    let log = Uuid::now_v7().to_string();
    let adopt = ["inbox", "adopt", "--consumer", "billing", "--source", "/shop", "--log", &log];
    t.run(&adopt).expect(4);
    let yes = [&adopt[..], &["--yes"]].concat();
    assert_eq!(t.run(&yes).expect(0), "adopted\n");
    assert_eq!(t.run(&yes).expect(0), "adopted before\n");
    let again = [&yes[..], &["--again"]].concat();
    assert_eq!(t.run(&again).expect(0), "adopted again, lanes forgotten: 0\n");
    let other = ["inbox", "adopt", "--consumer", "x", "--source", "/shop", "--log", &log, "--yes"];
    t.run(&other).expect(1);
}

/// Messages that wait for their next attempt, an hour from now.
async fn with_retrying(count: usize) -> (Bundle, Vec<MessageId>) {
    let next = Next::Retry(Duration::from_secs(3600));
    with_parked(&vec![&b"{}"[..]; count], next).await
}

#[tokio::test]
async fn names_that_do_not_exist_are_told_with_those_that_do() {
    let (t, _) = with_dead(&[b"{}"]).await;
    for command in [&["list"][..], &["redrive", "--yes"], &["discard", "--yes", "--why", "x"]] {
        for (filter, said) in [
            (["--route", "al"], ["unknown route \"al\"", "did you mean \"all\"?"]),
            (["--consumer", "x"], ["unknown consumer \"x\"", "no consumer is known"]),
        ] {
            let ended = t.run(&[&["dead"][..], command, &filter].concat());
            assert!(said.iter().all(|text| ended.err.contains(text)), "{ended:#?}");
            ended.expect(2);
        }
    }
    assert!(
        t.run(&["dead", "list", "--topic", "any"]).expect(0).is_empty(),
        "`all` takes any topic"
    );
    t.write("posthaste.toml", &support::EVERYTHING.replace("\"*\"", "\"orders\""));
    t.run(&["relay", "--once"]).expect(0);
    let ended = t.run(&["dead", "list", "--topic", "order"]);
    assert!(ended.err.contains("unknown topic \"order\""), "{ended:#?}");
    assert!(ended.err.contains("did you mean \"orders\"?"), "{ended:#?}");
    ended.expect(2);
}

#[tokio::test]
async fn retrying_messages_are_told_by_status_and_doctor_when_no_relay_runs() {
    let (t, _) = with_retrying(5).await;
    let status = &json_lines(&t.run(&["status", "--json"]).expect(0))[0]["routes"][0];
    assert_eq!((&status["pending"], &status["retrying"]), (&0.into(), &5.into()));
    assert!(status["oldest_retrying_age_seconds"].as_f64().unwrap() > 0.0, "{status}");
    let text = t.run(&["status"]).expect(0);
    assert!(text.contains("no relay serves route all"), "{text}");
    let line = text.lines().find(|line| line.starts_with("all ")).unwrap();
    assert!(line.contains("unserved"), "{text}");
    let doctor = t.run(&["doctor"]).expect(1);
    let told = "FAIL outbox  route all: no relay serves it, 5 retrying messages wait, for ";
    assert!(doctor.contains(told), "{doctor}");
}

#[tokio::test]
async fn retrying_messages_are_listed_and_given_up() {
    let (t, ids) = with_retrying(2).await;
    assert_eq!(t.run(&["dead", "list"]).expect(0), "");
    let list = t.run(&["dead", "list", "--retrying"]).expect(0);
    assert!(ids.iter().all(|id| list.contains(&id.to_string())), "{list}");
    assert!(list.contains("RETRYING SINCE"), "{list}");
    let discard = ["dead", "discard", "--route", "all", "--why", "the route goes", "--yes"];
    t.run(&discard).expect(1);
    let given_up = t.run(&[&discard[..], &["--retrying"]].concat()).expect(0);
    assert_eq!(given_up, "discarded: 2\n");
    let status = &json_lines(&t.run(&["status", "--json"]).expect(0))[0]["routes"][0];
    assert_eq!((&status["retrying"], &status["dead"]), (&0.into(), &0.into()));
    let shown = t.run(&["dead", "show", &ids[0].to_string()]).expect(0);
    assert!(shown.contains("discarded since") && shown.contains("the route goes"), "{shown}");
    t.run(&["relay", "--once"]).expect(0);
    t.run(&["doctor"]).expect(0);
}

#[tokio::test]
async fn messages_of_a_route_that_was_removed_stay_in_sight_until_they_are_given_up() {
    let (t, _) = with_retrying(3).await;
    let url = format!("sqlite:{}", t.path("outbox.db").display());
    let store = SqliteStore::connect(&url).await.unwrap();
    for table in ["lease", "progress", "route"] {
        let column = if table == "route" { "name" } else { "route" };
        let delete = format!("DELETE FROM posthaste_{table} WHERE {column} = 'all'");
        sqlx::query(sqlx::AssertSqlSafe(delete)).execute(store.pool()).await.unwrap();
    }
    store.pool().close().await;
    let text = t.run(&["status"]).expect(0);
    assert!(text.contains("route all is not registered any more"), "{text}");
    let doctor = t.run(&["doctor"]).expect(1);
    assert!(doctor.contains("route all is not registered any more: 3 retrying"), "{doctor}");
    assert!(doctor.contains("posthaste dead discard --route all --retrying"), "{doctor}");
    let discard = ["dead", "discard", "--route", "all", "--retrying", "--why", "gone", "--yes"];
    assert_eq!(t.run(&discard).expect(0), "discarded: 3\n");
    let text = t.run(&["status"]).expect(0);
    assert!(text.contains("no route is registered yet"), "{text}");
}
