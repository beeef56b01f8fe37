//! Whether the store can be served, and settings worth a look.

use std::collections::HashMap;

use posthaste_core::{Finding, PAYLOAD_BYTES_MAX};
use posthaste_store_sql::{Fault, Session};

use crate::{MySql, error::read_only};

/// The oldest servers with what the tables and statements need: CHECK constraints that are kept,
/// JSON_TABLE, expressions as defaults, SKIP LOCKED.
const MARIADB_MIN: (u32, u32, u32) = (10, 6, 0);
const MYSQL_MIN: (u32, u32, u32) = (8, 0, 16);

/// What the server is.
pub(crate) struct Server {
    version: String,
}

impl Server {
    pub(crate) async fn read(session: &mut Session<'_, MySql>) -> Result<Self, Fault> {
        let rows = session.own("read_version", &[]).await?.rows;
        let row = rows.first().ok_or_else(|| Fault::internal("a server without a version"))?;
        Ok(Self { version: row.string(0)? })
    }

    fn is_mariadb(&self) -> bool {
        self.version.contains("MariaDB")
    }

    /// The three numbers the version starts with, behind what MariaDB puts before them for old
    /// clients.
    fn number(&self) -> (u32, u32, u32) {
        let text = self.version.strip_prefix("5.5.5-").unwrap_or(&self.version);
        let mut numbers = text
            .split(|character: char| !character.is_ascii_digit())
            .map(|part| part.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        (next(), next(), next())
    }

    fn is_new_enough(&self) -> bool {
        self.number() >= if self.is_mariadb() { MARIADB_MIN } else { MYSQL_MIN }
    }

    /// Fails for a server that is too old.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.is_new_enough() {
            return Ok(());
        }
        Err(Fault::refused(format!("server version {} is too old; {UPGRADE}", self.version)))
    }
}

const UPGRADE: &str = "upgrade to MySQL 8.0.16, MariaDB 10.6, or later";

/// The check port, behind the check of the tables' version.
pub(crate) async fn check(session: &mut Session<'_, MySql>) -> Result<(), Fault> {
    // A user with enough rights may write to a replica, which must not be done by accident.
    if Settings::read(session).await?.is_read_only() {
        return Err(read_only());
    }
    session.own("heal_sequencer", &[]).await?;
    Ok(())
}

/// The server's global settings, those of them that it has.
struct Settings(HashMap<String, String>);

impl Settings {
    async fn read(session: &mut Session<'_, MySql>) -> Result<Self, Fault> {
        let mut settings = HashMap::new();
        for row in &session.own("examine", &[]).await?.rows {
            settings.insert(row.string(0)?.to_ascii_lowercase(), row.string(1)?);
        }
        Ok(Self(settings))
    }

    /// Empty where the server has no such setting.
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        !matches!(self.get(name).to_ascii_uppercase().as_str(), "" | "OFF" | "0")
    }

    fn is_read_only(&self) -> bool {
        self.is_on("read_only") || self.is_on("super_read_only")
    }
}

/// The examine port.
pub(crate) async fn examine(session: &mut Session<'_, MySql>) -> Result<Vec<Finding>, Fault> {
    let settings = Settings::read(session).await?;
    let mut others = Vec::new();
    for row in &session.own("examine_engines", &[]).await?.rows {
        others.extend(row.text(0)?);
    }
    let mut findings = server(&settings);
    findings.extend(durability(&settings));
    findings.extend(replication(&settings));
    findings.push(finding(
        others.is_empty(),
        match others.as_slice() {
            [] => "all tables are InnoDB".to_owned(),
            others => format!("not InnoDB: {}", others.join(", ")),
        },
        "ALTER TABLE ... ENGINE = InnoDB; without transactions messages are lost",
    ));
    Ok(findings)
}

fn finding(ok: bool, what: String, fix: &str) -> Finding {
    Finding { ok, what, fix: (!ok).then(|| fix.to_owned()) }
}

