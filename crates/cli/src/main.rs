//! The `posthaste` program: parse, run, print the error chain, exit code. Nothing else happens
//! here. `args` declares the command line, `config` reads the configuration, `stores` and `brokers`
//! open the configured databases and brokers, `commands` does the work, `serve` is the relay's HTTP
//! server.

mod args;
mod brokers;
mod commands;
mod config;
mod demo;
mod gauges;
mod log;
mod output;
mod serve;
mod stores;
mod version;

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

use clap::Parser;

use crate::output::{OK, Terminal, code_of, is_interactive, write_error};

/// A relay allocates and frees dozens of small pieces of memory for every message.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let mut terminal = Terminal {
        out: &mut io::stdout(),
        err: &mut io::stderr(),
        is_interactive: is_interactive(),
        is_screen: io::stdout().is_terminal(),
    };
    let error = match Box::pin(commands::run(cli, &mut terminal)).await {
        Ok(code) => return code,
        Err(error) => error,
    };
    let code = code_of(&error);
    // A closed pipe (`| head`) is no error; and if writing to stderr fails, the exit code remains.
    if code != OK {
        let _ = write_error(&error, terminal.err);
    }
    ExitCode::from(code)
}
