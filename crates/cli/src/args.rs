//! The command line, declared once: help, usage errors and values all come from here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use posthaste_core::MessageId;
use uuid::Uuid;

use crate::version;

/// A transactional outbox: what your database committed reaches your broker, in order, and nothing
/// else does.
#[derive(Debug, Parser)]
#[command(
    name = "posthaste",
    version = version::SHORT,
    long_version = version::LONG.as_str(),
    max_term_width = 100,
    after_help = EXAMPLES
)]
pub(crate) struct Cli {
    /// Configuration file [default: ./posthaste.toml, if it is there]
    #[arg(long, short, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The database, whatever the configuration says. On a shared machine prefer
    /// POSTHASTE_STORE__URL: others can see flags
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// What to do
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  posthaste demo                                        see it work, without anything installed
  posthaste migrate --store sqlite:outbox.db            create the tables
  posthaste send --topic orders --key 42 --payload '{}' enqueue a message
  posthaste relay                                       deliver, until Ctrl-C
  posthaste status --watch                              who is behind, who is stuck
  posthaste listen orders                               what consumers get
  posthaste verify orders                               does it keep its promises here?
  posthaste dead list --route orders                    what was given up, and why

Exit codes: 0 done, 1 failed or the answer is no, 2 usage, 3 not found, 4 needs --yes,
  69 database or broker unreachable, 77 denied, 78 configuration invalid,
  130 and 143 a second Ctrl-C or SIGTERM.";

/// Everything the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show it at work: a database, a relay and a consumer in this process
    Demo(DemoArgs),
    /// Deliver messages until told to stop
    Relay(RelayArgs),
    /// Create or update the tables
    Migrate(MigrateArgs),
    /// Routes, lag, dead letters and relays at a glance
    Status(StatusArgs),
    /// Look at messages that were given up, send them again, or let them go
    #[command(subcommand)]
    Dead(DeadCommand),
    /// What consumers have handled, and sources that were restored from a backup
    #[command(subcommand)]
    Inbox(InboxCommand),
    /// Enqueue a message
    Send(SendArgs),
    /// Check or show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print what a route delivers, as its broker hands it to consumers
    Listen(ListenArgs),
    /// Send numbered probes through a route and read them back: lost, repeated, reordered, latency
    Verify(VerifyArgs),
    /// Look for trouble: configuration, database, brokers, lag; every finding with its fix
    Doctor(DoctorArgs),
    /// What an error code means and what to do
    Explain(ExplainArgs),
}

/// `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Give the consumer a bug that loses one message: the verdict must fail, with exit code 1
    #[arg(long)]
    pub(crate) sabotage: bool,
    /// How long to run
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
}

/// `relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  posthaste relay
  posthaste relay --once    deliver what is there, then exit: for cron and for tests

SIGINT or SIGTERM stops it in order; a second one at once.")]
pub(crate) struct RelayArgs {
    /// Exit when everything committed so far is delivered or parked
    #[arg(long)]
    pub(crate) once: bool,
}

/// `migrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  posthaste migrate
  posthaste migrate --print postgres > migrations/0042_posthaste.sql")]
pub(crate) struct MigrateArgs {
    /// Print the SQL instead of running it, for another migration tool [default: as the store]
    #[arg(long, value_name = "DIALECT", num_args = 0..=1, conflicts_with = "adopt")]
    pub(crate) print: Option<Option<Dialect>>,
    /// Continue with data restored from a backup; on PostgreSQL messages around the time of the backup
    /// are sent again
    #[arg(long)]
    pub(crate) adopt: bool,
}

/// A kind of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// PostgreSQL
    Postgres,
    /// MySQL and MariaDB
    Mysql,
    /// SQLite
    Sqlite,
}

/// `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Again every second, until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `dead`.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead letters, oldest first
    List(DeadListArgs),
    /// Show everything about a message, its payload included
    Show(DeadShowArgs),
    /// Send dead letters again, in order, with their ids
    Redrive(RedriveArgs),
    /// Give dead letters up for good
    Discard(DiscardArgs),
}

/// Which dead letters are meant.
#[derive(Debug, Default, Args)]
pub(crate) struct Filter {
    /// Of this route
    #[arg(long)]
    pub(crate) route: Option<String>,
    /// Of this consumer: what its handler could not handle
    #[arg(long, conflicts_with = "route")]
    pub(crate) consumer: Option<String>,
    /// Of this topic
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// Whose latest error is of this class
    #[arg(long)]
    pub(crate) class: Option<String>,
}

impl Filter {
    /// Whether it leaves nothing out.
    pub(crate) fn is_any(&self) -> bool {
        [&self.route, &self.consumer, &self.topic, &self.class].iter().all(|it| it.is_none())
    }
}

