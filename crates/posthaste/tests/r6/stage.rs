//! A database and a Kafka for the example, and copies of it that run.

use std::{
    collections::{HashMap, HashSet},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use posthaste::{
    Incoming, Message, MessageId, Sharing, Start, Subscriber, Subscription, kafka, mysql::Outbox,
};
use posthaste_fixtures::{Kind, Options, Server, eventually, server};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, MySqlPool};

/// Long enough for anything that should happen at all, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a topic is listened to for what should not be there.
const SILENCE: Duration = Duration::from_millis(500);

/// One Kafka for all tests. It makes topics when asked for them, so that no client is needed that can.
fn kafka_url() -> &'static str {
    static KAFKA: OnceLock<Server> = OnceLock::new();
    let start = || {
        let setting = ("auto.create.topics.enable".to_owned(), "true".to_owned());
        let options = Options { settings: vec![setting], ..Options::default() };
        Server::private(Kind::Kafka, &options).unwrap_or_else(|error| panic!("{error:#}"))
    };
    KAFKA.get_or_init(start).url()
}

/// A database of a test's own.
pub(crate) struct Stage {
    url: String,
    pub(crate) pool: MySqlPool,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let start = || (server(Kind::MariaDb).url(), kafka_url());
        let (server, _) = tokio::task::spawn_blocking(start).await.expect("servers to test with");
        let name = format!("r6_{}", MessageId::fresh().0.simple());
        let mut connection = MySqlConnection::connect(server).await.expect("a server");
        // Not user input: the only variable part is a name made here.
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        connection.execute(create).await.expect("a database can be created");
        let url = format!("{}/{name}", server.trim_end_matches('/'));
        let pool = MySqlPool::connect(&url).await.expect("the new database");
        posthaste::migrate(&pool).await.expect("an empty database migrates");
        Self { url, pool }
    }

    pub(crate) async fn remove(self) {
        let (_, name) = self.url.rsplit_once('/').expect("a database in the URL");
        let drop = AssertSqlSafe(format!("DROP DATABASE {name}"));
        self.pool.execute(drop).await.expect("the database can be dropped");
    }

    fn example(&self) -> Command {
        // Tests build the examples of their package: this one stands two folders up.
        let tests = std::env::current_exe().expect("a path");
        let folder = tests.ancestors().nth(2).expect("a folder of the build");
        let mut command = Command::new(folder.join("examples/mysql_to_kafka"));
        command.env("DATABASE_URL", &self.url).env("KAFKA_URL", kafka_url());
        command
    }

    /// Runs the example's publisher.
    pub(crate) fn place(&self, order: &str) -> Output {
        self.example().args(["place", order]).output().expect("the example runs")
    }

    /// Starts the example's dispatcher.
    pub(crate) fn dispatcher(&self) -> Dispatcher {
        Dispatcher(self.example().stdin(Stdio::null()).spawn().expect("the example runs"))
    }

    /// Starts so many dispatchers and waits until each of them serves a part.
    pub(crate) async fn dispatchers(&self, count: i64) -> Vec<Dispatcher> {
        let all = (0..count).map(|_| self.dispatcher()).collect();
        self.until("SELECT COUNT(*) FROM posthaste_lease WHERE relay IS NOT NULL", 4).await;
        self.until("SELECT COUNT(DISTINCT relay) FROM posthaste_lease", count).await;
        all
    }

    /// Commits messages, all or none.
    pub(crate) async fn enqueue(&self, messages: &[Message]) {
        let mut tx = self.pool.begin().await.expect("a transaction");
        Outbox::new().enqueue_all(&mut tx, messages.to_vec()).await.expect("good messages");
        tx.commit().await.expect("a commit");
    }

    /// The one number a statement returns.
    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.expect("one number")
    }

    /// Waits until a statement returns this number.
    pub(crate) async fn until(&self, sql: &'static str, wanted: i64) {
        let what = format!("{wanted} from {sql}");
        eventually(&what, async || (self.number(sql).await == wanted).then_some(())).await;
    }
}

/// A copy of the example that runs; killed when dropped.
pub(crate) struct Dispatcher(Child);

impl Dispatcher {
    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", "INT", &id]).status().expect("a signal");
        assert!(sent.success(), "it still runs");
        self.0.wait().expect("it ends")
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A topic of a test's own.
pub(crate) fn topic() -> String {
    format!("r6-{}", MessageId::fresh())
}

/// Messages of a topic that are these numbers, with eight keys in turn.
pub(crate) fn numbered(topic: &str, numbers: std::ops::Range<u32>) -> Vec<Message> {
    let message = |n: u32| Message::from_bytes(topic, Some(&format!("k{}", n % 8)), n.to_string());
    numbers.map(message).collect()
}

/// Reads a topic from its beginning: until so many different messages have come, and until no more
/// do.
pub(crate) async fn arrivals(topic: &str, different: usize) -> Vec<Incoming> {
    let subscription = Subscription {
        name: None,
        topics: vec![topic.parse().expect("a pattern")],
        start: Start::Beginning,
        sharing: Sharing::Competing,
    };
    let config = kafka::Config::new(kafka_url());
    let mut consumer = kafka::subscribe(&config, &subscription).await.expect("a subscription");
    let mut seen = HashMap::new();
    let mut all = Vec::new();
    loop {
        let patience = if seen.len() < different { PATIENCE } else { SILENCE };
        let Ok(incoming) = tokio::time::timeout(patience, consumer.receive()).await else {
            assert!(seen.len() >= different, "{} of {different} messages arrive", seen.len());
            return all;
        };
        let incoming = incoming.expect("Kafka can be read");
        *seen.entry(incoming.message.id).or_insert(0) += 1;
        all.push(incoming);
    }
}

/// How long the dispatcher waits for an answer of Kafka before it sends again: nothing that took less
/// since it was enqueued was sent twice.
const ANSWER: Duration = Duration::from_secs(5);

/// Asserts that so many different messages arrived of those enqueued since `began`, and none of them
/// twice, unless an answer can have been late: a machine that stands still is allowed copies (P4).
pub(crate) fn assert_once(arrivals: &[Incoming], different: usize, began: Instant) {
    let ids: HashSet<MessageId> = arrivals.iter().map(|it| it.message.id).collect();
    assert_eq!(ids.len(), different);
    if began.elapsed() < ANSWER {
        assert_eq!(arrivals.len(), different, "none twice");
    }
}

/// Asserts that the messages of every key arrived in the order of their numbers, not counting those
/// that arrived before.
pub(crate) fn assert_order_of_keys(arrivals: &[Incoming]) {
    let mut last = HashMap::new();
    let mut seen = HashSet::new();
    for Incoming { message, .. } in arrivals.iter().filter(|one| seen.insert(one.message.id)) {
        let text = std::str::from_utf8(&message.payload).expect("a number");
        let number: u32 = text.parse().expect("a number");
        let before = last.insert(message.key.clone(), number);
        assert!(before.is_none_or(|before| before < number), "{number} came after {before:?}");
    }
}
