//! One module per command. Each takes its arguments and a [`Terminal`](crate::output::Terminal),
//! and returns its exit code.

pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod inbox;
pub(crate) mod listen;
pub(crate) mod migrate;
pub(crate) mod relay;
pub(crate) mod send;
pub(crate) mod status;
pub(crate) mod verify;

use std::{process::ExitCode, sync::Arc};

use posthaste_core::Store;

use crate::{
    args::{Cli, Command},
    brokers::Brokers,
    config::{self as configuration, Config, Inputs, Needs, RouteConfig, SecretUrl},
    output::{Fault, NOT_FOUND, Terminal, USAGE},
    stores::Database,
};

/// Runs the command.
///
/// # Errors
/// The error that ended the command; `output::code_of` knows the exit code.
pub(crate) async fn run(cli: Cli, terminal: &mut Terminal<'_>) -> anyhow::Result<ExitCode> {
    let inputs =
        Inputs { file: cli.config, store: cli.store, variables: std::env::vars_os().collect() };
    match cli.command {
        Command::Demo(args) => Box::pin(crate::demo::run(args)).await,
        Command::Relay(args) => Box::pin(relay::run(&args, &inputs, terminal)).await,
        Command::Migrate(args) => migrate::run(&args, &inputs, terminal).await,
        Command::Status(args) => status::run(&args, &inputs, terminal).await,
        Command::Dead(command) => dead::run(&command, &inputs, terminal).await,
        Command::Inbox(command) => inbox::run(&command, &inputs, terminal).await,
        Command::Send(args) => send::run(args, &inputs, terminal).await,
        Command::Config(command) => config::run(&command, &inputs, terminal),
        Command::Listen(args) => listen::run(&args, &inputs, terminal).await,
        Command::Verify(args) => Box::pin(verify::run(&args, &inputs, terminal)).await,
        Command::Doctor(args) => doctor::run(&args, &inputs, terminal).await,
        Command::Explain(args) => explain::run(&args, terminal),
    }
}

/// Loads the configuration and prints its notes to the terminal.
fn load(inputs: &Inputs, needs: Needs, terminal: &mut Terminal<'_>) -> anyhow::Result<Config> {
    let config = configuration::load(inputs, needs)?;
    for note in &config.notes {
        // A terminal that cannot be written to does not stop the command.
        let _ = terminal.note(note);
    }
    Ok(config)
}

/// Opens the store of the configuration and checks that it can be used.
async fn open(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let store = Database::open(url(config)).await?.store();
    store.check().await?;
    Ok(store)
}

/// The route of that name.
fn route<'a>(config: &'a Config, name: &str) -> Result<&'a RouteConfig, Fault> {
    let routes = &config.routes;
    routes.iter().find(|route| route.spec.name == name).ok_or_else(|| {
        let names: Vec<&str> = routes.iter().map(|route| route.spec.name.as_str()).collect();
        let help = match names.as_slice() {
            [] => "no [[route]] is configured here".to_owned(),
            names => format!("configured routes: {}", names.join(", ")),
        };
        Fault::new(NOT_FOUND, format!("there is no route {name:?}")).help(help)
    })
}

/// Checks that a listener does not make messages deliverable, unless the user passed
/// `--as-receiver`.
///
/// # Errors
/// When the broker counts a listener as a receiver and `--as-receiver` is missing.
fn check_receiver(
    brokers: &Brokers,
    broker: &str,
    is_wanted: bool,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<()> {
    let Some(why) = brokers.listener_receives(broker) else {
        return Ok(());
    };
    if is_wanted {
        terminal.note(&format!("{why}, and no other consumer will get it"))?;
        return Ok(());
    }
    let help = "make sure that the real consumer's queue or subscription exists, then pass \
                --as-receiver";
    Err(Fault::new(USAGE, format!("broker {broker:?}: {why}")).help(help).into())
}

/// The URL of the store.
fn url(config: &Config) -> &SecretUrl {
    let url = config.store.as_ref();
    url.expect("commands that open a store load with Needs::Store or Needs::Relay")
}
