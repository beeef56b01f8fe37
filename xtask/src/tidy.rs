//! Rules that no other tool checks. Each problem is one line: the place, and the broken rule.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::{cargo, dialects};

/// Longest file, tests aside.
const LINES_MAX: usize = 600;

/// Where every error code is explained.
const ERRORS_PAGE: &str = "docs/reference/errors.md";

/// Where every failure mode is pointed to the test that shows what happens.
const RELIABILITY_PAGE: &str = "docs/reliability.md";

/// Crates that know ports only, so that nothing of these may be below them.
const PURE: [&str; 2] = ["posthaste-core", "posthaste-relay"];
const DRIVERS: [&str; 11] = [
    "sqlx",
    "tokio-postgres",
    "rusqlite",
    "lapin",
    "rdkafka",
    "async-nats",
    "redis",
    "mqtt",
    "reqwest",
    "axum",
    "hyper",
];

/// What the inner layers of a service never name: drivers, the library that uses them, and the layers
/// around them.
const OUTER: [&str; 8] =
    ["sqlx", "axum", "hyper", "lapin", "posthaste", "services_web", "crate::infra", "crate::http"];

/// Texts that must not be merged. Each is in two parts, so that this file does not contain it.
const BANNED: [(&str, &str); 3] = [("to", "do!("), ("#[ig", "nore"), ("FIX", "ME")];

/// Prints every problem; whether there is none.
pub(crate) fn run() -> anyhow::Result<bool> {
    let mut problems = Vec::new();
    for package in PURE {
        drivers(package, &tree(package)?, &mut problems);
    }
    let mut codes = BTreeSet::new();
    let mut functions = BTreeSet::new();
    for path in rust_files(Path::new("."))? {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        file(&path, &text, &mut problems);
        if !is_test(&path) && !path.starts_with("./xtask") {
            codes.extend(error_codes(&text));
        }
        functions.extend(function_names(&text));
    }
    let page = fs::read_to_string(RELIABILITY_PAGE).with_context(|| RELIABILITY_PAGE.to_owned())?;
    pointers(&page, &functions, &mut problems);
    match fs::read_to_string(ERRORS_PAGE) {
        Ok(page) => codes_agree(&codes, &error_codes(&page), &mut problems),
        Err(error) => problems.push(format!("{ERRORS_PAGE}: {error}")),
    }
    dialects::check(&mut problems)?;
    for problem in &problems {
        println!("{problem}");
    }
    println!("tidy: {} problems", problems.len());
    Ok(problems.is_empty())
}

