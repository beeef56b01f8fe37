//! `inbox status | adopt`: shows the inbox of consumers, and adopts the log of a restored source.

use std::process::ExitCode;

use posthaste_core::InboxStore;
use serde::Serialize;

use crate::{
    args::{InboxAdoptArgs, InboxCommand, InboxStatusArgs},
    config::{Inputs, Needs},
    output::{Fault, NEEDS_YES, Terminal, span, table, write_table},
    stores::Database,
};

/// One consumer as a line of JSON. The fields are stable.
#[derive(Serialize)]
struct Row<'a> {
    consumer: &'a str,
    oldest_id_age_seconds: Option<f64>,
    lanes: u64,
    handled: u64,
    reordered: u64,
    impossible: u64,
    dead: u64,
}

/// Runs it.
///
/// # Errors
/// Any error of the store, or a fault when the confirmation is missing.
pub(crate) async fn run(
    command: &InboxCommand,
    inputs: &Inputs,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let config = super::load(inputs, Needs::Store, terminal)?;
    let database = Database::open(super::url(&config)).await?;
    database.store().check().await?;
    let inbox = database.inbox();
    match command {
        InboxCommand::Status(args) => status(args, &*inbox, terminal).await,
        InboxCommand::Adopt(args) => adopt(args, &*inbox, terminal).await,
    }
}

async fn status(
    args: &InboxStatusArgs,
    inbox: &dyn InboxStore,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let all = inbox.inbox_status().await?;
    let mut shown =
        table(&["consumer", "oldest id", "lanes", "handled", "reordered", "impossible", "dead"]);
    for status in &all {
        let age = status.oldest_id_age.map(|age| age.as_secs_f64());
        if args.json {
            terminal.json(&Row {
                consumer: &status.consumer,
                oldest_id_age_seconds: age,
                lanes: status.lanes,
                handled: status.tally.handled,
                reordered: status.tally.reordered,
                impossible: status.tally.impossible,
                dead: status.dead,
            })?;
        }
        let counts = [status.lanes, status.tally.handled, status.tally.reordered];
        let more = [status.tally.impossible, status.dead];
        let first = [status.consumer.clone(), age.map_or("-".to_owned(), span)];
        let numbers = counts.iter().chain(&more).map(ToString::to_string);
        shown.add_row(first.into_iter().chain(numbers));
    }
    if all.is_empty() && !args.json {
        terminal.note("no consumer has handled a message")?;
    } else if !args.json {
        write_table(&shown, terminal.out)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn adopt(
    args: &InboxAdoptArgs,
    inbox: &dyn InboxStore,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let InboxAdoptArgs { consumer, source, log, again, .. } = args;
    terminal.note(&format!(
        "messages that source {source} already sent and sends again from log {log} take effect again \
         at consumer {consumer}"
    ))?;
    if !args.yes {
        if !terminal.is_interactive {
            let message = "adopt needs confirmation, and this is not a terminal";
            return Err(Fault::new(NEEDS_YES, message).help("pass --yes").into());
        }
        if !terminal.ask("adopt this log?")? {
            return Err(Fault::new(NEEDS_YES, "nothing was changed").into());
        }
    }
    let user = || std::env::var("USER").ok().filter(|user| !user.is_empty());
    let by = args.by.clone().or_else(user).unwrap_or_else(|| "unknown".to_owned());
    let is_new = inbox.adopt_log(consumer, source, *log, &by).await?;
    if *again {
        let lanes = inbox.forget_log(consumer, *log).await?;
        writeln!(terminal.out, "adopted again, lanes forgotten: {lanes}")?;
    } else {
        writeln!(terminal.out, "{}", if is_new { "adopted" } else { "adopted before" })?;
    }
    Ok(ExitCode::SUCCESS)
}
