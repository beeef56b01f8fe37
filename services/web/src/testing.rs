//! For the services' own tests: the built program as a black box, on a database of its own.

use std::{
    fmt::Debug,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, Once, PoisonError},
    time::Duration,
};

use posthaste_fixtures::Proxy;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool, SqlitePool, postgres::PgConnectOptions};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::watch,
    time::{sleep, timeout},
};

/// Longest wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two questions that wait for the same answer.
const PAUSE: Duration = Duration::from_millis(20);

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body.
    pub text: String,
}

impl Answer {
    /// The answer to a request.
    ///
    /// # Errors
    /// When there is none.
    pub async fn to(request: RequestBuilder) -> reqwest::Result<Self> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Self { status, headers, text: response.text().await? })
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// A header, empty where there is none.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Panics unless it is an error in our form, of that status and with that title.
    ///
    /// # Panics
    /// That is what it is for.
    #[track_caller]
    pub fn expect_problem(&self, status: u16, title: &str) {
        assert_eq!(self.status, status, "{self:#?}");
        assert_eq!(self.header("content-type"), "application/json", "{self:#?}");
        let body = self.json();
        assert_eq!(body["title"], title, "{self:#?}");
        assert_eq!(body["status"], status, "{self:#?}");
        assert!(body["instance"].as_str().is_some_and(|text| text.starts_with('/')), "{self:#?}");
    }
}

/// A program that runs, killed when dropped.
pub struct Program {
    child: Child,
    /// What it has written to standard output so far.
    lines: Arc<Mutex<Vec<String>>>,
    /// Changes with every line; ends with the output.
    news: watch::Receiver<()>,
    /// Where it listens, once it does.
    pub url: String,
    client: Client,
}

impl Program {
    /// Starts it with this environment and no other, on any free port, and waits until it listens.
    ///
    /// # Panics
    /// When it does not.
    pub async fn start(path: &str, environment: &[(String, String)]) -> Self {
        Self::start_with(path, &[], environment).await
    }

    /// The same with arguments.
    ///
    /// # Panics
    /// When it does not listen.
    pub async fn start_with(
        path: &str,
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        let mut program = Self::launch(path, arguments, environment);
        let line = program.wait_for("listening").await;
        program.url = format!("http://{}", line["address"].as_str().expect("an address"));
        program
    }

    /// Starts it and waits for nothing.
    ///
    /// # Panics
    /// When it cannot be run.
    #[must_use]
    pub fn launch(path: &str, arguments: &[&str], environment: &[(String, String)]) -> Self {
        let mut child = Command::new(path)
            .args(arguments)
            .env_clear()
            .env("SERVER_PORT", "0")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program can be run");
        let output = child.stdout.take().expect("standard output is piped");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (sender, news) = watch::channel(());
        let kept = lines.clone();
        tokio::spawn(async move {
            let mut output = BufReader::new(output).lines();
            while let Ok(Some(line)) = output.next_line().await {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                sender.send_replace(());
            }
        });
        Self { child, lines, news, url: String::new(), client: client() }
    }

    /// Everything it has written so far.
    #[must_use]
    pub fn output(&self) -> String {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }

    /// Every line as the JSON it must be.
    ///
    /// # Panics
    /// When a line is none, or lacks what every line has.
    #[must_use]
    pub fn log(&self) -> Vec<Value> {
        let read = |line: &str| {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            for name in ["time", "level", "msg"] {
                assert!(value[name].is_string(), "no {name}: {line}");
            }
            value
        };
        self.output().lines().map(read).collect()
    }

    /// Waits for a line of the log with that message.
    ///
    /// # Panics
    /// When there is none in time.
    pub async fn wait_for(&mut self, message: &str) -> Value {
        let found = async {
            loop {
                self.news.mark_unchanged();
                let line = self.log().into_iter().find(|line| line["msg"] == message);
                if line.is_some() || self.news.changed().await.is_err() {
                    return line;
                }
            }
        };
        let found = timeout(PATIENCE, found).await.ok().flatten();
        found.unwrap_or_else(|| panic!("no line {message:?}: {}", self.output()))
    }

