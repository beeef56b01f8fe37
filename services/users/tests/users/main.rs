//! The built program as a black box, on PostgreSQL and on SQLite. Tests are named after the requirement
//! they show; `D3-nn` is the defect of the original that must not come back.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::{ops::Deref, sync::Arc, time::Duration};

use argon2::{Argon2, PasswordHash, PasswordVerifier};
use futures::future::join_all;
use posthaste::{Relay, Sharing, Start, Subscriber, Subscription, rabbitmq};
use posthaste_fixtures::{Kind, server};
use serde_json::{Value, json};
use services_web::testing::{Answer, Bed, Pool, Program, expect_schemathesis};
use uuid::Uuid;

const PATH: &str = "/api/v1/users";
const PROGRAM: &str = env!("CARGO_BIN_EXE_users");

/// A program and its database.
struct Api {
    program: Program,
    bed: Bed,
}

impl Api {
    /// Started, with its tables.
    async fn on(bed: Bed) -> Self {
        let program = Program::start(PROGRAM, &bed.environment).await;
        program.poll("/readyz", |answer| answer.status == 200).await;
        Self { program, bed }
    }

    async fn register(&self, email: &str, password: &str) -> Answer {
        self.post(PATH, json!({"email": email, "password": password}).to_string()).await
    }

    /// Rows of users, and of messages.
    async fn counts(&self) -> (usize, usize) {
        (self.bed.count("users").await, self.bed.count(self.bed.outbox()).await)
    }

    /// The payload of the only message.
    async fn payload(&self) -> String {
        let column = match self.bed.pool {
            Pool::Postgres(_) => "convert_from(payload_binary, 'UTF8')",
            Pool::Sqlite(_) => "CAST(payload AS TEXT)",
        };
        let sql = format!("SELECT {column} FROM {}", self.bed.outbox());
        self.bed.texts(&sql).await.remove(0)
    }
}

