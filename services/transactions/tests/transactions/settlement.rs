//! The consumer: from an event to a settled transfer, once.

use std::sync::Arc;

use posthaste::{Relay, Running, rabbitmq};
use posthaste_fixtures::{Kind, server};
use serde_json::json;
use services_web::testing::{Bed, Pool, Program, eventually};
use sqlx::PgPool;
use uuid::Uuid;

use crate::bed::{Api, PROGRAM, transfer};

/// The API on PostgreSQL and an exchange of its own, with whatever consumes from it.
struct System {
    api: Api,
    exchange: String,
}

impl System {
    async fn new() -> Self {
        let exchange = format!("transaction.events.{}", Uuid::new_v4().simple());
        Self { api: Api::on(Bed::postgres().await).await, exchange }
    }

    /// A consumer that has subscribed.
    async fn settler(&self, more: &[(&str, &str)]) -> Program {
        let url = server(Kind::RabbitMq).url();
        let mut variables = vec![("RABBIT_URL", url), ("RABBIT_EXCHANGE", &self.exchange)];
        variables.extend(more);
        let environment = self.api.bed.with(&variables);
        let settler = Program::start_with(PROGRAM, &["settle"], &environment).await;
        settler.poll("/readyz", |answer| answer.status == 200).await;
        settler
    }

    fn pool(&self) -> &PgPool {
        let Pool::Postgres(pool) = &self.api.bed.pool else { panic!("PostgreSQL was asked for") };
        pool
    }

    /// A relay. Each name is a route of its own, which sends everything from the beginning.
    fn relay(&self, name: &str) -> Relay {
        let mut config = rabbitmq::Config::new(server(Kind::RabbitMq).url());
        config.exchange = self.exchange.clone();
        let broker = Arc::new(rabbitmq::RabbitMqBroker::open(config).unwrap());
        Relay::builder(self.pool().clone()).route(name, "transaction.*", broker).build().unwrap()
    }

    fn running_relay(&self) -> Running {
        self.relay("transactions").spawn()
    }

    /// Statuses, and how many transfers have them.
    async fn statuses(&self) -> Vec<String> {
        let sql = "SELECT transaction_status || ' ' || count(*) FROM transactions
            GROUP BY transaction_status ORDER BY 1";
        self.api.bed.texts(sql).await
    }
}

