//! Printing results as Markdown, so that they can be pasted into `bench/README.md`.

use std::fs;

use anyhow::Result;
use posthaste_fixtures::Postgres;

/// The machine and the server.
pub(crate) fn head(server: &Postgres) -> Result<()> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown CPU");
    let cores = std::thread::available_parallelism()?;
    println!("{model}, {cores} cores; {}\n", server.origin());
    Ok(())
}

/// A table.
pub(crate) fn table(title: &str, columns: &[&str], rows: &[Vec<String>]) {
    println!("### {title}\n");
    println!("| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
    println!();
}

/// The middle one.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The value that `share` of all values are at or below.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a short list"
    )]
    let index = (sorted.len() as f64 * share) as usize;
    sorted[index.min(sorted.len() - 1)]
}

/// `123 k`.
pub(crate) fn thousands(rate: f64) -> String {
    format!("{:.0} k", rate / 1000.0)
}
