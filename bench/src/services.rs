//! The load test of the services: what `services-load` measures, printed, and its
//! thresholds enforced.

use std::{env, time::Duration};

use anyhow::{Result, ensure};
use services_load::{Call, Form, Percentiles, Report, Sample, Script, client, drive, scenarios};
use system::{Options, System};

use crate::report;

/// What is loaded.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Transfers,
    Users,
}

/// Drives a service and prints what was found: that of the URL, or of a whole system started here, with
/// relays, the consumer that settles, PostgreSQL and RabbitMQ.
///
/// # Errors
/// When the service cannot be had, or a threshold is violated.
pub(crate) async fn run(target: Target, form: Form, base_url: Option<String>) -> Result<()> {
    let variable = env::var("BASE_URL").ok().filter(|url| !url.is_empty());
    if let Some(url) = base_url.or(variable) {
        return load(target, form, &url).await;
    }
    let system = System::start(&Options::default(), |line| eprintln!("{line}")).await?;
    report::head(system.postgres())?;
    let url = match target {
        Target::Transfers => system.transactions(),
        Target::Users => system.users(),
    };
    let result = load(target, form, url).await;
    system.stop().await?;
    result
}

async fn load(target: Target, form: Form, base_url: &str) -> Result<()> {
    let client = client()?;
    let script = match target {
        Target::Transfers => Script::transfers(&client, base_url).await?,
        Target::Users => Script::Users,
    };
    let report = drive(&client, base_url, script, &scenarios(form)).await;
    let form = if form == Form::Quick { "quick form" } else { "full form" };
    print(&report, form);
    let thresholds = report.thresholds();
    let broken: Vec<String> = thresholds
        .iter()
        .filter(|threshold| !threshold.is_held)
        .map(|threshold| format!("{}: {}", threshold.rule, threshold.found))
        .collect();
    ensure!(broken.is_empty(), "not held: {}", broken.join("; "));
    Ok(())
}

fn print(report: &Report, form: &str) {
    let columns = ["calls", "requests", "requests/s", "p50", "p90", "p99", "max", "errors"];
    let working: Duration =
        report.scenarios.iter().map(|scenario| scenario.ends() - scenario.starts).sum();
    let mut rows = vec![row("all", report.of(None, None), working)];
    for call in &report.calls {
        rows.push(row(call.name(), report.of(Some(*call), None), working));
    }
    for (index, scenario) in report.scenarios.iter().enumerate() {
        let name = format!("{}, {} users", scenario.name, scenario.users);
        let working = scenario.ends() - scenario.starts;
        rows.push(row(&name, report.of(None, Some(index)), working));
    }
    report::table(&format!("Load of the services, {form}"), &columns, &rows);
    if report.settled.is_empty() && report.calls.contains(&Call::CreateTransaction) {
        println!("No transfer was settled before the start, so none was followed.\n");
    } else if !report.settled.is_empty() {
        print_settled(&report.settled);
    }
    let held = |is_held| if is_held { "held" } else { "VIOLATED" }.to_owned();
    let rows: Vec<_> = report
        .thresholds()
        .into_iter()
        .map(|it| vec![it.rule, it.found, held(it.is_held)])
        .collect();
    report::table("Thresholds, over all scenarios", &["rule", "found", ""], &rows);
}

fn row<'a>(
    name: &str,
    samples: impl Iterator<Item = &'a Sample>,
    working: Duration,
) -> Vec<String> {
    let mut errors = 0;
    let count_errors = |sample: &'a Sample| {
        errors += usize::from(!sample.is_good);
        sample.took
    };
    let found = Percentiles::of(samples.map(count_errors));
    #[expect(clippy::cast_precision_loss, reason = "counts of minutes, not of years")]
    let rate = found.count as f64 / working.as_secs_f64();
    let mut row = vec![name.to_owned(), found.count.to_string(), format!("{rate:.0}")];
    row.extend(times(found));
    row.push(errors.to_string());
    row
}

fn times(found: Percentiles) -> [String; 4] {
    [found.p50, found.p90, found.p99, found.max]
        .map(|time| format!("{:.1} ms", time.as_secs_f64() * 1000.0))
}

fn print_settled(settled: &[Option<Duration>]) {
    let found = Percentiles::of(settled.iter().copied().flatten());
    let mut row = vec![found.count.to_string(), (settled.len() - found.count).to_string()];
    row.extend(times(found));
    report::table(
        "From the request for a transfer until its status is COMPLETED, of five transfers a second",
        &["settled", "not settled in a minute", "p50", "p90", "p99", "max"],
        &[row],
    );
}
