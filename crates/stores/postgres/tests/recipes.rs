//! The inbox from other languages: the recipes of the documentation are these files, and the Python
//! one does what it says.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod bed;

use std::{fs, path::PathBuf, process::Command};

use bed::Bed;

/// The driver that the Python recipe is for, from PyPI.
const PSYCOPG: &str = "psycopg[binary]==3.2.13";

/// The recipes' folder.
fn recipes() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recipes"))
}

fn expect_success(command: &mut Command, advice: &str) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; {advice}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {advice}\n{said}");
    said
}

/// A Python that has the driver: in a folder of its own, made at the first time.
fn python() -> PathBuf {
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("psycopg-3.2.13");
    let done = home.join("installed");
    // Two test programs may want it at once.
    let lock = fs::File::create(home.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if !done.exists() {
        let advice = "needs python3 with venv and a connection to PyPI";
        let mut venv = Command::new("python3");
        expect_success(venv.args(["-m", "venv", "--clear"]).arg(&home), advice);
        let mut pip = Command::new(home.join("bin/pip"));
        expect_success(pip.args(["install", "--quiet", PSYCOPG]), advice);
        fs::write(&done, "").unwrap();
    }
    home.join("bin/python")
}

#[test]
fn the_page_of_the_inbox_has_the_recipes_as_they_are() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guides/inbox-recipes.md");
    let page = fs::read_to_string(page).unwrap();
    for (file, language) in [("inbox.py", "python"), ("inbox.mjs", "js"), ("inbox.go", "go")] {
        let recipe = fs::read_to_string(recipes().join(file)).unwrap();
        assert!(page.contains(&format!("```{language}\n{recipe}```")), "{file} differs");
    }
}

#[tokio::test]
async fn the_python_recipe_makes_effects_once() {
    let bed = Bed::fresh().await;
    let url = bed.url.clone();
    let said = tokio::task::spawn_blocking(move || {
        let mut check = Command::new(python());
        check.arg(recipes().join("check.py")).arg(url).env("PYTHONDONTWRITEBYTECODE", "1");
        expect_success(&mut check, "the recipe does not do what it says")
    });
    assert_eq!(said.await.unwrap().trim(), "ok");
}
