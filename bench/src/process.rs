//! The relay in a process of its own, so that its memory and CPU time can be told apart.

use std::{env, fs, process::Command, sync::Arc};

use anyhow::{Context, Result, ensure};

use crate::drain;

/// The variable that tells the child which database to drain.
const URL: &str = "POSTHASTE_BENCH_URL";

/// What a child reports.
pub(crate) struct Measured {
    pub(crate) rate: f64,
    pub(crate) peak_kib: u64,
}

/// Runs this program as a child that drains the database.
pub(crate) fn drain_in_child(url: &str) -> Result<Measured> {
    let output = Command::new(env::current_exe()?).arg("child").env(URL, url).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let (rate, peak) = text.trim().split_once(' ').context("two numbers")?;
    Ok(Measured { rate: rate.parse()?, peak_kib: peak.parse()? })
}

/// The child: drains, and prints the rate and its own peak memory in KiB.
pub(crate) async fn child() -> Result<()> {
    let url = env::var(URL).context("the child is started by the bench itself")?;
    let (rate, _) = drain::relay(&url, Arc::default()).await?;
    println!("{rate} {}", peak_kib()?);
    Ok(())
}

fn peak_kib() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// CPU time this process has used so far, in clock ticks (1/100 s on Linux).
pub(crate) fn cpu_ticks() -> Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> =
        stat.rsplit_once(')').context("a process name")?.1.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}
