//! Starts the processes of the system with their configuration, and knows their addresses.

use std::{fs, path::Path, time::Duration};

use anyhow::Context;
use posthaste_fixtures::{Durability, Kind, Postgres, Server, fresh_database};
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use tokio::{process::Command, task::spawn_blocking};

use crate::{Client, Process, eventually, folder::Folder, programs::Programs};

/// The exchange of each service's events.
pub(crate) const EXCHANGE: &str = "transaction.events";
const USERS_EXCHANGE: &str = "user.events";

/// Its tables are new, and grow from nothing to thousands of rows within seconds. Without
/// statistics, which a server gathers every minute unless told otherwise, inboxes are read from end
/// to end.
const STATISTICS: &str = "-c autovacuum_naptime=5s";

/// How a system differs from the usual one.
#[derive(Clone, Debug)]
pub struct Options {
    /// Relays for each service, at least 1. There are as many shards, so that all of them work.
    pub relays: u16,
    /// How long a relay that is killed keeps others from its shards.
    pub lease: Duration,
    /// Most messages of a shard on their way to the broker at once.
    pub in_flight: u32,
    /// How far below zero a sender may go, in minor units; any distance where there is none.
    pub overdraft: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { relays: 2, lease: Duration::from_secs(10), in_flight: 1024, overdraft: None }
    }
}

/// Everything, running. Dropping it ends everything at once; [`stop`](Self::stop) does it in order.
///
/// Processes come first here, because fields are dropped in this order: a server is the last to go.
#[derive(Debug)]
pub struct System {
    relays: Vec<Process>,
    users_relays: Vec<Process>,
    settlement: Process,
    listener: Process,
    transactions_api: Process,
    users_api: Process,
    transactions: String,
    users: String,
    settlement_url: String,
    database: String,
    /// Relays of the transfers there have been, and consumers: each has a name, and a log, of its
    /// own.
    relays_started: usize,
    settlements_started: usize,
    programs: Programs,
    options: Options,
    postgres: Postgres,
    rabbitmq: Server,
    folder: Folder,
}

impl System {
    /// Builds the programs where that is needed, starts everything, and waits until it can be used.
    /// `say` is told of every step.
    ///
    /// # Errors
    /// When something cannot be built or started. Then nothing is left running.
    pub async fn start(options: &Options, mut say: impl FnMut(&str)) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let path = folder.path().to_owned();
        let programs = spawn_blocking(move || Programs::take(&path)).await??;
        let (postgres, rabbitmq) = servers().await?;
        say(&format!("PostgreSQL    {}", postgres.url()));
        say(&format!("RabbitMQ      {}", rabbitmq.url()));
        let database = fresh_database(postgres.url()).await?;
        let users_database = fresh_database(postgres.url()).await?;
        let relay = |name, url: &str, exchange| {
            let config = configuration(options, url, rabbitmq.url(), name, exchange);
            fs::write(folder.path().join(format!("{name}.toml")), config)
        };
        relay("transactions", &database, EXCHANGE)?;
        relay("users", &users_database, USERS_EXCHANGE)?;