    /// A request to it.
    ///
    /// # Panics
    /// When that is no method.
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// The answer to GET.
    ///
    /// # Panics
    /// When there is none.
    pub async fn get(&self, path: &str) -> Answer {
        Answer::to(self.request("GET", path)).await.expect("an answer")
    }

    /// The answer to POST with a body that says it is JSON.
    ///
    /// # Panics
    /// When there is none.
    pub async fn post(&self, path: &str, body: impl Into<String>) -> Answer {
        let request = self.request("POST", path).header("content-type", "application/json");
        Answer::to(request.body(body.into())).await.expect("an answer")
    }

    /// Asks until the answer is right.
    ///
    /// # Panics
    /// When it is not in time.
    pub async fn poll(&self, path: &str, is_right: impl Fn(&Answer) -> bool) -> Answer {
        eventually(path, async || {
            let answer = self.get(path).await;
            if is_right(&answer) { Ok(answer) } else { Err(answer) }
        })
        .await
    }

    /// Its process.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When that is not possible.
    pub async fn signal(&self, name: &str) {
        let id = self.process_id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status().await;
        assert!(status.expect("kill can be run").success());
    }

    /// Waits for its end. Its exit code, -1 for a signal.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn end(&mut self) -> i32 {
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends");
        let rest = async { while self.news.changed().await.is_ok() {} };
        timeout(PATIENCE, rest).await.expect("its output ends");
        status.expect("its status").code().unwrap_or(-1)
    }
}

/// Tries until it succeeds.
///
/// # Panics
/// When that takes too long, with the last failure.
pub async fn eventually<T, E: Debug>(
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) if tokio::time::Instant::now() > deadline => {
                panic!("{what}: still {error:#?}")
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// A client that keeps connections, speaks to this machine and needs no proxy.
fn client() -> Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Somebody else's is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client")
}

/// A database of a test's own, and the variables that name it.
pub struct Bed {
    /// For the program.
    pub environment: Vec<(String, String)>,
    /// For looking inside.
    pub pool: Pool,
    /// Holds the file.
    _folder: TempDir,
}

/// A pool to look inside with.
pub enum Pool {
    /// PostgreSQL.
    Postgres(PgPool),
    /// A file; opened at the first question, for it is the program that makes it.
    Sqlite(PathBuf),
}

impl Bed {
    /// A new database on the tests' PostgreSQL.
    ///
    /// # Panics
    /// When there is none to be had.
    pub async fn postgres() -> Self {
        Self::postgres_at(posthaste_fixtures::postgres()).await
    }

    /// A new database on that server.
    ///
    /// # Panics
    /// When it cannot be made.
    pub async fn postgres_at(server: &str) -> Self {
        let url = posthaste_fixtures::fresh_database(server).await.expect("a database");
        let options: PgConnectOptions = url.parse().expect("a URL");
        let password = url.split('@').next().and_then(|login| login.split(':').nth(2));
        let environment = pairs(&[
            ("DB_HOST", options.get_host()),
            ("DB_PORT", &options.get_port().to_string()),
            ("DB_USER", options.get_username()),
            ("DB_PASSWORD", password.unwrap_or_default()),
            ("DB_NAME", options.get_database().unwrap_or_default()),
        ]);
        let pool = PgPool::connect_lazy_with(options.application_name("test"));
        Self { environment, pool: Pool::Postgres(pool), _folder: folder() }
    }

    /// A file that is not there yet.
    ///
    /// # Panics
    /// When there is no place for it.
    #[must_use]
    pub fn sqlite() -> Self {
        let folder = folder();
        let file = folder.path().join("service.db");
        let environment = pairs(&[("SQLITE_FILE", &file.display().to_string())]);
        Self { environment, pool: Pool::Sqlite(file), _folder: folder }
    }

    /// The environment with more variables.
    #[must_use]
    pub fn with(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut environment = self.environment.clone();
        environment.extend(pairs(more));
        environment
    }

