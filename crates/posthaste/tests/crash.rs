//! R8.03, the crash matrix: a consumer that counts and announces is killed (SIGKILL) at each named
//! point, gets its message again, and in the end has counted once and announced once, with the same
//! bytes, whatever had been sent before.

mod desk;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use posthaste::{
    Begun, Broker, BrokerError, Database, Inbox, Incoming, IntoStore, Message, MessageId, Outbox,
    Relay, TopicPattern,
};
use posthaste_core::{BrokerCapabilities, CallOrder, Delivery, Finding, Outcome};
use uuid::Uuid;

/// Where the program is killed. The variable exists in this test only.
const AT: &str = "CRASH_AT";
const POINTS: [&str; 6] = [
    "before load",
    "after handler before commit",
    "after commit before dispatch",
    "after first of two dispatches",
    "after dispatch before settling",
    "after settling before acknowledging",
];

/// Dies if this is the place.
async fn here(point: &str) {
    if std::env::var(AT).is_ok_and(|at| at == point) {
        let me = std::process::id().to_string();
        Command::new("kill").args(["-9", &me]).status().expect("kill is there");
        std::future::pending::<()>().await;
    }
}

/// A broker that keeps what it took in a file.
struct File(PathBuf);

#[async_trait]
impl Broker for File {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::Total, call_messages_max: 10 }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], _: Duration) -> Vec<Outcome> {
        let mut file = std::fs::File::options().append(true).create(true).open(&self.0);
        let file = file.as_mut().expect("the file can be opened");
        for (index, delivery) in messages.iter().enumerate() {
            let Message { id, payload, .. } = &delivery.message;
            writeln!(file, "{id} {}", String::from_utf8_lossy(payload)).expect("a line");
            file.sync_all().expect("on disk");
            if index == 0 {
                here("after first of two dispatches").await;
            }
        }
        here("after dispatch before settling").await;
        vec![Outcome::Acked; messages.len()]
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

/// The program: handles the message it is given, sends what is to be sent, acknowledges.
async fn consume<DB>(pool: DB::Pool, inbox: Inbox<DB>, incoming: &Incoming, out: &Path)
where
    DB: Database,
    DB::Pool: IntoStore,
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c>,
    for<'c> <<&'c mut DB::Connection as sqlx::Executor<'c>>::Database as sqlx::Database>::Arguments:
        sqlx::IntoArguments<<&'c mut DB::Connection as sqlx::Executor<'c>>::Database>,
{
    here("before load").await;
    if let Begun::New(mut tx) = inbox.begin(&pool, incoming).await.expect("an inbox") {
        println!("HANDLED");
        sqlx::query("UPDATE counter SET value = value + 1").execute(&mut *tx).await.expect("a row");
        // Not deterministic: every attempt would announce something else.
        let outputs =
            [1, 2].map(|n| Message::new("outputs", n, &Uuid::new_v4()).expect("a message"));
        Outbox::<DB>::new().enqueue_all(&mut tx, outputs).await.expect("enqueued");
        here("after handler before commit").await;
        let _ = tx.commit().await.expect("a commit");
    }
    here("after commit before dispatch").await;
    let relay = || {
        let broker = Arc::new(File(out.to_owned()));
        Relay::builder(pool.clone())
            .route("all", "*", broker)
            .publish_timeout(Duration::from_millis(400))
            .settings(|settings| settings.lease = Duration::from_secs(1))
            .build()
            .expect("a relay")
    };
    // The lease of the one that was killed has to run out first.
    while relay().run_once().await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    here("after settling before acknowledging").await;
    println!("ACKNOWLEDGED");
}

/// This test program again, as the program above: does nothing unless told to.
#[tokio::test]
async fn program() {
    let Ok(url) = std::env::var("CRASH_URL") else { return };
    let variable = |name| std::env::var(name).expect("told everything");
    let mut incoming = desk::placed(Uuid::nil(), 4, 3, "k");
    incoming.message.id = variable("CRASH_ID").parse::<MessageId>().expect("an id");
    let out = PathBuf::from(variable("CRASH_OUT"));
    let is_watermark = variable("CRASH_MODE") == "watermark";
    if url.starts_with("sqlite:") {
        let inbox = Inbox::new("c");
        let inbox = if is_watermark { inbox.watermark() } else { inbox };
        let pool = posthaste::sqlite::connect(&url).await.expect("a database");
        consume::<sqlx::Sqlite>(pool, inbox, &incoming, &out).await;
    } else {
        let inbox = Inbox::new("c");
        let inbox = if is_watermark { inbox.watermark() } else { inbox };
        let pool = sqlx::PgPool::connect(&url).await.expect("a database");
        consume::<sqlx::Postgres>(pool, inbox, &incoming, &out).await;
    }
}

struct Case {
    url: String,
    mode: &'static str,
    id: MessageId,
    folder: tempfile::TempDir,
}

impl Case {
    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    async fn run(&self, at: &str) -> Output {
        let output = tokio::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["program", "--exact", "--nocapture"])
            .env(AT, at)
            .env("CRASH_URL", &self.url)
            .env("CRASH_MODE", self.mode)
            .env("CRASH_ID", self.id.to_string())
            .env("CRASH_OUT", self.out())
            .output();
        output.await.expect("the program starts")
    }

