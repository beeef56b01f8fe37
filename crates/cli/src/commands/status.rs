//! `status`: routes, relays and unrouted topics, once or again and again.

use std::{collections::BTreeSet, io, process::ExitCode, sync::Arc, time::Duration};

use console::Term;
use posthaste_core::{RouteStatus, Status, Store};

use crate::{
    args::StatusArgs,
    config::{Inputs, Needs},
    output::{Terminal, count, shorten, span, table, write_table},
};

/// Time between two looks.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Runs it.
///
/// # Errors
/// When the store cannot be asked.
pub(crate) async fn run(
    args: &StatusArgs,
    inputs: &Inputs,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let config = super::load(inputs, Needs::Store, terminal)?;
    let store = super::open(&config).await?;
    if args.watch {
        watch(&store, args.json, terminal).await?;
    } else {
        write(&store.status().await?, args.json, terminal)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(status: &Status, is_json: bool, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
    if is_json {
        terminal.json(status)?;
    } else {
        terminal.out.write_all(&render(status)?)?;
    }
    Ok(())
}

/// Looks every second until Ctrl-C. A store that goes away is part of the picture, not the end.
async fn watch(
    store: &Arc<dyn Store>,
    is_json: bool,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<()> {
    let screen = Term::buffered_stdout();
    let mut ticks = tokio::time::interval(WATCH_EVERY);
    let mut lines = 0;
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(stop);
    loop {
        let status = tokio::select! {
            result = &mut stop => return Ok(result?),
            status = async { ticks.tick().await; store.status().await } => status,
        };
        match status {
            Ok(status) if is_json || !terminal.is_screen => {
                write(&status, is_json, terminal)?;
                terminal.out.flush()?;
            }
            Err(error) if is_json || !terminal.is_screen => terminal.note(&error.to_string())?,
            Ok(status) => lines = redraw(&screen, lines, &render(&status)?)?,
            Err(error) => lines = redraw(&screen, lines, format!("{error}\n").as_bytes())?,
        }
    }
}

/// Replaces what was drawn before in one write, so that nothing flickers.
fn redraw(screen: &Term, lines_before: usize, text: &[u8]) -> io::Result<usize> {
    let text = String::from_utf8_lossy(text);
    let (rows, columns) = screen.size();
    let shown: Vec<String> = text
        .lines()
        .take(usize::from(rows).saturating_sub(1))
        .map(|line| shorten(line, usize::from(columns)))
        .collect();
    screen.clear_last_lines(lines_before)?;
    for line in &shown {
        screen.write_line(line)?;
    }
    screen.flush()?;
    Ok(shown.len())
}

fn render(status: &Status) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if status.routes.is_empty() {
        let hint = "no route is registered yet: `posthaste relay` registers those it is told of\n";
        text.extend_from_slice(hint.as_bytes());
    } else {
        write_table(&routes(status), &mut text)?;
    }
    text.push(b'\n');
    if status.relays.is_empty() {
        text.extend_from_slice(b"no relay is running\n");
    } else {
        write_table(&relays(status), &mut text)?;
    }
    if !status.unrouted.is_empty() {
        text.extend_from_slice(b"\ntopics that no route matches; their messages are kept:\n");
        for topic in &status.unrouted {
            let messages = count(topic.messages, "message");
            text.extend_from_slice(format!("  {}  {messages}\n", topic.topic).as_bytes());
        }
    }
    Ok(text)
}

fn routes(status: &Status) -> comfy_table::Table {
    let mut table =
        table(&["route", "topics", "pending", "oldest", "retrying", "dead", "shards", "served by"]);
    for route in &status.routes {
        table.add_row([
            route.name.clone(),
            shorten(&route.topics.join(" "), 40),
            route.pending.to_string(),
            if route.pending == 0 {
                "-".to_owned()
            } else {
                span(route.oldest_pending_age_seconds)
            },
            route.retrying.to_string(),
            route.dead.to_string(),
            shards(route),
            holders(route, status),
        ]);
    }
    table
}

fn shards(route: &RouteStatus) -> String {
    let held = route.leases.iter().filter(|lease| lease.relay.is_some()).count();
    format!("{held}/{}", route.leases.len().max(1))
}

/// The names of the relays that hold its leases, where they are known.
fn holders(route: &RouteStatus, status: &Status) -> String {
    let name = |holder: &String| {
        let relay = status.relays.iter().find(|relay| relay.id == *holder);
        relay.map_or_else(|| holder.clone(), |relay| relay.name.clone())
    };
    let holders = route.leases.iter().filter_map(|lease| lease.relay.as_ref());
    let names: BTreeSet<String> = holders.map(name).collect();
    match names.len() {
        0 => "nobody".to_owned(),
        _ => shorten(&names.into_iter().collect::<Vec<_>>().join(" "), 40),
    }
}

fn relays(status: &Status) -> comfy_table::Table {
    let mut table = table(&["relay", "version", "seen", "id"]);
    for relay in &status.relays {
        table.add_row([
            relay.name.clone(),
            relay.version.clone(),
            format!("{} ago", span(relay.seen_seconds_ago)),
            relay.id.clone(),
        ]);
    }
    table
}