    /// A proxy in front of the server, and the environment that leads there.
    ///
    /// # Panics
    /// When it is no server.
    pub async fn behind_proxy(&self) -> (Proxy, Vec<(String, String)>) {
        let Pool::Postgres(pool) = &self.pool else { panic!("a file is behind no proxy") };
        let options = pool.connect_options();
        let server = format!("{}:{}", options.get_host(), options.get_port());
        let proxy = Proxy::start(&server).await.expect("a proxy");
        let (host, port) = (proxy.address().ip().to_string(), proxy.address().port().to_string());
        let environment = self.with(&[("DB_HOST", &host), ("DB_PORT", &port)]);
        (proxy, environment)
    }

    /// What this database calls the outbox.
    #[must_use]
    pub fn outbox(&self) -> &'static str {
        match self.pool {
            Pool::Postgres(_) => "posthaste.outbox",
            Pool::Sqlite(_) => "posthaste_outbox",
        }
    }

    /// The rows of a table.
    pub async fn count(&self, table: &str) -> usize {
        self.texts(&format!("SELECT 'row' FROM {table}")).await.len()
    }

    /// The texts of a statement's first column.
    ///
    /// # Panics
    /// When it fails.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        match &self.pool {
            Pool::Postgres(pool) => {
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(pool).await.expect("rows")
            }
            Pool::Sqlite(_) => {
                let pool = self.file().await;
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&pool).await.expect("rows")
            }
        }
    }

    /// Runs statements.
    ///
    /// # Panics
    /// When they fail.
    pub async fn execute(&self, sql: &str) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        match &self.pool {
            Pool::Postgres(pool) => drop(sql.execute(pool).await.expect("executed")),
            Pool::Sqlite(_) => drop(sql.execute(&self.file().await).await.expect("executed")),
        }
    }

    async fn file(&self) -> SqlitePool {
        let Pool::Sqlite(file) = &self.pool else { unreachable!("only asked for a file") };
        crate::database::sqlite(file).await.expect("the file opens")
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// The version of schemathesis that judges the API, from PyPI.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Runs schemathesis, which makes requests from the API's description, right ones and wrong ones, and
/// compares the answers with it. It is installed into a folder of its own at the first time.
///
/// # Panics
/// When it finds a difference, or cannot be had.
pub async fn expect_schemathesis(program: &Program, cache: &str) {
    let home = PathBuf::from(cache).join(SCHEMATHESIS.replace("==", "-"));
    let done = home.join("installed");
    // Two test programs may want it at once.
    let lock =
        std::fs::File::create(home.with_extension("lock")).expect("the cache can be written");
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock));
    let lock = lock.await.expect("a lock does not panic").expect("the cache can be locked");
    if !done.exists() {
        let pip = home.join("bin/pip").display().to_string();
        let home = home.display().to_string();
        let advice = "needs python3 with venv and a connection to PyPI";
        let venv = ["-m", "venv", "--clear", &home];
        expect_success("python3", &venv, cache, advice).await;
        expect_success(&pip, &["install", "--quiet", SCHEMATHESIS], cache, advice).await;
        std::fs::write(&done, "").expect("the cache can be written");
    }
    drop(lock);
    let document = format!("{}/swagger/doc.json", program.url);
    // That two users must differ, or an address be free, no schema can say.
    let arguments = [
        "run",
        &document,
        "--exclude-checks",
        "positive_data_acceptance",
        "--max-examples",
        "30",
        "--seed",
        "3",
        "--generation-database",
        "none",
        "--no-color",
    ];
    let schemathesis = home.join("bin/schemathesis").display().to_string();
    expect_success(&schemathesis, &arguments, cache, "the API differs from its description").await;
}

async fn expect_success(command: &str, arguments: &[&str], folder: &str, advice: &str) {
    let output = Command::new(command)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap_or_else(|error| panic!("{command}: {error}; {advice}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{command} {arguments:?}: {advice}\n{said}");
}
