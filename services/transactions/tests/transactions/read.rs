//! Reading: status, balance, and what there is besides the API.

use serde_json::{Value, json};
use services_web::testing::{Bed, Pool, expect_schemathesis};
use sqlx::{PgPool, Postgres, Sqlite, SqlitePool};
use transactions::{
    domain::{Overdraft, Status},
    infra::Settles,
};
use uuid::Uuid;

use crate::bed::{Api, PATH, on_each_database, transfer};

/// Settles, in this process, as the consumer does in its transaction.
enum Settler {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

impl Settler {
    async fn on(bed: &Bed) -> Self {
        match &bed.pool {
            Pool::Postgres(pool) => Self::Postgres(pool.clone()),
            Pool::Sqlite(file) => Self::Sqlite(services_web::database::sqlite(file).await.unwrap()),
        }
    }

    async fn settle(&self, id: Uuid, overdraft: Overdraft) -> Option<Status> {
        self.settle_all(&[id], overdraft).await[0]
    }

    async fn settle_all(&self, ids: &[Uuid], overdraft: Overdraft) -> Vec<Option<Status>> {
        match self {
            Self::Postgres(pool) => {
                let mut tx = pool.begin().await.unwrap();
                let statuses = Postgres::settle(&mut tx, ids, overdraft).await.unwrap();
                tx.commit().await.unwrap();
                statuses
            }
            Self::Sqlite(pool) => {
                let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                let statuses = Sqlite::settle(&mut tx, ids, overdraft).await.unwrap();
                tx.commit().await.unwrap();
                statuses
            }
        }
    }
}

async fn settled(api: &Api, settler: &Settler, body: Value) -> Status {
    let id: Uuid = api.create(&body).await.parse().unwrap();
    settler.settle(id, Overdraft::Unlimited).await.unwrap()
}

on_each_database!(
    /// D3-10: small letters. D3-11: what is no UUID is not found, and no error.
    r1_11_a_transfer_tells_its_status,
    |api| {
        let id = api.create(&transfer("user-a", "user-b", 1)).await;
        let answer = api.get(&format!("{PATH}/{id}")).await;
        assert_eq!(answer.status, 200, "{answer:#?}");
        let expected =
            json!({"code": 200, "message": "ok", "data": {"id": id, "status": "PENDING"}});
        assert_eq!(answer.json(), expected);
        for unknown in [&Uuid::new_v4().to_string(), "not-a-uuid", "%00", "%ff", "a%2Fb"] {
            let answer = api.get(&format!("{PATH}/{unknown}")).await;
            answer.expect_problem(404, "transaction not found");
        }
    }
);

on_each_database!(
    /// D3-12: a transfer is settled, once, however often that is asked for.
    r1_12_a_transfer_is_settled_once,
    |api| {
        let settler = Settler::on(&api.bed).await;
        let id: Uuid = api.create(&transfer("user-a", "user-b", 5)).await.parse().unwrap();
        for _ in 0..5 {
            let status = settler.settle(id, Overdraft::Unlimited).await;
            assert_eq!(status, Some(Status::Completed));
        }
        let answer = api.get(&format!("{PATH}/{id}")).await;
        assert_eq!(answer.json()["data"]["status"], "COMPLETED");
        assert_eq!(api.balance("user-b").await, "5");
        let timed = "SELECT 'row' FROM transactions WHERE processed_at IS NOT NULL";
        assert_eq!(api.bed.texts(timed).await.len(), 1);
        let unknown = settler.settle(Uuid::new_v4(), Overdraft::Unlimited).await;
        assert_eq!(unknown, None);
        // A replay tells the status of now.
        let body = transfer("user-a", "user-b", 6);
        let id: Uuid = api.keyed("k", &body).await.json()["data"]["id"].as_str().unwrap().parse().unwrap();
        let refused = settler.settle(id, Overdraft::AtMost(10)).await;
        assert_eq!(refused, Some(Status::Failed));
        assert_eq!(api.keyed("k", &body).await.json()["data"]["status"], "FAILED");
        assert_eq!(api.balance("user-b").await, "5", "a failed transfer moves nothing");
    }
);

on_each_database!(
    /// Of transfers settled together each is decided after the one before, as if alone.
    r1_12_transfers_settled_together_are_decided_in_order,
    |api| {
        let settler = Settler::on(&api.bed).await;
        let mut ids: Vec<Uuid> = Vec::new();
        for (from, to, amount) in [("a", "b", 10), ("a", "c", 1), ("c", "a", 1), ("a", "c", 1)] {
            ids.push(api.create(&transfer(from, to, amount)).await.parse().unwrap());
        }
        ids.extend([ids[0], Uuid::new_v4()]);
        let (completed, failed) = (Some(Status::Completed), Some(Status::Failed));
        let expected = [completed, failed, completed, completed, completed, None];
        for _ in 0..2 {
            assert_eq!(settler.settle_all(&ids, Overdraft::AtMost(10)).await, expected);
            for (user, balance) in [("a", "-10"), ("b", "10"), ("c", "0")] {
                assert_eq!(api.balance(user).await, balance, "{user}");
            }
        }
    }
);

on_each_database!(
    /// D3-01, D3-13: text ids, small letters. D3-12: it is not always 0. D3-14: beyond 64 bits.
    r1_13_a_balance_is_what_was_settled,
    |api| {
        let answer = api.get("/api/v1/balance/any-user-id").await;
        let expected = r#"{"code":200,"message":"ok","data":{"user_id":"any-user-id","balance":0}}"#;
        assert_eq!((answer.status, answer.text.as_str()), (200, expected));
        let settler = Settler::on(&api.bed).await;
        for (from, to, amount) in [("a", "b", 500), ("a", "b", 250), ("b", "a", 100)] {
            let status = settled(&api, &settler, transfer(from, to, amount)).await;
            assert_eq!(status, Status::Completed);
        }
        api.create(&transfer("a", "b", 999)).await;
        assert_eq!(api.balance("a").await, "-650");
        assert_eq!(api.balance("b").await, "650");
        for _ in 0..2 {
            settled(&api, &settler, transfer("poor", "rich", i64::MAX)).await;
        }
        assert_eq!(api.balance("rich").await, "18446744073709551614");
        assert_eq!(api.balance("poor").await, "-18446744073709551614");
        let all = api.bed.texts("SELECT CAST(balance AS TEXT) FROM balances").await;
        assert_eq!(all.iter().map(|text| text.parse::<i128>().unwrap()).sum::<i128>(), 0);
        let user = api.get("/api/v1/balance/J%C3%BCrgen%20%2F%20b").await;
        assert_eq!(user.json()["data"]["user_id"], "Jürgen / b");
        let answer = api.get("/api/v1/balance/a%00").await;
        answer.expect_problem(400, "user id must not contain the character U+0000");
        let answer = api.get(&format!("/api/v1/balance/{}", "x".repeat(256))).await;
        answer.expect_problem(400, "user id must be at most 255 characters");
        api.get("/api/v1/balance/%ff").await.expect_problem(400, "user id must be UTF-8");
    }
);

/// Transfers in opposite directions at once neither wait for each other for ever nor lose an update.
#[tokio::test]
async fn r1_13_balances_are_conserved_under_concurrency() {
    let api = Api::on(Bed::postgres().await).await;
    let settler = &Settler::on(&api.bed).await;
    let users = ["a", "b", "c"];
    let mut ids = Vec::new();
    for n in 0..60 {
        let body = transfer(users[n % 3], users[(n + 1 + n % 2) % 3], 1 + n as i64);
        ids.push(api.create(&body).await.parse::<Uuid>().unwrap());
    }
    // Each of them twice, for good measure.
    let all = ids.iter().chain(&ids).map(|id| settler.settle(*id, Overdraft::Unlimited));
    for status in futures::future::join_all(all).await {
        assert_eq!(status, Some(Status::Completed));
    }
    let mut sums = [0_i64; 3];
    for n in 0..60 {
        sums[n % 3] -= 1 + n as i64;
        sums[(n + 1 + n % 2) % 3] += 1 + n as i64;
    }
    for (user, sum) in users.into_iter().zip(sums) {
        assert_eq!(api.balance(user).await, sum.to_string());
    }
}

/// D3-30: health and readiness. D3-44: the description names the header and every answer.
#[tokio::test]
async fn r1_14_metrics_description_and_health_are_there() {
    let api = Api::on(Bed::sqlite()).await;
    let answer = api.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").starts_with("text/plain"), "{answer:#?}");
    for path in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(api.get(path).await.status, 200, "{path}");
    }
    let page = api.get("/swagger/").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/html"), "{page:#?}");
    let elsewhere =
        page.text.matches("src=\"http").count() + page.text.matches("href=\"http").count();
    assert_eq!(elsewhere, 0, "nothing is loaded from elsewhere: {}", page.text);
    assert_eq!(api.get("/swagger/swagger-ui-bundle.js").await.status, 200);
    let document = api.get("/swagger/doc.json").await.json();
    assert_eq!(document["info"]["title"], "Transaction Service API");
    assert_eq!(document["info"]["version"], "1.0");
    let paths: Vec<_> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/api/v1/balance/{userId}", PATH, "/api/v1/transactions/{id}"]);
    let create = &document["paths"][PATH]["post"];
    assert_eq!(create["parameters"][0]["name"], "Idempotency-Key");
    for status in ["200", "201", "400", "413", "415", "422", "503"] {
        assert!(create["responses"][status].is_object(), "{status}");
    }
}

/// D3-44: what the description says is what the program does, says a judge that shares no code with it.
#[tokio::test]
async fn r1_14_the_program_does_what_its_description_says() {
    let api = Api::on(Bed::postgres().await).await;
    expect_schemathesis(&api, env!("CARGO_TARGET_TMPDIR")).await;
    let failed = api.log().iter().filter(|line| line["msg"] == "a request failed").count();
    assert_eq!(failed, 0, "{}", api.output());
}
