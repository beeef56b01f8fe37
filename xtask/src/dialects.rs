//! The statements of the SQL stores: a file of the same name in every dialect, or a reason why not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Context;

/// Every dialect of `crates/stores/sql`.
const DIALECTS: [&str; 3] = ["mysql", "postgres", "sqlite"];

/// Files that not every dialect has: which dialects do, which files, and why.
const EXCEPTIONS: &[(&[&str], &[&str], &str)] = &[
    (
        &["mysql", "sqlite"],
        &["fetch_route", "fetch_scan", "read_end"],
        "their logs are in the order of commits; PostgreSQL reads by snapshots",
    ),
    (
        &["postgres"],
        &["draw_xid", "fetch", "fetch_some", "read_head", "read_snapshot"],
        "reading by snapshots",
    ),
    (
        &["mysql", "sqlite"],
        &["purge_floor", "purge_lock_routes", "purge_messages", "purge_scan"],
        "what may go is decided by seqs alone; PostgreSQL decides by snapshots",
    ),
    (
        &["postgres"],
        &["purge_hold_log", "purge_hold_routes", "purge_patience", "purge_sweep"],
        "deciding and removing are one statement, under locks with a short patience",
    ),
    (
        &["mysql", "sqlite"],
        &["due_followers", "due_heads"],
        "neither can join each head with a bounded number of its followers, as `due` does",
    ),
    (&["postgres"], &["due"], "LATERAL finds heads and followers at once"),
    (
        &["mysql", "sqlite"],
        &["adopt_leases"],
        "positions stay valid after a restore, so leases just end",
    ),
    (
        &["postgres"],
        &[
            "adopt_barriers",
            "adopt_identity",
            "adopt_lease",
            "adopt_lock",
            "adopt_positions",
            "adopt_rows",
            "adopt_unread",
        ],
        "transaction ids of another server mean nothing, so positions are translated",
    ),
    (&["mysql", "sqlite"], &["enqueue"], "one statement, to which rows are added"),
    (&["postgres"], &["enqueue_many", "enqueue_one"], "arrays, and no arrays for one message"),
    (&["mysql"], &["enqueue_check"], "only the server knows that it rolled back after a deadlock"),
    (
        &["mysql"],
        &["fetch_more", "heal_sequencer", "sequence", "sequence_run"],
        "the sequencer, which moves committed messages to the log",
    ),
    (
        &["mysql"],
        &["find_cluster", "mark_lease", "mark_leases", "mark_routes", "session_cluster"],
        "nodes of a Galera cluster do not share locks",
    ),
    (
        &["mysql"],
        &["begin_call", "begin_ranges", "commit_call", "rollback_call"],
        "transactions of the store; begin, commit and rollback are for applications' guarded ones",
    ),
    (&["mysql"], &["session"], "settings of a session, which the server may have otherwise"),
    (&["mysql"], &["examine_engines", "read_version"], "two servers, and tables that lose rows"),
    (&["mysql", "sqlite"], &["create_migration"], "PostgreSQL makes it in its first migration"),
    (&["mysql"], &["lock_migration", "wait_migration"], "every DDL statement commits by itself"),
    (&["postgres"], &["endless_patience", "migrate_lock"], "a transaction that waits for locks"),
    (&["postgres"], &["check_server", "session_is_writable"], "standbys, and restored dumps"),
    (&["postgres"], &["inbox_lock_logs"], "elsewhere the INSERT itself waits"),
    (&["sqlite"], &["check_write"], "only writing tells whether a file can be written"),
    (&["sqlite"], &["read_encoding"], "a file may store text as UTF-16"),
    (&["sqlite"], &["begin_empty"], "tells whether SQLite rolled a transaction back by itself"),
    (&["mysql", "sqlite"], &["rollback"], "PostgreSQL's driver rolls back by itself"),
];

/// Adds a problem for every file that is missing in a dialect, or that an exception names without need.
pub(crate) fn check(problems: &mut Vec<String>) -> anyhow::Result<()> {
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for dialect in DIALECTS {
        let folder = format!("crates/stores/{dialect}/sql");
        for entry in fs::read_dir(&folder).with_context(|| folder.clone())? {
            let path = entry?.path();
            if let Some(name) = path.file_stem().filter(|_| is_sql(&path)) {
                found.entry(name.to_string_lossy().into_owned()).or_default().insert(dialect);
            }
        }
    }
    compare(&found, EXCEPTIONS, problems);
    Ok(())
}

fn is_sql(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sql")
}

fn compare(
    found: &BTreeMap<String, BTreeSet<&str>>,
    exceptions: &[(&[&str], &[&str], &str)],
    problems: &mut Vec<String>,
) {
    let all: BTreeSet<&str> = DIALECTS.into();
    let mut allowed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (dialects, files, reason) in exceptions {
        if reason.is_empty() {
            problems.push(format!("xtask/src/dialects.rs: no reason for {files:?}"));
        }
        for file in *files {
            allowed.insert(file, dialects.iter().copied().collect());
        }
    }
    for (file, dialects) in found {
        let expected = allowed.remove(file.as_str()).unwrap_or_else(|| all.clone());
        for missing in expected.difference(dialects) {
            problems.push(format!("crates/stores/{missing}/sql/{file}.sql: missing"));
        }
        for extra in dialects.difference(&expected) {
            problems.push(format!(
                "crates/stores/{extra}/sql/{file}.sql: an exception in xtask/src/dialects.rs says that \
                 {extra} does without"
            ));
        }
        if expected == all && !dialects.is_superset(&all) {
            problems.push(format!(
                "{file}.sql: add it to every dialect, or to EXCEPTIONS in xtask/src/dialects.rs with the \
                 reason"
            ));
        }
    }
    for file in allowed.keys() {
        problems.push(format!("xtask/src/dialects.rs: no dialect has {file}.sql"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(
        files: &[(&str, &[&'static str])],
        exceptions: &[(&[&str], &[&str], &str)],
    ) -> Vec<String> {
        let found = files
            .iter()
            .map(|(file, dialects)| ((*file).to_owned(), dialects.iter().copied().collect()))
            .collect();
        let mut problems = Vec::new();
        compare(&found, exceptions, &mut problems);
        problems
    }

    #[test]
    fn file_that_a_dialect_lacks_is_named() {
        assert!(problems_of(&[("renew", &DIALECTS)], &[]).is_empty());
        let problems = problems_of(&[("renew", &["mysql", "postgres"])], &[]);
        assert!(problems[0].contains("sqlite/sql/renew.sql: missing"), "{problems:?}");
    }

    #[test]
    fn exception_needs_a_reason_and_a_file() {
        let files: &[(&str, &[&'static str])] = &[("mark", &["mysql"])];
        assert!(problems_of(files, &[(&["mysql"], &["mark"], "clusters")]).is_empty());
        assert_eq!(problems_of(files, &[(&["mysql"], &["mark"], "")]).len(), 1);
        assert_eq!(problems_of(files, &[(&["mysql"], &["mark", "gone"], "clusters")]).len(), 1);
        assert_eq!(problems_of(files, &[(&["sqlite"], &["mark"], "clusters")]).len(), 2);
    }
}
