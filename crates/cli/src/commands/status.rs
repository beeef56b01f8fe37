//! `status`: shows routes, relays and unrouted topics, once or every second.

use std::{collections::BTreeSet, io, process::ExitCode, sync::Arc, time::Duration};

use console::Term;
use posthaste_core::{RouteStatus, Status, Store};

use crate::{
    args::StatusArgs,
    config::{Inputs, Needs},
    output::{Terminal, count, shorten, span, table, write_table},
};

/// Time between two refreshes.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Runs it.
///
/// # Errors
/// Any error of the store.
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

/// Refreshes every second until Ctrl-C. A store error is shown and does not end the command.
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

/// Replaces the last output in one write, so that the screen does not flicker.
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
        let hint =
            "no route is registered yet: `posthaste relay` registers the configured routes\n";
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
    for line in troubles(status) {
        text.extend_from_slice(format!("\n{line}\n").as_bytes());
    }
    if !status.unrouted.is_empty() {
        text.extend_from_slice(b"\ntopics that no route matches; their messages are kept:\n");
        for topic in &status.unrouted {
            let messages = count(topic.messages, "message");
            text.extend_from_slice(format!("  {}  {messages}\n", topic.topic).as_bytes());
        }
    }
    if !status.rewinds.is_empty() {
        text.extend_from_slice(b"\nthe log went back in time (PH-1011):\n");
        for rewind in &status.rewinds {
            let ago = span(rewind.seconds_ago);
            text.extend_from_slice(format!("  {ago} ago, route {}\n", rewind.route).as_bytes());
        }
    }
    Ok(text)
}

fn routes(status: &Status) -> comfy_table::Table {
    let mut table = table(&[
        "route",
        "state",
        "topics",
        "pending",
        "oldest",
        "retrying",
        "oldest",
        "dead",
        "shards",
        "served by",
    ]);
    let age = |messages: u64, seconds: f64| match messages {
        0 => "-".to_owned(),
        _ => span(seconds),
    };
    for route in &status.routes {
        table.add_row([
            route.name.clone(),
            state(route).to_owned(),
            shorten(&route.topics.join(" "), 40),
            route.pending.to_string(),
            age(route.pending, route.oldest_pending_age_seconds),
            route.retrying.to_string(),
            age(route.retrying, route.oldest_retrying_age_seconds),
            route.dead.to_string(),
            shards(route),
            holders(route, status),
        ]);
    }
    table
}

/// The state of a route, in one word.
fn state(route: &RouteStatus) -> &'static str {
    match route {
        _ if !route.registered => "removed",
        _ if route.paused.is_some() => "paused",
        _ if !route.is_served() => "unserved",
        _ => "running",
    }
}

/// One line for each route with a problem: the problem, and what to do.
fn troubles(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    for route in &status.routes {
        let name = &route.name;
        if let Some(pause) = &route.paused {
            lines.push(format!(
                "route {name} has been paused for {}: its broker cannot be used: {}",
                span(pause.seconds),
                shorten(&pause.reason, 200)
            ));
        } else if !route.registered {
            lines.push(format!(
                "route {name} is not registered any more, but has messages left: \
                `posthaste dead list --route {name}`, with and without --retrying"
            ));
        } else if !route.is_served() {
            lines.push(format!(
                "no relay serves route {name}: start `posthaste relay` with this route"
            ));
        }
    }
    lines
}

fn shards(route: &RouteStatus) -> String {
    let held = route.leases.iter().filter(|lease| lease.relay.is_some()).count();
    format!("{held}/{}", route.leases.len().max(1))
}

/// The relays that hold the route's leases: their names, or their ids if the name is unknown.
fn holders(route: &RouteStatus, status: &Status) -> String {
    let name = |holder: &String| {
        let relay = status.relays.iter().find(|relay| relay.id == *holder);
        relay.map_or_else(|| holder.clone(), |relay| relay.name.clone())
    };
    let holders = route.leases.iter().filter_map(|lease| lease.relay.as_ref());
    let names: BTreeSet<String> = holders.map(name).collect();
    match names.len() {
        0 => "-".to_owned(),
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
