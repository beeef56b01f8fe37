//! The database: made by whoever comes first, away, back again, and not asked for too much.

use std::{cell::Cell, collections::BTreeSet, time::Duration};

use futures::future::join_all;
use posthaste_fixtures::{Durability, Postgres};
use services_web::testing::{Answer, Bed, Pool, Program, eventually};

use crate::bed::{Api, PATH, PROGRAM, transfer};

/// D3-15: the program knows no broker; there is none here. D3-34: it makes its tables.
#[tokio::test]
async fn r4_03_five_instances_start_on_an_empty_database() {
    let bed = Bed::postgres().await;
    for _ in 0..2 {
        let programs = join_all((0..5).map(|_| Program::start(PROGRAM, &bed.environment))).await;
        for program in &programs {
            program.poll("/readyz", |answer| answer.status == 200).await;
            let body = transfer("user-a", "user-b", 1).to_string();
            assert_eq!(program.post(PATH, body).await.status, 201);
            // A busy machine may be slow to connect; nothing else keeps an instance waiting.
            let log = program.log();
            let waited = log.iter().filter(|line| line["msg"] == "waiting for the database");
            let reasons: BTreeSet<&str> = waited.filter_map(|it| it["reason"].as_str()).collect();
            assert!(reasons.is_subset(&BTreeSet::from(["no connection in time"])), "{reasons:?}");
        }
    }
    assert_eq!(bed.count("transactions").await, 10);
}

/// D3-05: the table has the rules of the API, for whoever writes past it.
#[tokio::test]
async fn r4_01_the_table_has_the_rules_too() {
    let api = Api::on(Bed::postgres().await).await;
    let insert = "INSERT INTO transactions (id, amount, description, from_user_id, to_user_id, \
                  transaction_status) VALUES (gen_random_uuid(), ";
    api.bed.execute(&format!("{insert} 1, '', 'text', 'other text', 'PENDING')")).await;
    let Pool::Postgres(pool) = &api.bed.pool else { panic!("PostgreSQL was asked for") };
    for (values, rule) in [
        ("0, '', 'a', 'b', 'PENDING'", "amount_is_positive"),
        ("1, '', 'a', 'a', 'PENDING'", "users_differ"),
        ("1, '', '', 'a', 'PENDING'", "users_are_named"),
        ("1, '', 'a', 'b', 'DONE'", "status_is_known"),
        ("1, '', 'a', 'b', 'COMPLETED'", "final_is_timed"),
    ] {
        let sql = sqlx::AssertSqlSafe(format!("{insert} {values})"));
        let error = sqlx::query(sql).execute(pool).await.unwrap_err();
        assert_eq!(error.as_database_error().unwrap().constraint(), Some(rule), "{error}");
    }
    let one = "UPDATE transactions SET idempotency_key = 'k', fingerprint = '\\x00'";
    api.bed.execute(one).await;
    let again = "INSERT INTO transactions (id, amount, description, from_user_id, to_user_id, \
                 idempotency_key, fingerprint) VALUES (gen_random_uuid(), 1, '', 'text', 'b', 'k', '')";
    let error = sqlx::query(again).execute(pool).await.unwrap_err();
    assert!(error.as_database_error().unwrap().is_unique_violation(), "{error}");
}

#[tokio::test]
async fn r4_05_two_hundred_requests_share_25_connections() {
    // One of the test's own may be on its way to its name.
    const MOST: usize = 25 + 1;
    let api = Api::on(Bed::postgres().await).await;
    let creates = (0..200).map(|n| {
        let body = transfer("user-a", &format!("user-{n}"), 1).to_string();
        Answer::to(api.request("POST", PATH).body(body))
    });
    let is_done = Cell::new(false);
    let creates = async {
        let answers = join_all(creates).await;
        is_done.set(true);
        answers
    };
    let watch = async {
        let mut most = 0;
        let sql = "SELECT 'row' FROM pg_stat_activity WHERE datname = current_database() \
                   AND application_name <> 'test' AND backend_type = 'client backend'";
        loop {
            most = most.max(api.bed.texts(sql).await.len());
            if most > MOST || is_done.get() {
                return most;
            }
        }
    };
    let (answers, most) = tokio::join!(creates, watch);
    assert!(answers.into_iter().all(|answer| answer.unwrap().status == 201));
    assert!(most <= MOST, "{most}");
}

