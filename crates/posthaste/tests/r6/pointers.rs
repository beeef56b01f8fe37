//! The page that says which test shows which requirement: nothing is missing, and every test it names
//! is there.

use std::{collections::BTreeSet, fs, path::Path};

/// The rows of the page's table, as requirement and the texts in backquotes beside it.
fn rows(page: &str) -> Vec<(&str, Vec<&str>)> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| R6.")?.split_once(" |"))
        .map(|(number, rest)| (number, rest.split('`').skip(1).step_by(2).collect()))
        .collect()
}

#[test]
fn every_requirement_is_pointed_to_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page =
        fs::read_to_string(root.join("docs/reference/requirements-mysql-to-kafka.md")).unwrap();
    let mut shown = BTreeSet::new();
    let mut named = BTreeSet::new();
    for (number, pointers) in rows(&page) {
        for pointer in pointers {
            let Some((path, name)) = pointer.rsplit_once("::") else { continue };
            let source = fs::read_to_string(root.join(path));
            let source = source.unwrap_or_else(|error| panic!("R6.{number}: {path}: {error}"));
            // A function, or the name that a macro gives to the same test on several databases.
            let is_there = [format!("fn {name}("), format!("!({name},")];
            assert!(
                is_there.iter().any(|text| source.contains(text)),
                "R6.{number}: no {name} in {path}"
            );
            shown.insert(number.to_owned());
            named.insert(name.to_owned());
        }
    }
    let all: BTreeSet<String> = (1..=15).map(|number| format!("{number:02}")).collect();
    assert_eq!(shown, all, "requirements with a test");
    let here = include_str!("main.rs").lines().filter_map(|line| {
        line.strip_prefix("async fn r6_")?.split_once('(').map(|(name, _)| format!("r6_{name}"))
    });
    for name in here {
        assert!(named.contains(&name), "the page does not name {name}");
    }
}
