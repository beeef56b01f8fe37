//! `config check` and `config show`.

use std::process::ExitCode;

use crate::{
    args::ConfigCommand,
    config::{self, Inputs, Needs},
    output::{Terminal, count},
};

/// Runs it.
///
/// # Errors
/// When the configuration is invalid.
pub(crate) fn run(
    command: &ConfigCommand,
    inputs: &Inputs,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Check => check(inputs, terminal),
        ConfigCommand::Show(args) => show(inputs, args.json, terminal),
    }
}

fn check(inputs: &Inputs, terminal: &mut Terminal<'_>) -> anyhow::Result<ExitCode> {
    let config = super::load(inputs, Needs::Relay, terminal)?;
    let file = config.file.map_or("no file".to_owned(), |file| file.display().to_string());
    let brokers = count(config.brokers.len() as u64, "broker");
    let routes = count(config.routes.len() as u64, "route");
    writeln!(terminal.out, "ok: {file}, {brokers}, {routes}")?;
    Ok(ExitCode::SUCCESS)
}

fn show(inputs: &Inputs, is_json: bool, terminal: &mut Terminal<'_>) -> anyhow::Result<ExitCode> {
    let config = super::load(inputs, Needs::Nothing, terminal)?;
    if !is_json {
        config::show(&config.shown, terminal.out)?;
        return Ok(ExitCode::SUCCESS);
    }
    for entry in &config.shown {
        terminal.json(&serde_json::json!({
            "key": format!("{}.{}", entry.section, entry.key),
            "value": entry.value,
            "source": entry.origin.to_string(),
        }))?;
    }
    Ok(ExitCode::SUCCESS)
}
