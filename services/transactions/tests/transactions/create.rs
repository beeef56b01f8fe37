//! Creating transfers: the answer, the row, the message, and what is refused.

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use services_web::testing::{Answer, Bed, Program};
use uuid::Uuid;

use crate::bed::{Api, PATH, PROGRAM, on_each_database, transfer};

on_each_database!(
    /// D3-01: text ids work. D3-31: nobody needs to be known. As `curl -d` sends it.
    r1_01_a_transfer_is_created,
    |api| {
        for body in [
            r#"{"from_user_id":"user-abc","to_user_id":"user-xyz","amount":1000,"description":"payment for services"}"#,
            r#"{"from_user_id":"user-abc","to_user_id":"user-xyz","amount":500,"extra":[1]}"#,
        ] {
            let request = api.request("POST", PATH).body(body);
            let request = request.header("content-type", "application/x-www-form-urlencoded");
            let answer = Answer::to(request).await.unwrap();
            assert_eq!(answer.status, 201, "{answer:#?}");
            assert_eq!(answer.header("content-type"), "application/json");
            let json = answer.json();
            let id = json["data"]["id"].as_str().unwrap();
            id.parse::<Uuid>().unwrap();
            let expected = json!({"code": 201, "message": "transaction created",
                "data": {"id": id, "status": "PENDING"}});
            assert_eq!(json, expected);
        }
    }
);

on_each_database!(
    /// And R1.03: the event has these five keys and no other.
    r1_02_row_and_event_are_one,
    |api| {
        let body = json!({"from_user_id": "user-a", "to_user_id": "user-b", "amount": 12,
            "description": "für \"dich\""});
        let id = api.create(&body).await;
        assert_eq!(api.counts().await, (1, 1));
        let columns = "topic || ' ' || key || ' ' || type || ' ' || content_type";
        let sql = format!("SELECT {columns} FROM {}", api.bed.outbox());
        let expected = format!("transaction.created {id} TransactionCreated application/json");
        assert_eq!(api.bed.texts(&sql).await, [expected]);
        let payload = match api.bed.outbox() {
            "posthaste.outbox" => "convert_from(payload_binary, 'UTF8')",
            _ => "CAST(payload AS TEXT)",
        };
        let payload = api.bed.texts(&format!("SELECT {payload} FROM {}", api.bed.outbox())).await;
        let expected = json!({"transactionId": id, "fromUserId": "user-a", "toUserId": "user-b",
            "amount": 12, "description": "für \"dich\""});
        assert_eq!(serde_json::from_str::<Value>(&payload[0]).unwrap(), expected);
        let headers = format!("SELECT CAST(headers AS TEXT) FROM {}", api.bed.outbox());
        let headers: Value = serde_json::from_str(&api.bed.texts(&headers).await[0]).unwrap();
        assert_eq!(headers, json!({"event_type": "TransactionCreated", "aggregate_id": id}));
    }
);

/// D3-09: the answer says nothing about the database.
#[tokio::test]
async fn r1_02_without_its_event_a_transfer_is_not_recorded() {
    let api = Api::on(Bed::postgres().await).await;
    api.bed
        .execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'no room for %', NEW.key; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON posthaste.outbox
             FOR EACH ROW EXECUTE FUNCTION refuse();",
        )
        .await;
    let answer = api.post(PATH, transfer("user-a", "user-b", 1).to_string()).await;
    answer.expect_problem(500, "internal server error");
    assert_eq!(answer.json().get("detail"), None, "{answer:#?}");
    assert_eq!(api.counts().await, (0, 0));
    assert!(!api.output().contains("no room"), "nor do the logs: {}", api.output());
    api.bed.execute("DROP TRIGGER refuse ON posthaste.outbox").await;
    api.create(&transfer("user-a", "user-b", 1)).await;
}

