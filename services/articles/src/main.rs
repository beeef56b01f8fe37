//! The `articles` program: parse, run, print the error chain, exit code. 0 is done, 1 is "checked, and
//! the answer is no", 2 is "could not".

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use anyhow::{Context, bail};
use articles::{
    args::{Cli, Command},
    demo,
    graph::Graph,
    load,
    serve::Server,
};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

const OK: u8 = 0;
const NO: u8 = 1;
const COULD_NOT: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    // In the demo things go wrong on purpose.
    let default = if matches!(cli.command, Command::Demo(_)) { "error" } else { "warn" };
    let filter = EnvFilter::try_from_env("ARTICLES_LOG");
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new(default)))
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    match Box::pin(until_told_twice(cli.command)).await {
        Ok(true) => ExitCode::from(OK),
        Ok(false) => ExitCode::from(NO),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(COULD_NOT)
        }
    }
}

/// Ctrl-C or SIGTERM ends things in order, and the second of them at once.
async fn until_told_twice(command: Command) -> anyhow::Result<bool> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to signals")?;
    let mut told = async || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let stop = CancellationToken::new();
    let mut running = Box::pin(run(command, stop.clone()));
    tokio::select! {
        result = &mut running => return result,
        () = told() => stop.cancel(),
    }
    tokio::select! {
        result = running => result,
        () = told() => bail!("stopped at once"),
    }
}

async fn run(command: Command, stop: CancellationToken) -> anyhow::Result<bool> {
    let mut out = io::stdout();
    match command {
        Command::Serve(args) => {
            let server = Server::open(&args).await?;
            writeln!(out, "articles at http://{}", server.address()?)?;
            for consumer in &args.consumers {
                writeln!(out, "consumer {} at {}", consumer.name, consumer.url)?;
            }
            out.flush()?;
            server.run(stop).await?;
        }
        Command::Graph(args) => {
            let graph = Graph::open(&args).await?;
            writeln!(out, "likes at tcp://{}", graph.consumer_address())?;
            writeln!(out, "page at http://{}", graph.page_address()?)?;
            out.flush()?;
            for path in graph.run(stop).await? {
                writeln!(out, "wrote {}", path.display())?;
            }
        }
        Command::Load(args) => {
            let checked = stop.run_until_cancelled(load::run(&args, &mut out)).await;
            return checked.unwrap_or_else(|| bail!("stopped before anything was checked"));
        }
        Command::Demo(args) => return demo::run(&args, stop).await,
    }
    Ok(true)
}
