//! The command line, declared once: help, usage errors and values all come from here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use posthaste_core::MessageId;
use uuid::Uuid;

use crate::version;

/// A transactional outbox: delivers every message that your database committed to your broker, in
/// order per key
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

    /// URL of the database; overrides the configuration. On a shared machine prefer
    /// POSTHASTE_STORE__URL: other users can see flags
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// The command
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  posthaste demo                                        show the pattern in one process
  posthaste migrate --store sqlite:outbox.db            create the tables
  posthaste send --topic orders --key 42 --payload '{}' enqueue a message
  posthaste relay                                       deliver messages until Ctrl-C
  posthaste status --watch                              routes, lag, dead letters, relays
  posthaste listen orders                               print the messages that consumers get
  posthaste verify orders                               test delivery with numbered probes
  posthaste dead list --route orders                    dead letters and their errors

Exit codes: 0 done, 1 failed or the answer is no, 2 usage, 3 not found, 4 needs --yes,
  69 database or broker unreachable, 77 denied, 78 configuration invalid,
  130 and 143 a second Ctrl-C or SIGTERM.";

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the pattern at work: a database, a relay and a consumer in one process
    Demo(DemoArgs),
    /// Deliver messages until told to stop
    Relay(RelayArgs),
    /// Create or update the tables
    Migrate(MigrateArgs),
    /// Show routes, lag, dead letters and relays
    Status(StatusArgs),
    /// List, show, redrive or discard dead letters
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Show the inbox of consumers, or adopt a source that was restored from a backup
    #[command(subcommand)]
    Inbox(InboxCommand),
    /// Enqueue a message
    Send(SendArgs),
    /// Check or show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the messages of a route, as its broker delivers them to consumers
    Listen(ListenArgs),
    /// Send numbered probes through a route, read them back, and report losses, duplicates, order
    /// and latency
    Verify(VerifyArgs),
    /// Check configuration, database, brokers and lag; every problem comes with its fix
    Doctor(DoctorArgs),
    /// Explain an error code and its remedy
    Explain(ExplainArgs),
}

/// `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Give the consumer a bug that loses one message: the verdict then fails, with exit code 1
    #[arg(long)]
    pub(crate) sabotage: bool,
    /// Duration of the demo in seconds
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
}

/// `relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  posthaste relay
  posthaste relay --once    deliver the waiting messages, then exit: for cron and for tests

SIGINT or SIGTERM stops the relay in order; a second signal stops it at once.")]
pub(crate) struct RelayArgs {
    /// Exit when all messages committed so far are delivered or parked
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
    /// Print the SQL instead of running it, for another migration tool [default: dialect of the
    /// store]
    #[arg(long, value_name = "DIALECT", num_args = 0..=1, conflicts_with = "adopt")]
    pub(crate) print: Option<Option<Dialect>>,
    /// Continue with data restored from a backup; on PostgreSQL, messages from around the time of
    /// the backup are sent again
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
    /// Refresh every second, until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `dead`.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead letters, oldest first
    List(DeadListArgs),
    /// Show everything about a dead letter, with its payload
    Show(DeadShowArgs),
    /// Send dead letters again, in the order of their keys, with the same ids
    Redrive(RedriveArgs),
    /// Give up dead letters for good
    Discard(DiscardArgs),
}

/// Selects dead letters.
#[derive(Debug, Default, Args)]
pub(crate) struct Filter {
    /// Only dead letters of this route
    #[arg(long)]
    pub(crate) route: Option<String>,
    /// Only dead letters of this consumer: messages that its handler could not handle
    #[arg(long, conflicts_with = "route")]
    pub(crate) consumer: Option<String>,
    /// Only messages of this topic
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// Only messages whose latest error has this class
    #[arg(long)]
    pub(crate) class: Option<String>,
}

impl Filter {
    /// Whether the filter selects every dead letter.
    pub(crate) fn is_any(&self) -> bool {
        [&self.route, &self.consumer, &self.topic, &self.class].iter().all(|it| it.is_none())
    }
}

