//! `migrate`: creates or updates the tables, or prints the SQL that would.

use std::process::ExitCode;

use crate::{
    args::{Dialect, MigrateArgs},
    config::{Inputs, Needs},
    output::Terminal,
    stores::{self, Database, print_migrations},
};

/// Runs it.
///
/// # Errors
/// When the database refuses.
pub(crate) async fn run(
    args: &MigrateArgs,
    inputs: &Inputs,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    if let Some(dialect) = args.print {
        let dialect = match dialect {
            Some(dialect) => dialect,
            None => configured(inputs, terminal)?,
        };
        let sql = print_migrations(dialect);
        writeln!(terminal.out, "{}", sql.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = super::load(inputs, Needs::Store, terminal)?;
    let database = Database::open_or_create(super::url(&config)).await?;
    if args.adopt {
        database.adopt().await?;
        terminal.note("the data is adopted: relays can start")?;
        return Ok(ExitCode::SUCCESS);
    }
    let applied = database.migrate().await?;
    for name in &applied {
        writeln!(terminal.out, "applied {name}")?;
    }
    if applied.is_empty() {
        terminal.note("the tables are up to date")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn configured(inputs: &Inputs, terminal: &mut Terminal<'_>) -> anyhow::Result<Dialect> {
    let config = super::load(inputs, Needs::Nothing, terminal)?;
    Ok(config.store.as_ref().map_or(Dialect::Postgres, stores::dialect))
}