/// The names of everything a package is built from.
fn tree(package: &str) -> anyhow::Result<String> {
    let output = cargo()
        .args(["tree", "--package", package, "--edges", "normal"])
        .args(["--all-features", "--prefix", "none", "--format", "{p}"])
        .output()?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn drivers(package: &str, tree: &str, problems: &mut Vec<String>) {
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    for name in names {
        if DRIVERS.iter().any(|driver| name.contains(driver)) {
            problems.push(format!("{package}: depends on {name}, but may know ports only"));
        }
    }
}

/// Every Rust file below a folder, build output and hidden folders aside, in order.
fn rust_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_test(path: &Path) -> bool {
    let mut parts = path.components();
    parts.any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// Whether a file is of a service's domain or application layer.
fn is_inner(path: &Path) -> bool {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    let mut layers = parts.windows(2).filter(|pair| pair[0] == "src");
    parts.iter().any(|part| part == "services")
        && layers.any(|pair| pair[1].starts_with("domain") || pair[1].starts_with("application"))
}

fn file(path: &Path, text: &str, problems: &mut Vec<String>) {
    let shown = path.strip_prefix(".").unwrap_or(path).display();
    if !text.starts_with("//!") {
        problems.push(format!("{shown}: does not start with `//!`: say what the file is for"));
    }
    for (number, line) in text.lines().enumerate() {
        for (head, tail) in BANNED {
            let banned = format!("{head}{tail}");
            if line.contains(&banned) {
                problems.push(format!("{shown}:{}: {banned} is not merged", number + 1));
            }
        }
    }
    if is_inner(path) {
        for name in OUTER.iter().filter(|name| text.contains(*name)) {
            problems
                .push(format!("{shown}: names {name}, but domain and application know no driver"));
        }
    }
    let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    let lines = code.count();
    if lines > LINES_MAX && !is_test(path) {
        problems.push(format!("{shown}: {lines} lines, at most {LINES_MAX} without tests"));
    }
}

/// Every `PH-1234` in a text.
fn error_codes(text: &str) -> BTreeSet<String> {
    let starts = text.match_indices("PH-").map(|(at, _)| at);
    let codes = starts.filter_map(|at| text.get(at..at + 7));
    codes
        .filter(|code| code[3..].bytes().all(|byte| byte.is_ascii_digit()))
        .map(str::to_owned)
        .collect()
}

/// The name of every function of a file.
fn function_names(text: &str) -> impl Iterator<Item = String> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    text.split("fn ").skip(1).filter_map(move |rest| rest.split(ends).next().map(str::to_owned))
}

/// Every test that a page names, as `name_of_it` or `group::name_of_it`, must be there.
fn pointers(page: &str, functions: &BTreeSet<String>, problems: &mut Vec<String>) {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':';
    for quoted in page.split('`').skip(1).step_by(2) {
        let name = quoted.rsplit("::").next().unwrap_or(quoted);
        let is_name = quoted.chars().all(is_part) && name.contains('_');
        if is_name && !functions.contains(name) {
            problems.push(format!("{RELIABILITY_PAGE}: names {quoted}, which is not there"));
        }
    }
}

fn codes_agree(used: &BTreeSet<String>, known: &BTreeSet<String>, problems: &mut Vec<String>) {
    for code in used.difference(known) {
        problems.push(format!("{ERRORS_PAGE}: does not explain {code}"));
    }
    for code in known.difference(used) {
        problems.push(format!("{ERRORS_PAGE}: explains {code}, which nothing uses"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(path: &str, text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        file(Path::new(path), text, &mut problems);
        problems
    }

    #[test]
    fn every_file_says_what_it_is_for() {
        assert!(problems_of("./a.rs", "//! A.\n").is_empty());
        assert_eq!(problems_of("./a.rs", "fn a() {}\n").len(), 1);
        assert_eq!(problems_of("./a.rs", "").len(), 1);
    }

    #[test]
    fn what_is_unfinished_is_named_with_its_line() {
        for (head, tail) in BANNED {
            let text = format!("//! A.\n\n{head}{tail}\n");
            let problems = problems_of("./a.rs", &text);
            assert!(problems[0].starts_with("a.rs:3: "), "{problems:?}");
        }
    }

    #[test]
    fn tests_do_not_count_for_length() {
        let code = format!("//! A.\n{}", "\n".repeat(LINES_MAX - 1));
        let tests = format!("#[cfg(test)]\n{}", "\n".repeat(LINES_MAX));
        assert!(problems_of("./a.rs", &format!("{code}{tests}")).is_empty());
        assert_eq!(problems_of("./a.rs", &format!("{code}\n")).len(), 1);
        assert!(problems_of("./tests/a.rs", &format!("{code}\n")).is_empty());
    }

    #[test]
    fn inner_layers_name_no_driver() {
        let text = "//! A.\nuse sqlx::PgPool;\n";
        for path in ["./services/a/src/domain/b.rs", "./services/a/src/application.rs"] {
            assert_eq!(problems_of(path, text).len(), 1, "{path}");
        }
        for path in ["./services/a/src/infra/b.rs", "./crates/a/src/domain.rs"] {
            assert!(problems_of(path, text).is_empty(), "{path}");
        }
    }

    #[test]
    fn drivers_are_found_whatever_their_version() {
        let mut problems = Vec::new();
        let tree = "posthaste-core v0.1.0 (/p)\nserde v1.0.0\nsqlx-core v0.9.0\nmqtt5 v0.49.0\n";
        drivers("posthaste-core", tree, &mut problems);
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn tests_that_are_pointed_to_are_there() {
        let text = "async fn a_fact() {}\nfn other_fact<T>() {}";
        let functions: BTreeSet<String> = function_names(text).collect();
        let mut problems = Vec::new();
        pointers("`a_fact`, `x::other_fact`, `plain`, `A_B`, `f_o.rs`", &functions, &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        pointers("`x::no_fact`", &functions, &mut problems);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    #[test]
    fn codes_are_explained_and_used() {
        let used = error_codes("\"PH-1001\" PH-x PH-12 `PH-1002`, PH-");
        assert_eq!(used.len(), 2);
        let mut problems = Vec::new();
        codes_agree(&used, &error_codes("## PH-1002\n## PH-9999"), &mut problems);
        assert_eq!(problems.len(), 2, "{problems:?}");
    }
}