/// `dead list`.
#[derive(Debug, Args)]
pub(crate) struct DeadListArgs {
    /// The filter
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// List retrying messages of routes instead of dead letters
    #[arg(long, conflicts_with = "consumer")]
    pub(crate) retrying: bool,
    /// Most dead letters to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `dead show`.
#[derive(Debug, Args)]
pub(crate) struct DeadShowArgs {
    /// Id of the message
    pub(crate) id: MessageId,
    /// Print one JSON object per line, one for each route it failed on
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments that redrive and discard share.
#[derive(Debug, Args)]
pub(crate) struct DeadAct {
    /// Ids of the messages
    pub(crate) ids: Vec<MessageId>,
    /// The filter
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Select all dead letters
    #[arg(long)]
    pub(crate) all: bool,
    /// Name of the person who decides; kept with the message [default: $USER]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) by: Option<String>,
    /// Show the selected messages and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
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
    /// The dead letters, and who decides
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
    /// The messages, and who decides
    #[command(flatten)]
    pub(crate) act: DeadAct,
    /// Discard retrying messages of routes instead of dead letters
    #[arg(long, conflicts_with = "consumer")]
    pub(crate) retrying: bool,
    /// The reason; kept with the message
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) why: String,
}

/// `inbox`.
#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// Show consumers: ids and watermarks kept, reorderings, dead letters
    Status(InboxStatusArgs),
    /// Let a consumer go on with a source that was restored from a backup
    Adopt(InboxAdoptArgs),
}

/// `inbox status`.
#[derive(Debug, Args)]
pub(crate) struct InboxStatusArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `inbox adopt`.
#[derive(Debug, Args)]
pub(crate) struct InboxAdoptArgs {
    /// The consumer that stopped with PH-3003 or PH-3004
    #[arg(long)]
    pub(crate) consumer: String,
    /// The source of its messages, as the error names it
    #[arg(long)]
    pub(crate) source: String,
    /// The log that the error names
    #[arg(long)]
    pub(crate) log: Uuid,
    /// Forget which messages of this log the consumer has handled: the source hands out its
    /// positions a second time (PH-3004)
    #[arg(long)]
    pub(crate) again: bool,
    /// Name of the person who decides; kept with the log [default: $USER]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) by: Option<String>,
    /// Do not ask for confirmation
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
    /// Topic of the message: routes select messages by it
    #[arg(long)]
    pub(crate) topic: String,
    /// Key of the message: messages of one key keep their order
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Event type
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
    /// Number of messages to send, each with its own id
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a header is NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report all problems of the configuration; exits with 0 or 78
    Check,
    /// Print every effective value and its source, without secrets
    Show(ConfigShowArgs),
}

/// `config show`.
#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `listen`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  posthaste listen orders
  posthaste listen orders --json --count 1

RabbitMQ, MQTT, webhooks and TCP count a listener as a receiver: a message that only the listener gets
counts as delivered, and no other consumer will get it. On these brokers pass `--as-receiver`.")]
pub(crate) struct ListenArgs {
    /// Name of the route
    pub(crate) route: String,
    /// Accept that messages which only this listener gets count as delivered
    #[arg(long)]
    pub(crate) as_receiver: bool,
    /// Start with the oldest message that the broker still has, if it keeps messages
    #[arg(long)]
    pub(crate) from_beginning: bool,
    /// Number of messages after which to end [default: until Ctrl-C]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Print one JSON object per line, with whole payloads
    #[arg(long)]
    pub(crate) json: bool,
}

/// `verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Probes are real messages: consumers of the topic see them. Exit code 1 if a probe was lost or
reordered.

Examples:
  posthaste verify orders --topic orders.probe
  posthaste verify all --count 100000 --keys 1000 --json")]
pub(crate) struct VerifyArgs {
    /// Name of the route
    pub(crate) route: String,
    /// Topic of the probes [default: posthaste.verify]
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// Accept that other messages of `--topic` which only this command gets count as delivered
    #[arg(long)]
    pub(crate) as_receiver: bool,
    /// Number of probes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// Number of keys among the probes
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keys: u32,
    /// How long to wait for probes after the last was sent
    #[arg(long, default_value = "30s")]
    pub(crate) timeout: humantime::Duration,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, such as PH-1003 [default: list all of them]
    pub(crate) code: Option<String>,
}
