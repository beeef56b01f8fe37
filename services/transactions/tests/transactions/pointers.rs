//! The page that says which test shows which requirement, and which defect of the original: nothing is
//! missing, and every test it names is there.

use std::{fs, path::Path};

/// Every requirement, then every defect.
fn numbers() -> Vec<String> {
    let sections = [("R1", 1, 19), ("R2", 1, 13), ("R3", 0, 0), ("R4", 1, 8), ("R5", 1, 3)];
    let requirements = sections.into_iter().flat_map(|(section, first, last)| {
        (first..=last).map(move |number| format!("{section}.{number:02}"))
    });
    requirements.chain((1..=44).map(|number| format!("D3-{number:02}"))).collect()
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
    let page = fs::read_to_string(root.join("docs/reference/document-003.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
    let mut seen = Vec::new();
    let is_number = |number: &str| numbers().iter().any(|it| it == number);
    for (number, rest) in rows.filter(|(number, _)| is_number(number)) {
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
    assert_eq!(seen, numbers(), "in order, each once");
}
