//! The pages that say which test shows which requirement of a service, and which defect of the
//! original: nothing is missing, and every test they name is there.

use std::{fs, path::Path};

/// A page: its name, its sections of requirements from the first to the last, and the prefix and
/// the number of its defects.
type Page = (&'static str, &'static [(&'static str, u32, u32)], (&'static str, u32));

const PAGES: [Page; 2] = [
    ("requirements-articles", &[("R7", 1, 11)], ("D0", 17)),
    (
        "requirements-transfers",
        &[("R1", 1, 19), ("R2", 1, 13), ("R3", 0, 0), ("R4", 1, 8), ("R5", 1, 3)],
        ("D3", 44),
    ),
];

/// Every requirement, then every defect.
fn numbers((_, sections, (prefix, defects)): Page) -> Vec<String> {
    let requirements = sections.iter().flat_map(|(section, first, last)| {
        (*first..=*last).map(move |number| format!("{section}.{number:02}"))
    });
    requirements.chain((1..=defects).map(|number| format!("{prefix}-{number:02}"))).collect()
}

/// Whether a source has a test of that name: a function, or what a macro runs on each database.
fn has(source: &str, name: &str) -> bool {
    let function = format!("fn {name}(");
    let (inline, line) = (format!("!({name},"), format!("{name},"));
    source.contains(&function)
        || source.contains(&inline)
        || source.lines().any(|text| text.trim() == line)
}

#[test]
fn every_requirement_and_every_defect_is_pointed_to_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in PAGES {
        let text = fs::read_to_string(root.join(format!("docs/reference/{}.md", page.0))).unwrap();
        assert_eq!(pointed_to(&root, &text, &numbers(page)), numbers(page));
    }
}

/// The numbers that a page points to tests, in its order.
fn pointed_to(root: &Path, page: &str, numbers: &[String]) -> Vec<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
    let mut seen = Vec::new();
    for (number, rest) in rows.filter(|(number, _)| numbers.iter().any(|it| it == number)) {
        let pointers = rest.split('`').skip(1).step_by(2).filter_map(|it| it.rsplit_once("::"));
        let mut count = 0;
        for (path, name) in pointers.filter(|(path, _)| path.ends_with(".rs")) {
            let source = fs::read_to_string(root.join(path));
            let source = source.unwrap_or_else(|error| panic!("{number}: {path}: {error}"));
            assert!(has(&source, name), "{number}: no {name} in {path}");
            count += 1;
        }
        assert!(count > 0, "{number} has no test");
        seen.push(number.to_owned());
    }
    seen
}