impl Deref for Api {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

/// The same test on each database.
macro_rules! on_each_database {
    ($(#[$about:meta])* $name:ident, |$api:ident| $body:expr) => {
        mod $name {
            use super::*;

            $(#[$about])*
            #[tokio::test]
            async fn on_postgres() {
                let $api = Api::on(Bed::postgres().await).await;
                $body
            }

            $(#[$about])*
            #[tokio::test]
            async fn on_sqlite() {
                let $api = Api::on(Bed::sqlite()).await;
                $body
            }
        }
    };
}

on_each_database!(
    /// D3-26: the password is hashed. D3-29: the program starts, and tells nobody the address.
    r3_00_a_user_is_registered_and_their_secrets_are_kept,
    |api| {
        let answer = api.register("  TEST@EXAMPLE.COM  ", "correct horse battery").await;
        assert_eq!(answer.status, 201, "{answer:#?}");
        let body = answer.json();
        let id = body["data"]["id"].as_str().unwrap();
        id.parse::<Uuid>().unwrap();
        let expected = json!({"code": 201, "message": "user created", "data": {"id": id}});
        assert_eq!(body, expected);
        assert_eq!(api.counts().await, (1, 1));
        assert_eq!(api.bed.texts("SELECT email FROM users").await, ["test@example.com"]);
        let hash = api.bed.texts("SELECT password FROM users").await.remove(0);
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        let hash = PasswordHash::new(&hash).unwrap();
        Argon2::default().verify_password(b"correct horse battery", &hash).unwrap();
        Argon2::default().verify_password(b"correct horse", &hash).unwrap_err();
        let payload: Value = serde_json::from_str(&api.payload().await).unwrap();
        assert_eq!(payload, json!({"userId": id}));
        // The older path, and another user: the same password has another hash.
        let other = json!({"email": "other@example.com", "password": "correct horse battery"});
        assert_eq!(api.post("/users", other.to_string()).await.status, 201);
        let hashes = api.bed.texts("SELECT DISTINCT password FROM users").await;
        assert_eq!(hashes.len(), 2);
        assert!(!api.log().is_empty());
        let output = api.output();
        assert!(!output.contains("example") && !output.contains("horse"), "{output}");
        assert!(!output.contains(id), "{output}");
    }
);

on_each_database!(
    /// D3-28: `@.` is no address, characters are counted, and there is an upper bound.
    r3_00_what_breaks_a_rule_is_refused_and_leaves_nothing,
    |api| {
        for (email, password, title) in [
            ("", "", "email is required"),
            ("  ", "long enough", "email is required"),
            ("@.", "short", "email is invalid"),
            ("plain", "long enough", "email is invalid"),
            ("a@b", "long enough", "email is invalid"),
            ("a\0@b.de", "long enough", "email is invalid"),
            ("a@example.com", "", "password must be at least 8 characters"),
            ("a@example.com", "üüüüüüü", "password must be at least 8 characters"),
            ("a@example.com", &"x".repeat(129), "password must be at most 128 characters"),
        ] {
            let answer = api.register(email, password).await;
            answer.expect_problem(400, title);
            assert_eq!(answer.json().get("detail"), None, "{answer:#?}");
        }
        for body in ["", "x", "[]", r#"{"email":1}"#, r#"{"email":null}"#, "{}x"] {
            api.post(PATH, body).await.expect_problem(400, "invalid request body");
        }
        api.post(PATH, "{}").await.expect_problem(400, "email is required");
        assert_eq!(api.counts().await, (0, 0));
        assert_eq!(api.register("a@example.com", &"ü".repeat(128)).await.status, 201);
    }
);

on_each_database!(
    /// D3-27: 409, not 500.
    r3_00_an_address_is_registered_once_also_by_32_at_once,
    |api| {
        let emails = ["ann@example.com", "ANN@Example.com", " Ann@example.COM"];
        let requests = (0..32).map(|n| api.register(emails[n % 3], "long enough"));
        let answers = join_all(requests).await;
        let count = |status| answers.iter().filter(|answer| answer.status == status).count();
        assert_eq!((count(201), count(409)), (1, 31), "{answers:#?}");
        let loser = answers.iter().find(|answer| answer.status == 409).unwrap();
        loser.expect_problem(409, "email already registered");
        assert_eq!(api.counts().await, (1, 1));
    }
);

/// D3-43: one index on the address, which is the one that keeps it unique. D3-26: the table takes no
/// password that is not a hash.
#[tokio::test]
async fn r3_00_the_table_has_one_index_on_the_address_and_takes_hashes_alone() {
    let api = Api::on(Bed::postgres().await).await;
    let indexes =
        "SELECT indexdef FROM pg_indexes WHERE tablename = 'users' AND indexdef LIKE '%email%'";
    let indexes = api.bed.texts(indexes).await;
    assert_eq!(indexes.len(), 1, "{indexes:?}");
    assert!(indexes[0].contains("UNIQUE"), "{indexes:?}");
    let Pool::Postgres(pool) = &api.bed.pool else { panic!("PostgreSQL was asked for") };
    let plain =
        "INSERT INTO users (id, email, password) VALUES (gen_random_uuid(), 'a@b.de', 'plain')";
    let error = sqlx::query(plain).execute(pool).await.unwrap_err();
    let rule = error.as_database_error().unwrap().constraint();
    assert_eq!(rule, Some("password_is_hashed"), "{error}");
}

/// D3-41: the routing key is the event type's. Relayed once, and without a word about the person.
#[tokio::test]
async fn r3_00_the_event_reaches_the_exchange() {
    let api = Api::on(Bed::postgres().await).await;
    let mut config = rabbitmq::Config::new(server(Kind::RabbitMq).url());
    config.exchange = "user.events".to_owned();
    let topics = vec!["user.created".parse().unwrap()];
    let subscription =
        Subscription { name: None, topics, start: Start::New, sharing: Sharing::Competing };
    let mut consumer = rabbitmq::subscribe(&config, &subscription).await.unwrap();
    let answer = api.register("ann@example.com", "long enough").await;
    let id = answer.json()["data"]["id"].as_str().unwrap().to_owned();
    let Pool::Postgres(pool) = &api.bed.pool else { panic!("PostgreSQL was asked for") };
    let broker = Arc::new(rabbitmq::RabbitMqBroker::open(config).unwrap());
    let relay = Relay::builder(pool.clone()).route("users", "user.*", broker);
    relay.build().unwrap().run_once().await.unwrap();
    let incoming = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let incoming = consumer.receive().await.unwrap();
            // Others may use the exchange of a shared server.
            if incoming.message.key.as_deref() == Some(id.as_str()) {
                return incoming;
            }
            consumer.acknowledge(incoming.receipt).await.unwrap();
        }
    });
    let message = incoming.await.expect("the event arrives").message;
    assert_eq!(message.topic, "user.created");
    assert_eq!(message.event_type.as_deref(), Some("UserCreated"));
    assert_eq!(message.payload, json!({"userId": id}).to_string());
    for (name, value) in
        [("event_type", "UserCreated"), ("event_version", "1"), ("aggregate_id", &id)]
    {
        assert!(message.headers.iter().any(|(n, v)| n == name && v == value), "{name}");
    }
    assert!(message.headers.iter().all(|(_, value)| !value.contains("example")));
}

#[tokio::test]
async fn r3_00_the_program_does_what_its_description_says() {
    let api = Api::on(Bed::sqlite()).await;
    let document = api.get("/swagger/doc.json").await.json();
    assert_eq!(document["paths"].as_object().unwrap().keys().collect::<Vec<_>>(), [PATH]);
    expect_schemathesis(&api, env!("CARGO_TARGET_TMPDIR")).await;
    let text = api.get("/metrics").await.text;
    assert!(text.contains("users_service_http_requests_total{"), "{text}");
    let failed = api.log().iter().filter(|line| line["msg"] == "a request failed").count();
    assert_eq!(failed, 0, "{}", api.output());
}
