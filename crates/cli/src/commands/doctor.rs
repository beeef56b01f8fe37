//! `doctor`: checks configuration, database, lag and brokers, and says how to fix each problem.

use std::{io, process::ExitCode};

use console::Style;
use posthaste_core::{Finding, RewindStatus, RouteStatus, Status, Store};

use crate::{
    args::DoctorArgs,
    brokers::Brokers,
    config::{self, Config, Inputs, Needs, redact_url},
    output::{NO, Terminal, count, span},
    stores::Database,
};

/// Age from which a waiting message is a finding.
const OLD_SECONDS: f64 = 60.0;

/// A rewind of the log stays a finding for a day.
const REWIND_RECENT_SECONDS: f64 = 86_400.0;
/// The fix for a route that no relay serves.
const START: &str = "start `posthaste relay` with this route";

/// Runs it.
///
/// # Errors
/// When the output fails; a problem that it finds is not an error.
pub(crate) async fn run(
    args: &DoctorArgs,
    inputs: &Inputs,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let mut report = Report { is_json: args.json, failed: 0, terminal };
    match config::load(inputs, Needs::Store) {
        Ok(config) => {
            report.config(&config)?;
            store(&config, &mut report).await?;
            brokers(&config, &mut report).await?;
        }
        Err(problems) => {
            for problem in problems.0 {
                let mut what = format!("[{}] {}", problem.code, problem.what);
                if !problem.place.is_empty() {
                    what = format!("{what} ({})", problem.place);
                }
                report.fail("config", what, problem.help.unwrap_or_default())?;
            }
        }
    }
    let failed = report.failed;
    if failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    terminal.note(&format!("{} found", count(failed, "problem")))?;
    Ok(ExitCode::from(NO))
}

/// Writes each finding at once: a database that hangs must not hide earlier findings.
struct Report<'a, 't> {
    is_json: bool,
    failed: u64,
    terminal: &'a mut Terminal<'t>,
}

impl Report<'_, '_> {
    fn ok(&mut self, area: &str, what: impl Into<String>) -> io::Result<()> {
        self.add(area, &Finding::ok(what))
    }

    fn fail(&mut self, area: &str, what: String, fix: impl Into<String>) -> io::Result<()> {
        let fix = Some(fix.into()).filter(|fix: &String| !fix.is_empty());
        self.add(area, &Finding { ok: false, what, fix })
    }

    fn add(&mut self, area: &str, finding: &Finding) -> io::Result<()> {
        self.failed += u64::from(!finding.ok);
        if self.is_json {
            return self.terminal.json(&serde_json::json!({
                "ok": finding.ok, "area": area, "what": finding.what, "fix": finding.fix,
            }));
        }
        let (style, word) = match finding.ok {
            true => (Style::new().green(), "ok  "),
            false => (Style::new().red().bold(), "FAIL"),
        };
        let out = &mut self.terminal.out;
        writeln!(out, "{} {area:7} {}", style.apply_to(word), finding.what)?;
        if let Some(fix) = &finding.fix {
            writeln!(out, "{:12} fix: {}", "", fix.replace('\n', "\n                  "))?;
        }
        Ok(())
    }

    fn config(&mut self, config: &Config) -> io::Result<()> {
        let file = config.file.as_ref();
        let file = file.map_or("no file".to_owned(), |file| file.display().to_string());
        let brokers = count(config.brokers.len() as u64, "broker");
        let routes = count(config.routes.len() as u64, "route");
        self.ok("config", format!("{file}, {brokers}, {routes}"))?;
        for note in &config.notes {
            self.fail("config", note.clone(), "")?;
        }
        if config.routes.is_empty() {
            let fix = "add a [[route]]; `posthaste relay` needs one";
            self.fail("config", "no route is configured here".to_owned(), fix)?;
        }
        Ok(())
    }
}

async fn store(config: &Config, report: &mut Report<'_, '_>) -> anyhow::Result<()> {
    let Some(url) = &config.store else {
        return Ok(());
    };
    let database = match Database::open(url).await {
        Ok(database) => database,
        Err(error) => {
            let fix = format!("check `store.url`: {}", redact_url(&url.0));
            return Ok(report.fail("store", error.to_string(), fix)?);
        }
    };
    let store = database.store();
    if let Err(error) = store.check().await {
        let fix = format!("`posthaste explain {}` explains the remedy", error.kind.code());
        return Ok(report.fail("store", error.to_string(), fix)?);
    }
    report.ok("store", format!("{}: tables and server are valid", redact_url(&url.0)))?;
    match store.examine().await {
        Ok(findings) => findings.iter().try_for_each(|finding| report.add("store", finding))?,
        Err(error) => report.fail("store", error.to_string(), "")?,
    }
    delivery(&*store, report).await
}