    /// Killed at the point, then given its message again, then given a copy.
    async fn check(&self, point: &str, counter: impl AsyncFn() -> i64) {
        let name = format!("{} {point}", self.mode);
        let killed = self.run(point).await;
        assert!(!says(&killed, "ACKNOWLEDGED"), "{name}: killed before that: {killed:?}");
        assert_eq!(signal(&killed), Some(9), "{name}: {killed:?}");
        let again = self.run("").await;
        assert!(says(&again, "ACKNOWLEDGED"), "{name}: {again:?}");
        assert_eq!(counter().await, 1, "{name}");
        let text = std::fs::read_to_string(self.out()).expect("it announced something");
        let mut sent: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for line in text.lines() {
            let (id, payload) = line.split_once(' ').expect("id and payload");
            sent.entry(id).or_default().insert(payload);
        }
        assert_eq!(sent.len(), 2, "{name}: two announcements: {text}");
        assert!(sent.values().all(|payloads| payloads.len() == 1), "{name}: same bytes: {text}");
        let copy = self.run("").await;
        assert!(says(&copy, "ACKNOWLEDGED") && !says(&copy, "HANDLED"), "{name}: {copy:?}");
        assert_eq!(counter().await, 1, "{name}");
        let after = std::fs::read_to_string(self.out()).expect("still there");
        assert_eq!(after, text, "{name}: nothing more is sent");
    }
}

fn says(output: &Output, word: &str) -> bool {
    String::from_utf8_lossy(&output.stdout).contains(word)
}

fn signal(output: &Output) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&output.status)
}

const TABLE: &str = "CREATE TABLE counter (value BIGINT NOT NULL); INSERT INTO counter VALUES (0)";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[tokio::test]
async fn r8_03_killed_at_every_point_on_sqlite() {
    let cases = POINTS.iter().flat_map(|point| ["ids", "watermark"].map(|mode| (point, mode)));
    let cases = cases.map(|(point, mode)| async move {
        let folder = folder();
        let url = format!("sqlite:{}", folder.path().join("shop.db").display());
        let pool = posthaste::sqlite::connect(&url).await.unwrap();
        posthaste::migrate(&pool).await.unwrap();
        sqlx::raw_sql(TABLE).execute(&pool).await.unwrap();
        let case = Case { url, mode, id: MessageId::fresh(), folder };
        let counter = async || {
            sqlx::query_scalar("SELECT value FROM counter").fetch_one(&pool).await.unwrap()
        };
        case.check(point, counter).await;
    });
    futures::future::join_all(cases).await;
}

#[tokio::test]
async fn r8_03_killed_at_every_point_on_postgres() {
    let cases = POINTS.iter().flat_map(|point| ["ids", "watermark"].map(|mode| (point, mode)));
    let cases = cases.map(|(point, mode)| async move {
        let server = posthaste_fixtures::postgres();
        let url = posthaste_fixtures::fresh_database(server).await.unwrap();
        let pool = sqlx::PgPool::connect(&url).await.unwrap();
        posthaste::migrate(&pool).await.unwrap();
        sqlx::raw_sql(TABLE).execute(&pool).await.unwrap();
        let case = Case { url: url.clone(), mode, id: MessageId::fresh(), folder: folder() };
        let counter = async || {
            sqlx::query_scalar("SELECT value FROM counter").fetch_one(&pool).await.unwrap()
        };
        case.check(point, counter).await;
        pool.close().await;
        posthaste_fixtures::drop_database(server, &url).await.unwrap();
    });
    futures::future::join_all(cases).await;
}