#[tokio::test]
async fn r4_05_connections_that_end_while_they_rest_fail_nobody() {
    let api = Api::on(Bed::postgres().await).await;
    let ours = "FROM pg_stat_activity WHERE datname = current_database() \
                AND application_name <> 'test' AND backend_type = 'client backend'";
    let awake = format!("SELECT 'row' {ours} AND state_change > now() - interval '1.5 seconds'");
    for _ in 0..3 {
        // Every kind of calls keeps the connection that it used.
        let id = api.create(&transfer("user-a", "user-b", 1)).await;
        assert_eq!(api.get(&format!("{PATH}/{id}")).await.status, 200);
        assert_eq!(api.balance("user-a").await, "0");
        eventually("all connections rest", async || match api.bed.texts(&awake).await.len() {
            0 => Ok(()),
            count => Err(count),
        })
        .await;
        let ended = api.bed.texts(&format!("SELECT pg_terminate_backend(pid)::text {ours}")).await;
        assert!(ended.len() >= 3, "{ended:?}");
    }
}

/// D3-09: what is wrong with the database is not the client's to know.
#[tokio::test]
async fn r1_17_a_database_that_goes_away_and_comes_back() {
    // Stopped as by a crash: what was committed must be there afterwards.
    let server = Postgres::private(Durability::Durable).unwrap();
    let api = Api::on(Bed::postgres_at(server.url()).await).await;
    let body = transfer("user-a", "user-b", 1);
    let id = api.create(&body).await;
    server.stop().unwrap();
    let paths = [format!("{PATH}/{id}"), "/api/v1/balance/user-a".to_owned()];
    let mut answers = join_all(paths.iter().map(|path| api.get(path))).await;
    answers.push(api.keyed("k", &body).await);
    for answer in &answers {
        answer.expect_problem(503, "service unavailable");
        assert_eq!(answer.header("retry-after"), "1");
        assert_eq!(answer.json().get("detail"), None, "{answer:#?}");
    }
    assert_eq!(api.get("/livez").await.status, 200);
    api.get("/readyz").await.expect_problem(503, "not ready");
    server.start_again().unwrap();
    let created = eventually("the database is back", async || {
        let answer = api.keyed("k", &body).await;
        if answer.status == 503 { Err(answer) } else { Ok(answer) }
    })
    .await;
    assert_eq!(created.status, 201, "{created:#?}");
    assert_eq!(api.keyed("k", &body).await.status, 200);
    assert_eq!(api.get("/readyz").await.status, 200);
    let failed = api.log().iter().filter(|line| line["msg"] == "a request failed").count();
    assert_eq!(failed, 0, "{}", api.output());
}

#[tokio::test]
async fn r1_17_a_database_that_is_not_there_yet() {
    // Stopped as by a crash: what was committed must be there afterwards.
    let server = Postgres::private(Durability::Durable).unwrap();
    let bed = Bed::postgres_at(server.url()).await;
    server.stop().unwrap();
    let mut program = Program::start(PROGRAM, &bed.environment).await;
    program.wait_for("waiting for the database").await;
    assert_eq!(program.get("/livez").await.status, 200);
    program.get("/readyz").await.expect_problem(503, "not ready");
    let answer = program.post(PATH, transfer("user-a", "user-b", 1).to_string()).await;
    answer.expect_problem(503, "service unavailable");
    server.start_again().unwrap();
    program.poll("/readyz", |answer| answer.status == 200).await;
    let answer = program.post(PATH, transfer("user-a", "user-b", 1).to_string()).await;
    assert_eq!(answer.status, 201, "{answer:#?}");
}

/// Whoever migrates, or was told to and hangs, is not waited for for ever.
#[tokio::test]
async fn r1_17_a_migration_that_is_held_up_ends_the_wait() {
    let bed = Bed::postgres().await;
    let Pool::Postgres(pool) = &bed.pool else { panic!("PostgreSQL was asked for") };
    let mut holder = pool.begin().await.unwrap();
    let lock = "SELECT pg_advisory_xact_lock(5791024680135)";
    sqlx::query(lock).execute(&mut *holder).await.unwrap();
    let mut program = Program::launch(PROGRAM, &[], &bed.with(&[("DB_START_TIMEOUT", "1s")]));
    assert_eq!(program.end().await, 1, "{}", program.output());
    holder.rollback().await.unwrap();
    let program = Program::start(PROGRAM, &bed.environment).await;
    program.poll("/readyz", |answer| answer.status == 200).await;
}