/// `dead list`.
#[derive(Debug, Args)]
pub(crate) struct DeadListArgs {
    /// Which ones
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Messages of routes that are still retrying, instead of dead letters
    #[arg(long, conflicts_with = "consumer")]
    pub(crate) retrying: bool,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `dead show`.
#[derive(Debug, Args)]
pub(crate) struct DeadShowArgs {
    /// Its id
    pub(crate) id: MessageId,
    /// One JSON object a line, one for each route it failed on
    #[arg(long)]
    pub(crate) json: bool,
}

/// What redrive and discard share.
#[derive(Debug, Args)]
pub(crate) struct DeadAct {
    /// These messages
    pub(crate) ids: Vec<MessageId>,
    /// Which ones
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// All of them
    #[arg(long)]
    pub(crate) all: bool,
    /// Who decides; it is kept with the message [default: $USER]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) by: Option<String>,
    /// Only say what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// `dead redrive`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  posthaste dead redrive 0199c0de-0000-7000-8000-000000000000
  posthaste dead redrive --route orders --class unroutable --yes")]
pub(crate) struct RedriveArgs {
    /// Which, and by whom
    #[command(flatten)]
    pub(crate) act: DeadAct,
}

/// `dead discard`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  posthaste dead discard --route orders --topic orders.test --why 'test data' --by ann
  posthaste dead discard --route orders --retrying --why 'route removed' --by ann")]
pub(crate) struct DiscardArgs {
    /// Which, and by whom
    #[command(flatten)]
    pub(crate) act: DeadAct,
    /// Messages of routes that are still retrying, instead of dead letters
    #[arg(long, conflicts_with = "consumer")]
    pub(crate) retrying: bool,
    /// The reason; it is kept with the message
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) why: String,
}

/// `inbox`.
#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// Consumers: ids and watermarks kept, reorderings, dead letters
    Status(InboxStatusArgs),
    /// Let a consumer go on with a source that was restored from a backup
    Adopt(InboxAdoptArgs),
}

/// `inbox status`.
#[derive(Debug, Args)]
pub(crate) struct InboxStatusArgs {
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `inbox adopt`.
#[derive(Debug, Args)]
pub(crate) struct InboxAdoptArgs {
    /// The consumer that stopped with PH-3003 or PH-3004
    #[arg(long)]
    pub(crate) consumer: String,
    /// The source its messages come from
    #[arg(long)]
    pub(crate) source: String,
    /// The log that the error names
    #[arg(long)]
    pub(crate) log: Uuid,
    /// Forget what the consumer handled of this log: its positions are handed out a second time (PH-3004)
    #[arg(long)]
    pub(crate) again: bool,
    /// Who decides; it is kept [default: $USER]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) by: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// `send`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  posthaste send --topic orders --key 42 --type OrderPlaced --payload '{\"total\": 12}'
  cat invoice.pdf | posthaste send --topic invoices --content-type application/pdf")]
pub(crate) struct SendArgs {
    /// Where it should go
    #[arg(long)]
    pub(crate) topic: String,
    /// What it is ordered by
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// What happened
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// A header; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// Media type of the payload
    #[arg(long, default_value = "application/json")]
    pub(crate) content_type: String,
    /// The payload [default: standard input]
    #[arg(long, conflicts_with = "file")]
    pub(crate) payload: Option<String>,
    /// A file that holds the payload
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
    /// Send it so many times, each with its own id
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report everything that is wrong; exits with 0 or 78
    Check,
    /// Print every effective value and where it comes from, secrets left out
    Show(ConfigShowArgs),
}

/// `config show`.
#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `listen`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  posthaste listen orders
  posthaste listen orders --json --count 1

Where a listener counts as a receiver (RabbitMQ, MQTT, webhooks, TCP) a message that only the listener
gets is delivered, and nobody else will get it: there `--as-receiver` must be given.")]
pub(crate) struct ListenArgs {
    /// The route
    pub(crate) route: String,
    /// Accept that messages which only this listener gets count as delivered
    #[arg(long)]
    pub(crate) as_receiver: bool,
    /// Start with everything the broker still has, where it keeps anything
    #[arg(long)]
    pub(crate) from_beginning: bool,
    /// End after so many messages [default: Ctrl-C]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// One JSON object a line, payloads whole
    #[arg(long)]
    pub(crate) json: bool,
}

/// `verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Probes are real messages: consumers of the topic see them. Exit code 1 if anything was lost or
reordered.

Examples:
  posthaste verify orders --topic orders.probe
  posthaste verify all --count 100000 --keys 1000 --json")]
pub(crate) struct VerifyArgs {
    /// The route
    pub(crate) route: String,
    /// Topic of the probes [default: posthaste.verify]
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// Accept that other messages of `--topic` which only this command gets count as delivered
    #[arg(long)]
    pub(crate) as_receiver: bool,
    /// How many probes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// How many keys they have
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keys: u32,
    /// How long to wait for them after the last was sent
    #[arg(long, default_value = "30s")]
    pub(crate) timeout: humantime::Duration,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, such as PH-1003 [default: list all of them]
    pub(crate) code: Option<String>,
}