fn server(settings: &Settings) -> Vec<Finding> {
    let server = Server { version: settings.get("version").to_owned() };
    let isolation = match settings.get("transaction_isolation") {
        "" => settings.get("tx_isolation"),
        isolation => isolation,
    };
    let mode = settings.get("sql_mode");
    let packet: usize = settings.get("max_allowed_packet").parse().unwrap_or(0);
    let is_read_only = settings.is_read_only();
    vec![
        finding(server.is_new_enough(), format!("server version {}", server.version), UPGRADE),
        finding(
            !is_read_only,
            format!("read_only {}", if is_read_only { "ON" } else { "OFF" }),
            "connect to the primary",
        ),
        // Ours is explicit; the application's is its own.
        finding(
            isolation != "SERIALIZABLE" && isolation != "READ-UNCOMMITTED",
            format!("default isolation {isolation}"),
            "nothing to do for the relay; let the application use READ-COMMITTED or \
             REPEATABLE-READ",
        ),
        finding(
            mode.contains("STRICT_TRANS_TABLES") || mode.contains("STRICT_ALL_TABLES"),
            format!("sql_mode {mode}"),
            "add STRICT_TRANS_TABLES; without it the server changes what it cannot store, \
             for example text that is not UTF-8, instead of refusing it",
        ),
        finding(
            packet > PAYLOAD_BYTES_MAX + (1 << 20),
            format!("max_allowed_packet {packet}"),
            "set max_allowed_packet = 16M or more; large messages cannot be stored",
        ),
    ]
}

fn durability(settings: &Settings) -> Vec<Finding> {
    let flush = settings.get("innodb_flush_log_at_trx_commit");
    let doublewrite = settings.get("innodb_doublewrite");
    vec![
        finding(
            flush == "1" || flush == "3",
            format!("innodb_flush_log_at_trx_commit {flush}"),
            "set innodb_flush_log_at_trx_commit = 1; a crash can lose commits whose messages were \
             sent",
        ),
        finding(
            settings.is_on("innodb_doublewrite"),
            format!("innodb_doublewrite {doublewrite}"),
            "set innodb_doublewrite = ON; a crash can corrupt the log",
        ),
    ]
}

fn replication(settings: &Settings) -> Vec<Finding> {
    let has_binlog = settings.is_on("log_bin");
    let sync = settings.get("sync_binlog");
    let format = settings.get("binlog_format").to_ascii_uppercase();
    let mode = settings.get("innodb_autoinc_lock_mode");
    let binlog = if has_binlog { "ON" } else { "OFF" };
    vec![
        finding(
            !has_binlog || sync == "1",
            format!("log_bin {binlog}, sync_binlog {sync}"),
            "set sync_binlog = 1; after a crash replicas, and what is restored from the binary \
             log, may lack commits whose messages were sent",
        ),
        // MySQL refuses READ COMMITTED with STATEMENT.
        finding(
            !has_binlog || format != "STATEMENT",
            format!("log_bin {binlog}, binlog_format {format}"),
            "set binlog_format = ROW; READ COMMITTED cannot be logged as statements",
        ),
        finding(
            mode == "1" || mode == "2",
            format!("innodb_autoinc_lock_mode {mode}"),
            "set innodb_autoinc_lock_mode = 2; with 0 every INSERT into the outbox waits for those \
             before it to end",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart_by_their_version() {
        for (version, is_new_enough) in [
            ("8.0.36", true),
            ("8.4.3-log", true),
            ("8.0.15", false),
            ("5.7.44", false),
            ("10.11.19-MariaDB-0+deb12u1", true),
            ("5.5.5-10.6.4-MariaDB", true),
            ("10.5.22-MariaDB", false),
            ("11.4.2-MariaDB-log", true),
        ] {
            let server = Server { version: version.to_owned() };
            assert_eq!(server.check().is_ok(), is_new_enough, "{version}");
        }
    }
}