/// The tables are being made: that passes.
#[tokio::test]
async fn r1_17_a_file_whose_tables_are_not_there_yet() {
    let bed = Bed::sqlite();
    let Pool::Sqlite(file) = &bed.pool else { panic!("a file was asked for") };
    let pool = services_web::database::sqlite(file).await.unwrap();
    let holder = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let program = Program::start(PROGRAM, &bed.environment).await;
    let answer = program.get("/api/v1/balance/user-a").await;
    answer.expect_problem(503, "service unavailable");
    holder.rollback().await.unwrap();
    program.poll("/api/v1/balance/user-a", |answer| answer.status == 200).await;
}

#[tokio::test]
async fn r1_17_a_database_that_never_comes_ends_the_wait() {
    let nobody = [("DB_HOST", "127.0.0.1"), ("DB_PORT", "1"), ("DB_START_TIMEOUT", "1s")];
    let mut environment = nobody.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    environment.push(("DB_PASSWORD".to_owned(), "hunter2".to_owned()));
    let mut program = Program::launch(PROGRAM, &[], &environment);
    assert_eq!(tokio::time::timeout(Duration::from_secs(30), program.end()).await.unwrap(), 1);
    let log = program.log();
    assert_eq!(log.last().unwrap()["msg"], "ended");
    assert!(!program.output().contains("hunter2"), "{}", program.output());
}

/// Somebody has begun to write a key of a sender, by hand, and gone to lunch.
#[tokio::test]
async fn r1_17_a_lock_that_is_held_concerns_nobody_else() {
    let api = Api::on(Bed::postgres().await).await;
    let Pool::Postgres(pool) = &api.bed.pool else { panic!("PostgreSQL was asked for") };
    let mut holder = pool.begin().await.unwrap();
    let key = "INSERT INTO transactions (id, amount, description, from_user_id, to_user_id, \
               idempotency_key, fingerprint) VALUES (gen_random_uuid(), 1, '', 'user-a', 'b', 'k', '')";
    sqlx::query(key).execute(&mut *holder).await.unwrap();
    let body = transfer("user-a", "user-b", 1);
    let others = async {
        let others = (0..40).map(|n| {
            let body = transfer("user-a", &format!("user-{n}"), 1).to_string();
            Answer::to(api.request("POST", PATH).body(body))
        });
        join_all(others).await
    };
    let (held, others) = tokio::join!(api.keyed("k", &body), others);
    held.expect_problem(503, "service unavailable");
    for answer in others {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 201, "{answer:#?}");
    }
    holder.rollback().await.unwrap();
    assert_eq!(api.keyed("k", &body).await.status, 201);
    assert_eq!(api.counts().await, (41, 41), "and what was told to have failed was not done");
}

/// No connection is closed: packets are lost, as when a machine is gone.
#[tokio::test]
async fn r1_17_a_database_that_is_gone_without_a_word_and_comes_back() {
    let mut bed = Bed::postgres().await;
    let proxy;
    (proxy, bed.environment) = bed.behind_proxy().await;
    let api = Api::on(bed).await;
    let body = transfer("user-a", "user-b", 1);
    let id = api.create(&body).await;
    proxy.black_hole();
    let paths = [format!("{PATH}/{id}"), "/api/v1/balance/user-a".to_owned()];
    let requests = (0..60).map(|n| match paths.get(n % 3) {
        Some(path) => api.request("GET", path),
        None => api.request("POST", PATH).body(body.to_string()),
    });
    for answer in join_all(requests.map(Answer::to)).await {
        answer.unwrap().expect_problem(503, "service unavailable");
    }
    api.get("/readyz").await.expect_problem(503, "not ready");
    proxy.heal();
    let created = eventually("the database is back", async || {
        let answer = api.keyed("k", &body).await;
        if answer.status == 503 { Err(answer) } else { Ok(answer) }
    })
    .await;
    assert_eq!(created.status, 201, "{created:#?}");
    for path in &paths {
        api.poll(path, |answer| answer.status == 200).await;
    }
    assert_eq!(
        api.counts().await,
        (2, 2),
        "nothing is done for those who were told that it failed"
    );
}