        let launch = Launch { programs: &programs, folder: folder.path(), options };
        let transactions_api = launch.api(&programs.transactions, "transactions", &database)?;
        let users_api = launch.api(&programs.users, "users", &users_database)?;
        let settlement = launch.settlement(0, &database, rabbitmq.url())?;
        let transactions = transactions_api.url().await?;
        let users = users_api.url().await?;
        let settlement_url = settlement.url().await?;
        // Before any relay: events that no queue waits for would be refused.
        for (process, url) in [
            (&transactions_api, &transactions),
            (&users_api, &users),
            (&settlement, &settlement_url),
        ] {
            ready(process, url).await?;
        }
        let listener = launch.listener()?;
        listener.wait_log("listening to route", 0).await?;
        let relays = launch.relays("transactions")?;
        let users_relays = launch.relays("users")?;
        running(&relays).await?;
        running(&users_relays).await?;
        say(&format!("transfers     {transactions}/swagger/"));
        say(&format!("users         {users}/swagger/"));
        say(&format!("settlement    {settlement_url}/metrics"));
        say(&format!("relays        {} for transfers, {0} for users", options.relays));
        Ok(Self {
            relays,
            users_relays,
            settlement,
            listener,
            transactions_api,
            users_api,
            transactions,
            users,
            settlement_url,
            database,
            relays_started: usize::from(options.relays),
            settlements_started: 0,
            programs,
            options: options.clone(),
            postgres,
            rabbitmq,
            folder,
        })
    }

    /// The base URL of the transfers API.
    #[must_use]
    pub fn transactions(&self) -> &str {
        &self.transactions
    }

    /// The base URL of the users API.
    #[must_use]
    pub fn users(&self) -> &str {
        &self.users
    }

    /// The base URL of the consumer's health and metrics.
    #[must_use]
    pub fn settlement(&self) -> &str {
        &self.settlement_url
    }

    /// The URL of the transfers' database.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The database server.
    #[must_use]
    pub fn postgres(&self) -> &Postgres {
        &self.postgres
    }

    /// The broker.
    #[must_use]
    pub fn rabbitmq(&self) -> &Server {
        &self.rabbitmq
    }

    /// Where logs and configurations are, as long as it runs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The relays of the transfers that run.
    #[must_use]
    pub fn relays(&self) -> &[Process] {
        &self.relays
    }

    /// What prints the events of users that arrive.
    #[must_use]
    pub fn users_listener(&self) -> &Process {
        &self.listener
    }

    /// Takes a relay of the transfers away; what becomes of it is up to the caller.
    ///
    /// # Panics
    /// When there is none of that index.
    pub fn take_relay(&mut self, index: usize) -> Process {
        self.relays.remove(index)
    }

    /// Starts relays of the transfers until there are as many as at the start.
    ///
    /// # Errors
    /// When one cannot be run.
    pub fn restore_relays(&mut self) -> anyhow::Result<()> {
        while self.relays.len() < usize::from(self.options.relays) {
            let number = self.relays_started;
            let relay = self.launch().relay("transactions", number)?;
            self.relays_started += 1;
            self.relays.push(relay);
        }
        Ok(())
    }

    /// Waits until relays of the transfers obey signals.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn wait_relays(&self) -> anyhow::Result<()> {
        running(&self.relays).await
    }

    /// Kills the consumer, as the worst of crashes, and starts another, which is waited for.
    ///
    /// # Errors
    /// When that is not possible.
    pub async fn replace_settlement(&mut self) -> anyhow::Result<()> {
        self.settlement.signal("KILL")?;
        self.settlements_started += 1;
        let number = self.settlements_started;
        self.settlement = self.launch().settlement(number, &self.database, self.rabbitmq.url())?;
        self.settlement_url = self.settlement.url().await?;
        ready(&self.settlement, &self.settlement_url).await
    }

    /// What `posthaste status --json` says of the transfers' outbox.
    ///
    /// # Errors
    /// When it fails.
    pub async fn status(&self) -> anyhow::Result<Value> {
        let output = Command::new(&self.programs.posthaste)
            .args(["status", "--json", "--config", "transactions.toml"])
            .current_dir(self.folder.path())
            .env_clear()
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).with_context(|| format!("posthaste status: {said}"))
    }

    /// Ends everything in order: relays and consumers first, so that nothing is left half done.
    ///
    /// # Errors
    /// When something had ended before, or did not end well.
    pub async fn stop(self) -> anyhow::Result<()> {
        let Self { relays, users_relays, settlement, transactions_api, users_api, .. } = self;
        let relays = relays.into_iter().chain(users_relays);
        // What prints events only reads: it goes with the rest.
        for process in relays.chain([settlement, transactions_api, users_api]) {
            let name = process.name().to_owned();
            let code = process.end("TERM").await?;
            anyhow::ensure!(code == 0, "{name} ended with code {code}");
        }
        Ok(())
    }

    fn launch(&self) -> Launch<'_> {
        Launch { programs: &self.programs, folder: self.folder.path(), options: &self.options }
    }
}

