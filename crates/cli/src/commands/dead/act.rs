//! Redriving and discarding: shows the number of messages and a few of them, asks, then acts.

use std::process::ExitCode;

use posthaste_core::ParkState;

use super::{
    letters::{Letters, Meant},
    view,
};
use crate::{
    args::{DeadAct, DiscardArgs, RedriveArgs},
    output::{Fault, NEEDS_YES, NO, Terminal, USAGE, count},
};

/// Most dead letters that are read to count them, if the store keeps no count.
const COUNT_MAX: u32 = 500;
/// Dead letters shown before asking.
const SAMPLES: usize = 5;

/// Checks that the arguments select dead letters.
///
/// # Errors
/// When they select none, or combine `--all` with ids or a filter.
pub(crate) fn check(act: &DeadAct) -> Result<(), Fault> {
    let is_named = !act.ids.is_empty() || !act.filter.is_any();
    match (is_named, act.all) {
        (false, false) => Err(Fault::new(USAGE, "no dead letters are selected")
            .help("give ids, or --route, --consumer, --topic or --class, or --all")),
        (true, true) => Err(Fault::new(USAGE, "--all cannot be combined with ids or a filter")),
        _ => Ok(()),
    }
}

/// Sends the selected dead letters again.
///
/// # Errors
/// When no dead letter matches, the confirmation is missing, or the store fails.
pub(crate) async fn redrive(
    args: &RedriveArgs,
    store: &Letters,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let meant = Meant::new(&args.act.filter, &args.act.ids);
    if !agree("redrive", &args.act, &meant, store, terminal).await? {
        return Ok(ExitCode::SUCCESS);
    }
    let n = store.redrive(&meant, &by(&args.act)).await?;
    writeln!(terminal.out, "redriven: {n}")?;
    terminal.note(
        "a running relay sends dead letters of routes now; a running consumer handles its own again",
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Gives the selected messages up.
///
/// # Errors
/// When no message matches, the confirmation is missing, or the store fails.
pub(crate) async fn discard(
    args: &DiscardArgs,
    store: &Letters,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let meant = match args.retrying {
        true => Meant::retrying(&args.act.filter, &args.act.ids),
        false => Meant::new(&args.act.filter, &args.act.ids),
    };
    if !agree("discard", &args.act, &meant, store, terminal).await? {
        return Ok(ExitCode::SUCCESS);
    }
    let n = store.discard(&meant, &by(&args.act), &args.why).await?;
    writeln!(terminal.out, "discarded: {n}")?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the selected messages and asks for confirmation; `false` for a dry run.
async fn agree(
    verb: &str,
    act: &DeadAct,
    meant: &Meant,
    store: &Letters,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<bool> {
    let mut found = store.find(meant, COUNT_MAX).await?;
    found.retain(|found| found.parked.state != ParkState::Discarded);
    let noun = meant.noun();
    if found.is_empty() {
        let fault = Fault::new(NO, format!("no {noun} matches"));
        return Err(fault.help("`posthaste dead list` lists all dead letters").into());
    }
    let many = how_many(found.len(), act, noun, store).await?;
    writeln!(terminal.err, "{verb} {many}:")?;
    view::list(&found[..found.len().min(SAMPLES)], terminal.err)?;
    if found.len() > SAMPLES {
        writeln!(terminal.err, "…")?;
    }
    if act.dry_run {
        terminal.note("dry run: nothing was changed")?;
        return Ok(false);
    }
    if act.yes {
        return Ok(true);
    }
    if !terminal.is_interactive {
        let message = format!("{verb} needs confirmation, and this is not a terminal");
        return Err(Fault::new(NEEDS_YES, message)
            .help("pass --yes, or --dry-run to change nothing")
            .into());
    }
    if terminal.ask(&format!("{verb} {many}?"))? {
        return Ok(true);
    }
    Err(Fault::new(NEEDS_YES, "nothing was changed").into())
}

/// The number of matching messages: exact if the store counts them or if there are few.
async fn how_many(
    found: usize,
    act: &DeadAct,
    noun: &str,
    store: &Letters,
) -> anyhow::Result<String> {
    let exact = count(found as u64, noun);
    if found < COUNT_MAX as usize {
        return Ok(exact);
    }
    let filter = &act.filter;
    let is_retrying = noun != "dead letter";
    if !act.ids.is_empty() || filter.topic.is_some() || filter.class.is_some() || is_retrying {
        return Ok(format!("at least {exact}"));
    }
    let mut all = 0;
    if filter.consumer.is_none() {
        let status = store.store.status().await?;
        let is_meant = |name: &String| filter.route.as_ref().is_none_or(|route| route == name);
        let routes = status.routes.iter().filter(|route| is_meant(&route.name));
        all += routes.map(|route| route.dead).sum::<u64>();
    }
    if filter.route.is_none() {
        let consumers = store.inbox.inbox_status().await?;
        let is_meant = |name: &String| filter.consumer.as_ref().is_none_or(|it| it == name);
        let consumers = consumers.iter().filter(|status| is_meant(&status.consumer));
        all += consumers.map(|status| status.dead).sum::<u64>();
    }
    Ok(count(all, "dead letter"))
}

fn by(act: &DeadAct) -> String {
    let user = || std::env::var("USER").ok().filter(|user| !user.is_empty());
    act.by.clone().or_else(user).unwrap_or_else(|| "unknown".to_owned())
}
