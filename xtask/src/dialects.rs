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
const EXCEPTIONS: &[(&[&str], &[&str], &str)] = &[];

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
