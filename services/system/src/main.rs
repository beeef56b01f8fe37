//! The `system` program: parse, run, print, exit code. 0 is "it works", 1 is "it does not", 2 is
//! "it could not be tried".

use std::{future::Future, io, process::ExitCode};

use clap::{Parser, Subcommand};
use system::{
    Options, Report, System,
    chaos::{self, Plan},
    check,
};
use tokio::signal::unix::{SignalKind, signal};

/// Runs the transfers and users services with their relays, consumer and servers on this machine.
/// It starts both APIs, two relays for each, the consumer that settles transfers, and a private
/// PostgreSQL and RabbitMQ on free ports. Nothing is left behind, however this program ends.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the system, print its addresses, and keep it running until Ctrl-C
    Up {
        /// Relays for each service
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16))]
        relays: u16,
    },
    /// Start the system, use it from end to end, and report whether it works
    Check,
    /// Kill, stop, crash and disconnect processes while transfers flow, and report the state of the
    /// transfers
    Chaos {
        /// A fraction of the transfers, and a short outage
        #[arg(long)]
        quick: bool,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = io::stdout();
    let mut report = Report::new(&mut out);
    let done = match cli.command {
        Command::Up { relays } => up(relays, &mut report).await,
        Command::Check => until_signal(check::run(&mut report)).await,
        Command::Chaos { quick } => {
            let plan = if quick { Plan::QUICK } else { Plan::FULL };
            until_signal(Box::pin(chaos::run(plan, &mut report))).await
        }
    };
    match done {
        Ok(()) if report.is_right() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// What is dropped on a signal takes everything with it.
async fn until_signal(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::select! {
        result = work => result,
        result = told() => result.and_then(|()| anyhow::bail!("stopped before the end")),
    }
}

async fn told() -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn up(relays: u16, report: &mut Report<'_>) -> anyhow::Result<()> {
    let options = Options { relays, ..Options::default() };
    let mut system = None;
    until_signal(async {
        system = Some(System::start(&options, |line| report.say(line)).await?);
        Ok(())
    })
    .await?;
    let Some(system) = system else { return Ok(()) };
    let url = system.transactions();
    report.say(&format!("logs          {}", system.folder().display()));
    report.say(&format!(
        "\nTry it:\n\n  curl -i {url}/api/v1/transactions -d \
         '{{\"from_user_id\":\"alice\",\"to_user_id\":\"bob\",\"amount\":500}}'\n  \
         curl {url}/api/v1/balance/bob\n\nCtrl-C ends it and removes everything."
    ));
    told().await?;
    report.say("\nstopping");
    system.stop().await
}
