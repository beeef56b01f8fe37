//! Output of commands: data goes to one writer, notes and errors to another; errors carry their
//! exit code.

use std::io::{self, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use console::Style;
use posthaste_core::{BrokerError, Invalid, StoreError, StoreErrorKind};

use crate::config::Problems;

/// Done.
pub(crate) const OK: u8 = 0;
/// The command failed, or its answer is no.
pub(crate) const NO: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// The named thing does not exist.
pub(crate) const NOT_FOUND: u8 = 3;
/// The command needs `--yes`.
pub(crate) const NEEDS_YES: u8 = 4;
/// Database or broker unreachable (`EX_UNAVAILABLE`).
pub(crate) const UNREACHABLE: u8 = 69;
/// Denied (`EX_NOPERM`).
pub(crate) const DENIED: u8 = 77;
/// Configuration invalid (`EX_CONFIG`).
pub(crate) const CONFIG: u8 = 78;

/// The writers of a command, and whether a person is at the terminal.
pub(crate) struct Terminal<'a> {
    /// Data.
    pub(crate) out: &'a mut dyn Write,
    /// Notes, questions and errors.
    pub(crate) err: &'a mut dyn Write,
    /// Whether a person can answer questions.
    pub(crate) is_interactive: bool,
    /// Whether data goes to a person's screen, which can be redrawn.
    pub(crate) is_screen: bool,
}

impl Terminal<'_> {
    /// Writes a note to standard error.
    ///
    /// # Errors
    /// When the writer fails.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        let label = Style::new().for_stderr().cyan().apply_to("note");
        writeln!(self.err, "{label}: {text}")
    }

    /// Writes one value as one line of JSON.
    ///
    /// # Errors
    /// When the writer fails.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let line = serde_json::to_string(value).map_err(io::Error::other)?;
        writeln!(self.out, "{line}")
    }

    /// Asks a question; only `y` or `yes` is yes.
    ///
    /// # Errors
    /// When reading or writing fails.
    pub(crate) fn ask(&mut self, question: &str) -> io::Result<bool> {
        write!(self.err, "{question} [y/N] ")?;
        self.err.flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }
}

/// Whether standard input and standard error are a terminal.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// An error of the command itself, with its exit code and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Fault {
    /// The exit code.
    pub(crate) code: u8,
    /// The problem.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: Option<String>,
}

impl Fault {
    /// An error with its exit code.
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }

    /// Adds what to do.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The exit code of an error.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if let Some(fault) = cause.downcast_ref::<Fault>() {
            return fault.code;
        }
        if cause.is::<Problems>() {
            return CONFIG;
        }
        if cause.is::<BrokerError>() {
            return UNREACHABLE;
        }
        if cause.is::<Invalid>() {
            return USAGE;
        }
        if let Some(error) = cause.downcast_ref::<StoreError>() {
            return match error.kind {
                StoreErrorKind::Unavailable => UNREACHABLE,
                StoreErrorKind::Denied => DENIED,
                _ => NO,
            };
        }
        if let Some(error) = cause.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            return OK;
        }
    }
    NO
}

/// Writes an error, its causes, and what to do.
///
/// # Errors
/// When the writer fails.
pub(crate) fn write_error(error: &anyhow::Error, err: &mut dyn Write) -> io::Result<()> {
    if let Some(problems) = error.downcast_ref::<Problems>() {
        return writeln!(err, "{problems}");
    }
    let label = Style::new().for_stderr().red().bold().apply_to("error");
    writeln!(err, "{label}: {error}")?;
    let mut said = error.to_string();
    for (cause, outer) in error.chain().skip(1).zip(error.chain()) {
        // A store's message is complete for an operator, except for internal errors; its source
        // repeats it in the driver's words.
        let store = outer.downcast_ref::<StoreError>();
        if store.is_some_and(|outer| outer.kind != StoreErrorKind::Internal) {
            break;
        }
        let text = cause.to_string();
        if !said.contains(&text) {
            writeln!(err, "  caused by: {text}")?;
            said.push_str(&text);
        }
    }
    if let Some(help) = help_for(error, &said) {
        writeln!(err, "  = help: {help}")?;
    }
    Ok(())
}

fn help_for(error: &anyhow::Error, said: &str) -> Option<String> {
    if let Some(fault) = error.downcast_ref::<Fault>() {
        return fault.help.clone();
    }
    let store = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>())?;
    let help = match store.kind {
        StoreErrorKind::SchemaMissing | StoreErrorKind::SchemaTooOld => "posthaste migrate",
        StoreErrorKind::OtherServer => "posthaste migrate --adopt",
        StoreErrorKind::Unavailable => "posthaste doctor",
        _ => {
            return Some(format!("`posthaste explain {}` explains the error", store.kind.code()));
        }
    };
    (!said.contains(help)).then(|| format!("run `{help}`"))
}

/// A table without lines. Cells are never broken, so that ids can be copied and lines grepped; the
/// caller shortens long texts.
pub(crate) fn table(heading: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(heading.iter().map(|word| word.to_uppercase()));
    table
}

/// Writes a table without trailing spaces.
///
/// # Errors
/// When the writer fails.
pub(crate) fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    for line in table.to_string().lines() {
        writeln!(out, "{}", line.strip_prefix(' ').unwrap_or(line).trim_end())?;
    }
    Ok(())
}

/// A time span for people: the two largest units, nothing below a millisecond.
pub(crate) fn span(seconds: f64) -> String {
    if !seconds.is_finite() || seconds <= 0.0 {
        return "0s".to_owned();
    }
    if seconds < 1.0 {
        return format!("{:.0}ms", seconds * 1000.0);
    }
    let whole = std::time::Duration::from_secs_f64(seconds.round().min(1e15));
    let text = humantime::format_duration(whole).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Text in one line of at most `chars` characters.
pub(crate) fn shorten(text: &str, chars: usize) -> String {
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(chars + 1).collect();
    if line.chars().count() <= chars {
        return line;
    }
    line.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
}

/// `1 message`, `2 messages`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (seconds, shown) in [
            (0.0, "0s"),
            (-3.0, "0s"),
            (0.25, "250ms"),
            (3.4, "3s"),
            (90.0, "1m 30s"),
            (90_061.0, "1day 1h"),
            (f64::NAN, "0s"),
        ] {
            assert_eq!(span(seconds), shown);
        }
    }

    #[test]
    fn errors_have_their_codes() {
        let store = |kind| StoreError::new(kind, "check", "x");
        for (error, code) in [
            (anyhow::Error::new(store(StoreErrorKind::Unavailable)), UNREACHABLE),
            (anyhow::Error::new(store(StoreErrorKind::Denied)), DENIED),
            (anyhow::Error::new(store(StoreErrorKind::SchemaMissing)), NO),
            (anyhow::Error::new(Problems(Vec::new())), CONFIG),
            (anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)), OK),
            (anyhow::Error::new(Fault::new(NOT_FOUND, "x")).context("y"), NOT_FOUND),
        ] {
            assert_eq!(code_of(&error), code, "{error}");
        }
    }
}
