//! Redriving and discarding: say how many, show a few, ask, do it.

use std::process::ExitCode;

use posthaste_core::{ParkState, ParkedFilter, Store};

use super::view;
use crate::{
    args::{DeadAct, DiscardArgs, RedriveArgs},
    output::{Fault, NEEDS_YES, NO, Terminal, USAGE, count},
};

/// Dead letters read to count them where the store keeps no count.
const COUNT_MAX: u32 = 500;
/// Dead letters shown before asking.
const SAMPLES: usize = 5;

/// It is clear which dead letters are meant.
///
/// # Errors
/// Where nothing or everything is named.
pub(crate) fn check(act: &DeadAct) -> Result<(), Fault> {
    let is_named = !act.ids.is_empty() || !act.filter.is_any();
    match (is_named, act.all) {
        (false, false) => Err(Fault::new(USAGE, "it does not say which dead letters")
            .help("name ids, or --route, --topic or --class, or --all")),
        (true, true) => Err(Fault::new(USAGE, "--all and a filter contradict each other")),
        _ => Ok(()),
    }
}

/// Sends them again.
///
/// # Errors
/// When nothing matches, nobody agrees, or the store fails.
pub(crate) async fn redrive(
    args: &RedriveArgs,
    store: &dyn Store,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let filter = args.act.filter.to_parked(&args.act.ids);
    if !agree("redrive", &args.act, &filter, store, terminal).await? {
        return Ok(ExitCode::SUCCESS);
    }
    let n = store.redrive(&filter, &by(&args.act)).await?;
    writeln!(terminal.out, "redriven: {n}")?;
    terminal.note("a running relay sends them now; their keys keep their order")?;
    Ok(ExitCode::SUCCESS)
}

/// Gives them up.
///
/// # Errors
/// When nothing matches, nobody agrees, or the store fails.
pub(crate) async fn discard(
    args: &DiscardArgs,
    store: &dyn Store,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let filter = args.act.filter.to_parked(&args.act.ids);
    if !agree("discard", &args.act, &filter, store, terminal).await? {
        return Ok(ExitCode::SUCCESS);
    }
    let n = store.discard(&filter, &by(&args.act), &args.why).await?;
    writeln!(terminal.out, "discarded: {n}")?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what is meant and gets a yes; `false` for a dry run.
async fn agree(
    verb: &str,
    act: &DeadAct,
    filter: &ParkedFilter,
    store: &dyn Store,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<bool> {
    let mut found = store.dead(filter, COUNT_MAX).await?;
    found.retain(|parked| parked.state == ParkState::Dead);
    if found.is_empty() {
        let fault = Fault::new(NO, "no dead letter matches");
        return Err(fault.help("`posthaste dead list` shows those there are").into());
    }
    let many = how_many(found.len(), filter, store).await?;
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
        let fault = Fault::new(NEEDS_YES, format!("{verb} needs a yes, and nobody can be asked"));
        return Err(fault.help("give --yes, or --dry-run to only look").into());
    }
    if terminal.ask(&format!("{verb} {many}?"))? {
        return Ok(true);
    }
    Err(Fault::new(NEEDS_YES, "nothing was changed").into())
}

/// How many match: exactly where the store counts them or few do.
async fn how_many(
    found: usize,
    filter: &ParkedFilter,
    store: &dyn Store,
) -> anyhow::Result<String> {
    let exact = count(found as u64, "dead letter");
    if found < COUNT_MAX as usize {
        return Ok(exact);
    }
    if !filter.ids.is_empty() || filter.topic.is_some() || filter.class.is_some() {
        return Ok(format!("at least {exact}"));
    }
    let status = store.status().await?;
    let is_meant = |name: &String| filter.route.as_ref().is_none_or(|route| route == name);
    let routes = status.routes.iter().filter(|route| is_meant(&route.name));
    Ok(count(routes.map(|route| route.dead).sum(), "dead letter"))
}

fn by(act: &DeadAct) -> String {
    let user = || std::env::var("USER").ok().filter(|user| !user.is_empty());
    act.by.clone().or_else(user).unwrap_or_else(|| "unknown".to_owned())
}
