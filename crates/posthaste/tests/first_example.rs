//! The first example is at most 12 lines, and does what it says.

use std::process::Command;

#[test]
fn twelve_lines_lead_from_nothing_to_a_delivered_message() {
    let source = include_str!("../examples/first.rs");
    let body = source.split("// [first]").nth(1).expect("the example is marked");
    let lines = body.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 12, "{lines} lines");

    // The README shows the same statements, however they are broken into lines.
    let squeeze =
        |text: &str| text.split_whitespace().collect::<String>().replace("first.db", "shop.db");
    let readme = squeeze(include_str!("../../../README.md"));
    assert!(readme.contains(&squeeze(body)), "the README shows another example");

    let folder = tempfile::tempdir().unwrap();
    // Tests build the examples of their package: this one stands two folders up.
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples/first");
    let output = Command::new(&program).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["topic"], "orders");
    assert_eq!(line["key"], "42");
    assert_eq!(line["payload"], "\"placed\"");
}
