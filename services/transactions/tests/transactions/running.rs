//! The program as something that is run: limits, signals, logs, metrics, configuration.

use std::time::Instant;

use futures::future::join_all;
use serde_json::json;
use services_web::testing::{Answer, Bed, Program};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use crate::bed::{Api, PATH, PROGRAM, on_each_database, transfer};

async fn connect(api: &Api) -> TcpStream {
    TcpStream::connect(api.url.strip_prefix("http://").unwrap()).await.unwrap()
}

#[tokio::test]
async fn r1_15_half_a_request_is_not_waited_for() {
    let api = Api::on(Bed::sqlite()).await;
    let start = Instant::now();
    let head = async {
        let mut stream = connect(&api).await;
        stream.write_all(b"POST /api/v1/transactions HTTP/1.1\r\nHost: x\r\n").await.unwrap();
        let mut answer = String::new();
        // Closed or reset: either ends it.
        let _ = stream.read_to_string(&mut answer).await;
        assert_eq!(answer, "");
    };
    let body = async {
        let mut stream = connect(&api).await;
        let head = "POST /api/v1/transactions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\"title\""), "{answer}");
    };
    tokio::join!(head, body);
    let seconds = start.elapsed().as_secs();
    assert!((9..30).contains(&seconds), "others may be slow, but not for {seconds} s");
    assert_eq!(api.get("/livez").await.status, 200);
    assert_eq!(api.counts().await, (0, 0));
}

on_each_database!(
    /// Clients that keep their connections send requests until the program is gone.
    r1_15_a_signal_under_load_resets_nobody,
    |api| {
        let mut api = api;
        let clients = (0..16).map(|n| {
            let api = &api;
            async move {
                let mut created = 0;
                loop {
                    let body = transfer("user-a", &format!("user-{n}"), 1).to_string();
                    match Answer::to(api.request("POST", PATH).body(body)).await {
                        Ok(answer) => assert_eq!(answer.status, 201, "{answer:#?}"),
                        // Nobody listens any more, which is no reset.
                        Err(error) if error.is_connect() => return created,
                        Err(error) => panic!("a request that was accepted has failed: {error:?}"),
                    }
                    created += 1;
                    if n == 0 && created == 20 {
                        api.signal("TERM").await;
                    }
                }
            }
        });
        let created: usize = join_all(clients).await.into_iter().sum();
        assert_eq!(api.program.end().await, 0, "{}", api.output());
        assert_eq!(api.counts().await, (created, created));
    }
);

#[tokio::test]
async fn r1_15_an_idle_connection_does_not_hold_up_the_end() {
    let mut api = Api::on(Bed::sqlite()).await;
    let _idle = connect(&api).await;
    assert_eq!(api.get("/livez").await.status, 200);
    api.signal("INT").await;
    assert_eq!(api.program.end().await, 0, "{}", api.output());
    let log = api.log();
    assert!(log.iter().all(|line| line["msg"] != "stopped with connections open"), "{log:#?}");
}

on_each_database!(
    /// D3-42: neither users nor amounts, whatever happens.
    r1_18_logs_are_json_and_tell_no_secrets,
    |api| {
        let (from, to, amount) = ("secretive-sender", "secretive-receiver", 987_654_321);
        let body = json!({"from_user_id": from, "to_user_id": to, "amount": amount,
            "description": "secretive-purpose"});
        let id = api.create(&body).await;
        for status in [201, 200] {
            assert_eq!(api.keyed("secretive-key", &body).await.status, status);
        }
        api.post(PATH, transfer(from, from, amount).to_string()).await;
        api.post(PATH, r#"{"amount":"secretive-987654321"}"#).await;
        api.get("/api/v1/balance/secretive-sender").await;
        api.get("/secretive-path?user=secretive-sender").await;
        let log = api.log();
        let created = log.iter().find(|line| line["transaction_id"] == id.as_str()).unwrap();
        assert_eq!(created["msg"], "transaction created");
        assert_eq!(created["has_idempotency_key"], false);
        let text = api.output();
        assert!(!text.contains("secretive") && !text.contains("987654321"), "{text}");
    }
);

/// D3-16: one series for a route, whatever is asked for, and one for everything that is none.
#[tokio::test]
async fn r1_19_series_are_bounded() {
    let api = Api::on(Bed::sqlite()).await;
    for chunk in 0..20 {
        let balances = (0..50).map(|n| format!("/api/v1/balance/user-{chunk}-{n}"));
        join_all(balances.map(async |path| assert_eq!(api.get(&path).await.status, 200))).await;
    }
    for n in 0..20 {
        api.get(&format!("/scan-{n}")).await;
        let invented = api.request(&format!("INVENTED{n}"), PATH);
        assert_eq!(Answer::to(invented).await.unwrap().status, 405);
    }
    api.get("/metrics").await;
    let text = api.get("/metrics").await.text;
    let name = "transaction_service_http_requests_total";
    let series: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
    let of = |part: &str| series.iter().filter(|line| line.contains(part)).collect::<Vec<_>>();
    let balances = r#"{method="GET",path="/api/v1/balance/{userId}",status="200"} 1000"#;
    assert_eq!(of("balance"), [&format!("{name}{balances}")], "{text}");
    assert_eq!(
        of("unmatched"),
        [&format!("{name}{{method=\"GET\",path=\"unmatched\",status=\"404\"}} 20")]
    );
    assert_eq!(of("OTHER").len(), 1, "{series:#?}");
    assert_eq!(of("/metrics").len(), 1, "{series:#?}");
    let bucket = r#"transaction_service_http_request_duration_seconds_bucket{method="GET",path="/api/v1/balance/{userId}",le="#;
    let bounds: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(bucket))
        .filter_map(|rest| rest.split('"').nth(1))
        .collect();
    let expected =
        ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"];
    assert_eq!(bounds, expected);
    assert!(text.contains("process_resident_memory_bytes"), "{text}");
}

