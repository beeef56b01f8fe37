//! The figures of a soak, as they stand in the documentation.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use anyhow::{Context, bail};
use serde_json::Value;

use super::record::{Record, Servers};

const PAGE: &str = "docs/reliability.md";
const BEGIN: &str = "<!-- soak: begin -->\n";
const END: &str = "<!-- soak: end -->";

/// Writes the figures into the page, between its marks.
pub(crate) fn write(record: &Record) -> anyhow::Result<()> {
    let page = fs::read_to_string(PAGE).with_context(|| PAGE.to_owned())?;
    fs::write(PAGE, with_figures(&page, record)?)?;
    println!("{PAGE}: the soak of {}", record.date);
    Ok(())
}

fn with_figures(page: &str, record: &Record) -> anyhow::Result<String> {
    let Some((before, rest)) = page.split_once(BEGIN) else { bail!("no {BEGIN:?} in {PAGE}") };
    let Some((_, after)) = rest.split_once(END) else { bail!("no {END:?} in {PAGE}") };
    Ok(format!("{before}{BEGIN}{}{END}{after}", figures(record)?))
}

fn figures(record: &Record) -> anyhow::Result<String> {
    let Record { date, commit, minutes, servers, simulator, failures } = record;
    let mut text = String::new();
    writeln!(text, "Soak of {date}, commit `{commit}`, {minutes} minutes.\n")?;
    writeln!(text, "| Figure | Value |\n|---|---|")?;
    writeln!(text, "| failures | {} |", failures.len())?;
    of_servers(&mut text, servers)?;
    if let Value::Object(fields) = simulator {
        for (name, value) in fields {
            writeln!(text, "| simulator: {} | {} |", name.replace('_', " "), shown(value))?;
        }
    }
    for failure in failures {
        writeln!(text, "\nFailed: {}; again by `{}`", failure.what, failure.replay)?;
    }
    Ok(text)
}

fn of_servers(text: &mut String, servers: &Servers) -> anyhow::Result<()> {
    writeln!(text, "| servers: runs | {} |", servers.runs)?;
    writeln!(text, "| servers: runs by pair | {} |", counts(&servers.pairs))?;
    let faults: usize = servers.faults.values().sum();
    writeln!(text, "| servers: faults | {faults} |")?;
    writeln!(text, "| servers: faults by kind | {} |", counts(&servers.faults))?;
    let missing = servers.not_tested.join(", ");
    let missing = if missing.is_empty() { "none" } else { &missing };
    writeln!(text, "| servers: kinds that did not happen | {missing} |")?;
    writeln!(text, "| servers: messages committed | {} |", servers.committed)?;
    // Those whose commit was never answered may have arrived, too.
    writeln!(text, "| servers: messages received | {} |", servers.received)?;
    writeln!(text, "| servers: repetitions | {} |", servers.duplicated)?;
    writeln!(text, "| servers: repetitions by cause | {} |", counts(&servers.causes))?;
    Ok(())
}

fn counts(counts: &BTreeMap<String, usize>) -> String {
    let words: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// A value on one line: objects as `name value`, lists by their length if they are long.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) if values.len() > 40 => format!("{} of them", values.len()),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Object(fields) if fields.is_empty() => "none".to_owned(),
        Value::Object(fields) => {
            let words = fields.iter().map(|(name, value)| format!("{name} {}", shown(value)));
            words.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_stand_between_the_marks_and_nothing_else_changes() {
        let record = Record {
            date: "2026-01-02T03:04:05Z".to_owned(),
            commit: "abc".to_owned(),
            minutes: 7,
            simulator: json!({"schedules": 12, "faults": {"crash": 3}}),
            ..Record::default()
        };
        let page = format!("# A\n\n{BEGIN}old\n{END}\nrest\n");
        let written = with_figures(&page, &record).unwrap();
        assert!(written.starts_with("# A\n") && written.ends_with("\nrest\n"), "{written}");
        assert!(!written.contains("old"), "{written}");
        assert!(written.contains("| simulator: faults | crash 3 |"), "{written}");
        assert_eq!(with_figures(&written, &record).unwrap(), written, "again changes nothing");
        assert!(with_figures("# A\n", &record).is_err());
    }
}