async fn delivery(store: &dyn Store, report: &mut Report<'_, '_>) -> anyhow::Result<()> {
    let status = match store.status().await {
        Ok(status) => status,
        Err(error) => return Ok(report.fail("outbox", error.to_string(), "")?),
    };
    lag(&status, report)?;
    for topic in &status.unrouted {
        let messages = count(topic.messages, "message");
        let what = format!("no route matches topic {:?}: {messages} kept", topic.topic);
        report.fail("outbox", what, "add it to the `topics` of a route")?;
    }
    let recent = |rewind: &&RewindStatus| rewind.seconds_ago <= REWIND_RECENT_SECONDS;
    for rewind in status.rewinds.iter().filter(recent) {
        let ago = span(rewind.seconds_ago);
        let what = format!("route {}: the log went back in time {ago} ago", rewind.route);
        let fix = "the relay needs nothing: it went on from the position that this server has; check \
                   which business rows of the old server this one does not have (PH-1011)";
        report.fail("outbox", what, fix)?;
    }
    Ok(())
}

fn lag(status: &Status, report: &mut Report<'_, '_>) -> io::Result<()> {
    for route in &status.routes {
        let name = &route.name;
        if !route.registered {
            removed(route, report)?;
            continue;
        }
        let age = route.oldest_pending_age_seconds;
        if let Some(pause) = &route.paused {
            let lasted = span(pause.seconds);
            let what = format!("route {name}: paused for {lasted}: {}", pause.reason);
            report.fail("outbox", what, "fix the broker or its settings; no message is lost")?;
        }
        retrying(route, report)?;
        if route.pending > 0 && !route.is_served() {
            let what = format!("route {name}: no relay serves it, {} wait", route.pending);
            report.fail("outbox", what, START)?;
        } else if route.pending > 0 && age > OLD_SECONDS {
            let what = format!("route {name}: the oldest message has waited for {}", span(age));
            report.fail("outbox", what, "check the relay's log and /readyz?verbose")?;
        } else {
            report.ok("outbox", format!("route {name}: {} pending", route.pending))?;
        }
        if route.dead > 0 {
            let what = format!("route {name}: {}", count(route.dead, "dead letter"));
            report.fail("outbox", what, format!("posthaste dead list --route {name}"))?;
        }
    }
    Ok(())
}

/// Reports retrying messages: they wait for an attempt, or behind a parked message of their key.
fn retrying(route: &RouteStatus, report: &mut Report<'_, '_>) -> io::Result<()> {
    if route.retrying == 0 {
        return Ok(());
    }
    let (name, age) = (&route.name, route.oldest_retrying_age_seconds);
    let many = count(route.retrying, "retrying message");
    if !route.is_served() {
        let what = format!("route {name}: no relay serves it, {many} wait, for {}", span(age));
        report.fail("outbox", what, START)
    } else if age > OLD_SECONDS {
        let what = format!("route {name}: {many}, the oldest for {}", span(age));
        report.fail("outbox", what, format!("posthaste dead list --retrying --route {name}"))
    } else {
        report.ok("outbox", format!("route {name}: {many}, the oldest for {}", span(age)))
    }
}

/// Reports the messages left of a route that was removed.
fn removed(route: &RouteStatus, report: &mut Report<'_, '_>) -> io::Result<()> {
    let name = &route.name;
    let (retrying, dead) = (route.retrying, count(route.dead, "dead letter"));
    let what = format!("route {name} is not registered any more: {retrying} retrying, {dead} left");
    let fix = format!(
        "start a relay with route {name}, or discard the messages:\n\
         posthaste dead discard --route {name} --retrying --why ...\n\
         posthaste dead discard --route {name} --why ..."
    );
    report.fail("outbox", what, fix)
}

async fn brokers(config: &Config, report: &mut Report<'_, '_>) -> anyhow::Result<()> {
    for (name, broker) in Brokers::open(&config.brokers).iter() {
        let routes = config.routes.iter().filter(|route| route.broker == name);
        let topics: Vec<_> = routes.flat_map(|route| route.spec.topics.clone()).collect();
        match broker.examine(&topics).await {
            Ok(findings) => {
                report.ok("broker", format!("{name}: can be used"))?;
                for mut finding in findings {
                    finding.what = format!("{name}: {}", finding.what);
                    report.add("broker", &finding)?;
                }
            }
            Err(error) => report.fail("broker", format!("{name}: {error}"), "")?,
        }
        broker.close().await;
    }
    Ok(())
}
