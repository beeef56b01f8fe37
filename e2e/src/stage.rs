//! A folder with a configuration, a file for what arrives, and the program run there.

use std::{
    cell::Cell,
    fs::{self, File, OpenOptions},
    path::PathBuf,
    process::{Command, Stdio},
};

use posthaste_fixtures::fresh_database;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection, postgres::PgConnectOptions};
use tempfile::TempDir;

use crate::{Arrivals, Ended, Running, mysql, program::program};

/// What a test starts from; `{...}` is filled in.
const CONFIG: &str = r#"
[store]
url = "{url}"

[relay]
poll = "20ms"
lease = "2s"

[http]
listen = "off"

[[broker]]
name = "out"
url = "stdout:"

[[route]]
name = "all"
topics = ["*"]
"#;

/// A database and a configuration of its own for one test.
#[derive(Debug)]
pub struct Stage {
    /// `None` once it is kept.
    folder: Option<TempDir>,
    path: PathBuf,
    url: String,
    relays: Cell<u32>,
}

impl Stage {
    /// A stage on a database that is there.
    ///
    /// # Panics
    /// When the folder cannot be made.
    #[must_use]
    pub fn on(url: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().to_owned();
        let stage = Self { folder: Some(folder), path, url: url.to_owned(), relays: Cell::new(0) };
        File::create(stage.path("arrivals")).expect("the folder can be written to");
        stage.configure(|config| config);
        stage
    }

    /// A stage on a fresh database of the server, without tables.
    ///
    /// # Panics
    /// When the server cannot be used.
    pub async fn empty(server: &str) -> Self {
        Self::on(&fresh_database(server).await.expect("the server makes databases"))
    }

    /// A stage on a fresh database of the server, with the tables.
    ///
    /// # Panics
    /// When the server cannot be used.
    pub async fn migrated(server: &str) -> Self {
        let stage = Self::empty(server).await;
        stage.run(&["migrate"]).ok();
        stage
    }

    /// The database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Leaves the folder behind, for people; returns where it is.
    pub fn keep(&mut self) -> PathBuf {
        self.folder.take().map(TempDir::keep);
        self.path.clone()
    }

    /// Changes the configuration, always starting from the same.
    ///
    /// # Panics
    /// When the folder cannot be written to.
    pub fn configure(&self, change: impl FnOnce(String) -> String) {
        let config = change(CONFIG.replace("{url}", &self.url));
        fs::write(self.path("posthaste.toml"), config).expect("the folder can be written to");
    }

    /// Connects to another database from now on.
    pub fn connect_to(&mut self, url: &str) {
        url.clone_into(&mut self.url);
        self.configure(|config| config);
    }

    /// The program, with nothing of ours in its environment.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .current_dir(&self.path)
            .env_clear()
            .env("USER", "tester")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end. What a relay delivers meanwhile is in the result, not among the
    /// arrivals.
    ///
    /// # Panics
    /// When the program cannot be run.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Ended {
        let output = self.command(arguments).output().expect("the program can be run");
        Ended::from_output(&output)
    }

    /// Starts a relay of that name; what it delivers goes to the arrivals.
    ///
    /// # Panics
    /// When the program cannot be run.
    #[must_use]
    pub fn relay(&self, name: &str) -> Running {
        let number = self.relays.get();
        self.relays.set(number + 1);
        let arrivals = OpenOptions::new().append(true).open(self.path("arrivals"));
        let arrivals = arrivals.expect("the file was made with the stage");
        let mut command = self.command(&["relay"]);
        command.env("POSTHASTE_RELAY__NAME", name).stdout(arrivals);
        Running::start(&mut command, self.path(&format!("relay-{number}.log")))
    }

    /// What arrives here, from the beginning.
    ///
    /// # Panics
    /// When the file cannot be opened.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        Arrivals::open(&self.path("arrivals"))
    }

    /// What `posthaste status --json` says.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    pub fn status(&self) -> Value {
        let out = self.run(&["status", "--json"]).ok();
        serde_json::from_str(&out).expect("it prints one JSON object")
    }

    /// Runs SQL in the database, as its owner.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn sql(&self, sql: &str) {
        execute(&self.url, sql).await;
    }
}

/// Runs SQL in the database of the URL, whichever it is.
///
/// # Panics
/// When the database refuses.
pub async fn execute(url: &str, sql: &str) {
    match url.split(':').next() {
        Some("mysql") => mysql(url, sql).await.expect("the server takes it"),
        Some("sqlite") => {
            let mut file = SqliteConnection::connect(url).await.expect("the file is there");
            // Not user input: tests write it.
            let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut file).await;
            done.unwrap_or_else(|error| panic!("{sql}: {error}"));
            file.close().await.expect("the file can be closed");
        }
        _ => execute_postgres(url, sql).await,
    }
}

async fn execute_postgres(url: &str, sql: &str) {
    // A pooler may sit in between, and refuses what the driver says about numbers.
    let options: PgConnectOptions = url.parse().expect("the URL is right");
    let options = options.extra_float_digits(None);
    let connection = PgConnection::connect_with(&options).await;
    let mut connection = connection.expect("the server is there");
    // Not user input: tests write it.
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    connection.close().await.expect("the server answers");
}