/// Both servers at once: each takes seconds.
async fn servers() -> anyhow::Result<(Postgres, Server)> {
    let postgres = spawn_blocking(|| Postgres::private_with(Durability::Durable, STATISTICS));
    let rabbitmq = spawn_blocking(|| Server::private(Kind::RabbitMq, &Default::default()));
    Ok((postgres.await??, rabbitmq.await??))
}

/// Relays obey signals from here on.
async fn running(relays: &[Process]) -> anyhow::Result<()> {
    for relay in relays {
        relay.wait_log("relay started", 0).await?;
    }
    Ok(())
}

async fn ready(process: &Process, url: &str) -> anyhow::Result<()> {
    let url = format!("{url}/readyz");
    let http = Client::http()?;
    let is_ready = eventually(&url, async || {
        let answer = http.get(&url).send().await;
        Ok(answer.is_ok_and(|answer| answer.status().is_success()).then_some(()))
    });
    is_ready.await.with_context(|| format!("{} says:\n{}", process.name(), process.log_end()))
}

/// The relays' configuration.
fn configuration(
    options: &Options,
    store: &str,
    broker: &str,
    name: &str,
    exchange: &str,
) -> String {
    let Options { relays, lease, in_flight, .. } = options;
    let lease = lease.as_millis();
    // Topics of transfers start with `transaction.`, those of users with `user.`.
    let topic = name.trim_end_matches('s');
    format!(
        r#"[store]
url = "{store}"

[relay]
lease = "{lease}ms"

[http]
listen = "off"

[log]
format = "json"

[[broker]]
name = "rabbit"
url = "{broker}"
exchange = "{exchange}"

[[route]]
name = "{name}"
topics = ["{topic}.*"]
shards = {relays}
in_flight = {in_flight}
"#
    )
}

/// What is needed to start a process.
struct Launch<'a> {
    programs: &'a Programs,
    folder: &'a Path,
    options: &'a Options,
}

impl Launch<'_> {
    fn api(&self, program: &Path, name: &str, database: &str) -> anyhow::Result<Process> {
        Process::start(name, program, &[], &environment(database)?, self.folder)
    }

    fn settlement(&self, number: usize, database: &str, broker: &str) -> anyhow::Result<Process> {
        let mut environment = environment(database)?;
        environment.push(("RABBIT_URL".to_owned(), broker.to_owned()));
        environment.push(("RABBIT_EXCHANGE".to_owned(), EXCHANGE.to_owned()));
        if let Some(overdraft) = self.options.overdraft {
            environment.push(("OVERDRAFT".to_owned(), overdraft.to_string()));
        }
        let program = &self.programs.transactions;
        Process::start(
            &format!("settlement-{number}"),
            program,
            &["settle"],
            &environment,
            self.folder,
        )
    }

    /// The services have no consumer of users' events: this one shows them.
    fn listener(&self) -> anyhow::Result<Process> {
        // Nobody else consumes these events here.
        let arguments = ["listen", "users", "--json", "--as-receiver", "--config", "users.toml"];
        Process::start("users-events", &self.programs.posthaste, &arguments, &[], self.folder)
    }

    fn relays(&self, of: &str) -> anyhow::Result<Vec<Process>> {
        (0..usize::from(self.options.relays)).map(|number| self.relay(of, number)).collect()
    }

    fn relay(&self, of: &str, number: usize) -> anyhow::Result<Process> {
        let name = format!("{of}-relay-{number}");
        let config = format!("{of}.toml");
        let environment = [("POSTHASTE_RELAY__NAME".to_owned(), name.clone())];
        let arguments = ["relay", "--config", &config];
        Process::start(&name, &self.programs.posthaste, &arguments, &environment, self.folder)
    }
}

/// A service's variables: its database, and any free port.
fn environment(database: &str) -> anyhow::Result<Vec<(String, String)>> {
    let options: PgConnectOptions = database.parse()?;
    let port = options.get_port().to_string();
    let variables = [
        ("SERVER_PORT", "0"),
        ("DB_HOST", options.get_host()),
        ("DB_PORT", &port),
        ("DB_USER", options.get_username()),
        ("DB_NAME", options.get_database().unwrap_or_default()),
    ];
    Ok(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
}
