//! `config show`: the effective configuration as valid TOML, with the source of every value.

use std::io::{self, Write};

use super::{Shown, sources::Origin};

/// Column at which sources start, unless the value is longer.
const SOURCE_COLUMN: usize = 43;

/// Writes it.
///
/// # Errors
/// When the writer fails.
pub(crate) fn show(shown: &[Shown], out: &mut dyn Write) -> io::Result<()> {
    let mut section = None;
    for entry in shown {
        if section != Some(&entry.section) {
            if section.is_some() {
                writeln!(out)?;
            }
            writeln!(out, "{}", heading(&entry.section))?;
            section = Some(&entry.section);
        }
        let line = match &entry.value {
            Some(value) => format!("{} = {value}", entry.key),
            None => format!("# {} is not set", entry.key),
        };
        match (&entry.value, &entry.origin) {
            (None, Origin::Default) => writeln!(out, "{line}")?,
            (_, origin) => writeln!(out, "{line:SOURCE_COLUMN$} # {origin}")?,
        }
    }
    Ok(())
}

/// `route[0].retry` is `[route.retry]`, `route[0]` is `[[route]]`.
fn heading(section: &str) -> String {
    match section.split_once('[') {
        None => format!("[{section}]"),
        Some((list, rest)) => match rest.split_once("].") {
            Some((_, inner)) => format!("[{list}.{inner}]"),
            None => format!("[[{list}]]"),
        },
    }
}