/// The value of a series of the consumer's metrics, 0 where there is none.
async fn metric(settler: &Program, name: &str) -> u64 {
    let text = settler.get("/metrics").await.text;
    let name = format!("posthaste_inbox_{name}{{consumer=\"settlement\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
}

async fn wait_metric(settler: &Program, name: &str, expected: u64) {
    eventually(name, async || match metric(settler, name).await {
        value if value == expected => Ok(()),
        value => Err(value),
    })
    .await;
}

/// D3-12: nothing to configure, and a transfer still ends as `COMPLETED`.
#[tokio::test]
async fn r1_12_the_quick_start_settles_by_itself() {
    let bed = Bed::sqlite();
    let program = Program::start(PROGRAM, &bed.environment).await;
    program.poll("/readyz", |answer| answer.status == 200).await;
    let mut api = Api { program, bed };
    let first = api.create(&transfer("user-a", "user-b", 5)).await;
    api.wait_status(&first, "COMPLETED").await;
    assert_eq!(api.balance("user-a").await, "-5");
    api.signal("TERM").await;
    assert_eq!(api.program.end().await, 0, "{}", api.output());
    // What the last one settled is not settled again, and what is new is.
    let program = Program::start(PROGRAM, &api.bed.with(&[("OVERDRAFT", "10")])).await;
    let api = Api { program, bed: api.bed };
    let second = api.create(&transfer("user-a", "user-b", 6)).await;
    api.wait_status(&second, "FAILED").await;
    let third = api.create(&transfer("user-a", "user-b", 5)).await;
    api.wait_status(&third, "COMPLETED").await;
    assert_eq!(api.balance("user-b").await, "10");
}

/// By way of RabbitMQ, with two instances of the consumer; then every event comes five times more.
#[tokio::test]
async fn r1_12_copies_of_an_event_settle_nothing_again() {
    let system = System::new().await;
    let settlers = [system.settler(&[]).await, system.settler(&[]).await];
    let relay = system.running_relay();
    let users = ["a", "b", "c"];
    let mut ids = Vec::new();
    for n in 0..30 {
        let body = transfer(users[n % 3], users[(n + 1) % 3], 1 + n as i64);
        ids.push(system.api.create(&body).await);
    }
    for id in &ids {
        system.api.wait_status(id, "COMPLETED").await;
    }
    relay.shutdown().await.unwrap();
    for n in 0..5 {
        system.relay(&format!("again-{n}")).run_once().await.unwrap();
    }
    let duplicates =
        async |name| metric(&settlers[0], name).await + metric(&settlers[1], name).await;
    eventually("copies", async || match duplicates("duplicates_total").await {
        150 => Ok(()),
        other => Err(other),
    })
    .await;
    assert_eq!(duplicates("handled_messages_total").await, 30);
    assert_eq!(system.statuses().await, ["COMPLETED 30"]);
    let mut sums = [0_i64; 3];
    for n in 0..30 {
        sums[n % 3] -= 1 + n as i64;
        sums[(n + 1) % 3] += 1 + n as i64;
    }
    for (user, sum) in users.into_iter().zip(sums) {
        assert_eq!(system.api.balance(user).await, sum.to_string());
    }
    let timed = "SELECT 'row' FROM transactions WHERE processed_at IS NOT NULL";
    assert_eq!(system.api.bed.texts(timed).await.len(), 30);
}

/// A consumer is killed while it settles: the transfer is seen as `PROCESSING`, and the next one
/// settles it.
#[tokio::test]
async fn r1_12_a_consumer_killed_in_the_middle_settles_once() {
    let system = System::new().await;
    let mut victim = system.settler(&[]).await;
    let relay = system.running_relay();
    let mut lock = system.pool().begin().await.unwrap();
    let statement = "LOCK TABLE balances IN EXCLUSIVE MODE";
    sqlx::query(statement).execute(&mut *lock).await.unwrap();
    let id = system.api.create(&transfer("user-a", "user-b", 7)).await;
    system.api.wait_status(&id, "PROCESSING").await;
    victim.signal("KILL").await;
    assert_eq!(victim.end().await, -1);
    assert_eq!(system.statuses().await, ["PROCESSING 1"]);
    lock.rollback().await.unwrap();
    let next = system.settler(&[]).await;
    system.api.wait_status(&id, "COMPLETED").await;
    wait_metric(&next, "handled_messages_total", 1).await;
    assert_eq!(system.api.balance("user-b").await, "7");
    relay.shutdown().await.unwrap();
}

/// Somebody holds what it needs for longer than a statement may take: that spends no attempt, and
/// when it is free again, everything is settled by the same consumer.
#[tokio::test]
async fn r1_12_a_consumer_that_is_held_up_goes_on_by_itself() {
    let system = System::new().await;
    let settler = system.settler(&[]).await;
    let relay = system.running_relay();
    let mut lock = system.pool().begin().await.unwrap();
    let statement = "LOCK TABLE balances IN EXCLUSIVE MODE";
    sqlx::query(statement).execute(&mut *lock).await.unwrap();
    let id = system.api.create(&transfer("user-a", "user-b", 7)).await;
    let first = waiting_since(&system, "-infinity").await;
    // Another statement than the first: that one was ended.
    waiting_since(&system, &first).await;
    lock.rollback().await.unwrap();
    system.api.wait_status(&id, "COMPLETED").await;
    wait_metric(&settler, "handled_messages_total", 1).await;
    assert_eq!(metric(&settler, "dead_lettered_total").await, 0);
    relay.shutdown().await.unwrap();
}

/// The database is gone from the network with a statement under way: no connection is closed, so
/// nothing tells the consumer. It goes on by itself.
#[tokio::test]
async fn r1_12_a_consumer_whose_database_is_gone_without_a_word_goes_on_by_itself() {
    let system = System::new().await;
    let (proxy, _) = system.api.bed.behind_proxy().await;
    let (host, port) = (proxy.address().ip().to_string(), proxy.address().port().to_string());
    let settler = system.settler(&[("DB_HOST", &host), ("DB_PORT", &port)]).await;
    let relay = system.running_relay();
    let first = system.api.create(&transfer("user-a", "user-b", 7)).await;
    system.api.wait_status(&first, "COMPLETED").await;
    let mut lock = system.pool().begin().await.unwrap();
    let statement = "LOCK TABLE balances IN EXCLUSIVE MODE";
    sqlx::query(statement).execute(&mut *lock).await.unwrap();
    let second = system.api.create(&transfer("user-a", "user-b", 7)).await;
    waiting_since(&system, "-infinity").await;
    proxy.black_hole();
    lock.rollback().await.unwrap();
    settler.poll("/readyz", |answer| answer.status == 503).await;
    proxy.heal();
    system.api.wait_status(&second, "COMPLETED").await;
    assert_eq!(system.api.balance("user-b").await, "14");
    relay.shutdown().await.unwrap();
}

/// Waits for a statement that waits for a lock and began after that; when it began.
async fn waiting_since(system: &System, after: &str) -> String {
    let sql = format!(
        "SELECT query_start::text FROM pg_stat_activity WHERE datname = current_database() \
         AND wait_event_type = 'Lock' AND query_start > '{after}'::timestamptz"
    );
    eventually("a statement that waits", async || {
        system.api.bed.texts(&sql).await.pop().ok_or("none waits")
    })
    .await
}

/// What cannot be settled is put aside with its reason and keeps nobody waiting.
#[tokio::test]
async fn r2_08_poison_becomes_a_dead_letter() {
    let system = System::new().await;
    let mut settler = system.settler(&[]).await;
    let relay = system.running_relay();
    let unknown = json!({"transactionId": Uuid::new_v4(), "fromUserId": "a", "toUserId": "b",
        "amount": 1, "description": ""});
    for (kind, payload) in [
        ("TransactionCreated", "secretive, but not JSON"),
        ("TransactionCreated", &unknown.to_string()),
        ("SomethingElse", "{}"),
    ] {
        sqlx::query(
            "INSERT INTO posthaste.outbox (topic, key, type, payload)
             VALUES ('transaction.created', 'k', $1, $2)",
        )
        .bind(kind)
        .bind(payload)
        .execute(system.pool())
        .await
        .unwrap();
    }
    let id = system.api.create(&transfer("user-a", "user-b", 7)).await;
    system.api.wait_status(&id, "COMPLETED").await;
    wait_metric(&settler, "dead_lettered_total", 3).await;
    let sql =
        "SELECT last_error FROM posthaste.inbox_dead WHERE consumer = 'settlement' ORDER BY 1";
    let errors = system.api.bed.texts(sql).await;
    for (error, part) in errors.iter().zip([
        "no handler for type `SomethingElse`",
        "the payload is no TransactionCreated",
        "there is no such transfer",
    ]) {
        assert!(error.contains(part), "{errors:#?}");
    }
    assert_eq!(errors.len(), 3, "{errors:#?}");
    assert_eq!(system.statuses().await, ["COMPLETED 1"]);
    relay.shutdown().await.unwrap();
    settler.signal("TERM").await;
    assert_eq!(settler.end().await, 0, "{}", settler.output());
    assert!(settler.log().iter().all(|line| line["level"] != "ERROR" || line["msg"] != "ended"));
    assert!(!settler.output().contains("secretive"), "{}", settler.output());
}

/// D3-31: there is a funds rule, for those who want one.
#[tokio::test]
async fn r1_12_a_transfer_beyond_the_overdraft_fails() {
    let system = System::new().await;
    let _settler = system.settler(&[("OVERDRAFT", "100")]).await;
    let relay = system.running_relay();
    let refused = system.api.create(&transfer("user-a", "user-b", 101)).await;
    system.api.wait_status(&refused, "FAILED").await;
    let settled = system.api.create(&transfer("user-a", "user-b", 100)).await;
    system.api.wait_status(&settled, "COMPLETED").await;
    assert_eq!(system.api.balance("user-a").await, "-100");
    assert_eq!(system.statuses().await, ["COMPLETED 1", "FAILED 1"]);
    relay.shutdown().await.unwrap();
}

/// D3-15, D3-19: a broker that is away is waited for, and can be stopped waiting for.
#[tokio::test]
async fn r2_11_a_consumer_waits_for_its_broker() {
    let bed = Bed::sqlite();
    // Nobody listens at a port that only the administrator may use.
    let environment = bed.with(&[("RABBIT_URL", "amqp://guest:hunter2@127.0.0.1:1")]);
    let mut settler = Program::start_with(PROGRAM, &["settle"], &environment).await;
    settler.wait_for("waiting for RabbitMQ").await;
    settler.get("/readyz").await.expect_problem(503, "not ready");
    assert_eq!(settler.get("/livez").await.status, 200);
    settler.signal("TERM").await;
    assert_eq!(settler.end().await, 0, "{}", settler.output());
    assert!(!settler.output().contains("hunter2"), "{}", settler.output());
}

/// D3-40, D3-44: what cannot be used is named with what is right, but a password is not quoted.
#[tokio::test]
async fn r4_04_what_the_consumer_cannot_use_is_named() {
    let exchange = "x".repeat(256);
    for (arguments, variables, words) in [
        (
            &["settle"][..],
            [("RABBIT_URL", "http://guest:hunter2@localhost"), ("OVERDRAFT", "-1")],
            [
                "RABBIT_URL is \"http://guest:***@localhost",
                "amqp://user:password@host",
                "OVERDRAFT is \"-1\"",
            ],
        ),
        (
            &["settle"],
            [("RABBIT_EXCHANGE", &*exchange), ("DB_PORT", "0")],
            ["RABBIT_EXCHANGE is \"xxx", "at most 255 bytes", "DB_PORT is \"0\""],
        ),
        (
            &[],
            [("SETTLEMENT", "maybe"), ("OVERDRAFT", "lots")],
            ["SETTLEMENT is \"maybe\"", "embedded or external", "OVERDRAFT is \"lots\""],
        ),
    ] {
        let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut program = Program::launch(PROGRAM, arguments, &environment);
        assert_eq!(program.end().await, 1, "{}", program.output());
        let log = program.log();
        let reason = log.last().unwrap()["reason"].as_str().unwrap();
        for word in words {
            assert!(reason.contains(word), "no {word}: {reason}");
        }
        assert!(!program.output().contains("hunter2"), "{reason}");
    }
    let mut program = Program::launch(PROGRAM, &["setle"], &[]);
    assert_eq!(program.end().await, 2);
}
