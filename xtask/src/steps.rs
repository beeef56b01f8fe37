//! Named steps, each with its time, and a summary of all.

use std::time::{Duration, Instant};

/// What has been run so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, bool, Duration)>,
}

impl Steps {
    /// Runs a step and says how it went. A step that cannot run has failed.
    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> anyhow::Result<bool>) {
        println!("==> {name}");
        let start = Instant::now();
        let is_fine = step().unwrap_or_else(|error| {
            eprintln!("{error:#}");
            false
        });
        self.done.push((name, is_fine, start.elapsed()));
        println!("==> {}", line(name, is_fine, start.elapsed()));
    }

    /// Prints the summary; whether all went well.
    pub(crate) fn finish(self) -> bool {
        println!();
        for (name, is_fine, time) in &self.done {
            println!("{}", line(name, *is_fine, *time));
        }
        self.done.iter().all(|(_, is_fine, _)| *is_fine)
    }
}

fn line(name: &str, is_fine: bool, time: Duration) -> String {
    let word = if is_fine { "ok" } else { "FAILED" };
    format!("{name:<10} {word:<7} {:.1} s", time.as_secs_f64())
}
