//! `dead list | show | redrive | discard`: commands for dead letters of routes and of consumers.

mod act;
mod known;
mod letters;
mod view;

use std::process::ExitCode;

use letters::{Letters, Meant};

use crate::{
    args::{DeadCommand, DeadListArgs, DeadShowArgs, Filter},
    config::{Inputs, Needs},
    output::{Fault, NOT_FOUND, Terminal},
    stores::Database,
};

/// Most dead letters of one message id that are shown.
const SHOW_MAX: u32 = 1000;

/// Runs it.
///
/// # Errors
/// Any error of the store, or a fault when no message matches.
pub(crate) async fn run(
    command: &DeadCommand,
    inputs: &Inputs,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    if let DeadCommand::Redrive(args) = command {
        act::check(&args.act)?;
    }
    if let DeadCommand::Discard(args) = command {
        act::check(&args.act)?;
    }
    let config = super::load(inputs, Needs::Store, terminal)?;
    let database = Database::open(super::url(&config)).await?;
    let store = Letters { store: database.store(), inbox: database.inbox() };
    store.store.check().await?;
    match command {
        DeadCommand::List(args) => known::check(&args.filter, &store, &config).await?,
        DeadCommand::Show(_) => {}
        DeadCommand::Redrive(args) => known::check(&args.act.filter, &store, &config).await?,
        DeadCommand::Discard(args) => known::check(&args.act.filter, &store, &config).await?,
    }
    match command {
        DeadCommand::List(args) => list(args, &store, terminal).await,
        DeadCommand::Show(args) => show(args, &store, terminal).await,
        DeadCommand::Redrive(args) => act::redrive(args, &store, terminal).await,
        DeadCommand::Discard(args) => act::discard(args, &store, terminal).await,
    }
}

async fn list(
    args: &DeadListArgs,
    store: &Letters,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    // One more than wanted, to know whether there are more.
    let meant = match args.retrying {
        true => Meant::retrying(&args.filter, &[]),
        false => Meant::new(&args.filter, &[]),
    };
    let mut found = store.find(&meant, args.limit + 1).await?;
    let is_more = found.len() > args.limit as usize;
    found.truncate(args.limit as usize);
    if args.json {
        for parked in &found {
            terminal.json(&view::Row::new(parked))?;
        }
    } else if found.is_empty() {
        terminal.note(&format!("no {} matches", meant.noun()))?;
    } else {
        view::list(&found, terminal.out)?;
    }
    if is_more {
        terminal.note(&format!("there are more than {}: see --limit", args.limit))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(
    args: &DeadShowArgs,
    store: &Letters,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let found = store.find(&Meant::new(&Filter::default(), &[args.id]), SHOW_MAX).await?;
    if found.is_empty() {
        let fault = Fault::new(NOT_FOUND, format!("no dead letter has the id {}", args.id));
        return Err(fault.help("`posthaste dead list` lists all dead letters").into());
    }
    for (index, parked) in found.iter().enumerate() {
        if args.json {
            terminal.json(&view::Row::new(parked))?;
        } else {
            if index > 0 {
                writeln!(terminal.out)?;
            }
            view::show(parked, terminal.out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