/// D3-40: a port that is none is not 0.
#[tokio::test]
async fn r4_04_what_cannot_be_read_is_named() {
    let environment = [("DB_PORT", "abc"), ("SERVER_PORT", "70000"), ("DB_SSLMODE", "maybe")];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut program = Program::launch(PROGRAM, &[], &environment);
    assert_eq!(program.end().await, 1);
    let log = program.log();
    let reason = log.last().unwrap()["reason"].as_str().unwrap();
    for name in ["DB_PORT", "SERVER_PORT", "DB_SSLMODE"] {
        assert!(reason.contains(name), "{reason}");
    }
}

/// D3-40: a password is never quoted into an address, so it may hold anything. A server that trusts this
/// machine, as the tests' own does, does not look at it.
#[tokio::test]
async fn r4_04_each_variable_counts_and_an_empty_one_does_not() {
    let bed = Bed::postgres().await;
    let role = format!("role_{}", uuid::Uuid::new_v4().simple());
    let password = r"a b'c\d@/:%20";
    let database = &bed.environment.iter().find(|(name, _)| name == "DB_NAME").unwrap().1;
    let quoted = password.replace('\'', "''");
    bed.execute(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD '{quoted}'; GRANT ALL ON DATABASE {database} TO {role};
         GRANT ALL ON SCHEMA public TO {role};"
    ))
    .await;
    let more = [("DB_USER", role.as_str()), ("DB_PASSWORD", password), ("DB_SSLMODE", "")];
    let program = Program::start(PROGRAM, &bed.with(&more)).await;
    program.poll("/readyz", |answer| answer.status == 200).await;
    let owner = "SELECT tableowner::text FROM pg_tables WHERE tablename = 'transactions'";
    assert_eq!(bed.texts(owner).await, [role.as_str()]);
    drop(program);
    bed.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role};")).await;
}

/// With D3-40: TLS can be demanded, and then there is no connection without it.
#[tokio::test]
async fn r4_04_where_it_listens_and_how_it_connects_can_be_said() {
    let bed = Bed::postgres().await;
    // Bound, and never listened on: nobody else is given this port.
    let held = TcpSocket::new_v4().unwrap();
    held.set_reuseaddr(true).unwrap();
    held.bind("127.0.0.3:0".parse().unwrap()).unwrap();
    let free = held.local_addr().unwrap();
    let port = free.port().to_string();
    let more = [("SERVER_HOST", "127.0.0.3"), ("SERVER_PORT", port.as_str())];
    let program = Program::start(PROGRAM, &bed.with(&more)).await;
    assert_eq!(program.url, format!("http://{free}"));
    program.poll("/readyz", |answer| answer.status == 200).await;
    let more = [
        ("DB_SSLMODE", "verify-full"),
        ("DB_SSLROOTCERT", "/dev/null"),
        ("DB_START_TIMEOUT", "1s"),
        ("DB_PASSWORD", "hunter2"),
    ];
    let mut program = Program::launch(PROGRAM, &[], &bed.with(&more));
    assert_eq!(program.end().await, 1, "{}", program.output());
    assert!(!program.output().contains("hunter2"), "{}", program.output());
}