async fn a_kill_leaves_every_row_with_its_event(bed: Bed) {
    let mut api = Api::on(bed).await;
    let id = api.process_id().to_string();
    let mut seen = Vec::new();
    let bodies = stream::iter(0..1000).map(|n| transfer("user-a", &format!("user-{n}"), 1 + n));
    let mut answers = bodies
        .map(|body| {
            let request = api.request("POST", PATH).body(body.to_string());
            async move { Answer::to(request).await }
        })
        .buffer_unordered(64);
    while let Some(answer) = answers.next().await {
        if let Ok(answer) = answer {
            assert_eq!(answer.status, 201, "{answer:#?}");
            seen.push(answer.json()["data"]["id"].as_str().unwrap().to_owned());
        }
        if seen.len() == 200 {
            let killed = tokio::process::Command::new("kill").args(["-9", &id]).status().await;
            assert!(killed.unwrap().success());
        }
    }
    drop(answers);
    assert!((200..1000).contains(&seen.len()), "killed in the middle: {}", seen.len());
    assert_eq!(api.program.end().await, -1);
    // What the server still does for a client that is gone must end before it is counted.
    api.program = Program::start(PROGRAM, &api.bed.environment).await;
    api.poll("/readyz", |answer| answer.status == 200).await;
    let (rows, messages) = api.counts().await;
    assert_eq!(rows, messages);
    let there = api.bed.texts("SELECT CAST(id AS TEXT) FROM transactions").await;
    let lost: Vec<_> = seen.iter().filter(|id| !there.contains(id)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[tokio::test]
async fn r1_02_a_kill_leaves_every_row_with_its_event_on_postgres() {
    a_kill_leaves_every_row_with_its_event(Bed::postgres().await).await;
}

#[tokio::test]
async fn r1_02_a_kill_leaves_every_row_with_its_event_on_sqlite() {
    a_kill_leaves_every_row_with_its_event(Bed::sqlite()).await;
}

/// What is refused, and with which title.
fn refused() -> Vec<(String, &'static str)> {
    let long = "x".repeat(256);
    let uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    let body = "invalid request body";
    let texts = [
        ("", body),
        ("not json", body),
        ("[]", body),
        (r#"{"from_user_id":1}"#, body),
        (r#"{"from_user_id":null}"#, body),
        (r#"{"from_user_id":"a","to_user_id":"b","amount":1.5}"#, body),
        (r#"{"from_user_id":"a","to_user_id":"b","amount":"10"}"#, body),
        (r#"{"from_user_id":"a","to_user_id":"b","amount":9223372036854775808}"#, body),
        (r#"{"from_user_id":"a","to_user_id":"b","amount":1}garbage"#, body),
        (r#"{"from_user_id":"a","to_user_id":"b","amount":1}{}"#, body),
        ("{}", "from_user_id is required"),
        (r#"{"from_user_id":"","to_user_id":"","amount":0}"#, "from_user_id is required"),
        (r#"{"from_user_id":"a","amount":0}"#, "to_user_id is required"),
        (
            r#"{"from_user_id":"a","to_user_id":"a","amount":0}"#,
            "from and to user cannot be the same",
        ),
        (r#"{"from_user_id":"a","to_user_id":"b"}"#, "amount must be greater than zero"),
        (r#"{"from_user_id":"a","to_user_id":"b","amount":0}"#, "amount must be greater than zero"),
        (
            r#"{"from_user_id":"a","to_user_id":"b","amount":-1}"#,
            "amount must be greater than zero",
        ),
        (
            r#"{"from_user_id":"a\u0000","to_user_id":"b","amount":1}"#,
            "from_user_id must not contain the character U+0000",
        ),
        (
            r#"{"from_user_id":"a","to_user_id":"b","amount":1,"description":"\u0000"}"#,
            "description must not contain the character U+0000",
        ),
    ];
    let mut refused: Vec<_> =
        texts.into_iter().map(|(text, title)| (text.to_owned(), title)).collect();
    let same = transfer(uuid, &uuid.to_uppercase(), 1).to_string();
    refused.push((same, "from and to user cannot be the same"));
    let too_long = transfer(&long, "b", 1).to_string();
    refused.push((too_long, "from_user_id must be at most 255 characters"));
    let mut described = transfer("a", "b", 1);
    described["description"] = "ü".repeat(1001).into();
    refused.push((described.to_string(), "description must be at most 1000 characters"));
    refused
}

on_each_database!(
    /// And R1.05, the envelope. D3-05: zero; D3-06: U+0000; D3-07: one UUID in two cases; D3-08:
    /// what follows the JSON.
    r1_04_what_breaks_a_rule_is_refused_and_leaves_nothing,
    |api| {
        for (body, title) in refused() {
            let answer = api.post(PATH, body).await;
            answer.expect_problem(400, title);
            let json = answer.json();
            assert_eq!(json["instance"], PATH);
            let has_detail = title == "invalid request body";
            assert_eq!(json.get("detail").is_some(), has_detail, "{answer:#?}");
        }
        assert_eq!(api.counts().await, (0, 0));
        let longest = "ü".repeat(255);
        let mut body = transfer(&longest, "b", i64::MAX);
        body["description"] = "ü".repeat(1000).into();
        api.create(&body).await;
    }
);

/// D3-08: no limits. Also: the router's own refusals have the envelope.
#[tokio::test]
async fn r1_05_every_error_has_the_envelope() {
    let api = Api::on(Bed::sqlite()).await;
    let body = transfer("a", &"x".repeat(70_000), 1).to_string();
    api.post(PATH, body).await.expect_problem(413, "request body too large");
    let request = api.request("POST", PATH).header("content-type", "text/xml").body("<a/>");
    let answer = Answer::to(request).await.unwrap();
    answer.expect_problem(415, "unsupported media type");
    let answer = api.get("/nowhere?x=1").await;
    answer.expect_problem(404, "not found");
    assert_eq!(answer.json()["instance"], "/nowhere?x=1");
    let answer = Answer::to(api.request("DELETE", PATH)).await.unwrap();
    answer.expect_problem(405, "method not allowed");
    assert_eq!(answer.header("allow"), "POST");
    let answer = api.post(&format!("{PATH}?a=b"), transfer("a", "a", 1).to_string()).await;
    answer.expect_problem(400, "from and to user cannot be the same");
    assert_eq!(answer.json()["instance"], format!("{PATH}?a=b"));
    assert_eq!(api.counts().await, (0, 0));
}
